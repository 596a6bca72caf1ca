"""Ranks of values among the ends of intervals, found by a linear grid over the ends.

Ranks of all lanes (a lane is one key, or the only one of a segment without keys) stand one after
the other in one rank space. A bucket of the grid bounds the ranks of its values, and a short search
finds the rank.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s
from everquery.core.jit import kernel


def rank_ends(
    low: Floats, high: Floats, lane_size: Int64s
) -> tuple[Floats, Int64s, Int64s, Int64s]:
    """Rank the distinct ends of each lane, lanes one after the other.

    Returns
    -------
    bounds, rank_start : the distinct ends, and where each lane's begin
    first, last : each row's rank interval ``[first, last)``
    """
    n = low.size
    lane = np.repeat(np.arange(lane_size.size), lane_size)
    ends = np.concatenate([low, high])
    lanes = np.concatenate([lane, lane])
    order = np.lexsort((ends, lanes))
    ends, lanes = ends[order], lanes[order]
    fresh = np.ones(2 * n, np.bool_)
    both_beyond = np.isnan(ends[1:]) & np.isnan(ends[:-1])
    fresh[1:] = (lanes[1:] != lanes[:-1]) | ((ends[1:] != ends[:-1]) & ~both_beyond)
    rank_sorted = np.cumsum(fresh) - 1
    rank = np.empty(2 * n, np.int64)
    rank[order] = rank_sorted
    rank_start = np.append(
        rank_sorted[np.searchsorted(lanes, np.arange(lane_size.size))], rank_sorted[-1] + 1
    ).astype(np.int64)
    return ends[fresh], rank_start, rank[:n], rank[n:]


def plan_grid(bounds: Floats, rank_start: Int64s) -> tuple[Int64s, Floats, Floats]:
    """Lay a linear grid over each lane's finite bounds, a bucket for two bounds."""
    count = np.diff(rank_start)
    finite = np.isfinite(bounds)
    smallest = np.minimum.reduceat(np.where(finite, bounds, np.inf), rank_start[:-1])
    largest = np.maximum.reduceat(np.where(finite, bounds, -np.inf), rank_start[:-1])
    with np.errstate(invalid="ignore", over="ignore"):
        span = largest - smallest
    usable = np.isfinite(span) & (span > 0)
    buckets = np.where(usable, np.maximum(count // 2, 1), 1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scale = np.where(usable, buckets / span, 0.0)
    usable = np.isfinite(scale)
    scale = np.where(usable, scale, 0.0)
    buckets = np.where(scale > 0, buckets, 1)
    grid_start = np.concatenate([[0], np.cumsum(buckets + 1)]).astype(np.int64)
    return grid_start, np.where(scale > 0, smallest, 0.0), scale


@kernel
def bucket_of(value: float, low: float, scale: float, buckets: int) -> int:
    """Return the grid bucket of a value: monotone in `value`, so a bucket bounds its rank."""
    at = (value - low) * scale
    if not at > 0.0:  # also NaN: infinity minus infinity
        return 0
    if at >= buckets:
        return buckets - 1
    return int(at)


@kernel
def fill_buckets(
    bounds: Floats,
    rank_start: Int64s,
    grid_start: Int64s,
    grid_low: Floats,
    grid_scale: Floats,
    bucket_rank: Int32s,
) -> None:
    """Write for each bucket the first rank whose bound falls in it or behind it."""
    for lane in range(rank_start.size - 1):
        base = grid_start[lane]
        buckets = grid_start[lane + 1] - base - 1
        rank = rank_start[lane]
        end = rank_start[lane + 1]
        for bucket in range(buckets + 1):
            while rank < end:
                bound = bounds[rank]
                if bound != bound:  # beyond +inf: behind every bucket
                    break
                if bucket_of(bound, grid_low[lane], grid_scale[lane], buckets) >= bucket:
                    break
                rank += 1
            bucket_rank[base + bucket] = rank
        bucket_rank[base + buckets] = end


@kernel
def rank_in_bucket(value: float, bounds: Floats, low: int, high: int) -> int:
    """Return the rank of the last bound at or below `value`, known to lie behind ``low - 1``."""
    while high - low > 8:
        middle = (low + high) >> 1
        if bounds[middle] <= value:
            low = middle + 1
        else:
            high = middle
    below = 0
    for rank in range(low, high):  # counts without a branch that could be mispredicted
        below += bounds[rank] <= value
    return low + below - 1
