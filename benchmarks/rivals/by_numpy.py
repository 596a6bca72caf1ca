"""NumPy by hand: borders and ranges, as somebody writes them who knows NumPy well."""

from __future__ import annotations

import numpy as np

from benchmarks.rivals.contestant import ENTER, LEAVE, MATCH, Contestant
from benchmarks.rivals.work import Borders, Events, Ranges
from benchmarks.workloads import PRICES
from everquery.core.arrays import Array, Floats, Int64s

Columns = dict[str, Array]
SPAN = 2.0 * PRICES  # between the numbers of two keys, where both are written into one


def expand(begin: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """Return all places of the spans ``begin .. end``, and for each the number of its span."""
    counts = end - begin
    span = np.repeat(np.arange(counts.size), counts)
    skipped = begin - (np.cumsum(counts) - counts)
    return np.arange(span.size) + skipped[span], span


def by_key(key: Int64s) -> Int64s:
    """Return the order that brings the events of a key together, the first one first."""
    return np.argsort(key.astype(np.uint16), kind="stable")  # a radix sort


class Runs:
    """Where the events of each key begin and end, among events in the order of keys."""

    def __init__(self, key: Int64s) -> None:
        changes = np.flatnonzero(key[1:] != key[:-1]) + 1
        self._begins = np.concatenate([[0], changes])
        self._ends = np.concatenate([changes, [key.size]]) - 1
        self._key = key[self._begins]

    def follow(self, last: Array, new: Array) -> Array:
        """Return what stood before each event, and remember in `last` what stands now."""
        before = np.empty_like(new)
        before[1:] = new[:-1]
        before[self._begins] = last[self._key]
        self.remember(last, new)
        return before

    def remember(self, last: Array, new: Array) -> None:
        """Note what stands behind the last event of each key."""
        last[self._key] = new[self._ends]


class LastValues:
    """The last value of each key: what Polars and DuckDB are given with each event."""

    def __init__(self, keys: int) -> None:
        self.value: Floats = np.full(keys, -np.inf)  # below all boxes, and so inside none

    def before(self, events: Events) -> Floats:
        """Return the value that the key of each event had before it, and remember the last."""
        assert events.key is not None
        order = by_key(events.key)
        moved = Runs(events.key[order]).follow(self.value, events.value[order])
        before = np.empty_like(moved)
        before[order] = moved
        return before


class NumpyBorders(Contestant):
    """All ends in one sorted array; an event tells those between its key's last place and its own.

    Key and end are one number, ``key * SPAN + end``. An end whose partner is crossed as well
    belongs to a box that was jumped over, of which nothing is told.
    """

    name = "NumPy"

    def __init__(self, work: Borders) -> None:
        n = work.queries
        end = np.concatenate([work.low, work.high])
        key = np.concatenate([work.key, work.key])
        order = np.lexsort((end, key))
        place = np.empty(2 * n, np.int64)
        place[order] = np.arange(2 * n)
        self._at = key[order] * SPAN + end[order]
        self._end = end[order]
        self._query = order % n
        self._is_low = order < n
        self._partner = np.concatenate([place[n:], place[:n]])[order]
        self._start = np.searchsorted(key[order], np.arange(work.keys))
        self._last = self._start.copy()  # of each key, behind how many ends it stands
        self._queries = n
        self.value: Floats = np.full(work.keys, -np.inf)  # of each key, the last
        self.process(work.first())

    def process(self, prepared: Events) -> Columns:
        """Search where the values stand, and write out the ends in between."""
        assert prepared.key is not None
        key, value, order = prepared.key, prepared.value, None
        if key.size > 1:
            order = by_key(key)
            key, value = key[order], value[order]
        after = self._search(key, value)
        runs = Runs(key)
        before = runs.follow(self._last, after)
        runs.remember(self.value, value)
        moved = np.flatnonzero(before != after)
        low = np.minimum(before, after)[moved]
        high = np.maximum(before, after)[moved]
        crossed, step = expand(low, high)
        partner = self._partner[crossed]
        told = (partner < low[step]) | (partner >= high[step])
        crossed, event = crossed[told], moved[step[told]]
        entered = self._is_low[crossed] == (after[event] > before[event])
        return {
            "query": self._query[crossed],
            "row": event if order is None else order[event],
            "what": np.where(entered, np.int8(ENTER), np.int8(LEAVE)),
        }

    def _search(self, key: Int64s, value: Floats) -> Int64s:
        place = np.searchsorted(self._at, key * SPAN + value, "right")
        while True:  # the sum may have been rounded up onto an end that lies above the value
            over = (place > self._start[key]) & (self._end[place - 1] > value)
            if not over.any():
                return place
            place -= over

    def register(self, key: int, low: float, high: float) -> None:
        """Insert both ends, and move what points behind them."""
        begin, end = np.searchsorted(self._at, [key * SPAN + low, key * SPAN + high])
        where = np.array([begin, end])
        self._partner += (self._partner >= begin).astype(np.int64) + (self._partner >= end)
        self._at = np.insert(self._at, where, [key * SPAN + low, key * SPAN + high])
        self._end = np.insert(self._end, where, [low, high])
        self._query = np.insert(self._query, where, self._queries)
        self._is_low = np.insert(self._is_low, where, [True, False])
        self._partner = np.insert(self._partner, where, [end + 1, begin])
        self._start[key + 1 :] += 2
        self._last[key + 1 :] += 2
        # A key that stands inside should tell it; the contest registers where none does.
        self._last[key] += (low <= self.value[key]) + (high <= self.value[key])
        self._queries += 1


class NumpyLists(Contestant):
    """A list of queries for each stretch between two neighbouring ends: search, and gather."""

    name = "NumPy, lists"

    def __init__(self, work: Ranges) -> None:
        self._ends = np.unique(np.concatenate([work.low, work.high]))
        begin = np.searchsorted(self._ends, work.low) + 1
        end = np.searchsorted(self._ends, work.high) + 1
        stretch, query = expand(begin, end)
        order = np.argsort(stretch, kind="stable")
        self._list = query[order].astype(np.int32)
        sizes = np.bincount(stretch, minlength=self._ends.size + 1)
        self._start = np.concatenate([[0], np.cumsum(sizes)])

    def process(self, prepared: Events) -> Columns:
        """Gather the lists of the stretches that the values fall into."""
        stretch = np.searchsorted(self._ends, prepared.value, "right")
        place, row = expand(self._start[stretch], self._start[stretch + 1])
        what = np.full(row.size, MATCH, np.int8)
        return {"query": self._list[place], "row": row, "what": what}


class NumpySorted(Contestant):
    """Queries by lower ends: those that begin at most the widest width below a value are tried."""

    name = "NumPy, sorted"

    def __init__(self, work: Ranges) -> None:
        self._query = np.argsort(work.low)
        self._low, self._high = work.low[self._query], work.high[self._query]
        self._widest = float((work.high - work.low).max()) * (1 + 1e-9)  # if it was rounded down

    def process(self, prepared: Events) -> Columns:
        """Expand the candidates, and keep those whose upper end is above the value."""
        value = prepared.value
        begin = np.searchsorted(self._low, value - self._widest)
        end = np.searchsorted(self._low, value, "right")
        place, row = expand(begin, end)
        inside = self._high[place] > value[row]
        place, row = place[inside], row[inside]
        what = np.full(row.size, MATCH, np.int8)
        return {"query": self._query[place], "row": row, "what": what}
