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
distinct values the last event of each; of vectors every event.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from everquery.core.arrays import Array, Floats, Int32s, Int64s
from everquery.core.jit import kernel, part
from everquery.kinds.window.buckets import add_up, set_base
from everquery.kinds.window.double_double import added, multiplied, two_product, two_sum
from everquery.kinds.window.families import (
    COUNT_BUCKETS,
    LARGEST,
    MAXIMA,
    MEASURES,
    MINIMA,
    RESTS,
    SQUARES,
    SUM_BUCKETS,
    SUMS,
    VALUES,
    VECTORS,
)
from everquery.state.pairs import FREE, SLOT_MASK

LEAST_ROOM = 4
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


@part
def before(total: Floats, base: Floats, lane: int, start: int, entry: int, measure: int) -> float:
    """Return a total up to before an entry of a lane."""
    if entry == 0:
        return float(base[lane, measure])
    return float(total[start + entry - 1, measure])


@part
def difference(
    total: Floats, rest: Floats, base: Floats, base_rest: Floats, lane: int, start: int, first: int,
    end: int, measure: int,
) -> tuple[float, float]:  # fmt: skip
    """Return a total, not the first, of the entries of a lane from `first` to before `end`."""
    newest = start + end - 1
    low = base_rest[lane, measure - 1] if first == 0 else rest[start + first - 1, measure - 1]
    return added(
        total[newest, measure],
        rest[newest, measure - 1],
        -before(total, base, lane, start, first, measure),
        -low,
    )


@part
def sum_of(
    total: Floats, rest: Floats, base: Floats, base_rest: Floats, lane: int, start: int, first: int,
    end: int, measure: int,
) -> float:  # fmt: skip
    """Return the same, rounded; 0 of none. Buckets are compared by it: it is quick."""
    if first >= end:
        return 0.0
    newest = start + end - 1
    whole = total[newest, measure] - before(total, base, lane, start, first, measure)
    low = base_rest[lane, measure - 1] if first == 0 else rest[start + first - 1, measure - 1]
    return float(whole + (rest[newest, measure - 1] - low))


@part
def spread_of(
    total: Floats, rest: Floats, base: Floats, base_rest: Floats, lane: int, start: int, first: int,
    end: int,
) -> float:  # fmt: skip
    """Return the sum of squared distances from the mean of the entries of a lane; 0 of none."""
    if first >= end:
        return 0.0
    n = total[start + end - 1, 0] - before(total, base, lane, start, first, 0)
    one, one_low = difference(total, rest, base, base_rest, lane, start, first, end, 1)
    two, two_low = difference(total, rest, base, base_rest, lane, start, first, end, 2)
    square, square_low = multiplied(one, one_low, one, one_low)
    most, most_low = multiplied(two, two_low, n, 0.0)
    over, over_low = added(most, most_low, -square, -square_low)
    return float(max((over + over_low) / n, 0.0))


@part
def move_entry(pools: Pools, source: int, target: int) -> None:
    """Copy an entry to another place."""
    pools.mark[target] = pools.mark[source]
    for measure in range(pools.total.shape[1]):
        pools.total[target, measure] = pools.total[source, measure]
    for measure in range(pools.rest.shape[1]):
        pools.rest[target, measure] = pools.rest[source, measure]


@part
def forget_first(family: int, pools: Pools, lanes: Lanes, lane: int, gone: int) -> None:
    """Give up the first entries of a lane; the base is then what is before, or in, the others."""
    start = lanes.start[lane]
    if family >= COUNT_BUCKETS:
        n, one, two = add_up(pools.total, start + gone, start + lanes.used[lane])
        set_base(pools.base, lane, n, one, two)
    elif family <= SQUARES:
        for measure in range(pools.total.shape[1]):
            pools.base[lane, measure] = pools.total[start + gone - 1, measure]
        for measure in range(pools.rest.shape[1]):
            pools.base_rest[lane, measure] = pools.rest[start + gone - 1, measure]
    for i in range(gone, lanes.used[lane]):
        move_entry(pools, start + i, start + i - gone)
    lanes.used[lane] -= gone


@part
def forget_left(
    family: int,
    longest: Any,  # noqa: ANN401 - a number of either type
    now: Any,  # noqa: ANN401
    least: int,
    pools: Pools,
    lanes: Lanes,
    lane: int,
) -> None:
    """Give up the entries that even the longest window has left, if they are that many."""
    gone = first_inside(pools.mark, lanes.start[lane], lanes.used[lane], longest, now)
    if gone > 0 and gone >= least:
        forget_first(family, pools, lanes, lane, gone)


@part
def thin(error: float, pools: Pools, lane: int, start: int, used: int) -> int:
    """Make the buckets of approximate squares as large as the error allows, newest first.

    What a window may hold of a bucket or not is at most twice the error of all that is newer. Its
    newest event is in every window that reaches into it, so that one less is uncertain. Returns how
    many are left. Cost: a few comparisons an entry.
    """
    total, rest, base, base_rest = pools.total, pools.rest, pools.base, pools.base_rest
    double = 2 * error
    last = used - 1
    kept = used  # what has been kept stands from here on
    while last >= 0:
        n = total[start + last, 0]
        most = double * (total[start + used - 1, 0] - n + 1) + 1
        spread = spread_of(total, rest, base, base_rest, lane, start, last + 1, used)
        first = last
        while first > 0 and n - before(total, base, lane, start, first - 1, 0) <= most:
            wider = spread_of(total, rest, base, base_rest, lane, start, first - 1, used)
            if wider > (1 + double) * spread:
                break
            first -= 1
        kept -= 1
        if kept > last:
            # Entries from `last` on have been looked at, so their places are free.
            move_entry(pools, start + last, start + kept)
        last = first - 1
    if kept > 0:
        for i in range(kept, used):
            move_entry(pools, start + i, start + i - kept)
    return used - kept


@part
def append_totals(
    family: int, total: Floats, rest: Floats, base: Floats, base_rest: Floats, shift: float,
    lane: int, at: int, used: int, value: float,
) -> None:  # fmt: skip
    """Write the totals up to an event into a lane's next entry."""
    total[at, 0] = (base[lane, 0] if used == 0 else total[at - 1, 0]) + 1.0
    for measure in range(1, total.shape[1]):
        more_rest = 0.0
        if family == SUMS:
            more = max(value, 0.0) if measure == 1 else max(-value, 0.0)
        else:
            more, more_rest = two_sum(value, -shift)
            if measure == 2:
                crossed = 2 * more * more_rest
                more, more_rest = two_product(more, more)
                more_rest += crossed
        so_far = base[lane, measure] if used == 0 else total[at - 1, measure]
        low = base_rest[lane, measure - 1] if used == 0 else rest[at - 1, measure - 1]
        total[at, measure], rest[at, measure - 1] = added(so_far, low, more, more_rest)


@part
def append_value(
    family: int, mark: Array, total: Floats, start: int, used: int, value: float, by: float
) -> int:
    """Make place for an event's value behind a lane's entries, and write it; return the place.

    Entries that it makes needless go: of minima and maxima those that it beats, of distinct values
    the earlier event with the same.
    """
    if family == MINIMA:
        while used > 0 and total[start + used - 1, 0] >= value:
            used -= 1
    elif family == MAXIMA:
        while used > 0 and total[start + used - 1, 0] <= value:
            used -= 1
    elif family == VALUES:
        old = used - 1
        while old >= 0 and total[start + old, 0] != value:
            old -= 1
        if old >= 0:
            for i in range(old + 1, used):
                mark[start + i - 1] = mark[start + i]
                total[start + i - 1, 0] = total[start + i, 0]
            used -= 1
    total[start + used, 0] = value
    if family == VECTORS:
        total[start + used, 1] = by
    return used


@part
def is_taken(family: int, value: float, by: float) -> bool:
    """Tell whether a lane takes an event with such a value in."""
    if value != value or by != by:
        return False
    if SUMS <= family <= SQUARES or family in (VECTORS, SUM_BUCKETS):
        return abs(value) <= LARGEST
    return True


def rooms_for(used: Int64s, limit: Int64s, layout: int) -> Int64s:
    """Return how many entries lanes get room for, by how many they have and are thinned at.

    How many are left after that varies, and less so where only events are counted.
    """
    limit = np.minimum(limit, 2 * used + LEAST_ROOM)  # it may have been set with more entries
    thinned = limit + (limit >> (4 if layout == COUNT_BUCKETS else 3))
    rooms: Int64s = np.where(limit > used, thinned, used + np.maximum(LEAST_ROOM, used >> 2))
    rooms[used == 0] = 0
    return rooms


@part
def more_room(pools: Pools, lanes: Lanes, lane: int, counts: Int64s) -> bool:
    """Give a lane that is full more room; False if the pools are full, and nothing has changed."""
    room = lanes.room[lane]
    room = max(room, min(lanes.limit[lane], 2 * room + LEAST_ROOM))
    # What is thinned will hardly need more than that.
    room += max(LEAST_ROOM, room >> (4 if lanes.limit[lane] > lanes.used[lane] else 1))
    if counts[PLACES] + room > counts[PLACES_END]:
        return False
    start = counts[PLACES]
    for i in range(lanes.used[lane]):
        move_entry(pools, lanes.start[lane] + i, start + i)
    lanes.start[lane] = start
    lanes.room[lane] = room
    counts[PLACES] += room
    return True


@part
def move_entries(old: Pools, new: Pools, source: int, target: int, n: int) -> None:
    """Copy entries to other pools, or to other places of the same ones, in the right order."""
    measures, rests = old.total.shape[1], old.rest.shape[1]
    # All in one row: that is copied several numbers at a time.
    move(old.mark, new.mark, source, target, n)
    move(
        old.total.reshape(-1), new.total.reshape(-1), source * measures, target * measures,
        n * measures,
    )  # fmt: skip
    if rests > 0:
        move(old.rest.reshape(-1), new.rest.reshape(-1), source * rests, target * rests, n * rests)


@part
def move(old: Array, new: Array, source: int, target: int, n: int) -> None:
    """Copy numbers; if they overlap, those that would be written over come first."""
    if target <= source:
        for i in range(n):
            new[target + i] = old[source + i]
    else:
        for i in range(n - 1, -1, -1):
            new[target + i] = old[source + i]


@kernel
def repack(order: Int64s, rooms: Int64s, lanes: Lanes, old: Pools, new: Pools) -> int:
    """Give lanes other places in the same pools, or in larger ones, one behind the other.

    Those that move to the left are moved from the first to the last, those that move to the right
    from the last to the first: so none is written over. Returns how many places they take.

    Parameters
    ----------
    order : all lanes that have entries, in order of where these begin
    rooms : the room that each lane gets
    """
    place = 0
    for i in range(order.size):
        lane = order[i]
        if place <= lanes.start[lane]:
            move_entries(old, new, lanes.start[lane], place, lanes.used[lane])
        place += rooms[lane]
    end = place
    for i in range(order.size - 1, -1, -1):
        lane = order[i]
        place -= rooms[lane]
        if place > lanes.start[lane]:
            move_entries(old, new, lanes.start[lane], place, lanes.used[lane])
        lanes.start[lane] = place
        lanes.room[lane] = rooms[lane]
    return end


@kernel
def outgrow(family: int, picked: Int64s, longest: Array, lanes: Lanes, pools: Pools) -> None:
    """Prepare lanes for longer windows: they forget what the longest so far has left behind.

    So what a longer window is filled with does not depend on when entries are given up.
    """
    for i in range(picked.size):
        lane = picked[i]
        forget_left(family, longest[0], lanes.seen[lane], 1, pools, lanes, lane)
        if has_left(lanes.begun[lane], longest[0], lanes.seen[lane]):
            lanes.begun[lane] = lanes.seen[lane] - longest[0]
        lanes.dirty[lane] = 1


@kernel
def set_back_marks(
    family: int, time: Array, longest: Array, n: int, lanes: Lanes, pools: Pools
) -> None:
    """Let nothing be later than a time; what the longest window of a group has left stays away."""
    for lane in range(n):
        group = int(lanes.pair[lane] & SLOT_MASK)
        forget_left(family, longest[group], lanes.seen[lane], 1, pools, lanes, lane)
        lanes.seen[lane] = min(lanes.seen[lane], time[0])
        lanes.begun[lane] = min(lanes.begun[lane], time[0])
        lanes.soonest[lane] = min(lanes.soonest[lane], time[0])
        lanes.dirty[lane] = 1
        for i in range(lanes.used[lane]):
            place = lanes.start[lane] + i
            pools.mark[place] = min(pools.mark[place], time[0])


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
