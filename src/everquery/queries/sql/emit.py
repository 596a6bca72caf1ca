"""What a query tells (``EMIT``) and how (``WITH``): the part of SQL that differs between kinds.

A new kind adds one `EmitClause` to `CLAUSES`: the words that may follow ``EMIT`` first, a function
that reads the rest of the clause and returns the fields of the spec that it says, and a function
that prints it. A new field of a spec that ``WITH`` sets adds one line to `OPTIONS`; boolean
fields (``options`` of the spec) need none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everquery.errors import InvalidQueryError
from everquery.queries.border import Border
from everquery.queries.labels import Labels
from everquery.queries.range import Range
from everquery.queries.spec import LONGEST_ID, Query, bad_text
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.literals import print_span
from everquery.queries.sql.quotes import print_name, print_string


@dataclass(frozen=True, slots=True)
class EmitClause:
    """How a kind of query is written after ``EMIT``.

    Attributes
    ----------
    spec : type
    words : tuple of str
        What may come first; no two kinds share one.
    read : function
        Takes the cursor, at the first word; returns fields of the spec.
    write : function
        Takes a query; returns the clause without ``EMIT``.
    """

    spec: type[Query]
    words: tuple[str, ...]
    read: Callable[[Cursor], dict[str, Any]]
    write: Callable[[Any], str]


def _read_matches(cursor: Cursor) -> dict[str, Any]:
    cursor.expect("MATCHES")
    return {}


def _write_matches(_query: Range) -> str:
    return "MATCHES"


def _read_crossings(cursor: Cursor) -> dict[str, Any]:
    """Read ``ENTER``, ``LEAVE``, or both in any order."""
    first = cursor.choose(("ENTER", "LEAVE"))
    if cursor.accept(","):
        cursor.expect("LEAVE" if first == "ENTER" else "ENTER")
        return {}
    return {"emit": (first.lower(),)}


def _write_crossings(query: Border) -> str:
    return ", ".join(query.emit).upper()


CLAUSES: tuple[EmitClause, ...] = (
    EmitClause(Range, ("MATCHES",), _read_matches, _write_matches),
    EmitClause(Border, ("ENTER", "LEAVE"), _read_crossings, _write_crossings),
)
BY_WORD = {word: clause for clause in CLAUSES for word in clause.words}
BY_KIND = {clause.spec.kind: clause for clause in CLAUSES}


@dataclass(frozen=True, slots=True)
class Option:
    """How a field of a spec is written in ``WITH``."""

    read: Callable[[Cursor], Any]
    write: Callable[[Any], str]


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


def _write_flag(value: bool) -> str:
    return str(value).upper()


SPAN = Option(Cursor.span, print_span)
FLAG = Option(Cursor.flag, _write_flag)
OPTIONS = {
    "owner": Option(_read_owner, print_string),
    "labels": Option(_read_labels, _write_labels),
    "ttl": SPAN,
    "dwell": SPAN,
    "throttle": SPAN,
}


def options_of(spec: type[Query]) -> dict[str, Option]:
    """Return what ``WITH`` may set on this spec."""
    known = OPTIONS | dict.fromkeys(spec.options, FLAG)
    return {name: each for name, each in known.items() if name in spec.__dataclass_fields__}


def read_emit(cursor: Cursor) -> tuple[type[Query], dict[str, Any]]:
    """Read from ``EMIT`` to the statement's end; return the spec and its fields."""
    cursor.expect("EMIT")
    clause = BY_WORD.get(cursor.token.word)
    if clause is None:
        cursor.fail_expected(list(BY_WORD))
    fields = clause.read(cursor)
    if cursor.accept("WITH"):
        _read_with(cursor, clause.spec, fields)
    return clause.spec, fields


def _read_with(cursor: Cursor, spec: type[Query], fields: dict[str, Any]) -> None:
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


def print_emit(query: Query) -> str:
    """Return a query's ``EMIT`` and ``WITH``."""
    clause = BY_KIND[query.kind]
    options = [
        f"{name} = {option.write(getattr(query, name))}"
        for name, option in options_of(clause.spec).items()
        if getattr(query, name) != clause.spec.__dataclass_fields__[name].default
    ]
    return f"EMIT {clause.write(query)}" + (f" WITH ({', '.join(options)})" if options else "")
