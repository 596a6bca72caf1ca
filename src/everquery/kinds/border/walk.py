"""The loops over region-segment lists: a key's walk from where it was to where it is.

All arrays are indexed by side first: ``ends[side, attribute, row]`` are the lower (`PLUS`) and
upper (`MINUS`) ends of the boxes, ``order[side, attribute, entry]`` the rows by those ends within
each lane, ``positions[side, attribute, lane or key]`` how many entries are at or below the last
value. ``regions[FLOOR or CEILING, attribute, lane or key]`` are the ends of the region segment that
follows from these: the last value is inside, and so is every next one that crosses no border. NaN
stands for no limit above; as a floor, that nothing is inside, as long as positions are unknown.
``points[BEFORE]`` and ``points[NOW]`` are where a key was and is. Whole arrays and indices
are passed, never slices: slices in a hot loop count references, which tripled its cost.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Bytes, Floats, Int32s, Int64s, grow
from everquery.core.jit import kernel, part
from everquery.core.prefetch import prefetch_row
from everquery.index.flags import Flags
from everquery.index.sort_keys import PLACE_SHIFT, SLOT_SHIFT

PLUS = 0
MINUS = 1
BEFORE = 0
NOW = 1
FLOOR = 0
CEILING = 1

# What happened: the codes of crossings.
ENTER = 0
LEAVE = 1
EXPIRED = 2

FANOUT_BITS = 4  # rows, and maxima below, that one maximum covers: 16
UNKNOWN = -1  # a position that has to be searched for
KEYS_AHEAD = 8  # keys between fetching places, fetching rows, and the move
NEAR = 16  # entries that are passed one by one
FAR = 64  # entries that a walk may pass in any case


@kernel
def fill_maxima(high: Floats, maxima: Floats, level_start: Int64s) -> None:
    """Write a pyramid of maxima over `high`; NaN (no upper limit) is above everything."""
    for level in range(level_start.size - 1):
        for i in range(level_start[level + 1] - level_start[level]):
            begin = i << FANOUT_BITS
            end = begin + (1 << FANOUT_BITS)
            if level == 0:
                below = high
                end = min(end, high.size)
            else:
                below = maxima
                begin += level_start[level - 1]
                end = min(end + level_start[level - 1], level_start[level])
            largest = below[begin]
            for j in range(begin + 1, end):
                if largest == largest and not below[j] <= largest:
                    largest = below[j]
            maxima[level_start[level] + i] = largest


@part
def end_at(ends: Floats, order: Int32s, side: int, a: int, at: int) -> float:
    """Return the end at a position of a list.

    Indices are unsigned here and in `write_deltas`: for signed ones Numba adds a test for negative
    values to every access.
    """
    value: float = ends[side, a, np.uint64(order[side, a, np.uint64(at)])]
    return value


@part
def count_at_or_below(
    ends: Floats, order: Int32s, side: int, a: int, begin: int, end: int, value: float
) -> int:
    """Return the position behind the last entry of ``begin`` to ``end`` at or below `value`."""
    while begin < end:
        middle = (begin + end) >> 1
        if end_at(ends, order, side, a, middle) <= value:
            begin = middle + 1
        else:
            end = middle
    return begin


@part
def pass_borders(
    ends: Floats, order: Int32s, side: int, a: int, at: int, begin: int, end: int, value: float
) -> int:
    """Walk along a list from `at` to the position behind the last entry at or below `value`.

    Entry by entry at first, then in strides that double: a far position is found in few steps.
    """
    stride = 1
    near = min(at + NEAR, end)
    while at < near and end_at(ends, order, side, a, at) <= value:
        at += 1
    if at == near and at < end:
        while at + stride <= end and end_at(ends, order, side, a, at + stride - 1) <= value:
            at += stride
            stride *= 2
        return count_at_or_below(ends, order, side, a, at, min(at + stride, end), value)
    near = max(at - NEAR, begin)
    while at > near and not end_at(ends, order, side, a, at - 1) <= value:
        at -= 1
    if at == near and at > begin:
        while at - stride >= begin and not end_at(ends, order, side, a, at - stride) <= value:
            at -= stride
            stride *= 2
        return count_at_or_below(ends, order, side, a, max(at - stride, begin), at, value)
    return at


@part
def first_outside(ends: Floats, row: int, points: Floats, which: int) -> int:
    """Return the first attribute on which the box excludes the point; their number if none."""
    attributes: int = points.shape[1]
    for a in range(attributes):
        if not ends[PLUS, a, row] <= points[which, a] or ends[MINUS, a, row] <= points[which, a]:
            return a
    return attributes


@part
def next_containing(
    row: int,
    end: int,
    ends: Floats,
    points: Floats,
    which: int,
    maxima: Floats,
    level_start: Int64s,
) -> int:
    """Return the first row from `row` on that contains the point, or `end`.

    Rows are sorted by the lower end of the first attribute, and `end` is behind the last row whose
    lower end is at or below the point, so only upper ends decide; the pyramid skips whole blocks.
    """
    while row < end:
        skip = 0
        for level in range(level_start.size - 1):
            shift = FANOUT_BITS * (level + 1)
            if row & ((1 << shift) - 1) != 0 or row + (1 << shift) > end:
                break
            if not maxima[level_start[level] + (row >> shift)] <= points[which, 0]:
                break
            skip = 1 << shift
        if skip > 0:
            row += skip
        elif first_outside(ends, row, points, which) == points.shape[1]:
            return row
        else:
            row += 1
    return end


@part
def write_containing(
    points: Floats,
    which: int,
    comparing: bool,
    begin: int,
    end: int,
    place: int,
    code: int,
    ends: Floats,
    order: Int32s,
    slot: Int32s,
    maxima: Floats,
    level_start: Int64s,
    flags: Flags,
    wanted: tuple[int, int],
    crossings: Int64s,
    n: int,
) -> tuple[Int64s, int]:
    """Write a crossing for every row of a lane that contains the point, by a fresh search.

    When `comparing`, rows that contain the other point too are left out. Only slots whose flags
    under the mask ``wanted[0]`` are ``wanted[1]`` count.
    """
    end = count_at_or_below(ends, order, PLUS, 0, begin, end, points[which, 0])
    row = next_containing(begin, end, ends, points, which, maxima, level_start)
    while row < end:
        stays = comparing and first_outside(ends, row, points, 1 - which) == points.shape[1]
        if not stays and flags[slot[row]] & wanted[0] == wanted[1]:
            if n == crossings.size:
                crossings = grow(crossings)
            at = np.int64(place) << PLACE_SHIFT | code
            crossings[n] = at | np.int64(slot[row]) << SLOT_SHIFT
            n += 1
        row = next_containing(row + 1, end, ends, points, which, maxima, level_start)
    return crossings, n


@part
def move_key(
    points: Floats,
    begin: int,
    end: int,
    entry: int,
    anew: bool,
    ends: Floats,
    order: Int32s,
    positions: Int32s,
    regions: Floats,
    moved: Int64s,
) -> int:
    """Move a key's positions to where it is now, and return how many list entries that passes.

    ``moved[BEFORE]`` and ``moved[NOW]`` get the positions by side and attribute. Unknown positions
    are searched; with `anew` the key comes from nowhere, and passes nothing.
    """
    passed = 0
    for a in range(points.shape[1]):
        floor = -np.inf
        ceiling = np.nan
        for side in range(2):
            old = int(positions[side, a, entry])
            if anew:
                old = count_at_or_below(ends, order, side, a, begin, end, points[NOW, a])
            elif old == UNKNOWN:
                old = count_at_or_below(ends, order, side, a, begin, end, points[BEFORE, a])
            new = pass_borders(ends, order, side, a, old, begin, end, points[NOW, a])
            positions[side, a, entry] = new
            moved[BEFORE, side, a] = old
            moved[NOW, side, a] = new
            passed += abs(new - old)
            if new > begin:
                floor = max(floor, end_at(ends, order, side, a, new - 1))
            if new < end:
                border = end_at(ends, order, side, a, new)
                if border < ceiling or ceiling != ceiling:
                    ceiling = border
        regions[FLOOR, a, entry] = floor
        regions[CEILING, a, entry] = ceiling
    return passed


@part
def write_deltas(
    points: Floats,
    moved: Int64s,
    place: int,
    ends: Floats,
    order: Int32s,
    slot: Int32s,
    flags: Flags,
    wanted: tuple[int, int],
    all_live: bool,
    crossings: Int64s,
    n: int,
) -> int:
    """Write what the delta queries between the old and the new positions mean: the cross-check.

    Upwards, a lower end passed may be an enter and an upper end a leave; downwards the other way
    round. It is one if the inner point is inside on every attribute. A query that changes on
    several attributes at once stands in the lists of each; it counts on the first that keeps the
    outer point out. Every delta query is written, and the next one over it if it does not count:
    no branch to mispredict. There is room for all of them and one more.
    """
    d = points.shape[1]
    for a in range(d):
        for side in range(2):
            old = moved[BEFORE, side, a]
            new = moved[NOW, side, a]
            entering = (new > old) == (side == PLUS)
            inner = NOW if entering else BEFORE
            value = points[inner, a]
            code = ENTER if entering else LEAVE
            at = np.int64(place) << PLACE_SHIFT | code
            first = min(old, new)
            last = max(old, new)
            # The usual case first, once for each side: constants make it a quarter faster.
            if d == 1 and all_live and side == PLUS:
                for delta in range(first, last):
                    row = np.uint64(order[PLUS, 0, np.uint64(delta)])
                    crossings[np.uint64(n)] = at | np.int64(slot[row]) << SLOT_SHIFT
                    n += not ends[MINUS, 0, row] <= value
            elif d == 1 and all_live:
                for delta in range(first, last):
                    row = np.uint64(order[MINUS, 0, np.uint64(delta)])
                    crossings[np.uint64(n)] = at | np.int64(slot[row]) << SLOT_SHIFT
                    n += ends[PLUS, 0, row] <= value
            else:
                for delta in range(first, last):
                    row = order[side, a, delta]
                    counts = (ends[1 - side, a, row] <= value) == (side == MINUS)
                    for b in range(d):
                        if b != a:
                            counts &= ends[PLUS, b, row] <= points[inner, b]
                            counts &= not ends[MINUS, b, row] <= points[inner, b]
                        if b < a:
                            counts &= ends[PLUS, b, row] <= points[1 - inner, b]
                            counts &= not ends[MINUS, b, row] <= points[1 - inner, b]
                    if not all_live:
                        counts &= flags[slot[row]] & wanted[0] == wanted[1]
                    crossings[n] = at | np.int64(slot[row]) << SLOT_SHIFT
                    n += counts
    return n


@part
def skip_quiet(
    at: int, end: int, values: Floats, attributes: Int64s, regions: Floats, entry: int, fresh: Bytes
) -> int:
    """Return the first event from `at` on that leaves the region, or before which its key expired.

    The common case of a stream with locality, so it is kept apart and tight.
    """
    first = attributes[0]
    floor = regions[FLOOR, 0, entry]
    ceiling = regions[CEILING, 0, entry]
    while at < end:
        value = values[first, at]
        if not floor <= value or ceiling <= value or fresh[at]:
            return at
        for a in range(1, attributes.size):
            value = values[attributes[a], at]
            if not regions[FLOOR, a, entry] <= value or regions[CEILING, a, entry] <= value:
                return at
        at += 1
    return end


@part
def recall(
    key: int, last: Floats, earlier: tuple[Int32s, Int32s, Floats], attributes: Int64s,
    points: Floats,
) -> bool:  # fmt: skip
    """Write where a key was when it was last seen with all attributes known; tell if it was.

    What is `NAMELESS`, so negative, is 0: see `Grouped`.
    """
    first, older, values = earlier
    entry = -1
    while True:
        known = True
        for a in range(attributes.size):
            value = 0.0
            if attributes[a] >= 0:
                value = last[attributes[a], key] if entry < 0 else values[attributes[a], entry]
            points[BEFORE, a] = value
            known &= value == value
        if known:
            return True
        if entry >= 0:
            entry = older[entry]
        elif key < first.size:
            entry = first[key]
        if entry < 0:
            return False


@part
def find_lanes(group_key: Int32s, lane_key: Int32s, lanes: Int64s) -> None:
    """Write the lane of each key, -1 where it has none; both are ascending.

    Where all keys up to this one have a lane, its number is the key's. Else it is searched from
    the lane of the key before, in strides that double.
    """
    lane = 0
    for group in range(group_key.size):
        key = group_key[group]
        if lane_key[0] < 0:
            lanes[group] = 0  # a segment without keys has one
            continue
        if key < lane_key.size and lane_key[key] == key:
            lanes[group] = lane = key
            continue
        stride = 1
        while lane + stride < lane_key.size and lane_key[lane + stride] <= key:
            lane += stride
            stride *= 2
        while stride > 1:
            stride >>= 1
            if lane + stride < lane_key.size and lane_key[lane + stride] <= key:
                lane += stride
        lanes[group] = lane if lane_key[lane] == key else -1


@part
def fetch(entry: int, n: int, ends: Floats, order: Int32s, positions: Int32s, rows: bool) -> None:
    """Fetch what a key's next move looks at: its places in the lists, or the rows named there.

    The first has to be done some keys before the second, which reads the places.

    Parameters
    ----------
    n : how long each list is
    ends, order : in one dimension
    """
    begin = 0
    for side in range(2):
        for a in range(positions.shape[1]):
            known = positions[side, a, entry]
            if known != UNKNOWN:
                at = begin + min(known, n - 1)
                if not rows:
                    prefetch_row(order, at)
                else:
                    prefetch_row(ends, begin + order[at])
                    prefetch_row(ends, begin + order[max(at - 1, begin)])
            begin += n


@kernel
def walk_borders(
    events: tuple[Int32s, Int64s, Int64s, Floats],
    fresh: Bytes,
    seen: Bytes,
    last: Floats,
    earlier: tuple[Int32s, Int32s, Floats],
    attributes: Int64s,
    lane_key: Int32s,
    lane_start: Int64s,
    ends: Floats,
    order: Int32s,
    slot: Int32s,
    maxima: Floats,
    level_start: Int64s,
    positions: Int32s,
    regions: Floats,
    flags: Flags,
    wanted: tuple[int, int],
    all_live: bool,
    crossings: Int64s,
    n: int,
) -> tuple[Int64s, int, int]:
    """Walk every key from its last position to each new value, and write the borders crossed.

    Cost: a comparison an event and attribute, and for an event that crosses nothing no more than
    that: lists are fetched only for keys that leave their region. A delta query for each list entry
    passed. A key's first event, and a jump over more entries than the boxes around both of its
    ends, is a search through the pyramid of maxima instead: wild streams cost what they would with
    a range index.
    An event with a NaN among the attributes is passed over, but its key may have expired before it.

    Parameters
    ----------
    events : group keys, group starts, positions in the batch, values by attribute
    fresh : 1 for an event before which its key expired, so that it is a first sight
    seen, last : which keys were in sight before the batch, and their last values by attribute
    earlier : the fields of `Earlier`, for keys whose last values are not all known
    lane_key, lane_start : the keys of the lanes (-1 alone for a segment without keys), first rows
    maxima, level_start : the pyramid over the first attribute's upper ends, where its levels begin
    wanted, all_live : only slots whose flags under the mask ``wanted[0]`` are ``wanted[1]`` count;
        all of them do if `all_live`
    crossings, n : where position, slot and what happened go (see `PLACE_SHIFT`), and how many stand
        there (an argument, because Numba would compile the callee anew for a literal); larger
        copies are returned where they are too small

    Returns
    -------
    crossings, how many of them are written, how many delta queries were visited
    """
    group_key, group_start, place, values = events
    keyed = lane_key[0] >= 0
    d = attributes.size
    points = np.empty((2, d), np.float64)
    moved = np.empty((2, 2, d), np.int64)
    visited = 0
    lanes = np.empty(group_key.size, np.int64)
    find_lanes(group_key, lane_key, lanes)
    flat_ends, flat_order = ends.reshape(-1), order.reshape(-1)
    for group in range(group_key.size):
        for rows in range(2):
            soon = group + (1 + (1 - rows)) * KEYS_AHEAD
            if soon < group_key.size and lanes[soon] >= 0:
                entry = lanes[soon] if keyed else group_key[soon]
                first = group_start[soon]
                if skip_quiet(first, first + 1, values, attributes, regions, entry, fresh) == first:
                    fetch(entry, order.shape[2], flat_ends, flat_order, positions, rows == 1)
        key = group_key[group]
        lane = lanes[group]
        if lane < 0:
            continue
        begin = lane_start[lane]
        end = lane_start[lane + 1]
        entry = lane if keyed else key
        known = seen[key] != 0 and recall(key, last, earlier, attributes, points)
        at = group_start[group] - 1
        stop = group_start[group + 1]
        while at + 1 < stop:
            quiet = at + 1
            at = quiet
            if known:  # else nothing is inside: the event goes the long way
                at = skip_quiet(quiet, stop, values, attributes, regions, entry, fresh)
            if at == stop:
                break
            unknown = False
            for a in range(d):
                if at > quiet:
                    points[BEFORE, a] = values[attributes[a], at - 1]
                points[NOW, a] = values[attributes[a], at]
                unknown |= points[NOW, a] != points[NOW, a]
            if unknown and not (known and fresh[at]):
                continue
            first_sight = not known or fresh[at] != 0
            passed = 0
            around = 0
            if not unknown:
                passed = move_key(
                    points, begin, end, entry, first_sight, ends, order, positions, regions, moved
                )
                around = (
                    moved[BEFORE, PLUS, 0] - moved[BEFORE, MINUS, 0]
                    + moved[NOW, PLUS, 0] - moved[NOW, MINUS, 0]
                )  # fmt: skip
            if first_sight or passed > FAR + 2 * around:
                # What the key was in (and, if it expired, is told to have left before this event),
                # then what it is in. One call in a loop: each call compiles for half a second.
                for turn in range(0 if known else 1, 1 if unknown else 2):
                    expired = 1 if turn == 0 and fresh[at] else 0
                    crossings, n = write_containing(
                        points, turn, not first_sight, begin, end, place[at] - expired,
                        ENTER if turn == 1 else LEAVE + expired,
                        ends, order, slot, maxima, level_start, flags, wanted,
                        crossings, n,
                    )  # fmt: skip
                visited += around
            else:
                visited += passed
                while n + passed >= crossings.size:
                    crossings = grow(crossings)
                n = write_deltas(
                    points, moved, place[at], ends, order, slot, flags, wanted, all_live,
                    crossings, n,
                )  # fmt: skip
            known = not unknown
            for a in range(d):
                points[BEFORE, a] = points[NOW, a]
    return crossings, n, visited


@kernel
def find_near(
    seen: Bytes,
    last: Floats,
    attributes: Int64s,
    lane_key: Int32s,
    lane_start: Int64s,
    ends: Floats,
    out: Int32s,
) -> int:
    """Write the keys in sight that may be inside a box of their lane; return how many.

    By their last values alone: what is unknown may be anything.
    """
    n = 0
    for lane in range(lane_key.size):
        key = lane_key[lane]
        row = lane_start[lane] if seen[key] else lane_start[lane + 1]
        while row < lane_start[lane + 1]:
            outside = False
            for a in range(attributes.size):
                if attributes[a] >= 0:
                    value = last[attributes[a], key]
                    outside |= value < ends[PLUS, a, row] or ends[MINUS, a, row] <= value
            if not outside:
                out[n] = key
                n += 1
                break
            row += 1
    return n


@kernel
def write_inside(
    keys: Int32s,
    values: Floats,
    attributes: Int64s,
    lane_key: Int32s,
    lane_start: Int64s,
    ends: Floats,
    order: Int32s,
    slot: Int32s,
    maxima: Floats,
    level_start: Int64s,
    flags: Flags,
    wanted: tuple[int, int],
    crossings: Int64s,
    n: int,
) -> tuple[Int64s, int]:
    """Write a crossing at its place for every box that a key is inside of now.

    Parameters
    ----------
    keys : ascending
    values : by attribute of the boxes; ``values[:, place]`` is where key number `place` of them is,
        and a NaN is inside of nothing
    wanted : only slots whose flags under the mask ``wanted[0]`` are ``wanted[1]`` count
    """
    keyed = lane_key[0] >= 0
    points = np.empty((2, attributes.size), np.float64)
    lane = 0
    for place in range(keys.size):
        if keyed:
            while lane < lane_key.size and lane_key[lane] < keys[place]:
                lane += 1
            if lane == lane_key.size:
                break
            if lane_key[lane] != keys[place]:
                continue
        for a in range(attributes.size):
            points[NOW, a] = values[a, place]
        crossings, n = write_containing(
            points, NOW, False, lane_start[lane], lane_start[lane + 1], place, ENTER,
            ends, order, slot, maxima, level_start, flags, wanted, crossings, n,
        )  # fmt: skip
    return crossings, n
