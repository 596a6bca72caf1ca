"""The brute-force answer of range queries."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds import twin
from everquery.kinds.range.spec import Range


class Twin(twin.Twin):
    """Every event inside the box is told."""

    def answer(self, query: Range, seen: twin.Seen) -> Iterator[twin.Happened]:
        """Yield a match if the event is inside."""
        if self.inside(query, seen.key, seen.values):
            yield twin.Happened("match")
