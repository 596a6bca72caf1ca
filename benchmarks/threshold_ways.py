"""More ways to count for boxes: the paper's stabbing of two attributes, its tracking, and ours."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.threshold_peers import Contestant, Fires, Listed
from benchmarks.threshold_work import Boxes, rows_of, step_of
from everquery.core.arrays import Floats, Int32s, Int64s, grow
from everquery.core.jit import kernel
from everquery.index.flags import LIVE
from everquery.index.rows import Findings
from everquery.index.sort_keys import PLACE_SHIFT, SLOT_MASK, SLOT_SHIFT
from everquery.kinds.threshold.distributed_tracking import Tracking
from everquery.kinds.threshold.endpoint_tree import EndpointTrees, leaf_of
from everquery.kinds.threshold.index import ThresholdIndex

DEEPEST = 64  # of the stack of an interval tree's search


@kernel
def raise_ends(start: Int64s, high: Floats, top: Floats) -> None:
    """Write for each place the highest end of its subtree.

    The entries of a node, in order of their lower ends, are a balanced search tree: the root of
    places `begin` to `end` is the middle one.
    """
    stack = np.empty((2 * DEEPEST, 3), np.int64)
    for node in range(start.size - 1):
        stack[0] = start[node], start[node + 1], 0
        waiting = 1
        while waiting > 0:
            begin, end, ready = stack[waiting - 1]
            middle = (begin + end) >> 1
            if begin == end:
                waiting -= 1
            elif ready:
                waiting -= 1
                top[middle] = high[middle]
                if begin < middle:
                    top[middle] = max(top[middle], top[(begin + middle) >> 1])
                if middle + 1 < end:
                    top[middle] = max(top[middle], top[(middle + 1 + end) >> 1])
            else:
                stack[waiting - 1, 2] = 1
                stack[waiting] = begin, middle, 0
                stack[waiting + 1] = middle + 1, end, 0
                waiting += 2


@kernel
def stab_nodes(
    values: Floats, bounds: Floats, start: Int64s, rows: Int64s, low: Floats, high: Floats,
    top: Floats, ends: Int64s, out: Int64s,
) -> Int64s:  # fmt: skip
    """List the rows around each element: the nodes above its first value, each by the second."""
    stack = np.empty((DEEPEST, 2), np.int64)
    n = 0
    for i in range(ends.size):
        y = values[1, i]
        leaf = leaf_of(values[0, i], bounds, 0, bounds.size)
        node = bounds.size + leaf if leaf >= 0 else 0
        while node > 0:
            stack[0] = start[node], start[node + 1]
            waiting = 1
            while waiting > 0:
                waiting -= 1
                begin, end = stack[waiting]
                middle = (begin + end) >> 1
                if begin == end or top[middle] <= y:
                    continue
                stack[waiting] = begin, middle
                waiting += 1
                if low[middle] <= y:
                    if y < high[middle]:
                        if n == out.size:
                            out = grow(out)
                        out[n] = rows[middle]
                        n += 1
                    stack[waiting] = middle + 1, end
                    waiting += 1
            node >>= 1
        ends[i] = n
    return out


class SegIntv(Listed):
    """A segment tree over the first attribute, with an interval tree of the second at each node."""

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        self._out = np.empty(1 << 16, np.int64)

    def _build(self, rows: Int64s) -> None:
        low, high = self.boxes.low[:, rows], self.boxes.high[:, rows]
        trees = EndpointTrees.build(low[:1], high[:1], np.zeros(rows.size, np.int32), 1)
        row = np.repeat(np.arange(rows.size), np.diff(trees.row_start))
        order = np.lexsort((low[1, row], trees.node))
        row = row[order]
        start = np.searchsorted(trees.node[order], np.arange(trees.nodes + 1))
        high = high[1, row]
        top = np.empty(high.size)
        raise_ends(start, high, top)
        self._tree = (trees.ends, start, rows[row], low[1, row], high, top)

    def _stab(self, values: Floats) -> tuple[Int64s, Int64s]:
        ends = np.empty(values.shape[1], np.int64)
        self._out = stab_nodes(values, *self._tree, ends, self._out)
        return self._out, ends


class _Part(NamedTuple):
    """Endpoint trees of some queries, given in ascending order."""

    tracking: Tracking
    rows: Int64s


class PaperTracking(Contestant):
    """Distributed tracking, one element at a time.

    New queries are trees of their own; trees that are no larger than those behind them are joined,
    with what each query still lacks. A tree is built anew when half of its queries have ended.
    """

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        self._left = np.zeros(self.need.size, np.int64)  # when its tree was built
        self._alive = np.zeros(self.need.size, np.bool_)
        self._parts: list[_Part] = []

    def register(self, rows: Int64s, need: Int64s) -> None:
        """Build a tree, of older queries too where there are as many."""
        self.need[rows] = self._left[rows] = need
        self._alive[rows] = True
        if not rows.size:
            return
        while self._parts and self._parts[-1].rows.size <= rows.size:
            rows = np.concatenate([rows, self._retire(self._parts.pop())])
        self._parts.append(self._build(rows))

    def _build(self, rows: Int64s) -> _Part:
        rows = np.sort(rows)
        low, high = (
            np.ascontiguousarray(side[:, rows]) for side in (self.boxes.low, self.boxes.high)
        )
        lane = np.zeros(rows.size, np.int32)
        return _Part(Tracking.build(low, high, lane, 1, self._left[rows]), rows)

    def _retire(self, part: _Part) -> Int64s:
        """Take over what a tree's queries have seen, and return those that run."""
        places = np.flatnonzero(self._alive[part.rows])
        rows = part.rows[places]
        self._left[rows] -= part.tracking.seen(places)
        return rows

    def terminate(self, rows: Int64s) -> None:
        """End queries in their trees."""
        rows = rows[self._alive[rows]]
        self._alive[rows] = False
        for part in self._parts:
            places = np.minimum(np.searchsorted(part.rows, rows), part.rows.size - 1)
            part.tracking.terminate(places[part.rows[places] == rows])
        self._rebuild()

    def _rebuild(self) -> None:
        parts = []
        for part in self._parts:
            alive = int(np.count_nonzero(self._alive[part.rows]))
            if 2 * alive > part.rows.size:
                parts.append(part)
            elif alive:
                parts.append(self._build(self._retire(part)))
        self._parts = sorted(parts, key=lambda part: part.rows.size, reverse=True)

    def process(self, values: Floats, weight: Int64s) -> Fires:
        """Count elements in every tree."""
        lane: Int32s = np.zeros(weight.size, np.int32)
        found = [np.empty((3, 0), np.int64)]
        for part in self._parts:
            element, place, seen = part.tracking.run(lane, values, weight)
            row = part.rows[place]
            found.append(np.stack([element, row, seen + self.need[row] - self._left[row]]))
        fires = Fires.in_order(*np.concatenate(found, axis=1))
        self._alive[fires.row] = False
        self._rebuild()
        return fires


class Ours(Contestant):
    """The index of threshold queries as the engine drives it, one batch a call; merges included."""

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        self._index = ThresholdIndex()
        self._flags = np.full(self.need.size, LIVE, np.uint16)

    def register(self, rows: Int64s, need: Int64s) -> None:
        """Add queries in a layer of their own."""
        self.need[rows] = need
        if rows.size:
            added = rows_of(self.boxes, rows)
            self._index.describe(added.slot, {"total": need})
            self._index.add(added, self._flags)
            self._tidy()

    def terminate(self, rows: Int64s) -> None:
        """Drop queries."""
        self._flags[rows] = 0
        self._tidy()

    def _tidy(self) -> None:
        layers = self._index.layers
        while (due := layers.due_merge(self._flags) or layers.due_sweep(self._flags)) is not None:
            layers.install(due, due.run())

    def process(self, values: Floats, weight: Int64s) -> Fires:
        """Count a batch."""
        found = self._index.process(step_of(values, weight, self._flags))
        self._flags[self._index.done()] = 0
        told = [each for each in found if isinstance(each, Findings)]
        keys = np.concatenate([np.empty(0, np.int64), *(each.packed for each in told)])
        seen = [each.figures["total"] for each in told]
        return Fires.in_order(
            (keys >> PLACE_SHIFT) >> 1,
            keys >> SLOT_SHIFT & SLOT_MASK,
            np.concatenate([np.empty(0, np.int64), *seen]),
        )

    def lacks(self, rows: Int64s) -> Int64s:
        """Return the weight that running queries still lack."""
        left: Int64s = self._index.state(rows.astype(np.int32))["left"]
        return left
