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
from everquery.index.containment import choose_levels, containment_lists
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.index.lanes import sort_into_lanes
from everquery.index.rank_grid import bucket_of, fill_buckets, plan_grid, rank_ends, rank_in_bucket
from everquery.index.rows import Rows, Step

BLOCK = 64


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
