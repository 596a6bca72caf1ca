"""Containment-encoded intervals: which stored intervals contain a value (paper: cei-index).

The paper decomposes over integer values. Here intervals are decomposed over the *ranks* of their
distinct ends, so any float64 end is exact and no final check is needed. Ranks of all lanes (a lane
is one key, or the only one of a segment without keys) stand one after the other in one rank space,
so one structure serves all keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s, grow, total_bytes
from everquery.core.jit import kernel
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.index.lanes import sort_into_lanes
from everquery.index.rows import Rows, Step

# Pieces a query may cost on average before the largest interval is doubled. A piece is 4 bytes; on
# the paper's workload each halving of L saves about 8 ns of a 32 to 68 ns search.
PIECES_PER_QUERY = 20
MAX_LEVELS = 24
BLOCK = 64


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


@kernel
def search_cei(
    events: tuple[Int32s, Int64s, Floats],
    attributes: Int64s,
    primary: int,
    lanes: tuple[Int32s, Int64s],
    grid: tuple[Int64s, Floats, Floats, Int32s],
    bounds: Floats,
    levels: int,
    offsets: Int32s,
    pieces: Int32s,
    rows: tuple[Int32s, Floats, Floats],
    flags: Flags,
    all_live: bool,
    out: Int32s,
    n: int,
    ends: Int64s,
) -> Int32s:
    """Search by shifting right (paper, Figure 11) for every event; write the matching slots.

    Works in blocks and in stages, so that the cache misses of a block's events overlap: buckets,
    ranks, list heads, lists. Boxes over several attributes are found by the `primary` one and
    checked on the others. Values are never NaN.

    Parameters
    ----------
    events : group keys, group starts, values by attribute
    lanes : lane keys (one of -1 for a segment without keys), first rank of each lane
    grid : first bucket, lowest bound and scale of each lane; first rank of each bucket
    pieces : slots for boxes of one attribute, else row numbers
    rows : slot, low, high
    out, n : where the slots go, and how many stand there; a larger copy is returned where needed
    ends : how many matches stand in `out` after each event
    """
    group_key, group_start, values = events
    lane_key, rank_start = lanes
    grid_start, grid_low, grid_scale, bucket_rank = grid
    slot, low, high = rows
    length = 1 << levels
    keyed = lane_key[0] >= 0
    boxes = attributes.size > 1
    searched = values[attributes[primary]]
    block_low = np.empty(BLOCK, np.int64)
    block_high = np.empty(BLOCK, np.int64)
    list_begin = np.empty((BLOCK, levels + 1), np.int64)
    list_end = np.empty((BLOCK, levels + 1), np.int64)
    lane = 0
    for group in range(group_key.size):
        if keyed:
            while lane < lane_key.size and lane_key[lane] < group_key[group]:
                lane += 1
            if lane == lane_key.size or lane_key[lane] != group_key[group]:
                ends[group_start[group] : group_start[group + 1]] = n
                continue
        base = grid_start[lane]
        buckets = grid_start[lane + 1] - base - 1
        lowest = grid_low[lane]
        scale = grid_scale[lane]
        none_below = rank_start[lane]
        for start in range(group_start[group], group_start[group + 1], BLOCK):
            size = min(BLOCK, group_start[group + 1] - start)
            for i in range(size):
                bucket = base + bucket_of(searched[start + i], lowest, scale, buckets)
                block_low[i] = bucket_rank[bucket]
                block_high[i] = bucket_rank[bucket + 1]
            for i in range(size):
                block_low[i] = rank_in_bucket(
                    searched[start + i], bounds, block_low[i], block_high[i]
                )
            room = n
            for i in range(size):
                rank = block_low[i]
                inside = rank & (length - 1)
                local = inside + length
                segment = 2 * (rank - inside)
                for level in range(levels + 1):
                    if rank < none_below:
                        list_begin[i, level] = 0
                        list_end[i, level] = 0
                    else:
                        list_begin[i, level] = offsets[np.uint64(segment + local)]
                        list_end[i, level] = offsets[np.uint64(segment + local + 1)]
                    room += list_end[i, level] - list_begin[i, level]
                    # Fetches the head of the list, while those of other events are on their way.
                    ends[start + i] = pieces[np.uint64(list_begin[i, level])]
                    local >>= 1
            while room > out.size:
                out = grow(out)
            for i in range(size):
                for level in range(levels + 1):
                    for piece in range(list_begin[i, level], list_end[i, level]):
                        found = pieces[np.uint64(piece)]
                        if boxes:
                            inside_box = True
                            for a in range(attributes.size):
                                if a != primary:
                                    other = values[attributes[a], start + i]
                                    if not low[a, found] <= other or high[a, found] <= other:
                                        inside_box = False
                                        break
                            if not inside_box:
                                continue
                            found = slot[found]
                        if all_live or flags[found] & LIVE_MASK == LIVE:
                            out[np.uint64(n)] = found
                            n += 1
                ends[start + i] = n
    return out


@dataclass(frozen=True, slots=True)
class CeiSegment:
    """An immutable set of boxes, searched by one attribute (`primary`) and checked on the others.

    All fields are flat arrays, so that a segment can live in a memory-mapped file.
    """

    rows: Rows
    primary: int
    attributes: Int64s
    lane_key: Int32s
    rank_start: Int64s
    bounds: Floats
    grid_start: Int64s
    grid_low: Floats
    grid_scale: Floats
    bucket_rank: Int32s
    levels: int
    offsets: Int32s
    pieces: Int32s

    @classmethod
    def build(cls, rows: Rows, *, primary: int = 0, levels: int | None = None) -> CeiSegment:
        """Index the rows; `levels` (log2 of the paper's L) is chosen by size unless given."""
        # Rows in order of their lower end: the candidates of a search lie side by side.
        lanes = sort_into_lanes(rows.key, rows.low[primary])
        rows = lanes.taken_from(rows)
        lane_size = np.diff(lanes.start)
        bounds, rank_start, first, last = rank_ends(
            rows.low[primary], rows.high[primary], lane_size
        )
        grid_start, grid_low, grid_scale = plan_grid(bounds, rank_start)
        bucket_rank = np.empty(grid_start[-1], np.int32)
        fill_buckets(bounds, rank_start, grid_start, grid_low, grid_scale, bucket_rank)
        if levels is None:
            levels = choose_levels(first, last)
        offsets, pieces = containment_lists(first, last, levels, bounds.size)
        if len(rows.shape.attributes) == 1:
            pieces = rows.slot[pieces]
        pieces = np.append(pieces, np.int32(0))  # an empty last list has a head to fetch too
        return cls(
            rows=rows,
            primary=primary,
            attributes=np.array(rows.shape.attributes, np.int64),
            lane_key=lanes.key,
            rank_start=rank_start,
            bounds=bounds,
            grid_start=grid_start,
            grid_low=grid_low,
            grid_scale=grid_scale,
            bucket_rank=bucket_rank,
            levels=levels,
            offsets=offsets,
            pieces=pieces,
        )

    def renumbered(self, slots: Int32s) -> CeiSegment:
        """Return the same with other slots, given by the present ones."""
        pieces = slots[self.pieces] if self.attributes.size == 1 else self.pieces
        return replace(self, rows=self.rows.renumbered(slots), pieces=pieces)

    def search(self, step: Step, out: Int32s, used: int) -> tuple[Int64s, Int32s]:
        """Write the live queries that contain each event behind the first `used` places of `out`.

        Returns where each event's matches end, and `out` or a larger copy of it.
        """
        ends = np.empty(step.grouped.position.size, np.int64)
        out = search_cei(
            (step.grouped.key, step.grouped.start, step.grouped.values),
            self.attributes,
            self.primary,
            (self.lane_key, self.rank_start),
            (self.grid_start, self.grid_low, self.grid_scale, self.bucket_rank),
            self.bounds,
            self.levels,
            self.offsets,
            self.pieces,
            (self.rows.slot, self.rows.low, self.rows.high),
            step.flags,
            step.all_live,
            out,
            used,
            ends,
        )
        return ends, out

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(
            *self.rows.arrays(),
            self.lane_key,
            self.rank_start,
            self.bounds,
            self.grid_start,
            self.grid_low,
            self.grid_scale,
            self.bucket_rank,
            self.offsets,
            self.pieces,
        )


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
