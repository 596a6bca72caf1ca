"""The brute-force answer of border queries."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds import twin
from everquery.kinds.border.spec import Border


class Twin(twin.Twin):
    """What enters or leaves the box is told."""

    def answer(self, query: Border, seen: twin.Seen) -> Iterator[twin.Happened]:
        """Yield a crossing if the key is on the other side than before."""
        inside = self.inside(query, seen.key, seen.values)
        before = seen.before is not None and self.inside(query, seen.key, seen.before)
        if inside != before:
            yield twin.Happened("enter" if inside else "leave")

    def announce(self, query: Border, key: object, values: twin.Values) -> str | None:
        """Return an enter for a key that is inside already, unless the query is silent."""
        return "enter" if not query.silent and self.inside(query, key, values) else None

    def differ(
        self,
        query: Border,
        old: Border,
        key: object,
        values: twin.Values | None,
        before: twin.Values | None,
        *,
        undecided: bool,
    ) -> str | None:
        """Return a crossing for a key that is on another side than what was told of it."""
        inside = values is not None and self.inside(query, key, values)
        was_inside = before is not None and self.inside(old, key, before)
        if query.silent or inside == (was_inside != undecided):
            return None
        return "enter" if inside else "leave"

    def expire(self, query: Border, key: object, values: twin.Values) -> str | None:
        """Return a leave for a key that was inside."""
        return "leave" if self.inside(query, key, values) else None

    def tells(self, query: Border, event: str) -> bool:
        """Tell whether the query tells of such crossings."""
        return event in query.emit
