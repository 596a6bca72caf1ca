"""What a run has seen of its load: rates of streams, costs and selectivities of boxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from everquery.network.analysis.layout import Layout
from everquery.network.analysis.load import Load
from everquery.network.runtime.plan import Plan
from everquery.network.scheduling.terms import Terms

NEWEST = 0.5  # the weight of the last interval in a rate


class Rates:
    """Rows a second of each stream, the latest intervals first of all."""

    def __init__(self, streams: Iterable[str], expected: Mapping[str, float]) -> None:
        self.now: dict[str, float] = {name: expected.get(name, 0.0) for name in streams}
        self._known = set(expected)
        self._came = dict.fromkeys(self.now, 0)

    def count(self, stream: str, rows: int) -> None:
        """Take in rows."""
        self._came[stream] += rows

    def close(self, interval: float) -> None:
        """End an interval of time."""
        for name, came in self._came.items():
            rate = came / interval
            before = self.now[name] if name in self._known else rate
            self.now[name] = NEWEST * rate + (1 - NEWEST) * before
            self._known.add(name)
            self._came[name] = 0

    def save(self) -> dict[str, Any]:
        """Return the rates as plain values."""
        return {"now": self.now, "known": sorted(self._known), "came": self._came}

    def load(self, saved: dict[str, Any]) -> None:
        """Take a state that `save` gave."""
        self.now, self._came = dict(saved["now"]), dict(saved["came"])
        self._known = set(saved["known"])


def load_of(layout: Layout, plan: Plan, rates: Mapping[str, float], terms: Terms) -> Load:
    """Return the load: what the terms say of boxes, and what was measured where they do not."""
    costs: dict[str, float] = {}
    selectivities: dict[str, float] = {}
    for name, node in plan.nodes.items():
        if terms.clock is not None and node.figures.cost is not None:
            costs[name] = node.figures.cost
        if node.figures.selectivity is not None:
            selectivities[name] = node.figures.selectivity
    return Load(
        layout,
        rates,
        {**costs, **(terms.costs or {})},
        {**selectivities, **(terms.selectivities or {})},
    )
