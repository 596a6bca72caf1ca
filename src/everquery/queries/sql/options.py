"""``WITH``: the fields of a query that no clause says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from everquery.errors import InvalidQueryError
from everquery.queries.common_fields import LABELS, OWNER, THROTTLE, TTL
from everquery.queries.fields import ChoiceField, Field, FlagField, KeysField, SpanField
from everquery.queries.labels import Labels
from everquery.queries.numbers import Number, NumberField
from everquery.queries.spec import LONGEST_ID, Key, Query, bad_text
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.errors import nearest
from everquery.queries.sql.literals import print_number, print_span
from everquery.queries.sql.quotes import print_name, print_string


@dataclass(frozen=True, slots=True)
class Option:
    """How a field of a spec is written in ``WITH``."""

    read: Callable[[Cursor], Any]
    write: Callable[[Any], str]


def read_number(cursor: Cursor, number: NumberField) -> Number:
    """Read a number of a query, which must be within its limits."""
    place = cursor.token
    if not cursor.at_value():
        cursor.fail_expected([], f"{number.name}, a number or a :parameter")
    value = cursor.value()
    if number.whole and isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return number.read(value)
    except InvalidQueryError as error:
        raise cursor.error(str(error), place) from None


def _read_owner(cursor: Cursor) -> str:
    place = cursor.token
    owner = cursor.text("the owner")
    reason = bad_text(owner, "owner", LONGEST_ID)
    if reason:
        cursor.fail(reason, place)
    return owner


def _read_labels(cursor: Cursor) -> Labels:
    place = cursor.token
    labels: dict[str, str] = {}
    cursor.expect("(")
    while cursor.token.word != ")" or labels:
        token = cursor.token
        name = cursor.name("the name of a label")
        if name in labels:
            cursor.fail(f"label {name!r} is given twice", token)
        cursor.expect("=")
        labels[name] = cursor.text("the value of a label")
        if not cursor.accept(","):
            break
    if not cursor.accept(")"):
        cursor.fail_expected([",", ")"])
    try:
        return Labels(labels)
    except InvalidQueryError as error:
        raise cursor.error(str(error), place) from None


def _write_labels(labels: Labels) -> str:
    pairs = (f"{print_name(name)} = {print_string(value)}" for name, value in labels.items())
    return f"({', '.join(pairs)})"


def _read_choice(cursor: Cursor, field: ChoiceField) -> str:
    place = cursor.token
    word = cursor.name(field.takes).lower()
    if word not in field.choices:
        cursor.fail(f"expected {field.takes}, found {place}{nearest(word, field.choices)}", place)
    return word


def _read_keys(cursor: Cursor) -> tuple[Key, ...]:
    keys: list[Key] = []
    cursor.expect("(")
    while not keys or cursor.accept(","):
        place = cursor.token
        key = cursor.value() if cursor.at_value() else None
        if not isinstance(key, (str, int)):
            cursor.fail(f"expected a key, a string or an integer, found {place}", place)
        keys.append(key)
    if not cursor.accept(")"):
        cursor.fail_expected([",", ")"])
    return tuple(keys)


def _write_keys(keys: tuple[Key, ...]) -> str:
    written = (print_string(key) if isinstance(key, str) else str(key) for key in keys)
    return f"({', '.join(written)})"


def _write_flag(value: bool) -> str:
    return str(value).upper()


SPAN = Option(Cursor.span, print_span)
FLAG = Option(Cursor.flag, _write_flag)


def _option(field: Field) -> Option:
    match field:
        case FlagField():
            return FLAG
        case SpanField():
            return SPAN
        case ChoiceField():
            return Option(partial(_read_choice, field=field), print_string)
        case KeysField():
            return Option(_read_keys, _write_keys)
        case NumberField():
            return Option(partial(read_number, number=field), print_number)
        case _:
            raise TypeError(f"WITH can't say a {type(field).__name__}; let the clause say it")


_OPTIONS: dict[type[Query], dict[str, Option]] = {}


def options_of(spec: type[Query]) -> dict[str, Option]:
    """Return what ``WITH`` may set on this spec."""
    if spec not in _OPTIONS:
        _OPTIONS[spec] = _find_options(spec)
    return _OPTIONS[spec]


def _find_options(spec: type[Query]) -> dict[str, Option]:
    own = {field.name: _option(field) for field in spec.fields if not field.in_clause}
    spans = [name for name in own if name in spec.spans]
    return {
        OWNER.name: Option(_read_owner, print_string),
        LABELS.name: Option(_read_labels, _write_labels),
        TTL.name: SPAN,
        **{name: own.pop(name) for name in spans},
        THROTTLE.name: SPAN,
        **own,
    }


def read_options(cursor: Cursor, spec: type[Query], fields: dict[str, Any]) -> None:
    """Read what follows ``WITH`` into the fields of a spec."""
    options = options_of(spec)
    cursor.expect("(")
    while True:
        place = cursor.token
        name = place.text.lower()
        if name not in options:
            cursor.fail_expected(
                list(options), f"an option of {spec.kind} queries ({', '.join(options)})"
            )
        if name in fields:
            cursor.fail(f"{name} is given twice")
        cursor.next()
        cursor.expect("=")
        fields[name] = options[name].read(cursor)
        if not cursor.accept(","):
            break
    if not cursor.accept(")"):
        cursor.fail_expected([",", ")"])


def print_options(query: Query) -> str:
    """Return a query's ``WITH``, with a space before; nothing if all is as by default."""
    spec = type(query)
    options = [
        f"{name} = {option.write(getattr(query, name))}"
        for name, option in options_of(spec).items()
        if getattr(query, name) != spec.__dataclass_fields__[name].default
    ]
    return f" WITH ({', '.join(options)})" if options else ""
