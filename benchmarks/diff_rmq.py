"""DiffRMQ, the rival of bmq-index: search the last and the new value, then subtract the sets.

Two ways over any range index. ``searching twice`` is the paper's: it retrieves the matching sets of
the previous and of the current value. ``remembering`` is stronger: within a batch the set of an
event is the previous set of the next, so that a stream is searched once an event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise

import numpy as np
from ncls import NCLS

from benchmarks.peers import whole_step
from everquery.core.arrays import Array, Floats, Int32s, Int64s, grow
from everquery.core.jit import kernel
from everquery.index.cei import CeiSegment
from everquery.index.rows import Rows
from everquery.index.sort_keys import PLACE_SHIFT, SLOT_SHIFT
from everquery.state.admission_loops import group_rows

ENTER, LEAVE = 0, 1  # the codes of our index, so that what is written can be compared
CHUNK = 1_000  # events whose matching sets are held at once: they stay in the cache


@kernel
def subtract_sets(
    slots: Array,
    ends: Int64s,
    before: Int64s,
    now: Int64s,
    position: Int64s,
    marks: Int64s,
    mark: int,
    crossings: Int64s,
    n: int,
) -> tuple[Int64s, int, int, int]:
    """Write what is in one matching set and not in the other, for each event.

    Parameters
    ----------
    slots, ends : the matching sets, one behind the other
    before, now : which sets belong to the previous and to the current value of each event
    marks, mark : a mark for each slot, and the last one used; sets are compared by marking

    Returns
    -------
    crossings, how many are written, the last mark used, the size of all sets compared
    """
    looked_at = 0
    for i in range(before.size):
        begin_before = ends[before[i] - 1] if before[i] > 0 else 0
        begin_now = ends[now[i] - 1] if now[i] > 0 else 0
        end_before = ends[before[i]]
        end_now = ends[now[i]]
        size = end_before - begin_before + end_now - begin_now
        looked_at += size
        while n + size > crossings.size:
            crossings = grow(crossings)
        mark += 2
        for at in range(begin_before, end_before):
            marks[slots[at]] = mark
        for at in range(begin_now, end_now):
            slot = slots[at]
            if marks[slot] != mark:
                crossings[n] = position[i] << PLACE_SHIFT | np.int64(slot) << SLOT_SHIFT | ENTER
                n += 1
            marks[slot] = mark + 1
        for at in range(begin_before, end_before):
            slot = slots[at]
            if marks[slot] == mark:
                crossings[n] = position[i] << PLACE_SHIFT | np.int64(slot) << SLOT_SHIFT | LEAVE
                n += 1
    return crossings, n, mark, looked_at


class Grouping:
    """Lists the rows of each key, with the kernels of the engine."""

    def __init__(self, streams: int) -> None:
        self._counts: Int32s = np.zeros(streams, np.int32)

    def __call__(self, key: Int32s) -> tuple[Int32s, Int64s, Int64s]:
        """Return the keys, where each one's rows begin, and the rows."""
        group_key = np.empty(key.size + 1, np.int32)
        start = np.empty(key.size + 1, np.int64)
        member = np.empty(key.size, np.int64)
        known, no_values = self._counts.size, np.empty((0, key.size))
        groups, _ = group_rows(key, known, no_values, self._counts, group_key, start, member)
        return group_key[:groups], start[: groups + 1], member


class Stabber(ABC):
    """A range index as DiffRMQ needs it."""

    @abstractmethod
    def sets(self, values: Floats) -> tuple[Array, Int64s]:
        """Return the matching sets one behind the other, and where each ends."""

    @abstractmethod
    def nbytes(self) -> int:
        """Return the bytes of the index."""


class OurStabber(Stabber):
    """Our own range index."""

    def __init__(self, rows: Rows) -> None:
        self._segment = CeiSegment.build(rows)
        self._flags = np.ones(len(rows), np.uint16)
        self._out = np.empty(1 << 16, np.int32)

    def sets(self, values: Floats) -> tuple[Array, Int64s]:
        """Search as the engine does."""
        ends, self._out = self._segment.search(whole_step(values[None], self._flags), self._out, 0)
        return self._out, ends

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return self._segment.nbytes()


class NclsStabber(Stabber):
    """ncls; it knows whole numbers only, and the ends of our queries are whole."""

    def __init__(self, rows: Rows) -> None:
        low, high = rows.low[0].astype(np.int64), rows.high[0].astype(np.int64)
        self._index = NCLS(low, high, rows.slot)
        self._size = len(rows)

    def sets(self, values: Floats) -> tuple[Array, Int64s]:
        """Search by its batch call, which lists the pairs value by value."""
        floor = values.astype(np.int64)
        number = np.arange(values.size)
        which, slots = self._index.all_overlaps_both(floor, floor + 1, number)
        return slots, np.searchsorted(which, number, "right")

    def nbytes(self) -> int:
        """Return the bytes of its structs, without headers of sublists."""
        return 32 * self._size


class DiffRMQ:
    """Border queries by set differences over a range index."""

    def __init__(self, stabber: Stabber, *, queries: int, streams: int, remember: bool) -> None:
        self._stabber = stabber
        self._remember = remember
        self._group = Grouping(streams)
        self._last = np.zeros(streams)
        self._marks = np.zeros(queries, np.int64)
        self._mark = 0
        self.crossings: Int64s = np.empty(1 << 12, np.int64)
        self.looked_at = 0  # the paper's intermediate result

    def first_sight(self, key: Int32s, value: Floats) -> None:
        """Take in where each stream begins."""
        self._last[key] = value

    def process(self, key: Int32s, value: Floats) -> int:
        """Write the crossings of a batch; return how many."""
        group_key, start, member = self._group(key)
        values = value[member]
        place = 2 * member + 1
        n = 0
        for first, last in _chunks(start):
            begin, end = start[first], start[last]
            starts = start[first:last] - begin
            searched, before, now = self._sets_for(
                values[begin:end], starts, self._last[group_key[first:last]]
            )
            slots, ends = self._stabber.sets(searched)
            self.crossings, n, self._mark, looked_at = subtract_sets(
                slots, ends, before, now, place[begin:end], self._marks, self._mark,
                self.crossings, n,
            )  # fmt: skip
            self.looked_at += looked_at
        self._last[group_key] = values[start[1:] - 1]
        return n

    def _sets_for(
        self, values: Floats, starts: Int64s, last: Floats
    ) -> tuple[Floats, Int64s, Int64s]:
        """Return the values to search, and which sets are the previous and current ones."""
        number = np.arange(values.size)
        if self._remember:
            groups = np.zeros(values.size, np.int64)
            groups[starts] = 1
            now = number + np.cumsum(groups)
            return np.insert(values, starts, last), now - 1, now
        previous = np.empty_like(values)
        previous[1:] = values[:-1]
        previous[starts] = last
        return np.concatenate([previous, values]), number, number + values.size

    def nbytes(self) -> int:
        """Return the bytes of the index and of the streams' last values."""
        return self._stabber.nbytes() + int(self._last.nbytes)


def _chunks(start: Int64s) -> list[tuple[int, int]]:
    """Divide groups into runs of about `CHUNK` rows."""
    cuts = np.searchsorted(start, np.arange(CHUNK, start[-1], CHUNK))
    edges = np.unique(np.concatenate([[0], cuts, [start.size - 1]])).tolist()
    return list(pairwise(edges))
