"""``SELECT CORRELATED COUNT(*) FROM calls WHERE duration >= 0.9 * MAX(duration) EMIT CHANGES``."""

from __future__ import annotations

from typing import Any, NamedTuple

from everquery.kinds.correlated.spec import (
    COUNT,
    FACTOR,
    LAST,
    REFERENCES,
    RELATIONS,
    WITHIN,
    Correlated,
)
from everquery.kinds.told_values_sql import VALUE_WORDS, print_told, read_told
from everquery.queries.sql.clause import Clause
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.errors import nearest
from everquery.queries.sql.groups import print_group, read_group
from everquery.queries.sql.literals import print_number, print_span
from everquery.queries.sql.options import read_number
from everquery.queries.sql.quotes import print_name
from everquery.queries.sql.scanner import Token
from everquery.stream import Stream

CORRELATED = "CORRELATED"
AGGREGATES = ("COUNT", "SUM", "AVG")
OPERATORS = tuple(word for word in RELATIONS if word != WITHIN)
FUNCTIONS = tuple(word.upper() for word in REFERENCES)


class Selection(NamedTuple):
    """What is aggregated; the token is that of the attribute."""

    aggregate: str
    of: str | None
    token: Token


class CorrelatedClause(Clause):
    """``SELECT CORRELATED SUM(fee) FROM calls WHERE duration > AVG(duration) EMIT CHANGES``."""

    words = ("CHANGES", "ENTER", "LEAVE")
    further = ("BY", "LAST", "ROWS", "SPAN", "WITHIN", "OF", *AGGREGATES, *FUNCTIONS, *VALUE_WORDS)
    selects = CORRELATED
    scopes = ("GROUP", "OVER")

    def read(self, cursor: Cursor, stream: Stream) -> dict[str, Any]:
        """Read which values are told."""
        place = cursor.token
        fields = read_told(cursor)
        if "by" in fields:
            cursor.fail("a correlated query takes no BY; write WITH (epsilon = ...)", place)
        return fields

    def print(self, query: Correlated, stream: Stream) -> str:
        """Return what follows ``EMIT``."""
        assert not isinstance(query.when, tuple)
        return print_told(query.when, None)

    def read_selection(self, cursor: Cursor) -> Selection:
        """Read ``CORRELATED COUNT(*)`` or another aggregate of an attribute."""
        cursor.expect(CORRELATED)
        aggregate = cursor.choose(AGGREGATES).lower()
        cursor.expect("(")
        token = cursor.token
        of = None
        if aggregate != COUNT or not cursor.accept("*"):
            of = cursor.name("an attribute")
        cursor.expect(")")
        return Selection(aggregate, of, token)

    def read_scope(self, cursor: Cursor, stream: Stream, selection: Selection) -> dict[str, Any]:
        """Read the condition, the group and the window."""
        fields: dict[str, Any] = {"aggregate": selection.aggregate, "of": selection.of}
        if selection.of is not None:
            _check_attribute(cursor, stream, selection.of, selection.token)
        cursor.expect("WHERE")
        while True:
            _read_term(cursor, stream, fields)
            if not cursor.accept("AND"):
                break
        if "where" not in fields:
            cursor.fail(
                "a correlated query compares an attribute with MIN, MAX or AVG of it; for example"
                " price >= 0.9 * MAX(price)"
            )
        expected = ["AND", "GROUP", "OVER", "EMIT"]
        if cursor.token.word == "GROUP":
            fields["by_key"] = read_group(cursor, stream, fields.get("key"), "aggregates")
            expected = ["OVER", "EMIT"]
        if cursor.accept("OVER"):
            _read_window(cursor, fields)
            expected = ["EMIT"]
        if cursor.token.word != "EMIT":
            cursor.fail_expected(expected)
        return fields

    def print_selection(self, query: Correlated) -> str:
        """Return the aggregate."""
        of = "*" if query.of is None else print_name(query.of)
        return f"{CORRELATED} {query.aggregate.upper()}({of})"

    def print_scope(self, query: Correlated, stream: Stream) -> str:
        """Return the relation, the group and the window."""
        name, factor = print_name(query.where), print_number(query.factor)
        reference = f"{query.to.upper()}({name})"
        if query.compared == WITHIN:
            relation = f"{name} WITHIN {factor} OF {reference}"
        else:
            times = "" if query.factor == 1 else f"{factor} * "
            relation = f"{name} {query.compared} {times}{reference}"
        window = ""
        if query.last is not None:
            window = f" OVER LAST {query.last} ROWS"
        elif query.span is not None:
            span = print_span(query.span)
            window = f" OVER LAST {span if span.startswith('INTERVAL') else f'SPAN {span}'}"
        joined = "WHERE" if query.key is None else "AND"
        return f" {joined} {relation}{print_group(query.by_key, stream)}{window}"


def _check_attribute(cursor: Cursor, stream: Stream, name: str, token: Token) -> None:
    if name not in stream.attributes:
        cursor.fail(
            f"stream {stream.name!r} has no attribute {name!r}{nearest(name, stream.attributes)}"
            f" (it has {', '.join(stream.attributes) or 'none'})",
            token,
        )


def _read_term(cursor: Cursor, stream: Stream, fields: dict[str, Any]) -> None:
    """Read a comparison of the key with a value, or of an attribute with its reference."""
    token = cursor.token
    name = cursor.name("an attribute, or the key")
    if name == stream.key:
        cursor.expect("=")
        place = cursor.token
        value = cursor.value() if cursor.at_value() else None
        if not isinstance(value, (str, int)):
            cursor.fail(f"{name} is the key; a key is a string or an integer", place)
        if fields.get("key", value) != value:
            cursor.fail(f"{name} can't be {fields['key']!r} and {value!r} at once", token)
        fields["key"] = value
        return
    _check_attribute(cursor, stream, name, token)
    if "where" in fields:
        cursor.fail("a correlated query makes one comparison; register one query for each", token)
    fields["where"] = name
    if cursor.accept("WITHIN"):
        fields["compared"] = WITHIN
        share = float(read_number(cursor, FACTOR))
        fields["factor"] = share / 100 if cursor.accept("PERCENT") else share
        cursor.expect("OF")
    else:
        fields["compared"] = cursor.choose(OPERATORS)
        if cursor.at_value():
            fields["factor"] = float(read_number(cursor, FACTOR))
            cursor.expect("*")
    fields["to"] = cursor.choose(FUNCTIONS).lower()
    cursor.expect("(")
    place = cursor.token
    if cursor.name("an attribute") != name:
        cursor.fail(f"{name} is compared with MIN, MAX or AVG of itself, {name!r}", place)
    cursor.expect(")")


def _read_window(cursor: Cursor, fields: dict[str, Any]) -> None:
    cursor.expect("LAST")
    if cursor.at_value() and cursor.peek().word == "ROWS":
        fields["last"] = int(read_number(cursor, LAST))
        cursor.expect("ROWS")
    else:
        cursor.accept("SPAN")
        fields["span"] = cursor.span()
