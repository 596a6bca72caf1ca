"""What a run has seen of its load: rates of streams, costs and selectivities of boxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from everquery.network.analysis.layout import Layout
from everquery.network.analysis.load import Load
from everquery.network.runtime.plan import Plan
from everquery.network.scheduling.terms import Terms

NEWEST = 0.5  # the weight of the last interval in a rate, and of the last train in a cost
FEWEST = 256  # rows of a train that says what a box costs


class Costs:
    """Seconds a row of each box, from its long trains.

    A call costs something whatever its rows are. Under load trains are long, so short ones, in
    which this weighs most, say nothing: a box is known from its first train of some length.
    """

    def __init__(self) -> None:
        self.now: dict[str, float] = {}
        self._longest: dict[str, int] = {}

    def see(self, name: str, rows: int, seconds: float) -> None:
        """Take in a train."""
        longest = max(self._longest.get(name, 0), rows)
        self._longest[name] = longest
        if rows < FEWEST or rows < longest / 8:
            return
        before = self.now.get(name, seconds / rows)
        self.now[name] = NEWEST * seconds / rows + (1 - NEWEST) * before


class Overhead:
    """Seconds a second that a run spends beside its boxes, by the clock: no shedding saves them."""

    def __init__(self) -> None:
        self.now = 0.0
        self._busy = 0.0  # in calls that have ended
        self._began: float | None = None  # of the call that has not
        self._last: tuple[float, float, float] | None = None  # time, busy, in boxes

    def begin(self, now: float) -> None:
        """Note that a call begins."""
        self._began = now

    def end(self, now: float) -> None:
        """Note that it ends."""
        if self._began is not None:
            self._busy += now - self._began
            self._began = None

    def close(self, now: float, boxes: float) -> None:
        """End an interval of time; boxes have worked this long in all."""
        busy = self._busy + (0.0 if self._began is None else now - self._began)
        if self._last is not None:
            elapsed = now - self._last[0]
            if elapsed <= 0:
                return
            beside = max(busy - self._last[1] - (boxes - self._last[2]), 0.0) / elapsed
            self.now = NEWEST * beside + (1 - NEWEST) * self.now
        self._last = now, busy, boxes


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


def load_of(
    layout: Layout,
    plan: Plan,
    rates: Mapping[str, float],
    costs: Mapping[str, float],
    terms: Terms,
) -> Load:
    """Return the load: what the terms say of boxes, and what was measured where they do not."""
    selectivities = {
        name: node.figures.selectivity
        for name, node in plan.nodes.items()
        if node.figures.selectivity is not None
    }
    return Load(
        layout,
        rates,
        {**costs, **(terms.costs or {})},
        {**selectivities, **(terms.selectivities or {})},
    )
