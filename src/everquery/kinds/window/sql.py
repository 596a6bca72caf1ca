"""``SELECT COUNT(*) FROM packets OVER LAST 10000 ROWS WITHIN 1 PERCENT EMIT CHANGES``."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from everquery.core.spans import Span
from everquery.errors import InvalidQueryError
from everquery.kinds.told_values_sql import VALUE, VALUE_WORDS, read_range
from everquery.kinds.window.spec import COUNT, EPSILON, HISTOGRAM, LAST, NORMS, Window
from everquery.queries.interval import Interval, exact_float
from everquery.queries.numbers import NumberField
from everquery.queries.sql.clause import Clause, read_box
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.errors import nearest
from everquery.queries.sql.groups import print_group, read_group
from everquery.queries.sql.literals import print_number, print_span
from everquery.queries.sql.options import read_number
from everquery.queries.sql.printer import print_interval
from everquery.queries.sql.quotes import print_name
from everquery.queries.sql.scanner import Token
from everquery.stream import Stream

FUNCTIONS = {
    "COUNT": COUNT,
    "SUM": "sum",
    "AVG": "mean",
    "VAR_POP": "variance",
    "MIN": "min",
    "MAX": "max",
    "L1": "l1",
    "L2": "l2",
    "HISTOGRAM": HISTOGRAM,
}
WORDS = {statistic: word for word, statistic in FUNCTIONS.items()} | {"distinct": "COUNT"}
DISTINCT = "distinct"


class Call(NamedTuple):
    """What a call says: the statistic, its attribute, and what else it has; with their tokens."""

    statistic: str
    attribute: str | None = None
    per: str | None = None
    edges: tuple[float, ...] | None = None
    tokens: tuple[Token, ...] = ()


class WindowClause(Clause):
    """``SELECT SUM(volume) ... OVER LAST INTERVAL '5' MINUTE EMIT ENTER, LEAVE WHEN ...``."""

    words = ("CHANGES", "ENTER", "LEAVE")
    further = ("BY", "DISTINCT", "EVERY", "LAST", "ROWS", "SPAN", "WITHIN", *VALUE_WORDS)
    selects = "COUNT"
    selects_too = tuple(FUNCTIONS)[1:]
    scopes = ("GROUP", "OVER")

    def read(self, cursor: Cursor, stream: Stream) -> dict[str, Any]:
        """Read which values are told."""
        if cursor.accept("CHANGES"):
            return {"every": cursor.span()} if cursor.accept("EVERY") else {}
        first = cursor.choose(("ENTER", "LEAVE"))
        cursor.expect(",", "LEAVE" if first == "ENTER" else "ENTER")
        cursor.expect("WHEN")
        return {"when": read_range(cursor, _read_subject)}

    def print(self, query: Window, stream: Stream) -> str:
        """Return what follows ``EMIT``."""
        if query.when is None:
            every = "" if query.every is None else f" EVERY {print_span(cast('Span', query.every))}"
            return f"CHANGES{every}"
        assert isinstance(query.when, Interval)
        return f"ENTER, LEAVE WHEN {print_interval(VALUE, query.when)}"

    def read_selection(self, cursor: Cursor) -> Call:
        """Read a call such as ``COUNT(*)``, ``SUM(volume)`` or ``L2(bytes BY host)``."""
        return _read_call(cursor)

    def read_scope(self, cursor: Cursor, stream: Stream, selection: Call) -> dict[str, Any]:
        """Read the condition, the group, the window and its error."""
        named = (selection.attribute, selection.per)
        for name, token in zip([each for each in named if each], selection.tokens, strict=True):
            if name not in stream.attributes:
                cursor.fail(
                    f"stream {stream.name!r} has no attribute {name!r}"
                    f"{nearest(name, stream.attributes)}"
                    f" (it has {', '.join(stream.attributes) or 'none'})",
                    token,
                )
        expected = ["AND" if cursor.token.word == "WHERE" else "WHERE", "GROUP", "OVER"]
        fields = {**selection._asdict(), **read_box(cursor, stream)}
        del fields["tokens"]
        if cursor.token.word == "GROUP":
            fields["by_key"] = read_group(cursor, stream, fields["key"], "windows")
            expected = ["OVER"]
        if not cursor.accept("OVER"):
            cursor.fail_expected(expected)
        cursor.expect("LAST")
        return fields | _read_window(cursor)

    def print_selection(self, query: Window) -> str:
        """Return the call."""
        return print_call(query)

    def print_scope(self, query: Window, stream: Stream) -> str:
        """Return the group, the window and its error."""
        last = f"{query.last} ROWS" if query.last else print_span(cast("Span", query.span))
        if query.last is None and not last.startswith("INTERVAL"):
            last = f"SPAN {last}"
        within = f" WITHIN {_print_share(query.epsilon)}" if query.epsilon else ""
        return f"{print_group(query.by_key, stream)} OVER LAST {last}{within}"


def _read_call(cursor: Cursor) -> Call:
    word = cursor.choose(FUNCTIONS)
    statistic = FUNCTIONS[word]
    cursor.expect("(")
    if statistic == COUNT:
        if cursor.accept("*"):
            cursor.expect(")")
            return Call(COUNT)
        if cursor.accept("DISTINCT"):
            statistic = DISTINCT
    tokens = [cursor.token]
    attribute = cursor.name("an attribute")
    per, edges = None, None
    if statistic in NORMS:
        cursor.expect("BY")
        tokens.append(cursor.token)
        per = cursor.name("an attribute")
    elif statistic == HISTOGRAM:
        edges = _read_edges(cursor)
    cursor.expect(")")
    return Call(statistic, attribute, per, edges, tuple(tokens))


def _read_edges(cursor: Cursor) -> tuple[float, ...]:
    edges: list[float] = []
    while cursor.accept(","):
        place = cursor.token
        if not cursor.at_value():
            cursor.fail_expected([], "an edge, a number or a :parameter")
        try:
            edges.append(exact_float(cursor.value(), "an edge"))
        except InvalidQueryError as error:
            raise cursor.error(str(error), place) from None
    return tuple(edges)


def _read_window(cursor: Cursor) -> dict[str, Any]:
    """Read ``10000 ROWS`` or a span, and ``WITHIN 1 PERCENT``."""
    fields: dict[str, Any] = {}
    if cursor.accept("SPAN") or cursor.token.word == "INTERVAL":
        fields["span"] = cursor.span()
    else:
        fields["last"] = int(read_number(cursor, LAST))
        cursor.expect("ROWS")
    if cursor.accept("WITHIN"):
        place = cursor.token
        share = float(read_number(cursor, _ANY)) if cursor.at_value() else float("nan")
        if share != share:
            cursor.fail_expected([], "a share, such as 1 PERCENT or 0.01")
        if cursor.accept("PERCENT"):
            share /= 100
        try:
            fields["epsilon"] = EPSILON.read(share)
        except InvalidQueryError as error:
            raise cursor.error(str(error), place) from None
    return fields


_ANY = NumberField("a share", whole=False, limits=())


def _read_subject(cursor: Cursor) -> None:
    """Read what a condition is about: the value, or the call that it is the value of."""
    place = cursor.token
    if place.word not in FUNCTIONS:
        cursor.expect(VALUE)
        return
    call, selected = _read_call(cursor), cursor.selection
    if selected is not None and call._replace(tokens=()) != selected._replace(tokens=()):
        cursor.fail("the condition is of another value than the one that is selected", place)


def print_call(query: Window) -> str:
    """Return a statistic as it is selected."""
    word = WORDS[query.statistic]
    if query.attribute is None:
        return f"{word}(*)"
    name = print_name(query.attribute)
    if query.statistic == DISTINCT:
        name = f"DISTINCT {name}"
    if query.per is not None:
        name = f"{name} BY {print_name(query.per)}"
    edges = "".join(f", {print_number(edge)}" for edge in query.edges or ())
    return f"{word}({name}{edges})"


def _print_share(share: float) -> str:
    percent = share * 100
    return f"{print_number(percent)} PERCENT" if percent / 100 == share else print_number(share)
