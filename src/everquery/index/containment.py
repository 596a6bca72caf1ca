"""How intervals of ranks are cut into containment-encoded pieces (paper: cei-index).

The rank space is cut into segments of the length L, a power of two. An interval becomes whole
segments, and at both of its ends pieces that are a half, a quarter, ... of a segment. Each such
place has a containment ID, and a list of the intervals with a piece there.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Int32s, Int64s
from everquery.core.jit import kernel

# Pieces a query may cost on average before the largest interval is doubled. A piece is 4 bytes; on
# the paper's workload each halving of L saves about 8 ns of a 32 to 68 ns search.
PIECES_PER_QUERY = 20
MAX_LEVELS = 24


@kernel
def count_pieces(first: Int64s, last: Int64s, levels: int) -> int:
    """Count the pieces of all rank intervals ``[first, last)`` when L is ``2**levels``."""
    total = 0
    length = 1 << levels
    for i in range(first.size):
        left = first[i]
        right = last[i]
        while left < right:
            size = 1
            while size < length and left & (2 * size - 1) == 0 and left + 2 * size <= right:
                size *= 2
            if size == length:  # whole segments follow each other
                whole = (right - left) >> levels
                total += whole
                left += whole << levels
            else:
                total += 1
                left += size
    return total


@kernel
def decompose(
    first: Int64s, last: Int64s, levels: int, offsets: Int64s, rows: Int32s, write: bool
) -> None:
    """BestPartition (paper, Figure 6) of every rank interval ``[first, last)``.

    With ``write`` false, ``offsets[c + 1]`` counts the pieces with containment ID ``c``; with true,
    ``offsets[c]`` is where the next row number of ID ``c`` goes in ``rows``.
    """
    length = 1 << levels
    for i in range(first.size):
        left = first[i]
        right = last[i]
        while left < right:
            post = (left >> levels) << levels  # the guiding post at or before `left`
            local = left - post + length
            size = 1
            while local & 1 == 0 and local > 1 and left + 2 * size <= right:
                local >>= 1
                size *= 2
            containment_id = 2 * post + local
            if write:
                rows[offsets[containment_id]] = i
                offsets[containment_id] += 1
            else:
                offsets[containment_id + 1] += 1
            left += size


def choose_levels(first: Int64s, last: Int64s) -> int:
    """Choose the smallest L whose decomposition stays within the piece budget.

    A small L makes a search touch fewer lists; a large one makes wide intervals cost fewer pieces.
    """
    budget = PIECES_PER_QUERY * first.size
    widest = int((last - first).max(initial=1))
    levels = 0
    while levels < MAX_LEVELS and (1 << levels) < widest:
        if count_pieces(first, last, levels) <= budget:
            break
        levels += 1
    return levels


def containment_lists(
    first: Int64s, last: Int64s, levels: int, ranks: int
) -> tuple[Int32s, Int32s]:
    """Decompose all rank intervals into CSR lists by containment ID."""
    length = 1 << levels
    segments = -(-ranks // length)
    counts = np.zeros(2 * length * segments + 1, np.int64)
    nothing = np.empty(0, np.int32)
    decompose(first, last, levels, counts, nothing, False)
    offsets = np.cumsum(counts)
    pieces = np.empty(offsets[-1], np.int32)
    decompose(first, last, levels, offsets[:-1].copy(), pieces, True)
    return offsets.astype(np.int32), pieces
