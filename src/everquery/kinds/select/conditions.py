"""``WHERE`` of a select query: a box and a key, and the comparisons that these can't say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from everquery.errors import InvalidQueryError
from everquery.kinds.select.names import Named, Names, read_named
from everquery.kinds.select.plan import Column, Factor
from everquery.queries.interval import Interval, exact_float
from everquery.queries.spec import Key
from everquery.queries.sql.bounds import Bounds
from everquery.queries.sql.conditions import DEEPEST, FLIPPED, INSTEAD
from everquery.queries.sql.cursor import Cursor, Number
from everquery.queries.sql.scanner import QUOTED, WORD, Token


class Compared(NamedTuple):
    """A comparison as it is written.

    Attributes
    ----------
    left : Named
    operator : str
    right : Named or None
    constant : number, str or None
        What is added to `right`, or compared with; None for ``UNBOUNDED``.
    """

    left: Named
    operator: str
    right: Named | None
    constant: Number | str | None


@dataclass(slots=True)
class Condition:
    """What a condition says: a box and a key of the first stream, and the rest."""

    box: dict[str, Interval] = field(default_factory=dict)
    key: Key | None = None
    factors: list[Factor] = field(default_factory=list)


def read_comparisons(cursor: Cursor, depth: int = 0) -> list[Compared]:
    """Read a conjunction."""
    found = _read_term(cursor, depth)
    while cursor.accept("AND"):
        found += _read_term(cursor, depth)
    if cursor.token.word == "OR":
        cursor.fail("OR is not possible: a query is a conjunction; register one query for each")
    return found


def _read_term(cursor: Cursor, depth: int) -> list[Compared]:
    if cursor.accept("("):
        if depth >= DEEPEST:
            cursor.fail(f"more than {DEEPEST} parentheses around each other")
        found = read_comparisons(cursor, depth + 1)
        cursor.expect(")")
        return found
    if cursor.at_value():
        value = cursor.value()
        operator = _read_operator(cursor)
        return [Compared(read_named(cursor), FLIPPED[operator], None, value)]
    left = read_named(cursor)
    if cursor.accept("BETWEEN"):
        low = _read_constant(cursor)
        cursor.expect("AND")
        return [Compared(left, ">=", None, low), Compared(left, "<=", None, _read_constant(cursor))]
    operator = _read_operator(cursor)
    if cursor.token.kind == QUOTED or (
        cursor.token.kind == WORD and cursor.token.word not in ("INFINITY", "UNBOUNDED")
    ):
        return [Compared(left, operator, read_named(cursor), _read_offset(cursor))]
    return [Compared(left, operator, None, _read_constant(cursor))]


def _read_operator(cursor: Cursor) -> str:
    word = cursor.token.word
    if word not in FLIPPED:
        if word in INSTEAD:
            cursor.fail(f"{word} is not possible: {INSTEAD[word]}")
        cursor.fail_expected([*FLIPPED, "BETWEEN"])
    cursor.next()
    return word


def _read_constant(cursor: Cursor) -> Number | str | None:
    if cursor.accept("UNBOUNDED"):
        return None
    if not cursor.at_value():
        cursor.fail_expected([], "a number, a 'string', a :parameter or a column")
    return cursor.value()


def _read_offset(cursor: Cursor) -> Number:
    """Read ``+ number`` or ``- number``, if it is there."""
    if cursor.token.word not in ("+", "-"):
        return 0.0
    sign = -1.0 if cursor.next().word == "-" else 1.0
    token = cursor.token
    value = cursor.value()
    if isinstance(value, str):
        cursor.fail("a number is added to a column, not a string", token)
    return sign * _exact(cursor, value, token)


def _exact(cursor: Cursor, value: Number, token: Token) -> float:
    try:
        return exact_float(value, "the number")
    except InvalidQueryError as error:
        cursor.fail(str(error), token)


def condition_of(cursor: Cursor, compared: list[Compared], names: Names) -> Condition:
    """Return what comparisons say together."""
    found = Condition()
    bounds: dict[str, Bounds] = {}
    for each in compared:
        left = names.column(cursor, each.left)
        if each.right is not None:
            found.factors += _between_columns(cursor, each, left, names)
        elif _is_key(cursor, each, left, names):
            _narrow_key(cursor, found, each, left)
        elif left.side:
            assert not isinstance(each.constant, str)
            constant = _bound(cursor, each)
            if constant is not None:
                found.factors.append(Factor(left, each.operator, None, constant))
        else:
            narrowed = bounds.setdefault(left.name, Bounds())
            try:
                narrowed.keep(each.operator, _bound(cursor, each))
                found.box[left.name] = narrowed.interval()
            except InvalidQueryError as error:
                cursor.fail(f"{left.name}: {error}", each.left.token)
    return found


def _bound(cursor: Cursor, each: Compared) -> float | None:
    if each.constant is None:
        return None
    assert not isinstance(each.constant, str)
    return _exact(cursor, each.constant, each.left.token)


def _is_key(cursor: Cursor, each: Compared, left: Column, names: Names) -> bool:
    """Tell whether a column that is compared with a constant is its stream's key."""
    text = isinstance(each.constant, str)
    if not names.streams:
        return text  # a number is meant for an attribute; key= says another
    stream = names.streams[left.side]
    if left.name == stream.key:
        return True
    if text:
        cursor.fail(f"{left.name} is compared with numbers; found a string", each.left.token)
    check_attribute(cursor, stream.attributes, left.name, each.left.token)
    return False


def check_attribute(cursor: Cursor, attributes: Sequence[str], name: str, token: Token) -> None:
    """Refuse a column that no condition can be on."""
    if name not in attributes:
        cursor.fail(f"{name} can't be compared: conditions are on attributes and the key", token)


def _narrow_key(cursor: Cursor, found: Condition, each: Compared, left: Column) -> None:
    value = each.constant
    if each.operator != "=":
        cursor.fail(f"{left.name} is the key, which is compared with = only", each.left.token)
    if isinstance(value, float) or value is None:
        cursor.fail(f"{left.name} is the key; a key is a string or an integer", each.left.token)
    if left.side:
        found.factors.append(Factor(left, "=", None, value))
    elif found.key is not None and found.key != value:
        cursor.fail(
            f"{left.name} can't be {found.key!r} and {value!r} at once; register one query for"
            " each key",
            each.left.token,
        )
    else:
        found.key = value


def _between_columns(
    cursor: Cursor, each: Compared, left: Column, names: Names
) -> Iterator[Factor]:
    """Yield the comparison of two columns."""
    assert each.right is not None
    assert not isinstance(each.constant, str)
    right = names.column(cursor, each.right)
    offset = each.constant or 0.0
    if names.streams:
        keys = [names.streams[side.side].key == side.name for side in (left, right)]
        if any(keys):
            if not all(keys) or each.operator != "=" or offset or left.side == right.side:
                cursor.fail(
                    "a key is compared with the other stream's key, by = alone", each.left.token
                )
        else:
            for side, named in ((left, each.left), (right, each.right)):
                attributes = tuple(names.streams[side.side].attributes)
                check_attribute(cursor, attributes, side.name, named.token)
    yield Factor(left, each.operator, right, float(offset))  # as written: sums are rounded
