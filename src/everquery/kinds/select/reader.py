"""From SQL to the plan of a select query, a box and a key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from everquery.errors import InvalidQueryError
from everquery.kinds.select.conditions import Condition, condition_of, read_comparisons
from everquery.kinds.select.names import Named, Names, read_named
from everquery.kinds.select.plan import (
    COUNT_DISTINCT,
    FUNCTIONS,
    Bound,
    Having,
    Item,
    Plan,
    Source,
    is_count,
)
from everquery.queries.sql.conditions import FLIPPED
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.errors import InvalidSqlError
from everquery.queries.sql.scanner import END, NUMBER, PARAMETER, Token, scan_statements
from everquery.stream import Stream

MOST_ROWS = 2**53
INSTEAD = dict.fromkeys(
    ("VARIANCE", "VAR_SAMP"), "that is the variance of a sample elsewhere; write VAR_POP"
)

ReadStream = Callable[[], Stream]


class Picked(NamedTuple):
    """An item of ``SELECT`` or ``HAVING`` as it is written."""

    function: str | None
    named: Named | None
    alias: str | None
    token: Token


def read_select(cursor: Cursor, read_stream: ReadStream | None) -> tuple[Plan, Condition, Names]:
    """Read from behind ``SELECT`` to behind ``END ...``.

    Parameters
    ----------
    read_stream : function, optional
        Reads the name of a stream; without one ``FROM`` need not be there, and columns are taken as
        they are written.
    """
    distinct = cursor.accept("DISTINCT")
    picked = [_read_item(cursor)]
    while cursor.accept(","):
        picked.append(_read_item(cursor))
    names = _read_sources(cursor, read_stream)
    compared = read_comparisons(cursor) if cursor.accept("WHERE") else []
    groups: list[Named] = []
    if cursor.accept("GROUP"):
        cursor.expect("BY")
        groups.append(read_named(cursor))
        while cursor.accept(","):
            groups.append(read_named(cursor))
    held = _read_having(cursor) if cursor.accept("HAVING") else []
    if cursor.token.word != "BEGIN":
        if names.joins:
            cursor.fail(
                "a join needs a window, which bounds what it keeps: BEGIN NOW - ... END NOW"
            )
        cursor.fail_expected(["WHERE", "GROUP", "HAVING", "BEGIN"] if not compared else ["BEGIN"])
    place = cursor.token
    begin, end = _read_window(cursor)
    condition = condition_of(cursor, compared, names)
    plan = Plan(
        items=tuple(_item(cursor, each, names) for each in picked),
        begin=begin,
        end=end,
        distinct=distinct,
        sources=_sources(names),
        factors=tuple(condition.factors),
        groups=tuple(names.column(cursor, each) for each in groups),
        having=tuple(
            Having(_item(cursor, each, names), operator, constant)
            for each, operator, constant in held
        ),
    )
    _check(cursor, plan, picked, place)
    return plan, condition, names


def _read_sources(cursor: Cursor, read_stream: ReadStream | None) -> Names:
    names = Names()
    if read_stream is None and cursor.token.word != "FROM":
        return names
    cursor.expect("FROM")
    while True:
        if len(names.sources) == 2:
            cursor.fail("a join is of two streams")
        if read_stream is None:
            name = cursor.name("the name of a stream")
        else:
            stream = read_stream()
            name = stream.name
            names.streams.append(stream)
        place = cursor.token
        alias = cursor.name("another name for the stream") if cursor.accept("AS") else name
        if any(source.alias == alias for source in names.sources):
            cursor.fail(f"{alias!r} is named twice; say AS another name", place)
        names.sources.append(Source(name, alias))
        if not cursor.accept(","):
            return names


def _sources(names: Names) -> tuple[Source, ...]:
    """Return the streams of a join, or the one that a text names whose stream is not known yet."""
    if names.joins:
        return tuple(names.sources)
    said = [] if names.streams else names.sources
    return tuple(Source(each.stream, each.stream) for each in said)


def _read_item(cursor: Cursor) -> Picked:
    token = cursor.token
    if cursor.accept("*"):
        return Picked(None, None, None, token)
    function = None
    if token.word in FUNCTIONS and cursor.peek().word == "(":
        function = cursor.next().word
        cursor.expect("(")
        named = None
        if function == "COUNT" and _accepts_distinct(cursor):
            function = COUNT_DISTINCT
            named = read_named(cursor)
        elif not (function == "COUNT" and cursor.accept("*")):
            named = read_named(cursor)
        cursor.expect(")")
    elif cursor.peek().word == "(":
        known = ", ".join(FUNCTIONS)
        hint = INSTEAD.get(token.word, f"the aggregates are {known} and COUNT(DISTINCT ...)")
        cursor.fail(f"{token} is not possible: {hint}")
    else:
        named = read_named(cursor)
    alias = cursor.name("a name for it") if cursor.accept("AS") else None
    return Picked(function, named, alias, token)


def _accepts_distinct(cursor: Cursor) -> bool:
    """Tell whether ``DISTINCT`` is next, and no column of that name; step over it."""
    if cursor.token.word != "DISTINCT" or cursor.peek().word in (")", "."):
        return False
    return cursor.accept("DISTINCT")


def _read_having(cursor: Cursor) -> list[tuple[Picked, str, float]]:
    found = []
    while True:
        picked = _read_item(cursor)
        if picked.function is None or picked.alias is not None:
            cursor.fail("HAVING compares an aggregate with a number", picked.token)
        operator = cursor.choose(FLIPPED)
        token = cursor.token
        value = cursor.value()
        if isinstance(value, str):
            cursor.fail("HAVING compares an aggregate with a number", token)
        found.append((picked, operator, float(value)))
        if not cursor.accept("AND"):
            return found


def _item(cursor: Cursor, picked: Picked, names: Names) -> Item:
    column = None if picked.named is None else names.column(cursor, picked.named)
    if column is not None and picked.function is not None and names.streams:
        stream = names.streams[column.side]
        counted = is_count(picked.function)
        if column.name in (stream.key, stream.time) and not counted:
            cursor.fail(
                f"{picked.function} is of attributes and the weight, not of {column.name}",
                picked.token,
            )
    return Item(picked.function, column, picked.alias)


def _read_window(cursor: Cursor) -> tuple[Bound, Bound]:
    cursor.expect("BEGIN")
    place = cursor.token
    begin = read_bound(cursor)
    cursor.expect("END")
    end = read_bound(cursor)
    if end.kind == "oldest":
        cursor.fail("a window can begin with OLDEST, and not end with it", place)
    reason = bad_window(begin, end)
    if reason:
        cursor.fail(reason, place)
    return begin, end


def read_bound(cursor: Cursor) -> Bound:
    """Read where a window begins or ends."""
    if cursor.accept("OLDEST"):
        return Bound("oldest")
    if cursor.accept("NOW"):
        if not cursor.accept("-"):
            if cursor.token.word == "+":
                cursor.fail("nothing is known of what comes after NOW; write NOW - ...")
            return Bound("now")
        return _read_ago(cursor)
    cursor.accept("TIMESTAMP")
    token = cursor.token
    if not cursor.at_value():
        cursor.fail_expected(["NOW", "OLDEST"], "NOW, NOW - a span or ROWS, OLDEST, or a time")
    value = cursor.value()
    if cursor.accept("ROWS"):
        return Bound("row", _rows(cursor, value, token))
    if isinstance(value, str):
        try:
            return Bound("time", datetime.fromisoformat(value).isoformat())
        except ValueError:
            cursor.fail(f"{value!r} is no time, such as '2026-01-31T12:00:00'", token)
    return Bound("time", value)


def _read_ago(cursor: Cursor) -> Bound:
    token = cursor.token
    if token.kind in (NUMBER, PARAMETER) and cursor.peek().word == "ROWS":
        rows = _rows(cursor, cursor.value(), token)
        cursor.expect("ROWS")
        return Bound("rows_ago", rows)
    span = cursor.span()
    if isinstance(span, timedelta) and span < timedelta(0):
        cursor.fail("a span back from NOW is 0 or more", token)
    return Bound("ago", span)


def _rows(cursor: Cursor, value: object, token: Token) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not 0 <= value < MOST_ROWS:
        cursor.fail("a number of ROWS is whole, and 0 or more", token)
    return value


def bad_window(begin: Bound, end: Bound) -> str | None:
    """Return why a window can't be, or None."""
    if begin.by_rows is not None and end.by_rows is not None and begin.by_rows != end.by_rows:
        return "the window begins and ends by time, or both by ROWS"
    reverse = f"the window begins after it ends: BEGIN {begin} END {end}"
    if begin.kind == end.kind and begin.kind in ("row", "time"):
        try:
            return reverse if begin.amount > end.amount else None  # type: ignore[operator]
        except TypeError:
            return "the window begins with a number and ends with a date; give two of a kind"
    if begin.kind == "now" and end.kind in ("ago", "rows_ago"):
        return reverse if end.amount else None
    if begin.kind == end.kind and begin.kind in ("ago", "rows_ago"):
        if isinstance(begin.amount, timedelta) != isinstance(end.amount, timedelta):
            return "the window has a span in numbers and one in units of time; give two of a kind"
        return reverse if begin.amount < end.amount else None  # type: ignore[operator]
    return None


def _check(cursor: Cursor, plan: Plan, picked: list[Picked], window: Token) -> None:
    """Refuse what does not go together."""
    stars = [each for each in picked if each.named is None and each.function is None]
    if plan.aggregates:
        for each, item in zip(picked, plan.items, strict=True):
            if item.function is None and item.column not in plan.groups:
                cursor.fail("a column beside aggregates must be in GROUP BY", each.token)
    elif plan.having:
        cursor.fail("HAVING needs aggregates", window)
    if stars and len(picked) > 1:
        cursor.fail("* stands alone: it is all columns", stars[0].token)
    shown = [plan.name_of(item) for item in plan.items] if not stars else []
    for each, name in zip(picked, shown, strict=False):
        if shown.count(name) > 1:
            cursor.fail(f"two columns of the answer are called {name}; say AS", each.token)
    if plan.joins and not any(factor.joins for factor in plan.factors):
        cursor.fail(
            "nothing joins the two streams; compare a column of one with one of the other", window
        )


@lru_cache(4_096)
def plan_of(text: str) -> tuple[Plan, Condition]:
    """Return the plan that a text is, and what its condition says of a box and a key.

    Raises
    ------
    InvalidQueryError
        If it can't be read.
    """
    try:
        statements = list(scan_statements(text))
        if len(statements) != 1:
            raise InvalidQueryError("the plan is one SELECT ... BEGIN ... END ...")
        cursor = Cursor(text, {})
        cursor.begin(statements[0])
        cursor.expect("SELECT")
        plan, condition, _ = read_select(cursor, None)
        if cursor.token.kind != END:
            cursor.fail(f"expected the end, found {cursor.token}")
    except InvalidSqlError as error:
        raise InvalidQueryError(f"its plan can't be read: {error}") from None
    return plan, condition
