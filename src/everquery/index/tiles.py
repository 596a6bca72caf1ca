"""Layers of tiles over two attributes: which boxes contain a point, when no attribute is selective.

The two-dimensional decomposition of boxes. Columns and rows of tiles are cut at quantiles of the
boxes' ends, so that a crowded region has more tiles. A box stands in the finest layer in which it
covers at most 16 tiles; each coarser layer joins 4 x 4 tiles of the one below. A search looks at
one tile of every layer in use, and checks the candidates exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s, grow, total_bytes
from everquery.core.jit import kernel
from everquery.index.cei import BLOCK
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.index.rank_grid import bucket_of, fill_buckets, plan_grid, rank_in_bucket
from everquery.index.rows import Rows, Step

LAYER_BITS = 2  # a layer joins 2**LAYER_BITS columns of the layer below
MOST_TILES = 16  # that a box covers in its layer


@kernel
def list_tiles(
    column: Int64s,
    row: Int64s,
    layer: Int64s,
    layers: Int64s,
    offsets: Int64s,
    out: Int32s,
    write: bool,
) -> None:
    """Put each box into all tiles that it covers in its layer.

    Parameters
    ----------
    column, row : shape (2, n): first and last tile of the finest layer on each attribute
    layers : shape (layers, 2): the layer's first tile number, and its tiles in a row
    offsets : counts of each tile in the place behind it, or with `write` where its next box goes
    """
    for box in range(layer.size):
        shift = LAYER_BITS * layer[box]
        first, across = layers[layer[box]]
        for y in range(row[0, box] >> shift, (row[1, box] >> shift) + 1):
            for x in range(column[0, box] >> shift, (column[1, box] >> shift) + 1):
                tile = first + y * across + x
                if write:
                    out[offsets[tile]] = box
                    offsets[tile] += 1
                else:
                    offsets[tile + 1] += 1


@kernel
def search_tiles(
    values: Floats,
    attributes: Int64s,
    axes: tuple[int, int],
    cuts: tuple[Floats, Floats],
    grid: Floats,
    bucket_ranks: tuple[Int32s, Int32s],
    layers: Int64s,
    offsets: Int32s,
    pieces: Int32s,
    rows: tuple[Int32s, Floats, Floats],
    flags: Flags,
    out: Int32s,
    n: int,
    ends: Int64s,
) -> Int32s:
    """Write the slots of the live boxes that contain each event; see `search_cei` for `out`.

    Parameters
    ----------
    axes : the two attributes, as places in `attributes`
    cuts : for each axis the ascending values that divide its tiles
    grid, bucket_ranks : lowest value and scale, and first cut of each bucket, for each axis
    layers : first tile, tiles in a row, and shift of each layer in use
    """
    slot, low, high = rows
    place = np.empty((2, BLOCK), np.int64)
    for start in range(0, ends.size, BLOCK):
        size = min(BLOCK, ends.size - start)
        for axis in range(2):
            cut = cuts[axis]
            bucket_rank = bucket_ranks[axis]
            buckets = bucket_rank.size - 1
            for i in range(size):
                value = values[attributes[axes[axis]], start + i]
                bucket = bucket_of(value, grid[axis, 0], grid[axis, 1], buckets)
                place[axis, i] = 1 + rank_in_bucket(
                    value, cut, bucket_rank[bucket], bucket_rank[bucket + 1]
                )
        for i in range(size):
            for layer in range(len(layers)):
                shift = layers[layer, 2]
                across = layers[layer, 1]
                tile = layers[layer, 0] + (place[1, i] >> shift) * across + (place[0, i] >> shift)
                while n + offsets[tile + 1] - offsets[tile] > out.size:
                    out = grow(out)
                for piece in range(offsets[tile], offsets[tile + 1]):
                    box = pieces[piece]
                    inside = True
                    for a in range(attributes.size):
                        value = values[attributes[a], start + i]
                        if not low[a, box] <= value or high[a, box] <= value:
                            inside = False
                            break
                    if inside and flags[slot[box]] & LIVE_MASK == LIVE:
                        out[n] = slot[box]
                        n += 1
            ends[start + i] = n
    return out


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tiles of a set of boxes on two attributes, before any list is built.

    Attributes
    ----------
    axes : the two attributes, as places in the shape's attributes
    cuts : the values that divide the tiles of each axis
    cover : for each axis shape (2, n), the first and last tile of each box in the finest layer
    layer : the layer of each box
    across : tiles in a row of the finest layer
    """

    axes: tuple[int, int]
    cuts: tuple[Floats, Floats]
    cover: tuple[Int64s, Int64s]
    layer: Int64s
    across: int

    @classmethod
    def plan(cls, rows: Rows, axes: tuple[int, int]) -> Tiling:
        """Cut both axes at quantiles, and choose each box's layer."""
        bits = max(1, int(np.log2(4 * len(rows)) / 2))
        cuts = tuple(quantile_cuts(rows.low[a], rows.high[a], (1 << bits) - 1) for a in axes)
        cover = tuple(
            np.stack(
                [np.searchsorted(cut, rows.low[a], "right"), np.searchsorted(cut, rows.high[a])]
            )
            for cut, a in zip(cuts, axes, strict=True)
        )
        layer = np.zeros(len(rows), np.int64)
        for step in range(bits // LAYER_BITS + 1):
            shift = LAYER_BITS * step
            tiles = np.ones(len(rows), np.int64)
            for first, last in cover:
                tiles *= (last >> shift) - (first >> shift) + 1
            layer[(tiles > MOST_TILES) & (layer == step)] += 1
        return cls(axes, (cuts[0], cuts[1]), (cover[0], cover[1]), layer, 1 << bits)

    def hit_rate(self) -> Floats:
        """Return for each box the share of tiles of its layer that list it."""
        shift = LAYER_BITS * self.layer
        share = np.ones(self.layer.size)
        for first, last in self.cover:
            share *= ((last >> shift) - (first >> shift) + 1) / (self.across >> shift)
        return share

    def take(self, picked: Int64s) -> Tiling:
        """Return the tiling of the picked boxes, with the same cuts."""
        return Tiling(
            self.axes,
            self.cuts,
            (self.cover[0][:, picked], self.cover[1][:, picked]),
            self.layer[picked],
            self.across,
        )


@dataclass(frozen=True, slots=True)
class TileSegment:
    """An immutable set of boxes, searched by tiles of two attributes."""

    rows: Rows
    tiling_axes: tuple[int, int]
    attributes: Int64s
    cuts: tuple[Floats, Floats]
    grid: Floats
    bucket_rank: tuple[Int32s, Int32s]
    layers: Int64s
    offsets: Int32s
    pieces: Int32s
    hit_rate: Floats

    @classmethod
    def build(cls, rows: Rows, tiling: Tiling) -> TileSegment:
        """List the boxes of each tile."""
        order = np.lexsort((tiling.cover[0][0], tiling.cover[1][0], tiling.layer))
        rows, tiling = rows.take(order), tiling.take(order)
        every = np.arange(int(tiling.layer.max()) + 1)
        across = tiling.across >> (LAYER_BITS * every)
        first = np.concatenate([[0], np.cumsum(across * across)])
        counts = np.zeros(first[-1] + 1, np.int64)
        table = np.stack([first[:-1], across], axis=1).astype(np.int64)
        column, row = tiling.cover
        list_tiles(column, row, tiling.layer, table, counts, np.empty(0, np.int32), False)
        offsets = np.cumsum(counts)
        pieces = np.empty(offsets[-1], np.int32)
        list_tiles(column, row, tiling.layer, table, offsets[:-1].copy(), pieces, True)
        used = np.unique(tiling.layer)
        grid, bucket_rank = zip(*(grid_over(cut) for cut in tiling.cuts), strict=True)
        return cls(
            rows=rows,
            tiling_axes=tiling.axes,
            attributes=np.array(rows.shape.attributes, np.int64),
            cuts=tiling.cuts,
            grid=np.stack(grid),
            bucket_rank=(bucket_rank[0], bucket_rank[1]),
            layers=np.column_stack([table[used], LAYER_BITS * used]).astype(np.int64),
            offsets=offsets.astype(np.int32),
            pieces=pieces,
            hit_rate=tiling.hit_rate(),
        )

    def renumbered(self, slots: Int32s) -> TileSegment:
        """Return the same with other slots, given by the present ones."""
        return replace(self, rows=self.rows.renumbered(slots))

    def search(self, step: Step, out: Int32s, used: int) -> tuple[Int64s, Int32s]:
        """Write the live queries that contain each event; see `CeiSegment.search`."""
        ends = np.empty(step.grouped.position.size, np.int64)
        out = search_tiles(
            step.grouped.values,
            self.attributes,
            self.tiling_axes,
            self.cuts,
            self.grid,
            self.bucket_rank,
            self.layers,
            self.offsets,
            self.pieces,
            (self.rows.slot, self.rows.low, self.rows.high),
            step.flags,
            out,
            used,
            ends,
        )
        return ends, out

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(
            *self.rows.arrays(),
            *self.cuts,
            *self.bucket_rank,
            self.offsets,
            self.pieces,
            self.hit_rate,
        )


def quantile_cuts(low: Floats, high: Floats, count: int) -> Floats:
    """Return at most `count` distinct finite values that divide the ends evenly."""
    ends = np.concatenate([low, high])
    ends = np.sort(ends[np.isfinite(ends)])
    if ends.size == 0:
        return np.zeros(1)
    picked = np.linspace(0, ends.size - 1, count).astype(np.int64)
    return np.unique(ends[picked])


def grid_over(cut: Floats) -> tuple[Floats, Int32s]:
    """Return lowest value and scale of a grid over the cuts, and the first cut of each bucket."""
    rank_start = np.array([0, cut.size], np.int64)
    grid_start, low, scale = plan_grid(cut, rank_start)
    bucket_rank = np.empty(grid_start[-1], np.int32)
    fill_buckets(cut, rank_start, grid_start, low, scale, bucket_rank)
    return np.array([low[0], scale[0]]), bucket_rank
