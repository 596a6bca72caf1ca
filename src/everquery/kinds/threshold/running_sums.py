"""The weight below each rank of a lane, kept up to date as events come.

Flat prefix sums cost an event as many additions as there are ranks behind it. Here ranks stand in
blocks of `WIDTH`, and blocks in blocks: an event adds to the ranks behind it in its own block, to
the blocks behind that, and to the blocks of blocks behind those, a few dozen additions each, which
vectorize. The weight below a rank is the sum of three numbers. A Fenwick tree has fewer additions,
but its 21 steps for two million ranks are as many cache misses, for an event and for every look.

All sums are in one array: those of ranks within their block (0 for the first of a block), then
those of blocks within their block of blocks, then those of blocks of blocks. The table of lanes
says where each lane's begin.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Int64s
from everquery.core.jit import part

BITS = 6
WIDTH = 1 << BITS
LAST = WIDTH - 1
PASS_RANKS = 32  # of a lane for each of its events, up to which one pass over all of them is better

# The columns of a lane, int64: one cache line. One more lane than there are says where all end.
KEY = 0  # -1 without
ROW = 1  # its first row
NODE = 2  # the first node of its tree
RANK = 3  # its first rank, in the ends of all lanes and in the sums
BLOCK = 4  # its first block, in the sums
OUTER = 5  # its first block of blocks, in the sums
BUCKET = 6  # its first bucket of the grid over its ends
LANE_WORDS = 8

ENDS_SHIFT = 32
ENDS_MASK = (1 << ENDS_SHIFT) - 1


def place_sums(rank_start: Int64s, lanes: Int64s) -> Int64s:
    """Write where the sums of lanes begin; return sums of nothing."""
    size = np.diff(rank_start)
    begin = 0
    for column in (RANK, BLOCK, OUTER):
        lanes[0, column] = begin
        lanes[1:, column] = begin + np.cumsum(size)
        begin = int(lanes[-1, column])
        size = (size + LAST) >> BITS
    return np.zeros(begin, np.int64)


@part
def weight_between(ends: int, lane: int, lanes: Int64s, sums: Int64s) -> int:
    """Return the weight between two ranks of a lane, packed as ``first << 32 | last``.

    The sum of a block's first rank is 0 and need not be fetched; that of all ranks is one of these.
    Without a branch: with one, Numba counts references to the arrays at every call.
    """
    first, last = ends >> ENDS_SHIFT, ends & ENDS_MASK
    rank, block, outer = lanes[lane, RANK], lanes[lane, BLOCK], lanes[lane, OUTER]
    below_last = sums[(rank + last) * (last & LAST != 0)] + sums[block + (last >> BITS)]
    below_first = sums[(rank + first) * (first & LAST != 0)] + sums[block + (first >> BITS)]
    apart = sums[outer + (last >> 2 * BITS)] - sums[outer + (first >> 2 * BITS)]
    weight: int = apart + below_last - below_first
    return weight


@part
def add_few(
    ranks: Int64s, weight: Int64s, begin: int, end: int, lane: int, lanes: Int64s, sums: Int64s
) -> None:
    """Add the weights of events one by one; negative ranks are below all."""
    first_rank, behind_ranks = lanes[lane, RANK], lanes[lane + 1, RANK]
    first_block, behind_blocks = lanes[lane, BLOCK], lanes[lane + 1, BLOCK]
    first_outer, behind_outer = lanes[lane, OUTER], lanes[lane + 1, OUTER]
    for k in range(begin, end):
        rank, heavy = ranks[k], weight[k]
        if rank < 0:
            continue
        stop = min(first_rank + (rank | LAST) + 1, behind_ranks)
        for i in range(first_rank + rank + 1, stop):
            sums[i] += heavy
        block = rank >> BITS
        stop = min(first_block + (block | LAST) + 1, behind_blocks)
        for i in range(first_block + block + 1, stop):
            sums[i] += heavy
        for i in range(first_outer + (block >> BITS) + 1, behind_outer):
            sums[i] += heavy


@part
def add_many(
    ranks: Int64s, weight: Int64s, begin: int, end: int, lane: int, lanes: Int64s, sums: Int64s,
    counts: Int64s, at: int,
) -> None:  # fmt: skip
    """Add the weights of events by one pass over all ranks of their lane; 1 ns a rank.

    Parameters
    ----------
    ranks : of the events, negative where one is below all
    counts : from `at` on room for the ranks of a lane, all 0, and 0 again afterwards
    """
    for i in range(begin, end):
        if ranks[i] >= 0:
            counts[at + ranks[i]] += weight[i]
    first, size = lanes[lane, RANK], lanes[lane + 1, RANK] - lanes[lane, RANK]
    below = 0  # the block
    below_outer = 0  # the block of blocks
    for block in range(lanes[lane + 1, BLOCK] - lanes[lane, BLOCK]):
        if block & LAST == 0:
            below_outer += below
            below = 0
            sums[lanes[lane, OUTER] + (block >> BITS)] += below_outer
        sums[lanes[lane, BLOCK] + block] += below
        inside = 0
        for rank in range(block << BITS, min((block + 1) << BITS, size)):
            sums[first + rank] += inside
            inside += counts[at + rank]
            counts[at + rank] = 0
        below += inside
