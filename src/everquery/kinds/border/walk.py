"""The loops over region-segment lists: a key's walk from where it was to where it is.

Lists and positions are laid out as in ``border_lists``.
``regions[FLOOR or CEILING, attribute, lane or key]`` are the ends of the region segment that
follows from these: the last value is inside, and so is every next one that crosses no border. NaN
stands for no limit above; as a floor, that nothing is inside, as long as positions are unknown.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Bytes, Floats, Int32s, Int64s, grow
from everquery.core.jit import kernel, part
from everquery.core.prefetch import prefetch_row
from everquery.index.flags import Flags
from everquery.index.sort_keys import PLACE_SHIFT, SLOT_SHIFT
from everquery.kinds.border.border_lists import (
    BEFORE,
    ENTER,
    LEAVE,
    MINUS,
    NOW,
    PLUS,
    UNKNOWN,
    count_at_or_below,
    end_at,
    pass_borders,
)
from everquery.kinds.border.containing import write_containing

FLOOR = 0
CEILING = 1

KEYS_AHEAD = 8  # keys between fetching places, fetching rows, and the move
FAR = 64  # entries that a walk may pass in any case


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
