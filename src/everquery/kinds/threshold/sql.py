"""``EMIT ONCE WHEN SUM(shares) >= 100000``."""

from __future__ import annotations

from typing import Any

from everquery.errors import InvalidQueryError
from everquery.kinds.threshold.spec import TOTAL, Threshold
from everquery.queries.sql.clause import Clause
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.quotes import print_name
from everquery.stream import Stream


class ThresholdClause(Clause):
    """``EMIT ONCE WHEN SUM(weight) >= n``, or ``EACH``, or ``COUNT(*)``."""

    words = ("ONCE", "EACH")
    further = ("WHEN", "SUM", "COUNT")

    def read(self, cursor: Cursor, stream: Stream) -> dict[str, Any]:
        """Read how often it fires, and at which total of what."""
        fields: dict[str, Any] = {"repeat": cursor.choose(self.words) == "EACH"}
        cursor.expect("WHEN")
        if _reads_count(cursor, stream):
            fields["count"] = True
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

    def print(self, query: Threshold, stream: Stream) -> str:
        """Return what follows ``EMIT``."""
        when = "EACH" if query.repeat else "ONCE"
        counting = query.count or stream.weight is None
        summed = "COUNT(*)" if counting else f"SUM({print_name(str(stream.weight))})"
        return f"{when} WHEN {summed} >= {query.total}"


def _reads_count(cursor: Cursor, stream: Stream) -> bool:
    """Read ``COUNT(*)`` or ``SUM(weight)``; tell whether it is the former."""
    place = cursor.token
    if cursor.choose(("SUM", "COUNT")) == "COUNT":
        cursor.expect("(", "*", ")")
        return True
    if stream.weight is None:
        cursor.fail(f"stream {stream.name!r} has no weight to add up; write COUNT(*)", place)
    cursor.expect("(")
    column = cursor.token
    if cursor.name("the stream's weight") != stream.weight:
        cursor.fail(f"SUM adds up the stream's weight, {stream.weight!r}", column)
    cursor.expect(")")
    return False
