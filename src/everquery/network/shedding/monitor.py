"""The monitor: how late each output is, what it is worth, and whether the machine keeps up."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from everquery.network.ends import Output
from everquery.network.utility import delay_graph, good_until, loss_graph, utility

ERRANT = 0.1  # the share of rows behind the good zone from which an output is in trouble
MOST_KEPT = 10_000  # intervals of time that are remembered
SOON = 0.25  # of the good zone
GROWING = 3  # intervals of growth from which a queue is

QUALITY = pa.schema(
    [
        ("output", pa.string()),
        ("since", pa.float64()),
        ("until", pa.float64()),
        ("rows", pa.int64()),
        ("delay", pa.float64()),
        ("longest_delay", pa.float64()),
        ("lost", pa.float64()),
        ("utility", pa.float64()),
        ("exact", pa.bool_()),
    ]
)
"""One row for each output and interval of time. ``delay`` is the mean, in seconds; ``lost`` the
share that was shed, by its values; ``exact`` whether nothing was shed before the output so far. The
last ten thousand intervals are there."""


@dataclass(slots=True)
class Delivered:
    """The rows of an output in an interval of time."""

    rows: int = 0
    errant: int = 0
    delay: float = 0.0
    longest: float = 0.0
    worth: float = 0.0
    waited: float = 0.0
    lost: float = 0.0
    offered: bool = False
    exact: bool = True


@dataclass
class Monitor:
    """Watches the outputs of a run.

    Parameters
    ----------
    outputs : mapping of str to Output
    """

    outputs: Mapping[str, Output]
    seen: dict[str, dict[int, Delivered]] = field(default_factory=dict)
    queued: dict[str, list[int]] = field(default_factory=dict)

    def at(self, output: str, tick: int) -> Delivered:
        """Return what is known of an output in an interval of time."""
        return self.seen.setdefault(output, {}).setdefault(tick, Delivered())

    def deliver(self, output: str, rows: int, delay: float, tick: int) -> None:
        """Take down rows that reached an output, this long after they came to a source."""
        one = self.at(output, tick)
        graph = delay_graph(self.outputs[output].qos)
        one.rows += rows
        one.delay += rows * delay
        one.longest = max(one.longest, delay)
        one.worth += rows * (1.0 if graph is None else utility(graph, delay))
        if graph is not None and delay > good_until(graph):
            one.errant += rows

    def close(
        self, output: str, tick: int, *, waited: float, queued: int, lost: float, exact: bool
    ) -> None:
        """End an interval of time.

        Parameters
        ----------
        waited : float
            How long the oldest row that waits for this output has been waiting.
        queued : int
            How many rows wait.
        lost : float
            The share that was shed.
        """
        one = self.at(output, tick)
        one.waited, one.lost, one.exact = waited, lost, exact
        one.offered = bool(one.rows or queued or lost)
        known = self.seen[output]
        while len(known) > MOST_KEPT:
            del known[next(iter(known))]
        self.queued[output] = [*self.queued.get(output, ()), queued][-GROWING - 1 :]

    def troubled(self, tick: int, *, overloaded: bool) -> list[str]:
        """Return the outputs that are late: by their graph, or, without one, by growing queues.

        Parameters
        ----------
        overloaded : bool
            Whether more comes than the machine can do: delays will grow, and an output whose rows
            wait for a quarter of its good zone counts as late.
        """
        share = SOON if overloaded else 1.0
        return [name for name in self.outputs if self._is_late(name, tick, share)]

    def _is_late(self, output: str, tick: int, share: float) -> bool:
        graph = delay_graph(self.outputs[output].qos)
        if graph is None:
            sizes = self.queued.get(output, [])
            pairs = itertools.pairwise(sizes)
            return len(sizes) > GROWING and all(low < high for low, high in pairs)
        one = self.at(output, tick)
        if one.waited > share * good_until(graph):
            return True
        return one.rows > 0 and one.errant > ERRANT * one.rows

    def utility(self, output: str, tick: int) -> float | None:
        """Return what an output was worth in an interval; None if it had nothing to give."""
        one = self.at(output, tick)
        if not one.offered:
            return None
        spec = self.outputs[output]
        graph = delay_graph(spec.qos)
        timely = 1.0
        if one.rows:
            timely = one.worth / one.rows
        elif graph is not None:
            timely = utility(graph, one.waited)
        return timely * utility(loss_graph(spec.qos), one.lost)

    def latest(self, output: str) -> float | None:
        """Return what an output was worth in the last interval in which it had anything."""
        worth = [self.utility(output, tick) for tick in sorted(self.seen.get(output, ()))]
        return next((one for one in reversed(worth) if one is not None), None)

    def table(self, start: float, interval: float) -> pa.Table:
        """Return the quality of all outputs over time."""
        rows: list[dict[str, Any]] = []
        for output, ticks in self.seen.items():
            for tick, one in sorted(ticks.items()):
                rows.append(
                    {
                        "output": output,
                        "since": start + tick * interval,
                        "until": start + (tick + 1) * interval,
                        "rows": one.rows,
                        "delay": one.delay / one.rows if one.rows else None,
                        "longest_delay": one.longest if one.rows else None,
                        "lost": one.lost,
                        "utility": self.utility(output, tick),
                        "exact": one.exact,
                    }
                )
        return pa.Table.from_pylist(rows, QUALITY)
