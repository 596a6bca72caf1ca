"""What windows keep of their events: for each lane a list of entries, newest last.

A lane is the events in one box, of one key or of all. Each entry has the mark of an event (its row
number or its time) and, of counts and sums, the totals of the lane up to it. A window's sum is then
the difference of two entries, whatever the window's extent: queries with different windows share a
lane.

An exact lane has an entry for each event. An approximate one leaves entries out, as an exponential
histogram merges buckets: what lies between two entries is a bucket, of which only the totals are
known. A bucket may be as large as the error allows, measured by all that is newer. That only grows,
so the error holds for ever, and for every window (paper: sliding-window-statistics, sections 2, 4
and 5; totals of real numbers satisfy its properties P1 to P4 with C = 1).

Of minima and maxima a lane has the list of values that may still become the least or largest; of
distinct values the last event of each, or of as many as its error needs; of vectors every event, or
a sample of them, or sketches (`samples.py`, `sketches.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from everquery.core.arrays import Array, Floats, Int32s, Int64s
from everquery.core.jit import kernel, part
from everquery.kinds.window.families import MEASURES, RESTS, SUM_BUCKETS
from everquery.state.pairs import FREE

SPARE = 8  # entries that an approximate lane takes in before it is thinned, at least

# Places in `counts`: how many lanes and places there are, and how many places there may be.
LANES, PLACES, PLACES_END = range(3)


class Lanes(NamedTuple):
    """All lanes of a store.

    Attributes
    ----------
    pair : int64
        ``key + 1 << 32 | group``; without the key where all keys share a lane.
    start, room, used : int64
        Where its entries are in the pools, how many there is room for, and how many there are.
    limit : int64
        With how many entries an approximate lane is thinned; 0 before the first event in the box.
    key : int64
        The key whose events it is about, or -1 for those of all.
    seen : like marks
        The mark of the last event of its key, or of all, inside the box or not.
    begun : like marks
        From where on the lane knows of every event.
    soonest : like marks
        When a window of the lane may next change as time passes; not told yet.
    shift : float64
        What squares count from.
    dirty : int64
        1 where something changed since it was last saved.
    """

    pair: Int64s
    start: Int64s
    room: Int64s
    used: Int64s
    limit: Int64s
    key: Int64s
    seen: Array
    begun: Array
    soonest: Array
    shift: Floats
    dirty: Int64s

    @classmethod
    def of(cls, size: int, dtype: Any) -> Lanes:  # noqa: ANN401 - a NumPy type
        """Return room for so many lanes."""
        pair, start, room, used, limit, key, dirty = np.zeros((7, size), np.int64)
        seen, begun, soonest = np.zeros((3, size), dtype)
        shift = np.zeros(size)
        return cls(pair, start, room, used, limit, key, seen, begun, soonest, shift, dirty)


class Pools(NamedTuple):
    """The entries of all lanes.

    Attributes
    ----------
    mark : int64 or float64, shape (places,)
    total : float64, shape (places, measures)
    rest : float64, shape (places, rests)
        What the totals but the first, which counts, round off: a value that is gone may have been
        larger than all others by far.
    base, base_rest : float64, shape (lanes, measures) and (lanes, rests)
        The totals before a lane's first entry.
    """

    mark: Array
    total: Floats
    rest: Floats
    base: Floats
    base_rest: Floats

    @classmethod
    def of(cls, layout: int, dtype: Any) -> Pools:  # noqa: ANN401 - a NumPy type
        """Return pools without entries or lanes."""
        measures, rests = MEASURES[layout], RESTS[layout]
        if layout == SUM_BUCKETS:
            measures -= 1  # until a value below 0 comes
        return cls.like(0, 0, measures, rests, dtype)

    @classmethod
    def like(
        cls,
        places: int,
        lanes: int,
        measures: int,
        rests: int,
        dtype: Any,  # noqa: ANN401 - a NumPy type
    ) -> Pools:
        """Return room for so many entries and lanes."""
        return cls(
            np.zeros(places, dtype),
            np.zeros((places, measures)),
            np.zeros((places, rests)),
            np.zeros((lanes, measures)),
            np.zeros((lanes, rests)),
        )


@part
def has_left(mark: Any, window: Any, now: Any) -> bool:  # noqa: ANN401 - numbers of either type
    """Tell whether an event is no longer in a window; `now` is not before it."""
    end = mark + window
    return bool(mark <= end <= now or now < mark)  # an end, or an age, beyond 64 bits


@part
def first_inside(mark: Array, start: int, end: int, window: Any, now: Any) -> int:  # noqa: ANN401
    """Return the first of a lane's entries, before `end`, that a window has not left behind."""
    begin = 0
    while begin < end:
        middle = (begin + end) >> 1
        if has_left(mark[start + middle], window, now):
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def link_lanes(begin: int, end: int, keys: Int64s, heads: Int32s, following: Int32s) -> None:
    """Put new lanes into the lists of lanes of their keys."""
    for lane in range(begin, end):
        following[lane] = heads[keys[lane] + 1]
        heads[keys[lane] + 1] = lane


@kernel
def lanes_of(keys: Int32s, heads: Int32s, following: Int32s, lane: Int64s, place: Int64s) -> int:
    """Write the lanes of keys, and the place of the key of each; return how many there are.

    There may be more than there is room for: then no more is written.
    """
    n = 0
    for i in range(keys.size):
        at = heads[keys[i] + 1] if keys[i] + 1 < heads.size else FREE
        while at != FREE:
            if n < lane.size:
                lane[n] = at
                place[n] = i
            n += 1
            at = following[at]
    return n
