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
from everquery.queries.quantile import Quantile
from everquery.queries.range import Range
from everquery.queries.spec import LONGEST_ID, Query, bad_text
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.literals import print_span
from everquery.queries.sql.quotes import print_name, print_string
from everquery.queries.threshold import TOTAL, Threshold
from everquery.stream import Stream


@dataclass(frozen=True, slots=True)
class EmitClause:
    """How a kind of query is written after ``EMIT``.

    Attributes
    ----------
    spec : type
    words : tuple of str
        What may come first; no two kinds share one.
    read : function
        Takes the cursor, at the first word, and the stream; returns fields of the spec.
    write : function
        Takes a query and its stream; returns the clause without ``EMIT``.
    """

    spec: type[Query]
    words: tuple[str, ...]
    read: Callable[[Cursor, Stream], dict[str, Any]]
    write: Callable[[Any, Stream], str]


def _read_matches(cursor: Cursor, _stream: Stream) -> dict[str, Any]:
    cursor.expect("MATCHES")
    return {}


def _write_matches(_query: Range, _stream: Stream) -> str:
    return "MATCHES"


def _read_crossings(cursor: Cursor, _stream: Stream) -> dict[str, Any]:
    """Read ``ENTER``, ``LEAVE``, or both in any order."""
    first = cursor.choose(("ENTER", "LEAVE"))
    if cursor.accept(","):
        cursor.expect("LEAVE" if first == "ENTER" else "ENTER")
        return {}
    return {"emit": (first.lower(),)}


def _write_crossings(query: Border, _stream: Stream) -> str:
    return ", ".join(query.emit).upper()


def _read_total(cursor: Cursor, stream: Stream) -> dict[str, Any]:
    """Read ``ONCE WHEN SUM(weight) >= n``, or ``EACH``, or ``COUNT(*)``."""
    fields: dict[str, Any] = {"repeat": cursor.choose(("ONCE", "EACH")) == "EACH"}
    cursor.expect("WHEN")
    place = cursor.token
    if cursor.choose(("SUM", "COUNT")) == "COUNT":
        cursor.expect("(", "*", ")")
        fields["count"] = True
    elif stream.weight is None:
        cursor.fail(f"stream {stream.name!r} has no weight to add up; write COUNT(*)", place)
    else:
        cursor.expect("(")
        column = cursor.token
        if cursor.name("the stream's weight") != stream.weight:
            cursor.fail(f"SUM adds up the stream's weight, {stream.weight!r}", column)
        cursor.expect(")")
    if not cursor.accept(">="):
        cursor.fail_expected([">="])
    place = cursor.token
    total = cursor.value() if cursor.at_value() else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    try:
        return {**fields, "total": TOTAL.read(total)}
    except InvalidQueryError:
        cursor.fail(f"expected the total, a whole number of 1 or more, found {place}", place)


def _write_total(query: Threshold, stream: Stream) -> str:
    when = "EACH" if query.repeat else "ONCE"
    counting = query.count or stream.weight is None
    summed = "COUNT(*)" if counting else f"SUM({print_name(str(stream.weight))})"
    return f"{when} WHEN {summed} >= {query.total}"


def _read_changes(cursor: Cursor, _stream: Stream) -> dict[str, Any]:
    cursor.expect("CHANGES")
    return {}


def _write_changes(_query: Quantile, _stream: Stream) -> str:
    return "CHANGES"


CLAUSES: tuple[EmitClause, ...] = (
    EmitClause(Range, ("MATCHES",), _read_matches, _write_matches),
    EmitClause(Border, ("ENTER", "LEAVE"), _read_crossings, _write_crossings),
    EmitClause(Threshold, ("ONCE", "EACH"), _read_total, _write_total),
    EmitClause(Quantile, ("CHANGES",), _read_changes, _write_changes),
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
    worded = spec in (Threshold, Quantile)  # their options are clauses, or words of one
    flags = () if worded else spec.options
    known = OPTIONS | dict.fromkeys(flags, FLAG)
    return {name: each for name, each in known.items() if name in spec.__dataclass_fields__}


def read_emit(cursor: Cursor, stream: Stream, *, boxed: bool) -> tuple[type[Query], dict[str, Any]]:
    """Read from ``EMIT`` to the statement's end; return the spec and its fields.

    `boxed` tells whether the statement selects ``*``, as kinds with a box do.
    """
    cursor.expect("EMIT")
    clause = BY_WORD.get(cursor.token.word)
    words = [word for word, each in BY_WORD.items() if each.spec.boxed is boxed]
    if clause is None:
        cursor.fail_expected(words)
    if clause.spec.boxed is not boxed:
        selected, other = ("*", "QUANTILE(...)") if boxed else ("QUANTILE(...)", "*")
        cursor.fail(
            f"SELECT {selected} takes EMIT {' or '.join(', '.join(words).rsplit(', ', 1))};"
            f" {cursor.token} needs SELECT {other}"
        )
    fields = clause.read(cursor, stream)
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


def print_emit(query: Query, stream: Stream) -> str:
    """Return a query's ``EMIT`` and ``WITH``."""
    clause = BY_KIND[query.kind]
    options = [
        f"{name} = {option.write(getattr(query, name))}"
        for name, option in options_of(clause.spec).items()
        if getattr(query, name) != clause.spec.__dataclass_fields__[name].default
    ]
    return f"EMIT {clause.write(query, stream)}" + (
        f" WITH ({', '.join(options)})" if options else ""
    )
