"""Which rows satisfy which queries: references to rows, in their order.

Matches come in bulk, for all queries at once. They wait in a tail; a full tail becomes a *run*,
sorted by query. Runs are of rows that follow each other, so the rows of a query are those of each
run, one behind the other. A query that is read has its rows in a list of its own from then on
(`Held`), and trees over what it aggregates; others cost nothing but their matches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s, total_bytes
from everquery.core.jit import kernel
from everquery.kinds.select.ranked import RankedTree

FULL = 1 << 18  # matches of the tail that are worth a run
MOST_HELD = 4_096  # queries with a list of their own


@dataclass(slots=True)
class Run:
    """Matches of rows that follow each other, by query and then by row."""

    slot: Int32s
    row: Int64s

    def rows_of(self, slot: int) -> Int64s:
        """Return the rows of a query."""
        begin, end = np.searchsorted(self.slot, [slot, slot + 1])
        return self.row[begin:end]


@kernel
def place_by_slot(
    slot: Int32s, row: Int64s, start: Int64s, to_slot: Int32s, to_row: Int64s
) -> None:
    """Put matches in order of their queries; those of a query stay in their order.

    Cost: two passes, a tenth of what sorting takes.

    Parameters
    ----------
    start : int64, zeros, for each query and one more
    """
    for i in range(slot.size):
        start[slot[i] + 1] += 1
    for each in range(1, start.size):
        start[each] += start[each - 1]
    for i in range(slot.size):
        place = start[slot[i]]
        to_slot[place] = slot[i]
        to_row[place] = row[i]
        start[slot[i]] = place + 1


def run_of(slot: Int32s, row: Int64s) -> Run:
    """Return matches by query and then by row; those of each query are in order of rows already."""
    run = Run(np.empty_like(slot), np.empty_like(row))
    start = np.zeros(int(slot.max()) + 2, np.int64)
    place_by_slot(slot, row, start, run.slot, run.row)
    return run


@dataclass(slots=True)
class Held:
    """The rows of one query, and trees over what it aggregates.

    Attributes
    ----------
    rows : int64
        Room for rows; `size` of them are there, of which the first `gone` are kept no more.
    upto : int
        All rows with smaller numbers have been looked at.
    trees : dict from a column's name to RankedTree
    """

    rows: Int64s = field(default_factory=lambda: np.empty(16, np.int64))
    size: int = 0
    gone: int = 0
    upto: int = 0
    trees: dict[str, RankedTree] = field(default_factory=dict)

    def extend(self, rows: Int64s) -> None:
        """Add rows behind the others."""
        needed = self.size + rows.size
        if needed > self.rows.size:
            larger = np.empty(2 * needed, np.int64)
            larger[: self.size] = self.rows[: self.size]
            self.rows = larger
        self.rows[self.size : needed] = rows
        self.size = needed

    def tree(self, name: str, values_of: Callable[[Int64s], Floats]) -> RankedTree:
        """Return the tree over a column, with all rows in it."""
        if name not in self.trees:
            self.trees[name] = RankedTree()
        tree = self.trees[name]
        if tree.size < self.size:
            start = max(tree.size, self.gone)
            skipped = np.full(start - tree.size, np.nan)  # rows that are kept no more
            tree.extend(np.concatenate([skipped, values_of(self.rows[start : self.size])]))
        return tree

    def between(self, begin: int, end: int) -> tuple[int, int]:
        """Return where the rows from one number to before another are."""
        rows = self.rows[: self.size]
        return int(np.searchsorted(rows, begin)), int(np.searchsorted(rows, end))

    def forget(self, before: int) -> None:
        """Forget rows with smaller numbers; memory is given back when half of it is of no use."""
        self.gone = int(np.searchsorted(self.rows[: self.size], before))
        if self.gone > 1_024 and 2 * self.gone > self.size:
            self.rows = self.rows[self.gone : self.size].copy()
            self.size, self.gone = self.rows.size, 0
            self.trees.clear()

    def nbytes(self) -> int:
        """Return the bytes of the list and its trees."""
        return int(self.rows.nbytes + sum(tree.nbytes() for tree in self.trees.values()))


class Results:
    """The matches of all queries."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._tail: list[tuple[Int32s, Int64s]] = []
        self._waiting = 0
        self._held: OrderedDict[int, Held] = OrderedDict()

    def add(self, slot: Int32s, row: Int64s) -> None:
        """Add the matches of a step, whose rows come behind all others."""
        if slot.size:
            self._tail.append((slot, row))
            self._waiting += slot.size
            if self._waiting >= FULL:
                self._settle()

    def _settle(self) -> None:
        """Make a run of the tail, and one of runs that are not much larger."""
        if not self._tail:
            return
        slots, rows = zip(*self._tail, strict=True)
        self._tail, self._waiting = [], 0
        slot, row = np.concatenate(slots), np.concatenate(rows)
        order = np.argsort(row, kind="stable")  # a step's rows are by key, and by shape of box
        self._runs.append(run_of(slot[order], row[order]))
        while len(self._runs) > 1 and self._runs[-2].slot.size < 2 * self._runs[-1].slot.size:
            last, before = self._runs.pop(), self._runs.pop()
            slot = np.concatenate([before.slot, last.slot])
            self._runs.append(run_of(slot, np.concatenate([before.row, last.row])))

    def held(self, slot: int) -> Held:
        """Return the list of a query; an empty one if it was not read before."""
        if slot in self._held:
            self._held.move_to_end(slot)
            return self._held[slot]
        if len(self._held) >= MOST_HELD:
            self._held.popitem(last=False)
        self._held[slot] = Held()
        return self._held[slot]

    def catch_up(self, slot: int, held: Held, end: int) -> None:
        """Add the matches of a query since its list was last looked at."""
        self._settle()
        for run in self._runs:
            if run.row.size:
                rows = run.rows_of(slot)
                held.extend(rows[np.searchsorted(rows, held.upto) :])
        held.upto = end

    def forget_rows(self, before: int) -> None:
        """Forget rows with smaller numbers."""
        kept = []
        for run in self._runs:
            gone = int(np.count_nonzero(run.row < before))
            if 2 * gone >= run.row.size:
                picked = run.row >= before
                run = Run(run.slot[picked], run.row[picked])
            if run.row.size:
                kept.append(run)
        self._runs = kept
        for held in self._held.values():
            held.forget(before)

    def forget(self, slots: Int32s) -> None:
        """Forget queries that have ended."""
        if self._held:
            for slot in np.intersect1d(slots, list(self._held)).tolist():
                del self._held[slot]

    def forget_held(self) -> None:
        """Make up the lists of all queries anew when they are read."""
        self._held.clear()

    def clear(self) -> None:
        """Forget all."""
        self.__init__()  # type: ignore[misc]

    def nbytes(self) -> int:
        """Return the bytes of all structures."""
        waiting = sum(total_bytes(*pair) for pair in self._tail)
        runs = sum(total_bytes(run.slot, run.row) for run in self._runs)
        return waiting + runs + sum(held.nbytes() for held in self._held.values())
