"""The brute-force answer of threshold queries."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds import twin
from everquery.kinds.threshold.spec import Threshold
from everquery.queries.spec import Query
from everquery.stream import Stream


class Twin(twin.Twin):
    """The event at which the weight in the box reaches the total is told."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._seen: dict[str, int] = {}

    def begin(self, query: Query) -> None:
        """Begin from zero."""
        super().begin(query)
        self._seen[query.id] = 0

    def answer(self, query: Threshold, seen: twin.Seen) -> Iterator[twin.Happened]:
        """Yield a fire if the total is reached."""
        if not self.inside(query, seen.key, seen.values):
            return
        self._seen[query.id] += 1 if query.count else seen.weight
        weight = self._seen[query.id]
        if weight >= query.total:
            self._seen[query.id] = 0
            further = ("total", weight), ("rounds", weight // query.total)
            yield twin.Happened("fire", further, ends=not query.repeat)

    def progress(self, query: Threshold) -> int:
        """Return how much weight a query has seen."""
        return self._seen[query.id]
