"""Where the numbers of lanes are in the pool: of many lanes at once."""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Int64s
from everquery.kinds.correlated.estimates import PIECES
from everquery.kinds.correlated.histograms import HEAD
from everquery.kinds.correlated.records import Groups, Lanes


def spread(starts: Int64s, sizes: Int64s) -> Int64s:
    """Return all places of stretches, one behind the other."""
    ends = np.cumsum(sizes)
    places: Int64s = np.repeat(starts - ends + sizes, sizes) + np.arange(int(sizes.sum()))
    return places


def block_sizes(groups: Groups, group: Array) -> Int64s:
    """Return how many numbers a block of each of some groups takes."""
    measures = np.where(groups.sums[group] != 0, 3, 1)
    sizes: Int64s = HEAD + groups.edges[group].astype(np.int64) * (1 + 3 * measures)
    return sizes


def starts_of_blocks(groups: Groups, lanes: Lanes, picked: Int64s, blocks: Int64s) -> Int64s:
    """Return where the first blocks of lanes begin, so many of each, oldest blocks first."""
    group = lanes.group[picked]
    ring = np.where(groups.window[group] > 0, PIECES + 1, 1)
    size = np.repeat(block_sizes(groups, group), blocks)
    number = spread(lanes.head[picked], blocks) % np.repeat(ring, blocks)
    starts: Int64s = np.repeat(lanes.start[picked], blocks) + number * size
    return starts
