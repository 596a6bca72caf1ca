"""The brute-force answer."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds import twin
from everquery.queries.spec import Query
from everquery.stream import Stream
from tests.conformance.toy.spec import Nth


class Twin(twin.Twin):
    """Events are counted one by one."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._seen: dict[str, int] = {}
        self._told: dict[str, int] = {}

    def begin(self, query: Query) -> None:
        """Begin from zero."""
        super().begin(query)
        self._seen[query.id] = self._told[query.id] = 0

    def answer(self, query: Nth, seen: twin.Seen) -> Iterator[twin.Happened]:
        """Yield a tick if it is the event's turn."""
        if self.inside(query, seen.key, seen.values):
            self._seen[query.id] += 1
            if self._seen[query.id] % query.nth == (1 % query.nth if query.at_once else 0):
                self._told[query.id] += 1
                yield twin.Happened("tick", (("ticks", self._told[query.id]),))
