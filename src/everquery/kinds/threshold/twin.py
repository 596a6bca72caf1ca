"""The brute-force answer of threshold queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from everquery.kinds import twin
from everquery.kinds.threshold.spec import Threshold
from everquery.queries.spec import Query
from everquery.stream import Stream


@dataclass
class _Total:
    """What was seen in a period."""

    period: int
    seen: int = 0
    over: bool = False


class Twin(twin.Twin):
    """The event at which the weight in the box reaches the total is told."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._totals: dict[str, dict[Any, _Total]] = {}

    def begin(self, query: Query) -> None:
        """Begin from zero."""
        super().begin(query)
        self._totals[query.id] = {}

    def set_back(self, time: Any) -> None:  # noqa: ANN401 - a number
        """Begin anew where a period was later."""
        for query_id, totals in self._totals.items():
            query = self.queries.get(query_id)
            for key, total in totals.items():
                if query is not None and query.every and total.period > time // query.every:
                    totals[key] = _Total(time // query.every)

    def answer(self, query: Threshold, seen: twin.Seen) -> Iterator[twin.Happened]:
        """Yield a fire if the total is reached."""
        if not self.inside(query, seen.key, seen.values):
            return
        weight = 1 if query.count else seen.weight
        if weight == 0 or (weight < 0 and query.negative == "ignore"):
            return
        period = 0 if query.every is None else seen.time // query.every
        key = seen.key if query.by_key else None
        total = self._totals[query.id].setdefault(key, _Total(period))
        if period > total.period:
            total = self._totals[query.id][key] = _Total(period)
        if period < total.period or total.over:
            return
        total.seen += weight
        if total.seen >= query.total:
            reached, total.seen, total.over = total.seen, 0, not query.repeat
            further = ("total", reached), ("rounds", reached // query.total)
            ends = not (query.repeat or query.by_key or query.every is not None)
            yield twin.Happened("fire", further, ends=ends)

    def progress(self, query: Threshold, key: object = None) -> int:
        """Return how much weight a query has seen, of a key or in all."""
        total = self._totals[query.id].get(key)
        return 0 if total is None else total.seen
