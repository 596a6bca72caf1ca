"""NumPy by hand: thresholds by sums between ends, with and without the name of the event."""

from __future__ import annotations

import numpy as np

from benchmarks.rivals.by_numpy import Columns
from benchmarks.rivals.contestant import FIRE, Contestant
from benchmarks.rivals.work import Events, Thresholds
from everquery.core.arrays import Array, Floats, Int64s

FEW = 16  # events: up to here one after the other is faster than sums over all ends


class NumpySums(Contestant):
    """The weight between any two neighbouring ends, summed up: two look-ups a query and batch.

    It tells in which batch a query fires, and not at which event. Queries stand in the order of
    their lower ends, so that few events at a time go to a slice of them.
    """

    name = "NumPy, sums"
    names_events = False

    def __init__(self, work: Thresholds) -> None:
        self._query = np.argsort(work.low)
        self._low, self._high = work.low[self._query], work.high[self._query]
        self.left: Floats = work.total[self._query].astype(np.float64)
        self._widest = float((work.high - work.low).max()) * (1 + 1e-9)
        self._ends = np.unique(np.concatenate([work.low, work.high]))
        self._begin = np.searchsorted(self._ends, self._low)
        self._end = np.searchsorted(self._ends, self._high)

    def process(self, prepared: Events) -> Columns:
        """Write out the queries that the batch makes fire."""
        if len(prepared) <= FEW:
            return self._one_by_one(prepared)
        stretch = np.searchsorted(self._ends, prepared.value, "right")
        weight = np.bincount(stretch, prepared.weight, self._ends.size + 1)
        sums = np.cumsum(weight)
        gained = sums[self._end] - sums[self._begin]
        self.left -= gained
        fired = np.flatnonzero(self.left <= 0)
        row = self._rows(prepared, fired, self.left[fired] + gained[fired])
        self.left[fired] = np.inf
        return self._columns(fired, row)

    def _rows(self, events: Events, fired: Int64s, need: Floats) -> Int64s:
        """Return the row of the event at which each query fires; here the last of the batch."""
        return np.full(fired.size, len(events) - 1)

    def _one_by_one(self, events: Events) -> Columns:
        assert events.weight is not None
        begin = np.searchsorted(self._low, events.value - self._widest)
        end = np.searchsorted(self._low, events.value, "right")
        fired, rows = [], []
        for row, value in enumerate(events.value):
            part = slice(begin[row], end[row])
            left = self.left[part]
            left -= events.weight[row] * (self._high[part] > value)
            found = np.flatnonzero(left <= 0)
            if found.size:
                left[found] = np.inf
                fired.append(found + begin[row])
                rows.append(np.full(found.size, row))
        nothing = np.empty(0, np.int64)
        return self._columns(np.concatenate([nothing, *fired]), np.concatenate([nothing, *rows]))

    def _columns(self, fired: Int64s, row: Int64s) -> Columns:
        return {"query": self._query[fired], "row": row, "what": np.full(row.size, FIRE, np.int8)}

    def weight_left(self) -> Floats:
        """Return what each query still waits for, by its number; infinite once it has fired."""
        left = np.empty_like(self.left)
        left[self._query] = self.left
        return left

    def catch_up(self, other: Contestant) -> None:
        """Take over what the queries still wait for."""
        assert isinstance(other, NumpySums)
        self.left[:] = other.left


class NumpyNamed(NumpySums):
    """The same, and the event is found by halving the batch for all that fire at once."""

    name = "NumPy, named"
    names_events = True

    def _rows(self, events: Events, fired: Int64s, need: Floats) -> Int64s:
        if not fired.size:
            return fired
        assert events.weight is not None
        order = np.argsort(events.value)
        values = events.value[order]
        begin = np.searchsorted(values, self._low[fired])
        end = np.searchsorted(values, self._high[fired])
        return first_to_reach(order, events.weight[order], begin, end, need)


def first_to_reach(row: Int64s, weight: Int64s, begin: Int64s, end: Int64s, need: Floats) -> Int64s:
    """Return for each span of events the first row at which its weight reaches what it needs.

    Events come in the order of their values, a span being a box. They are divided by the bits of
    their rows, the highest first (a wavelet matrix): the weight of the earlier half tells in which
    half the row is.

    Parameters
    ----------
    row, weight : of the events, in the order of values
    begin, end, need : of the spans
    """
    found = np.zeros(begin.size, np.int64)
    for bit in reversed(range(int(row.size - 1).bit_length())):
        early = (row >> bit) & 1 == 0
        places = summed(early)
        weights = summed(np.where(early, weight, 0))
        gained = weights[end] - weights[begin]
        late = gained < need
        need = need - gained * late
        found |= late.astype(np.int64) << bit
        begin = np.where(late, places[-1] + begin - places[begin], places[begin])
        end = np.where(late, places[-1] + end - places[end], places[end])
        divided = np.concatenate([np.flatnonzero(early), np.flatnonzero(~early)])
        row, weight = row[divided], weight[divided]
    return found


def summed(array: Array) -> Int64s:
    """Return the sums of all beginnings, the empty one too."""
    sums = np.zeros(array.size + 1, np.int64)
    np.cumsum(array, out=sums[1:])
    return sums
