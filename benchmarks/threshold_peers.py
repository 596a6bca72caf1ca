"""Ways to tell when the weight in a box reaches a total, under one interface.

Here are the quadratic ways of range-thresholding, section 3.1: look at all queries for every
element, or find those around it (stabbing) and count for each. The others are in `threshold_ways`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from ncls import NCLS

from benchmarks.peers import rtree_of
from benchmarks.threshold_work import Boxes, rows_of, step_of
from everquery.core.arrays import Array, Floats, Int64s, grow
from everquery.core.jit import kernel
from everquery.index.access_paths import BoxSegment
from everquery.index.flags import LIVE
from everquery.index.weighed import NEVER

MATCHES_AT_ONCE = 4_000_000  # that are listed before they are counted


class Fires(NamedTuple):
    """Which queries fired at which elements, by element and query; and what they had seen."""

    element: Int64s
    row: Int64s
    seen: Int64s

    @classmethod
    def in_order(cls, element: Int64s, row: Int64s, seen: Int64s) -> Fires:
        """Sort fires."""
        order = np.lexsort((row, element))
        return cls(element[order], row[order], seen[order])


class Contestant(ABC):
    """Counts for queries out of `boxes`, which are called by their numbers."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes
        self.need = np.zeros(boxes.low.shape[1], np.int64)

    @abstractmethod
    def register(self, rows: Int64s, need: Int64s) -> None:
        """Let queries count from here on, and build what that takes."""

    @abstractmethod
    def terminate(self, rows: Int64s) -> None:
        """End queries."""

    @abstractmethod
    def process(self, values: Floats, weight: Int64s) -> Fires:
        """Count elements in order; a query that fires is ended."""


@kernel
def count_lists(
    rows: Array, ends: Int64s, first: int, weight: Int64s, need: Int64s, left: Int64s,
    out: Int64s, n: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Count elements for the rows listed for each; write element, row and weight of the fires."""
    at = 0
    for i in range(ends.size):
        for k in range(at, ends[i]):
            row = rows[k]
            if left[row] == NEVER:
                continue
            left[row] -= weight[i]
            if left[row] <= 0:
                if 3 * (n + 1) > out.size:
                    out = grow(out)
                out[3 * n], out[3 * n + 1], out[3 * n + 2] = first + i, row, need[row] - left[row]
                n += 1
                left[row] = NEVER
        at = ends[i]
    return out, n


@kernel
def scan_all(
    values: Floats, weight: Int64s, first: int, rows: Int64s, low: Floats, high: Floats,
    need: Int64s, left: Int64s, out: Int64s, n: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Look at all rows for every element; `low` and `high` are theirs, side by side."""
    for i in range(weight.size):
        for k in range(rows.size):
            inside = low[0, k] <= values[0, i] and values[0, i] < high[0, k]
            for a in range(1, len(low)):
                inside &= low[a, k] <= values[a, i] and values[a, i] < high[a, k]
            row = rows[k]
            if not inside or left[row] == NEVER:
                continue
            left[row] -= weight[i]
            if left[row] <= 0:
                if 3 * (n + 1) > out.size:
                    out = grow(out)
                out[3 * n], out[3 * n + 1], out[3 * n + 2] = first + i, row, need[row] - left[row]
                n += 1
                left[row] = NEVER
    return out, n


class Counters(Contestant):
    """A count for each query; the structure is built anew for new queries, and once half ended."""

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        self.left = np.full(self.need.size, NEVER)
        self._built = 0
        self._gone = 0

    def register(self, rows: Int64s, need: Int64s) -> None:
        """Begin counts, and index all that run."""
        self.need[rows] = self.left[rows] = need
        if rows.size:
            self._build_anew()

    def terminate(self, rows: Int64s) -> None:
        """End counts."""
        self._gone += int(np.count_nonzero(self.left[rows] != NEVER))
        self.left[rows] = NEVER
        if 2 * self._gone > self._built:
            self._build_anew()

    def _build_anew(self) -> None:
        running = np.flatnonzero(self.left != NEVER)
        self._built, self._gone = running.size, 0
        if running.size:
            self._build(running)

    def process(self, values: Floats, weight: Int64s) -> Fires:
        """Find the queries around each element, and count for them; a few elements at a time."""
        out, n = np.empty(3 * 64, np.int64), 0
        step = max(1, MATCHES_AT_ONCE // max(1, self._built))
        for first in range(0, weight.size if self._built else 0, step):
            piece = slice(first, first + step)
            here = np.ascontiguousarray(values[:, piece])
            out, n = self._count(here, weight[piece], first, out, n)
        self._gone += n
        return Fires.in_order(*out[: 3 * n].reshape(-1, 3).T)

    @abstractmethod
    def _build(self, rows: Int64s) -> None:
        """Build the structure of some queries."""

    @abstractmethod
    def _count(
        self, values: Floats, weight: Int64s, first: int, out: Int64s, n: int
    ) -> tuple[Int64s, int]:
        """Count some elements; `out` and `n` are as in `count_lists`."""


class Listed(Counters):
    """Counters for a structure that lists the queries around each element."""

    def _count(
        self, values: Floats, weight: Int64s, first: int, out: Int64s, n: int
    ) -> tuple[Int64s, int]:
        rows, ends = self._stab(values)
        return count_lists(rows, ends, first, weight, self.need, self.left, out, n)

    @abstractmethod
    def _stab(self, values: Floats) -> tuple[Int64s, Int64s]:
        """Return the queries around each element, and where those of each element end."""


class Baseline(Counters):
    """No structure: every element looks at every query."""

    def _build(self, rows: Int64s) -> None:
        self._rows = rows
        self._low = np.ascontiguousarray(self.boxes.low[:, rows])
        self._high = np.ascontiguousarray(self.boxes.high[:, rows])

    def _count(
        self, values: Floats, weight: Int64s, first: int, out: Int64s, n: int
    ) -> tuple[Int64s, int]:
        return scan_all(
            values, weight, first, self._rows, self._low, self._high, self.need, self.left, out, n
        )


class IntervalTree(Listed):
    """Nested containment lists in C (ncls), for one attribute."""

    def _build(self, rows: Int64s) -> None:
        low, high = (side[0, rows].astype(np.int64) for side in (self.boxes.low, self.boxes.high))
        self._index = NCLS(low, high, rows)

    def _stab(self, values: Floats) -> tuple[Int64s, Int64s]:
        whole = values[0].astype(np.int64)
        element, rows = self._index.all_overlaps_both(whole, whole + 1, np.arange(whole.size))
        return rows, np.cumsum(np.bincount(element, minlength=whole.size))


class RTree(Listed):
    """rtree over libspatialindex, bulk-loaded; its boxes are closed, ours have whole ends."""

    def _build(self, rows: Int64s) -> None:
        self._rows = rows
        low, high = self.boxes.low[:, rows].T, self.boxes.high[:, rows].T - 1
        self._index = rtree_of(np.ascontiguousarray(low), np.ascontiguousarray(high))

    def _stab(self, values: Floats) -> tuple[Int64s, Int64s]:
        points = np.ascontiguousarray(values.T)
        found, counts = self._index.intersection_v(points, points)
        return self._rows[found], np.cumsum(counts.astype(np.int64))


class Stabbing(Counters):
    """The index of our own range queries."""

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        self._flags = np.full(self.need.size, LIVE, np.uint16)
        self._out = np.empty(1 << 16, np.int32)

    def _build(self, rows: Int64s) -> None:
        self._segment = BoxSegment.build(rows_of(self.boxes, rows))

    def _count(
        self, values: Floats, weight: Int64s, first: int, out: Int64s, n: int
    ) -> tuple[Int64s, int]:
        step = step_of(values, weight, self._flags)
        for part in self._segment.parts:  # a query is in one of them
            ends, self._out = part.search(step, self._out, 0)
            out, n = count_lists(self._out, ends, first, weight, self.need, self.left, out, n)
        return out, n
