"""A ranked tree over the results of a query: aggregates of any stretch of them in O(log n)."""

from __future__ import annotations

import math

import numpy as np

from everquery.core.arrays import Floats, Int64s
from everquery.core.jit import kernel

LEAST = 64


@kernel
def set_leaves(
    begin: int, values: Floats, room: int, total: Floats, low: Floats, high: Floats, known: Int64s
) -> None:
    """Write leaves from a place on, and all nodes above them."""
    for i in range(values.size):
        node = room + begin + i
        value = values[i]
        if value == value:
            total[node] = value
            low[node] = value
            high[node] = value
            known[node] = 1
        else:
            total[node] = 0.0
            low[node] = np.inf
            high[node] = -np.inf
            known[node] = 0
    first = (room + begin) >> 1
    last = (room + begin + values.size - 1) >> 1
    while first > 0:
        for node in range(first, last + 1):
            left = 2 * node
            right = left + 1
            total[node] = total[left] + total[right]
            low[node] = min(low[left], low[right])
            high[node] = max(high[left], high[right])
            known[node] = known[left] + known[right]
        first >>= 1
        last >>= 1


@kernel
def aggregate(
    begin: int, end: int, room: int,
    total: Floats, low: Floats, high: Floats, known: Int64s, out: Floats,
) -> int:  # fmt: skip
    """Write sum, least and largest of the leaves from one to before another; return how many."""
    left = room + begin
    right = room + end
    tail = 0.0
    out[0] = 0.0
    out[1] = np.inf
    out[2] = -np.inf
    count = 0
    while left < right:
        if left & 1:
            out[0] += total[left]
            out[1] = min(out[1], low[left])
            out[2] = max(out[2], high[left])
            count += known[left]
            left += 1
        if right & 1:
            right -= 1
            tail = total[right] + tail
            out[1] = min(out[1], low[right])
            out[2] = max(out[2], high[right])
            count += known[right]
        left >>= 1
        right >>= 1
    out[0] += tail
    return count


class RankedTree:
    """Sum, least and largest of values that are only added at the end."""

    def __init__(self) -> None:
        self.size = 0
        self._out = np.empty(3)
        self._allot(LEAST)

    def _allot(self, room: int) -> None:
        self._room = room
        self._total = np.zeros(2 * room)
        self._low = np.full(2 * room, np.inf)
        self._high = np.full(2 * room, -np.inf)
        self._known = np.zeros(2 * room, np.int64)

    def _nodes(self) -> tuple[Floats, Floats, Floats, Int64s]:
        return self._total, self._low, self._high, self._known

    def extend(self, values: Floats) -> None:
        """Add values behind the others; NaN is unknown, and in no aggregate."""
        if not values.size:
            return
        needed = self.size + values.size
        if needed > self._room:
            known = self._known[self._room : self._room + self.size] > 0
            before = np.where(known, self._total[self._room : self._room + self.size], math.nan)
            self._allot(1 << (needed - 1).bit_length())
            if self.size:
                set_leaves(0, before, self._room, *self._nodes())
        set_leaves(self.size, np.ascontiguousarray(values), self._room, *self._nodes())
        self.size = needed

    def between(self, begin: int, end: int) -> tuple[int, float, float, float]:
        """Return count, sum, least and largest of the known values from one to before another."""
        count = aggregate(begin, end, self._room, *self._nodes(), self._out)
        total, low, high = self._out.tolist()
        return count, total, low, high

    def nbytes(self) -> int:
        """Return the bytes of all nodes."""
        return int(sum(array.nbytes for array in self._nodes()))
