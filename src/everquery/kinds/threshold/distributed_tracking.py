"""Which rows have seen enough weight, without counting for each row.

The structure of range-thresholding: the nodes of endpoint trees count (`endpoint_tree`), each has
a heap of the counts at which a row wants to hear of it (`node_heaps`), and a row hears of its nodes
in O(log need) rounds (`tracking_rounds`). Rows are fixed; new ones are another `Tracking`, and a
merge builds one with what each row still needs.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s, grow, total_bytes
from everquery.core.jit import kernel
from everquery.kinds.threshold.endpoint_tree import DEEPEST, EndpointTrees, leaf_of
from everquery.kinds.threshold.node_heaps import (
    BASE,
    COUNT,
    DUE,
    Heaps,
    drop_first,
    fill_heaps,
    new_heaps,
)
from everquery.kinds.threshold.tracking_rounds import (
    ENDED,
    FINAL,
    FINAL_PHASE,
    FIRST_ROUND,
    NEED,
    PAUSED,
    ROUNDS,
    SIGNALS,
    SLACK,
    SPARE,
    TOTAL,
    Owned,
    end_round,
    resume_rows,
    see,
    stop_rows,
    take_signal,
)


@kernel
def run_events(
    lane: Int32s,
    values: Floats,
    weight: Int64s,
    trees: tuple[Floats, Int64s, Int32s],
    lanes: int,
    nodes: Int64s,
    heaps: Heaps,
    rows: Int64s,
    owned: Owned,
) -> tuple[int, Int64s, Int32s, Int64s]:
    """Count the events one after the other, and return the rows that come due.

    O(log^d m) for each event, and O(log m) for each signal. An event is in at most one node of a
    row: when a row collects its counters, all of them have the event, or do not want it.

    Parameters
    ----------
    lane : int32, shape (events,); a number that is no lane is counted nowhere
    values : float64, shape (d, events); NaN is in no range
    weight : int64, shape (events,), at least 1
    trees : ends, start and child of `EndpointTrees`
    nodes : int64, shape (nodes, 4), see `node_heaps`
    rows : int64, shape (rows, 8), see `tracking_rounds`

    Returns
    -------
    n, event, row, seen : the first n places of each tell of the due rows, events ascending
    """
    ends, start, child = trees
    attributes = len(values)
    todo = np.empty((attributes * DEEPEST + 1, 2), np.int64)  # trees to look at, their attribute
    event, due, seen = np.empty(64, np.int64), np.empty(64, np.int32), np.empty(64, np.int64)
    n = 0
    for i in range(lane.size):
        todo[0, 0], todo[0, 1] = lane[i], 0
        waiting = 1 if 0 <= lane[i] < lanes else 0
        while waiting > 0:
            waiting -= 1
            t, a = todo[waiting, 0], todo[waiting, 1]
            leaf = leaf_of(values[a, i], ends, start[t], start[t + 1])
            at = start[t + 1] - start[t] + leaf if leaf >= 0 else 0
            root = 2 * start[t]
            if a < attributes - 1:
                while at > 0:
                    if child[root + at] >= 0:
                        todo[waiting, 0], todo[waiting, 1] = child[root + at], a + 1
                        waiting += 1
                    at >>= 1
                continue
            root -= child.size
            while at > 0:
                u = root + at
                at >>= 1
                nodes[u, COUNT] += weight[i]
                while nodes[u, DUE] <= nodes[u, COUNT]:
                    e = heaps[1][nodes[u, BASE]]
                    row = owned[2][e]
                    if rows[row, SLACK] < 0:
                        drop_first(nodes, heaps, u)
                    elif not take_signal(row, u, e, nodes, heaps, rows):
                        total = end_round(row, nodes, heaps, rows, owned)
                        if total > 0:
                            if n == event.size:
                                event, due, seen = grow(event), grow(due), grow(seen)
                            event[n], due[n], seen[n] = i, row, total
                            n += 1
    return n, event, due, seen


class Tracking:
    """Rows that fire when the events in their boxes have brought enough weight.

    All sums stay within int64 if the weight of all events is at most 2**62 and no `need` or `total`
    is larger: the caller sees to it.

    Attributes
    ----------
    trees : the endpoint trees of the boxes

    Examples
    --------
    >>> low, high = np.array([[0.0, 5.0]]), np.array([[10.0, np.nan]])
    >>> lane = np.zeros(2, np.int32)
    >>> tracking = Tracking.build(low, high, lane, lanes=1, need=np.array([30, 100]))
    >>> values, weight = np.array([[1.0, 7.0, 3.0]]), np.array([10, 10, 15])
    >>> event, row, seen = tracking.run(np.zeros(3, np.int32), values, weight)
    >>> event.tolist(), row.tolist(), seen.tolist()
    ([2], [0], [35])
    >>> tracking.seen(np.array([0, 1])).tolist()
    [35, 10]
    """

    def __init__(self, trees: EndpointTrees, need: Int64s) -> None:
        self.trees = trees
        h = np.diff(trees.row_start)
        loan = need // (2 * np.maximum(h, 1))
        final = need <= FINAL_PHASE * h
        self._rows = np.zeros((need.size, 8), np.int64)
        self._rows[:, NEED] = need
        self._rows[:, ROUNDS] = 1
        self._rows[:, SLACK] = np.where(final, FINAL, loan)
        self._rows[:, SPARE] = np.where(final, need, loan * (1 + h // FIRST_ROUND))
        self._nodes, self._heaps = new_heaps(trees.node, trees.nodes)
        key = np.where(final, 1, loan)
        order = np.argsort(key, kind="stable")
        fill_heaps(order, trees.row_start, trees.node, key, self._nodes, self._heaps)
        owner = np.repeat(np.arange(need.size, dtype=np.int32), h)
        self._owned: Owned = (trees.row_start, trees.node, owner)

    @classmethod
    def build(cls, low: Floats, high: Floats, lane: Int32s, lanes: int, need: Int64s) -> Tracking:
        """Build the trees of boxes, and begin all rows.

        Parameters
        ----------
        low, high : float64, shape (d, n): half-open ranges; a `high` of NaN has no upper limit
        lane : int32, shape (n,): a row sees the events of its lane only, 0 to `lanes` - 1
        need : int64, shape (n,), at least 1: the weight at which a row fires
        """
        return cls(EndpointTrees.build(low, high, lane, lanes), need)

    def run(
        self, lane: Int32s, values: Floats, weight: Int64s, first: int = 0
    ) -> tuple[Int64s, Int32s, Int64s]:
        """Count events in order; return event, row and weight seen of all that fire.

        A row that fires is ended, or begins again after the event if its `total` is above 0; it
        may fire more than once. What it saw is at least its need. Ordered by event, then by row.

        Parameters
        ----------
        lane, values, weight : int32 (events,), float64 (d, events), int64 (events,) at least 1
        first : the number of the first event
        """
        n, event, row, seen = run_events(
            lane,
            values,
            weight,
            (self.trees.ends, self.trees.start, self.trees.child),
            self.trees.lanes,
            self._nodes,
            self._heaps,
            self._rows,
            self._owned,
        )
        order = np.lexsort((row[:n], event[:n]))
        return event[order] + first, row[order], seen[order]

    def seen(self, rows: Int64s) -> Int64s:
        """Return the exact weight that each row has seen since it began, or until it ended."""
        out = np.empty(rows.size, np.int64)
        see(rows, self._nodes, self._rows, self._owned, out)
        return out

    def terminate(self, rows: Int64s) -> None:
        """End rows for good."""
        stop_rows(rows, ENDED, self._nodes, self._rows, self._owned)

    def pause(self, rows: Int64s) -> None:
        """Let rows count nothing until they are resumed; one that has ended stays so."""
        stop_rows(rows, PAUSED, self._nodes, self._rows, self._owned)

    def resume(self, rows: Int64s) -> None:
        """Let paused rows go on from what they have seen."""
        resume_rows(rows, self._nodes, self._heaps, self._rows, self._owned)

    @property
    def total(self) -> Int64s:
        """A view, to be written: what each row needs when it begins again; 0 to end it."""
        return self._rows[:, TOTAL]

    @property
    def alive(self) -> int:
        """How many rows have not ended: at half of them, a caller may build anew."""
        return int(np.count_nonzero(self._rows[:, SLACK] != ENDED))

    @property
    def signals_of(self) -> Int64s:
        """The signals that each row has got; one may be worth several slacks."""
        return self._rows[:, SIGNALS].copy()

    @property
    def rounds_of(self) -> Int64s:
        """The rounds that each row has begun, the final phase included."""
        return self._rows[:, ROUNDS].copy()

    @property
    def signals(self) -> int:
        """The signals of all rows."""
        return int(self._rows[:, SIGNALS].sum())

    @property
    def rounds(self) -> int:
        """The rounds of all rows."""
        return int(self._rows[:, ROUNDS].sum())

    @property
    def entries(self) -> int:
        """The canonical nodes of all rows."""
        return int(self.trees.node.size)

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return self.trees.nbytes() + total_bytes(
            self._rows, self._nodes, self._owned[2], *self._heaps
        )
