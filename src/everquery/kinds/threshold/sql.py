"""``EMIT ONCE WHEN SUM(shares) >= 100000 EVERY INTERVAL '1' DAY``."""

from __future__ import annotations

from typing import Any, cast

from everquery.core.spans import Span
from everquery.errors import InvalidQueryError
from everquery.kinds.threshold.spec import TOTAL, Threshold
from everquery.queries.sql.clause import Clause
from everquery.queries.sql.cursor import Cursor
from everquery.queries.sql.groups import print_group
from everquery.queries.sql.literals import print_span
from everquery.queries.sql.quotes import print_name, print_string
from everquery.queries.zones import bad_zone
from everquery.stream import Stream


class ThresholdClause(Clause):
    """``EMIT ONCE WHEN SUM(weight) >= n EVERY span``, or ``EACH``, or ``COUNT(*)``."""

    words = ("ONCE", "EACH")
    further = ("WHEN", "SUM", "COUNT", "BY", "EVERY", "AT", "TIME", "ZONE")
    groups = True

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
            fields["total"] = TOTAL.read(total)
        except InvalidQueryError:
            cursor.fail(f"expected the total, a whole number of 1 or more, found {place}", place)
        return fields | _read_periods(cursor)

    def print(self, query: Threshold, stream: Stream) -> str:
        """Return what follows ``EMIT``."""
        when = "EACH" if query.repeat else "ONCE"
        counting = query.count or stream.weight is None
        summed = "COUNT(*)" if counting else f"SUM({print_name(str(stream.weight))})"
        every = "" if query.every is None else f" EVERY {print_span(cast('Span', query.every))}"
        zone = "" if query.zone is None else f" AT TIME ZONE {print_string(query.zone)}"
        return f"{when} WHEN {summed} >= {query.total}{every}{zone}"

    def print_scope(self, query: Threshold, stream: Stream) -> str:
        """Return the group."""
        return print_group(query.by_key, stream)


def _read_periods(cursor: Cursor) -> dict[str, Any]:
    """Read ``EVERY span AT TIME ZONE zone``, if it is there."""
    fields: dict[str, Any] = {}
    if cursor.accept("EVERY"):
        fields["every"] = cursor.span()
        if cursor.accept("AT"):
            cursor.expect("TIME", "ZONE")
            place = cursor.token
            fields["zone"] = cursor.text("a time zone")
            reason = bad_zone(fields["zone"])
            if reason:
                cursor.fail(reason, place)
    return fields


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
