"""Which boxes contain a point: a search, where a walk from the last position would cost more.

The rows of a lane are sorted by the lower end of their first attribute. A pyramid of maxima over
the upper ends lets a search skip whole blocks of boxes that end before the point. Arrays are laid
out as in ``border_lists``.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Bytes, Floats, Int32s, Int64s, grow
from everquery.core.jit import kernel, part
from everquery.index.flags import Flags
from everquery.index.sort_keys import PLACE_SHIFT, SLOT_SHIFT
from everquery.kinds.border.border_lists import ENTER, MINUS, NOW, PLUS, count_at_or_below

FANOUT_BITS = 4  # rows, and maxima below, that one maximum covers: 16


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
