"""At which event of a batch a running total is reached, for many ranges of values at once.

Events are ranked by value, and their numbers in time are split bit by bit, highest first, stably (a
wavelet matrix). A range of ranks is a run of the sorted events, and stays a run on every level, so
the weight of its earlier half is one difference of prefix sums: a descent finds the first event
with which a run's total reaches an amount.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Int32s, Int64s
from everquery.core.jit import kernel


class Passages(NamedTuple):
    """The events of a batch, split by the bits of their place in time.

    Attributes
    ----------
    rank : int64, shape (n,)
        The ranks of the events, ascending.
    zeros : int32, shape (levels, n + 1)
        How many of the first events of a level have the bit unset.
    weight : int64, shape (levels + 1, n + 1)
        The weight of the first events of a level, in its order.
    """

    rank: Int64s
    zeros: Int32s
    weight: Int64s


@kernel
def split_levels(order: Int64s, weight: Int64s, zeros: Int32s, sums: Int64s) -> None:
    """Split events by the bits of their places, highest first; `order` is overwritten."""
    n = order.size
    levels = zeros.shape[0]
    ones = np.empty(n, np.int64)
    for level in range(levels + 1):
        total = 0
        sums[level, 0] = 0
        for i in range(n):
            total += weight[order[i]]
            sums[level, i + 1] = total
        if level == levels:
            break
        bit = levels - 1 - level
        low = 0
        high = 0
        zeros[level, 0] = 0
        for i in range(n):
            if order[i] >> bit & 1:
                ones[high] = order[i]
                high += 1
            else:
                order[low] = order[i]
                low += 1
            zeros[level, i + 1] = low
        for i in range(high):
            order[low + i] = ones[i]


@kernel
def first_reaching(begin: int, end: int, amount: int, zeros: Int32s, sums: Int64s) -> int:
    """Return the first event in time with which the run's weight reaches an amount, if it does.

    Parameters
    ----------
    begin, end : int
        The run, among the events in order of rank; its whole weight is at least `amount`.
    """
    levels = zeros.shape[0]
    n = zeros.shape[1] - 1
    event = 0
    for level in range(levels):
        low, high = zeros[level, begin], zeros[level, end]
        earlier = sums[level + 1, high] - sums[level + 1, low]
        event <<= 1
        if earlier >= amount:
            begin, end = low, high
        else:
            amount -= earlier
            event |= 1
            unset = zeros[level, n]
            begin, end = unset + begin - low, unset + end - high
    return event


@kernel
def weight_until(begin: int, end: int, event: int, zeros: Int32s, sums: Int64s) -> int:
    """Return the weight of a run's events up to one of them, that one included."""
    levels = zeros.shape[0]
    n = zeros.shape[1] - 1
    weight = 0
    for level in range(levels):
        low, high = zeros[level, begin], zeros[level, end]
        if event >> (levels - 1 - level) & 1:
            weight += sums[level + 1, high] - sums[level + 1, low]
            unset = zeros[level, n]
            begin, end = unset + begin - low, unset + end - high
        else:
            begin, end = low, high
    return int(weight + sums[levels, end] - sums[levels, begin])


def passages(rank: Int64s, weight: Int64s) -> Passages:
    """Return the structure over a batch's events, in order of time; cost n log n."""
    n = rank.size
    levels = max(1, (n - 1).bit_length())
    order = np.argsort(rank, kind="stable")
    zeros = np.empty((levels, n + 1), np.int32)
    sums = np.empty((levels + 1, n + 1), np.int64)
    sorted_rank = rank[order]
    split_levels(order, weight, zeros, sums)
    return Passages(sorted_rank, zeros, sums)
