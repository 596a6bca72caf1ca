"""The plus and minus lists of a lane, and how a position in them is found.

All arrays are indexed by side first: ``ends[side, attribute, row]`` are the lower (`PLUS`) and
upper (`MINUS`) ends of the boxes, ``order[side, attribute, entry]`` the rows by those ends within
each lane, ``positions[side, attribute, lane or key]`` how many entries are at or below the last
value. ``points[BEFORE]`` and ``points[NOW]`` are where a key was and is. Whole arrays and indices
are passed, never slices: slices in a hot loop count references, which tripled its cost.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Floats, Int32s
from everquery.core.jit import part

PLUS = 0
MINUS = 1
BEFORE = 0
NOW = 1

# What happened: the codes of crossings.
ENTER = 0
LEAVE = 1
EXPIRED = 2

UNKNOWN = -1  # a position that has to be searched for
NEAR = 16  # entries that are passed one by one


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
