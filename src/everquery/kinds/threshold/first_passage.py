"""At which event of a batch a running total is reached, for many ranges of values at once.

Events are ranked by value, and their numbers in time are split bit by bit, highest first, stably (a
wavelet matrix). A range of ranks is a run of the sorted events, and stays a run on every level, so
the weight of its earlier half is one difference of prefix sums: a descent finds the few events
among which a run's total reaches an amount, and a scan finds the one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Int32s, Int64s
from everquery.core.jit import kernel

SCANNED_BITS = 5  # of an event's place in time that are not split: 32 events are scanned as fast
SPARSE = 32  # ranks for each event, from which on sorting is better than counting


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
        bit = levels - 1 - level + SCANNED_BITS
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
def first_reaching(
    run: tuple[int, int], ends: tuple[int, int], amount: int, zeros: Int32s, sums: Int64s,
    ranks: Int64s, weight: Int64s, first_event: int,
) -> tuple[int, int]:  # fmt: skip
    """Return the first event with which a run's weight reaches an amount, and the weight then.

    Parameters
    ----------
    run : its begin and end, among the events in order of rank; all of it weighs `amount` or more
    ends : its ranks, from the first up to the second
    ranks, weight : of the events in order of time, from `first_event` on
    """
    levels = zeros.shape[0]
    n = zeros.shape[1] - 1
    begin, end = run
    place = 0
    rest = amount
    for level in range(levels):
        low, high = zeros[level, begin], zeros[level, end]
        earlier = sums[level + 1, high] - sums[level + 1, low]
        place <<= 1
        if earlier >= rest:
            begin, end = low, high
        else:
            rest -= earlier
            place |= 1
            unset = zeros[level, n]
            begin, end = unset + begin - low, unset + end - high
    event = first_event + (place << SCANNED_BITS)
    while True:
        if ends[0] <= ranks[event] < ends[1]:
            rest -= weight[event]
            if rest <= 0:
                return event, amount - rest
        event += 1


@kernel
def order_by_rank(rank: Int64s, most: int, order: Int64s) -> None:
    """Write the events by rank, -1 to `most`, and in their own order where it is the same."""
    place = np.zeros(most + 3, np.int64)
    for i in range(rank.size):
        place[rank[i] + 2] += 1
    for k in range(1, place.size):
        place[k] += place[k - 1]
    for i in range(rank.size):
        order[place[rank[i] + 1]] = i
        place[rank[i] + 1] += 1


def passages(rank: Int64s, weight: Int64s) -> Passages:
    """Return the structure over a batch's events, in order of time; cost n log n."""
    n = rank.size
    levels = max(0, (n - 1).bit_length() - SCANNED_BITS)
    most = int(rank.max())
    order = np.empty(n, np.int64)
    if most <= SPARSE * n:
        order_by_rank(rank, most, order)
    else:
        order = np.argsort(rank, kind="stable")
    zeros = np.empty((levels, n + 1), np.int32)
    sums = np.empty((levels + 1, n + 1), np.int64)
    sorted_rank = rank[order]
    split_levels(order, weight, zeros, sums)
    return Passages(sorted_rank, zeros, sums)
