"""How SQL says which values of a statistic are told.

``EMIT CHANGES``, ``EMIT CHANGES BY 10 PERCENT``, ``EMIT ENTER, LEAVE WHEN VALUE >= 0.5``, and both
at once: ``EMIT ENTER, LEAVE, CHANGES BY 0.1 WHEN VALUE BETWEEN 1 AND 2``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everquery.errors import InvalidQueryError
from everquery.kinds.told_values import BY
from everquery.queries.interval import Interval, exact_float
from everquery.queries.sql.bounds import Bounds
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.literals import print_number
from everquery.queries.sql.options import read_number
from everquery.queries.sql.printer import print_interval

VALUE = "VALUE"
VALUE_WORDS = ("WHEN", VALUE, "PERCENT", "BETWEEN", "UNBOUNDED")
OPERATORS = (">=", ">", "<=", "<")


def read_told(cursor: Cursor) -> dict[str, Any]:
    """Read from the first word after ``EMIT``; return the fields `when` and `by`, where given."""
    if cursor.accept("CHANGES"):
        return {"by": _read_share(cursor)} if cursor.accept("BY") else {}
    first = cursor.choose(("ENTER", "LEAVE"))
    cursor.expect(",", "LEAVE" if first == "ENTER" else "ENTER")
    fields: dict[str, Any] = {}
    if cursor.accept(","):
        cursor.expect("CHANGES", "BY")
        fields["by"] = _read_share(cursor)
    cursor.expect("WHEN")
    return {**fields, "when": read_range(cursor, lambda cursor: cursor.expect(VALUE))}


def _read_share(cursor: Cursor) -> float:
    share = float(read_number(cursor, BY))
    return share / 100 if cursor.accept("PERCENT") else share


def read_range(cursor: Cursor, read_subject: Callable[[Cursor], None]) -> Interval:
    """Read ``VALUE >= 0.5 AND VALUE < 2``, or ``VALUE BETWEEN 1 AND 2``.

    `read_subject` reads what stands for the value.
    """
    bounds = Bounds()
    place = cursor.token
    while True:
        read_subject(cursor)
        if cursor.accept("BETWEEN"):
            bounds.keep(">=", _read_end(cursor))
            cursor.expect("AND")
            bounds.keep("<=", _read_end(cursor))
        elif cursor.accept("="):
            bounds.keep("=", _read_end(cursor))
        else:
            if cursor.token.word not in OPERATORS:
                cursor.fail_expected([*OPERATORS, "BETWEEN"])
            bounds.keep(cursor.next().word, _read_end(cursor))
        if not cursor.accept("AND"):
            break
    try:
        return bounds.interval()
    except InvalidQueryError as error:
        raise cursor.error(str(error), place) from None


def _read_end(cursor: Cursor) -> float | None:
    if cursor.accept("UNBOUNDED"):
        return None
    place = cursor.token
    if not cursor.at_value():
        cursor.fail_expected([], "a number or a :parameter")
    value = cursor.value()
    try:
        return exact_float(value, "the number")
    except InvalidQueryError as error:
        raise cursor.error(str(error), place) from None


def print_told(when: Interval | None, by: float | None) -> str:
    """Return what follows ``EMIT``."""
    share = "" if by is None else f"CHANGES BY {print_number(by)}"
    if when is None:
        return share or "CHANGES"
    return f"ENTER, LEAVE{', ' if share else ''}{share} WHEN {print_interval(VALUE, when)}"
