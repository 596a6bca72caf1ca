"""Distinct values and l1 norms within an error: samples that answer every window.

Each entry has a rank by chance. The `size` lowest ranks of a window are a sample of it; and since
any window may be asked for, a lane keeps the entries that fewer than `size` newer ones are below in
rank. Of n entries that are about ``size * (1 + ln(n / size))``, whatever the window. A window with
fewer than `size` entries has lost none, and is exact.

*Distinct values*: the rank is the hash of the value, so that repeats have the same, and of these
the newest is kept. If the sample's highest rank is u, there are about ``(size - 1) / u`` values
(paper: sliding-window-statistics, section 6; timestamped bitmaps would keep as many entries for the
same error, and have no exact beginning).

*l1 norms*: the rank is an exponential time by the size of the value, so that the sample is one of
sizes. An entry also has the sum of the later values of its place in the vector. What it adds to
the norm is ``abs(later + value) - abs(later)``, never more than its size, and all of these add up
to the norm. So the error is a share of the sum of sizes, whatever the signs.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Floats
from everquery.core.jit import kernel, part
from everquery.core.mixing import scramble
from everquery.kinds.window.chances import (
    CERTAIN,
    find_number,
    hash_of,
    new_table,
    reach,
    sample_size,
    share_of,
)
from everquery.kinds.window.families import UNCOUNTED
from everquery.kinds.window.norms import norm
from everquery.state.pairs import FREE

# Numbers of an entry: the value; of l1 norms its place in the vector, the sum of the later values
# there, and the rank.
VALUE, PLACE, LATER, RANK = range(4)


@part
def rank_of_value(value: float) -> float:
    """Return the rank of a value among distinct ones: above 0 and below 1."""
    return share_of(hash_of(value))


@part
def rank_of_event(value: float, place: float, number: float) -> float:
    """Return the rank of a lane's event; infinite if it has no size.

    The larger it is, the lower: as of the first of many small ones that it is made of.
    """
    if value == 0:
        return np.inf
    word = hash_of(number) ^ scramble(hash_of(value) ^ (hash_of(place) >> np.uint64(1)))
    return float(-np.log(share_of(scramble(word))) / abs(value))


@part
def add_rank(heap: Floats, filled: int, rank: float) -> int:
    """Let a rank be one of the lowest ones, the highest of which comes first.

    If there are as many as there may be, that one goes; it is higher. Returns how many there are.
    """
    if filled < heap.size:
        at = filled
        while at > 0 and heap[(at - 1) >> 1] < rank:
            heap[at] = heap[(at - 1) >> 1]
            at = (at - 1) >> 1
        heap[at] = rank
        return filled + 1
    at = 0
    while True:
        child = 2 * at + 1
        if child >= filled:
            break
        if child + 1 < filled and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= rank:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = rank
    return filled


@part
def close_up(mark: Array, total: Floats, start: int, kept: int, used: int) -> int:
    """Move what was kept, at the end of a lane, to its beginning; return how much that is."""
    if kept > 0:
        for row in range(start + kept, start + used):
            mark[row - kept] = mark[row]
            for column in range(total.shape[1]):
                total[row - kept, column] = total[row, column]
    return used - kept


@kernel
def settle_values(size: int, mark: Array, total: Floats, start: int, used: int) -> int:
    """Leave of each value its newest entry, and of these the ones that samples need.

    Returns how many are left. Cost: a look into a table an entry, and a step through a heap for
    each that is kept, once there are more than `size`.
    """
    table = new_table(used)
    values = total[start : start + used, VALUE]
    full = used > size
    heap = np.empty(size if full else 0)
    filled = 0
    kept = used
    for row in range(used - 1, -1, -1):
        value = values[row]
        rank = rank_of_value(value) if full else 0.0
        if full and filled == size and rank >= heap[0]:
            continue
        place = find_number(value, table, values)
        if table[place] != FREE:
            continue
        kept -= 1
        # Entries from `row` on have been looked at, so their places are free.
        mark[start + kept] = mark[start + row]
        values[kept] = value
        table[place] = kept
        if full:
            filled = add_rank(heap, filled, rank)
    return close_up(mark, total, start, kept, used)


@kernel
def drop_repeats(mark: Array, total: Floats, start: int, settled: int, used: int) -> int:
    """Leave of each value its newest entry, where few are new; return how many are left.

    Cost: a comparison with all others for each new one.
    """
    end = settled
    for new in range(settled, used):
        value = total[start + new, VALUE]
        old = -1
        for row in range(end):
            if total[start + row, VALUE] == value:
                old = row
        if old >= 0:
            for row in range(start + old, start + end - 1):
                mark[row] = mark[row + 1]
                total[row, VALUE] = total[row + 1, VALUE]
            end -= 1
        mark[start + end] = mark[start + new]
        total[start + end, VALUE] = value
        end += 1
    return end


@kernel
def settle_events(
    size: int, mark: Array, total: Floats, start: int, settled: int, used: int
) -> int:
    """Let entries know of later ones, those from `settled` on, and leave what samples need.

    Returns how many are left. Cost: as of `settle_values`.
    """
    table = new_table(used - settled)
    places, sums = np.empty(used - settled), np.empty(used - settled)
    n = 0
    full = used > size
    heap = np.empty(size if full else 0)
    filled = 0
    kept = used
    for row in range(used - 1, -1, -1):
        at = start + row
        found = find_number(total[at, PLACE], table, places)
        if row >= settled:
            if table[found] == FREE:
                table[found] = n
                places[n], sums[n] = total[at, PLACE], 0.0
                n += 1
            total[at, LATER] = sums[table[found]]
            sums[table[found]] += total[at, VALUE]
        elif table[found] != FREE:
            total[at, LATER] += sums[table[found]]
        if full:
            rank = total[at, RANK]
            if filled == size and rank >= heap[0]:
                continue
            filled = add_rank(heap, filled, rank)
        kept -= 1
        mark[start + kept] = mark[at]
        for column in range(total.shape[1]):
            total[start + kept, column] = total[at, column]
    return close_up(mark, total, start, kept, used)


@kernel
def add_later(total: Floats, start: int, settled: int, used: int) -> None:
    """Let entries know of later ones, those from `settled` on, where these are few."""
    for new in range(start + settled, start + used):
        for row in range(start, new):
            if total[row, PLACE] == total[new, PLACE]:
                total[row, LATER] += total[new, VALUE]


@part
def highest_of(lowest: int, ranks: Floats) -> float:
    """Return the highest of so many lowest ranks."""
    return float(np.partition(ranks, lowest - 1)[lowest - 1])


@kernel
def sampled_distinct(
    error: float, total: Floats, begin: int, end: int
) -> tuple[float, float, float, int]:
    """Return how many values there are in a window, its bounds, and that events are not counted."""
    n, size = float(end - begin), sample_size(error)
    if n < size:
        return n, n, n, UNCOUNTED
    ranks = np.empty(end - begin)
    for row in range(begin, end):
        ranks[row - begin] = rank_of_value(total[row, VALUE])
    highest = highest_of(size, ranks)
    least, most = reach(size)
    # All that are kept are different.
    low, high = max(np.floor(least * size / highest), n), np.ceil(most * size / highest)
    return max(np.rint((size - 1) / highest), low), low, max(high, low), UNCOUNTED


@kernel
def sampled_norm(
    error: float, total: Floats, begin: int, end: int
) -> tuple[float, float, float, int]:
    """Return the l1 norm of a window, its bounds, and how many events, if they are counted.

    Each of the sample but the last is there with the chance that its rank is below that one's:
    what it adds to the norm is divided by that. The variance is then at most the sum of sizes by
    that rank, and no event is further off than its inverse, so that Bernstein's inequality holds.
    """
    n, size = end - begin, sample_size(error)
    if n < size:
        value = norm(1, total, begin, end)
        return value, value, value, n
    ranks = np.empty(n)
    for row in range(begin, end):
        ranks[row - begin] = total[row, RANK]
    highest = highest_of(size, ranks)
    value = sizes = 0.0
    for row in range(begin, end):
        if total[row, RANK] < highest:
            one, later = total[row, VALUE], total[row, LATER]
            chance = -np.expm1(-highest * abs(one))
            value += (abs(later + one) - abs(later)) / chance
            sizes += abs(one) / chance
    if np.isinf(highest):  # all others have no size: nothing is left to chance
        exact = norm(1, total, begin, end)
        return exact, exact, exact, UNCOUNTED
    most = sizes + np.sqrt(2 * CERTAIN * sizes / highest) + CERTAIN / highest
    off = np.sqrt(2 * CERTAIN * most / highest) + CERTAIN / highest
    low, high = max(value - off, 0.0), min(value + off, most)
    return min(max(value, low), high), low, max(high, low), UNCOUNTED
