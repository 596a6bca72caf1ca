"""Region-segment lists: which boxes does a moving value enter and leave (paper: bmq-index).

For each attribute a lane's queries stand in two sorted lists: the plus list by lower end, the minus
list by upper end. They are the paper's delta sets, +DQSet and -DQSet, laid out flat: the entries
between two positions are exactly the delta queries of the region segments between them. A lane is
one key's queries, or all queries of a segment without keys.

The stream table holds each key's last position in both lists. A move that crosses no border costs
one comparison of the value with the ends of its region segment, which stay in registers while one
key's events of a batch are walked together. The paper takes set differences to drop queries that a
move jumps over; comparing the other end of each delta query gives the same sets without building
any.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from everquery.index.arrays import (
    LIVE,
    LIVE_MASK,
    Bytes,
    Floats,
    Int32s,
    Int64s,
    grow,
    resized,
    total_bytes,
)
from everquery.index.jit import kernel
from everquery.index.rows import Rows, Step

# What happened; the low bits of a crossing, and the codes of notices.
ENTER = 0
LEAVE = 1
EXPIRED = 2
NOTHING = 3

FANOUT_BITS = 4  # rows, and maxima below, that one maximum covers: 16
UNKNOWN = -1  # a position that has to be searched for
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


@kernel
def count_at_or_below(ends: Floats, order: Int32s, begin: int, end: int, value: float) -> int:
    """Return the position behind the last of ``ends[order[begin:end]]`` at or below `value`."""
    while begin < end:
        middle = (begin + end) >> 1
        if ends[order[middle]] <= value:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def first_outside(low: Floats, high: Floats, row: int, point: Floats) -> int:
    """Return the first attribute on which the box excludes the point; their number if none."""
    for a in range(point.size):
        if not low[a, row] <= point[a] or high[a, row] <= point[a]:
            return a
    return point.size


@kernel
def next_containing(
    row: int, end: int, point: Floats, boxes: tuple[Floats, Floats], maxima: tuple[Floats, Int64s]
) -> int:
    """Return the first row from `row` on that contains the point, or `end`.

    Rows are sorted by the lower end of the first attribute, and `end` is behind the last row whose
    lower end is at or below the point, so only upper ends decide; the pyramid skips whole blocks.
    """
    low, high = boxes
    maximum, level_start = maxima
    while row < end:
        skip = 0
        for level in range(level_start.size - 1):
            shift = FANOUT_BITS * (level + 1)
            if row & ((1 << shift) - 1) != 0 or row + (1 << shift) > end:
                break
            if not maximum[level_start[level] + (row >> shift)] <= point[0]:
                break
            skip = 1 << shift
        if skip > 0:
            row += skip
        elif first_outside(low, high, row, point) == point.size:
            return row
        else:
            row += 1
    return end


@kernel
def write_containing(
    point: Floats,
    other: Floats,
    comparing: bool,
    begin: int,
    end: int,
    place: int,
    code: int,
    lists: tuple[Int32s, Int32s],
    rows: tuple[Int32s, Floats, Floats],
    maxima: tuple[Floats, Int64s],
    flags: Bytes,
    wanted: tuple[int, int],
    crossings: Int64s,
    codes: Bytes,
    n: int,
) -> tuple[Int64s, Bytes, int]:
    """Write a crossing for every row of a lane that contains the point, by a fresh search.

    When `comparing`, rows that contain the `other` point too are left out. Only slots whose flags
    under the mask ``wanted[0]`` are ``wanted[1]`` count.
    """
    slot, low, high = rows
    end = count_at_or_below(low[0], lists[0][0], begin, end, point[0])
    row = next_containing(begin, end, point, (low, high), maxima)
    while row < end:
        stays = comparing and first_outside(low, high, row, other) == other.size
        if not stays and flags[slot[row]] & wanted[0] == wanted[1]:
            if n == crossings.size:
                crossings, codes = grow(crossings), grow(codes)
            crossings[n] = np.int64(place) << 32 | np.int64(slot[row])
            codes[n] = code
            n += 1
        row = next_containing(row + 1, end, point, (low, high), maxima)
    return crossings, codes, n


@kernel
def pass_borders(ends: Floats, order: Int32s, at: int, begin: int, end: int, value: float) -> int:
    """Walk along one sorted list to the position behind the last end at or below `value`.

    In strides that double, so that a near position is found at once and a far one in few steps.
    """
    stride = 1
    if at < end and ends[order[at]] <= value:
        at += 1
        while at + stride <= end and ends[order[at + stride - 1]] <= value:
            at += stride
            stride *= 2
        return count_at_or_below(ends, order, at, min(at + stride, end), value)
    if at > begin and not ends[order[at - 1]] <= value:
        at -= 1
        while at - stride >= begin and not ends[order[at - stride]] <= value:
            at -= stride
            stride *= 2
        return count_at_or_below(ends, order, max(at - stride, begin), at, value)
    return at


@kernel
def region_around(
    ends: Floats, order: Int32s, at: int, begin: int, end: int, floor: float, ceiling: float
) -> tuple[float, float]:
    """Narrow ``[floor, ceiling)`` to the two borders of this list around a position."""
    if at > begin:
        floor = max(floor, ends[order[at - 1]])
    if at < end and (ends[order[at]] < ceiling or np.isnan(ceiling)):
        ceiling = ends[order[at]]
    return floor, ceiling


@kernel
def crossing_of(
    low: Floats, high: Floats, row: int, before: Floats, now: Floats, attribute: int
) -> int:
    """Tell what a move means for a delta query found on one attribute: the cross-check.

    A query that changes on several attributes at once stands in the lists of each; it counts on the
    first attribute that keeps the outer point out.
    """
    out_before = first_outside(low, high, row, before)
    out_now = first_outside(low, high, row, now)
    if out_now == now.size and out_before == attribute:
        return ENTER
    if out_before == now.size and out_now == attribute:
        return LEAVE
    return NOTHING


@kernel
def move_key(
    before: Floats,
    now: Floats,
    begin: int,
    end: int,
    entry: int,
    anew: bool,
    rows: tuple[Int32s, Floats, Floats],
    lists: tuple[Int32s, Int32s],
    positions: tuple[Int32s, Int32s],
    region: Floats,
    moved: Int64s,
) -> int:
    """Move a key's positions to where it is now, and return how many list entries that passes.

    ``moved`` gets the old and the new position in each list and attribute; ``region`` gets the ends
    of the new region segment. Positions that are unknown, or all of them with `anew`, are searched.
    """
    _, low, high = rows
    passed = 0
    for a in range(now.size):
        floor = -np.inf
        ceiling = np.nan
        for side in range(2):
            ends = low[a] if side == 0 else high[a]
            order = lists[side][a]
            old = int(positions[side][a, entry])
            if anew or old == UNKNOWN:
                old = count_at_or_below(ends, order, begin, end, before[a])
            new = pass_borders(ends, order, old, begin, end, now[a])
            positions[side][a, entry] = new
            moved[0, side, a] = old
            moved[1, side, a] = new
            passed += abs(new - old)
            floor, ceiling = region_around(ends, order, new, begin, end, floor, ceiling)
        region[0, a] = floor
        region[1, a] = ceiling
    return passed


@kernel
def write_deltas(
    before: Floats,
    now: Floats,
    moved: Int64s,
    place: int,
    lists: tuple[Int32s, Int32s],
    rows: tuple[Int32s, Floats, Floats],
    flags: Bytes,
    wanted: tuple[int, int],
    crossings: Int64s,
    codes: Bytes,
    n: int,
) -> tuple[Int64s, Bytes, int]:
    """Write what the delta queries between the old and the new positions mean."""
    slot, low, high = rows
    for a in range(now.size):
        for side in range(2):
            order = lists[side][a]
            first = min(moved[0, side, a], moved[1, side, a])
            last = max(moved[0, side, a], moved[1, side, a])
            for passed in range(first, last):
                row = order[passed]
                code = crossing_of(low, high, row, before, now, a)
                if code != NOTHING and flags[slot[row]] & wanted[0] == wanted[1]:
                    if n == crossings.size:
                        crossings, codes = grow(crossings), grow(codes)
                    crossings[n] = np.int64(place) << 32 | np.int64(slot[row])
                    codes[n] = code
                    n += 1
    return crossings, codes, n


@kernel
def skip_quiet(
    at: int, end: int, values: Floats, attributes: Int64s, region: Floats, fresh: Bytes
) -> int:
    """Return the first event from `at` on that leaves the region, or before which its key expired.

    The common case of a stream with locality, so it is kept apart and tight.
    """
    first = attributes[0]
    floor = region[0, 0]
    ceiling = region[1, 0]
    while at < end:
        value = values[first, at]
        if not floor <= value or ceiling <= value or fresh[at]:
            return at
        for a in range(1, attributes.size):
            value = values[attributes[a], at]
            if not region[0, a] <= value or region[1, a] <= value:
                return at
        at += 1
    return end


@kernel
def walk_borders(
    events: tuple[Int32s, Int64s, Int64s, Floats],
    fresh: Bytes,
    previous: tuple[Bytes, Floats],
    attributes: Int64s,
    lanes: tuple[Int32s, Int64s],
    rows: tuple[Int32s, Floats, Floats],
    lists: tuple[Int32s, Int32s],
    maxima: tuple[Floats, Int64s],
    positions: tuple[Int32s, Int32s],
    flags: Bytes,
    wanted: tuple[int, int],
    crossings: Int64s,
    codes: Bytes,
    n: int,
) -> tuple[Int64s, Bytes, int, int]:
    """Walk every key from its last position to each new value, and write the borders crossed.

    Cost: a comparison an event and attribute; a delta query for each list entry passed. A key's
    first event, and a jump over more entries than the boxes around both of its ends, is a search
    through the pyramid of maxima instead: wild streams cost what they would with a range index.
    Values are never NaN.

    Parameters
    ----------
    events : group keys, group starts, positions in the batch, values by attribute
    fresh : 1 for an event before which its key expired, so that it is a first sight
    previous : which keys have been seen, and their last values by attribute
    lanes : lane keys (one of -1 for a segment without keys), first row of each lane
    rows : slot, low, high
    lists : plus and minus, shape (attributes, rows): row numbers by lower and by upper end
    maxima : the pyramid over the first attribute's upper ends, and where its levels begin
    positions : plus and minus, shape (attributes, lanes or keys); `UNKNOWN` where not yet searched
    wanted : only slots whose flags under the mask ``wanted[0]`` are ``wanted[1]`` count
    crossings, codes, n : where ``position << 32 | slot`` and what happened go, and how many stand
        there (an argument, because Numba would compile the callee anew for a literal); larger
        copies are returned where they are too small

    Returns
    -------
    crossings, codes, how many of them are written, how many delta queries were visited
    """
    group_key, group_start, place, values = events
    lane_key, lane_start = lanes
    keyed = lane_key[0] >= 0
    d = attributes.size
    before = np.empty(d, np.float64)
    now = np.empty(d, np.float64)
    region = np.empty((2, d), np.float64)
    moved = np.empty((2, 2, d), np.int64)
    visited = 0
    lane = 0
    for group in range(group_key.size):
        key = group_key[group]
        if keyed:
            while lane < lane_key.size and lane_key[lane] < key:
                lane += 1
            if lane == lane_key.size:
                break
            if lane_key[lane] != key:
                continue
        begin = lane_start[lane]
        end = lane_start[lane + 1]
        entry = lane if keyed else key
        known = previous[0][key] != 0
        for a in range(d):
            before[a] = previous[1][attributes[a], key]
            region[0, a] = np.nan  # nothing is inside: the first event goes the long way
        at = group_start[group] - 1
        stop = group_start[group + 1]
        while at + 1 < stop:
            quiet = at + 1
            at = skip_quiet(quiet, stop, values, attributes, region, fresh)
            for a in range(d):
                if at > quiet:
                    before[a] = values[attributes[a], at - 1]
                if at < stop:
                    now[a] = values[attributes[a], at]
            if at == stop:
                break
            first_sight = not known or fresh[at] != 0
            start = now if first_sight else before
            passed = move_key(
                start, now, begin, end, entry, first_sight, rows, lists, positions, region, moved
            )
            around = moved[0, 0, 0] - moved[0, 1, 0] + moved[1, 0, 0] - moved[1, 1, 0]
            if first_sight or passed > FAR + 2 * around:
                # What the key was in (and, if it expired, is told to have left before this event),
                # then what it is in. One call in a loop: each call compiles for half a second.
                for turn in range(0 if known else 1, 2):
                    expired = 1 if turn == 0 and fresh[at] else 0
                    crossings, codes, n = write_containing(
                        before if turn == 0 else now, now if turn == 0 else before,
                        not first_sight, begin, end, place[at] - expired,
                        ENTER if turn == 1 else LEAVE + expired,
                        lists, rows, maxima, flags, wanted, crossings, codes, n,
                    )  # fmt: skip
                visited += around
            else:
                crossings, codes, n = write_deltas(
                    before, now, moved, place[at], lists, rows, flags, wanted, crossings, codes, n
                )
                visited += passed
            known = True
            before, now = now, before
    return crossings, codes, n, visited


@kernel
def write_inside(
    keys: Int32s,
    values: Floats,
    attributes: Int64s,
    lanes: tuple[Int32s, Int64s],
    lists: tuple[Int32s, Int32s],
    rows: tuple[Int32s, Floats, Floats],
    maxima: tuple[Floats, Int64s],
    flags: Bytes,
    wanted: tuple[int, int],
    crossings: Int64s,
    codes: Bytes,
    n: int,
) -> tuple[Int64s, Bytes, int]:
    """Write ``place << 32 | slot`` for every box that a key is inside of now.

    Parameters
    ----------
    keys : ascending; ``values[:, place]`` is where key number `place` of them is
    wanted : only slots whose flags under the mask ``wanted[0]`` are ``wanted[1]`` count
    """
    lane_key, lane_start = lanes
    keyed = lane_key[0] >= 0
    point = np.empty(attributes.size, np.float64)
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
            point[a] = values[attributes[a], place]
        crossings, codes, n = write_containing(
            point, point, False, lane_start[lane], lane_start[lane + 1], place, ENTER,
            lists, rows, maxima, flags, wanted, crossings, codes, n,
        )  # fmt: skip
    return crossings, codes, n


@dataclass(frozen=True, slots=True)
class RegionSegments:
    """An immutable set of boxes with their plus and minus lists, and the keys' positions in them.

    The positions follow from the last values, so they are no part of a snapshot.
    """

    rows: Rows
    attributes: Int64s
    lane_key: Int32s
    lane_start: Int64s
    plus: Int32s
    minus: Int32s
    maxima: Floats
    level_start: Int64s
    positions: list[Int32s]

    @classmethod
    def build(cls, rows: Rows) -> RegionSegments:
        """Sort the rows into lists; every key's position is unknown until its next event."""
        rows = rows.take(np.lexsort((rows.low[0], rows.key)))
        n = len(rows)
        lane_key, lane_first = np.unique(rows.key, return_index=True)
        plus = np.empty((len(rows.low), n), np.int32)
        minus = np.empty_like(plus)
        for a in range(len(plus)):
            plus[a] = np.lexsort((rows.low[a], rows.key)) if a else np.arange(n)
            minus[a] = np.lexsort((rows.high[a], rows.key))
        level_start = pyramid_levels(n)
        maxima = np.empty(level_start[-1], np.float64)
        fill_maxima(rows.high[0], maxima, level_start)
        unknown = np.full((len(plus), lane_key.size if rows.shape.keyed else 0), UNKNOWN, np.int32)
        return cls(
            rows=rows,
            attributes=np.array(rows.shape.attributes, np.int64),
            lane_key=lane_key,
            lane_start=np.append(lane_first, n).astype(np.int64),
            plus=plus,
            minus=minus,
            maxima=maxima,
            level_start=level_start,
            positions=[unknown, unknown.copy()],
        )

    def __len__(self) -> int:
        return len(self.rows)

    def all_rows(self) -> Rows:
        """Return the rows."""
        return self.rows

    def renumbered(self, slots: Int32s) -> RegionSegments:
        """Return the same with other slots, given by the present ones."""
        return replace(self, rows=self.rows.renumbered(slots))

    def walk(self, step: Step, crossings: Int64s, codes: Bytes) -> tuple[Int64s, Bytes, int, int]:
        """Return what `walk_borders` writes for a batch."""
        if not self.rows.shape.keyed and self.positions[0].shape[1] < step.seen.size:
            self.positions[:] = [resized(at, step.seen.size, UNKNOWN) for at in self.positions]
        events = step.grouped
        return walk_borders(
            (events.key, events.start, events.position, events.values),
            step.fresh,
            (step.seen, step.last),
            self.attributes,
            (self.lane_key, self.lane_start),
            (self.rows.slot, self.rows.low, self.rows.high),
            (self.plus, self.minus),
            (self.maxima, self.level_start),
            (self.positions[0], self.positions[1]),
            step.flags,
            (LIVE_MASK, LIVE),
            crossings,
            codes,
            0,
        )

    def inside(self, keys: Int32s, values: Floats, flags: Bytes, wanted: tuple[int, int]) -> Int64s:
        """Return the crossings that `write_inside` writes."""
        crossings, _, n = write_inside(
            keys,
            values,
            self.attributes,
            (self.lane_key, self.lane_start),
            (self.plus, self.minus),
            (self.rows.slot, self.rows.low, self.rows.high),
            (self.maxima, self.level_start),
            flags,
            wanted,
            np.empty(64, np.int64),
            np.empty(64, np.uint8),
            0,
        )
        return crossings[:n]

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(
            *self.rows.arrays(),
            self.lane_key,
            self.lane_start,
            self.plus,
            self.minus,
            self.maxima,
            self.level_start,
            *self.positions,
        )


def pyramid_levels(n: int) -> Int64s:
    """Return where each level of the pyramid over `n` rows begins, and where the last ends."""
    start = [0]
    while n > 1:
        n = -(-n >> FANOUT_BITS)
        start.append(start[-1] + n)
    return np.array(start, np.int64)
