"""Exact lanes: every event that counts, sorted by x.

The numbers of a lane are, one section behind the other: the exact sum of x (`LIMBS` places), x and
y in order of x, and, of a window, x, y and mark in order of arrival. Each section but the first has
room for as many events.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Floats, Int64s
from everquery.core.jit import callee
from everquery.kinds.correlated.cuts import AVG, COUNT, MAX, MIN, cuts
from everquery.kinds.correlated.exact_sums import LIMBS, add_exactly, add_up, average_of, nearest

SORTED, ARRIVED = 2, 3  # sections of all lanes, and further ones of windows


@callee
def events_up_to(pool: Floats, first: int, used: int, value: float) -> int:
    """Return how many of sorted numbers are at most a value; none if it is NaN."""
    begin = 0
    end = used
    while begin < end:
        middle = (begin + end) >> 1
        if pool[first + middle] <= value:
            begin = middle + 1
        else:
            end = middle
    return begin


@callee
def keep(
    pool: Floats, marks: Array, sums: Int64s, start: int, room: int, used: int, arrived: int,
    windowed: bool, x: float, y: float, mark: float,
) -> None:  # fmt: skip
    """Take an event in; there is room. Cost: moving what is larger.

    Parameters
    ----------
    arrived : int
        The place behind the newest event, in order of arrival.
    """
    first = start + LIMBS
    place = events_up_to(pool, first, used, x)
    for i in range(used, place, -1):
        pool[first + i] = pool[first + i - 1]
        pool[first + room + i] = pool[first + room + i - 1]
    pool[first + place] = x
    pool[first + room + place] = y
    if abs(x) < np.inf:
        add_exactly(sums, start, x)
    if windowed:
        pool[first + 2 * room + arrived] = x
        pool[first + 3 * room + arrived] = y
        marks[first + 4 * room + arrived] = mark


@callee
def forget(pool: Floats, sums: Int64s, start: int, room: int, used: int, oldest: int) -> None:
    """Take the oldest event of a window out. Cost: moving what is larger."""
    first = start + LIMBS
    x = pool[first + 2 * room + oldest]
    y = pool[first + 3 * room + oldest]
    place = events_up_to(pool, first, used, x) - 1
    while place > 0 and pool[first + room + place] != y:
        place -= 1
    for i in range(place, used - 1):
        pool[first + i] = pool[first + i + 1]
        pool[first + room + i] = pool[first + room + i + 1]
    if abs(x) < np.inf:
        add_exactly(sums, start, -x)


@callee
def make_place(pool: Floats, marks: Array, start: int, room: int, head: int, used: int) -> None:
    """Move what arrived to the beginning of its sections."""
    first = start + LIMBS
    for i in range(used):
        pool[first + 2 * room + i] = pool[first + 2 * room + head + i]
        pool[first + 3 * room + i] = pool[first + 3 * room + head + i]
        marks[first + 4 * room + i] = marks[first + 4 * room + head + i]


@callee
def exact_reference(pool: Floats, sums: Int64s, start: int, used: int, to: int) -> float:
    """Return the MIN, MAX or AVG of x."""
    first = start + LIMBS
    if to == MIN:
        return float(pool[first])
    if to == MAX:
        return float(pool[first + used - 1])
    return average_of(sums, start, used)


@callee
def exact_value(
    pool: Floats, start: int, room: int, used: int, reference: float, aggregate: int,
    compared: int, factor: float, scratch: Int64s,
) -> float:  # fmt: skip
    """Return the answer to a query; NaN for the average of nothing.

    Cost: two binary searches, and of a sum a pass over what is picked.
    """
    first = start + LIMBS
    above, end = cuts(compared, factor, reference)
    begin = events_up_to(pool, first, used, above)
    count = max(events_up_to(pool, first, used, end) - begin, 0)
    if aggregate == COUNT:
        return float(count)
    if count == 0:
        return np.nan if aggregate == AVG else 0.0
    add_up(pool, first + room + begin, first + room + begin + count, scratch)
    none = count * 0
    return average_of(scratch, none, count) if aggregate == AVG else nearest(scratch, none, none)
