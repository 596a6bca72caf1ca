"""Rows by lane: put into the order of their keys, and within each by the end of a range.

Two passes: rows are counted into lanes, then each lane is sorted by itself, within the processor's
cache. For ten million rows of 20,000 keys that takes a fifth of what one sort by both takes, and
lanes that are in order already are only looked through.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s
from everquery.core.jit import kernel, part
from everquery.index.rows import Rows

RUN = 16  # rows that are sorted by insertion
SPARSE = 4  # keys for each row, at most, that are worth counting


class Lanes(NamedTuple):
    """Rows in the order of their keys, and of a value within each.

    Attributes
    ----------
    order : int32, shape (n,)
        The rows in that order; equal ones stay in theirs.
    key : int32, shape (lanes,)
        The keys that there are, ascending.
    start : int64, shape (lanes + 1,)
        Where the rows of each begin in `order`.
    as_given : bool
        Whether rows came in this order, as those of a snapshot do.
    """

    order: Int32s
    key: Int32s
    start: Int64s
    as_given: bool = False

    def taken_from(self, rows: Rows) -> Rows:
        """Return the rows in this order; ends are shared where it is theirs already."""
        if self.as_given:
            return replace(rows, slot=rows.slot.copy(), key=rows.key.copy())
        return rows.take(self.order)


def sort_into_lanes(key: Int32s, value: Floats) -> Lanes:
    """Return the order of rows by key, and by value within each; NaN comes last.

    Parameters
    ----------
    key : int32, shape (n,), from -1 on
    value : float64, shape (n,)
    """
    value = np.ascontiguousarray(value)
    if key.size and is_in_order(key, value):
        order = np.arange(key.size, dtype=np.int32)
        first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        return Lanes(order, key[first], np.append(first, key.size), as_given=True)
    most = int(key.max(initial=-1)) + 2
    if most > SPARSE * key.size + 1_024:  # few rows of many keys: number those that there are
        lane_key, dense = np.unique(key, return_inverse=True)
        order, start = _sorted(dense.astype(np.int32) - np.int32(1), value, lane_key.size)
        return Lanes(order, lane_key, start)
    order, start = _sorted(key, value, most)
    filled = np.flatnonzero(np.diff(start))
    return Lanes(order, (filled - 1).astype(np.int32), np.append(start[filled], start[-1]))


def order_in_lanes(value: Floats, start: Int64s) -> Int32s:
    """Return the order of rows by value within each lane, for rows that are by lane already."""
    if start.size == 2:  # NumPy is quicker where the cache is of no help
        return np.argsort(value, kind="stable").astype(np.int32)
    order = np.arange(value.size, dtype=np.int32)
    sort_lanes(value.copy(), order, start)
    return order


def _sorted(key: Int32s, value: Floats, lanes: int) -> tuple[Int32s, Int64s]:
    start = np.zeros(lanes + 1, np.int64)
    if lanes == 1:
        start[1] = key.size
        return order_in_lanes(value, start), start
    order = np.empty(key.size, np.int32)
    values = np.empty(key.size, np.float64)
    fill_lanes(key, value, start, order, values)
    sort_lanes(values, order, start)
    return order, start


@kernel
def fill_lanes(key: Int32s, value: Floats, start: Int64s, order: Int32s, values: Floats) -> None:
    """Write the rows of each lane one behind the other, and where each lane begins.

    Parameters
    ----------
    start : int64, zeros, one more than there are lanes
    order, values : room for the rows, and for their values in that order
    """
    for i in range(key.size):
        start[key[i] + 1] += 1
    total = 0
    for lane in range(start.size):
        size = start[lane]
        start[lane] = total
        total += size
    for i in range(key.size):
        lane = key[i] + 1
        at = start[lane]
        order[at] = i
        values[at] = value[i]
        start[lane] = at + 1
    for lane in range(start.size - 1, 0, -1):
        start[lane] = start[lane - 1]
    start[0] = 0


@part
def is_above(left: float, right: float) -> bool:
    """Tell whether the one comes behind the other; NaN is above everything else."""
    return left > right or (left != left and right == right)


@kernel
def is_in_order(key: Int32s, value: Floats) -> bool:
    """Tell whether rows are in the order of their keys, and of the value within each."""
    for i in range(1, key.size):
        if key[i] < key[i - 1] or (key[i] == key[i - 1] and is_above(value[i - 1], value[i])):
            return False
    return True


@kernel
def sort_lanes(values: Floats, order: Int32s, start: Int64s) -> None:
    """Sort values within each lane, and the order with them: short runs, then merges of two.

    Stable. A lane of n rows costs O(n log n), and O(n) where it is in order.
    """
    longest = 0
    for lane in range(start.size - 1):
        longest = max(longest, start[lane + 1] - start[lane])
    spare = np.empty(longest, np.float64)
    spare_order = np.empty(longest, np.int32)
    for lane in range(start.size - 1):
        begin, end = start[lane], start[lane + 1]
        for run in range(begin, end, RUN):
            for i in range(run + 1, min(run + RUN, end)):
                value, row = values[i], order[i]
                at = i
                while at > run and is_above(values[at - 1], value):
                    values[at], order[at] = values[at - 1], order[at - 1]
                    at -= 1
                values[at], order[at] = value, row
        width = RUN
        while width < end - begin:
            for left in range(begin, end - width, 2 * width):
                merge_runs(values, order, left, left + width, min(left + 2 * width, end),
                           spare, spare_order)  # fmt: skip
            width *= 2


@part
def merge_runs(
    values: Floats,
    order: Int32s,
    begin: int,
    middle: int,
    end: int,
    spare: Floats,
    spare_order: Int32s,
) -> None:
    """Merge two runs, one behind the other, in place; the first one goes through spare room."""
    if not is_above(values[middle - 1], values[middle]):
        return
    size = middle - begin
    for i in range(size):
        spare[i], spare_order[i] = values[begin + i], order[begin + i]
    i = 0
    while i < size:
        if middle < end and is_above(spare[i], values[middle]):
            values[begin], order[begin] = values[middle], order[middle]
            middle += 1
        else:
            values[begin], order[begin] = spare[i], spare_order[i]
            i += 1
        begin += 1
