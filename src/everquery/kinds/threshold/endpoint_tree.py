"""Layered endpoint trees: boxes cut into few canonical nodes, a point inside few nodes.

The structure of range-thresholding, sections 4 and 6. A tree stands over the sorted distinct ends
of some ranges; a leaf is the gap from one end to the next, and a range is the union of at most two
nodes of each level. With more attributes, a node that some row needs owns a tree over the next
attribute, made of the ends of just those rows; a row's canonical nodes are the ones that it
reaches in the trees of the last attribute. They are disjoint: a point is in one of them or none.

All trees lie in one pool of flat arrays, the lanes' trees over the first attribute foremost. A tree
with k ends has the node numbers 1 to 2k - 1 with the root at 1, the children of i at 2i and 2i + 1,
and its leaves from k on. That layout needs no pointers, and cuts ranges rightly for every k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everquery.core.arrays import Bools, Floats, Int32s, Int64s, total_bytes
from everquery.core.jit import kernel, part

DEEPEST = 32  # levels of a tree with fewer than 2**31 nodes


@part
def leaf_of(value: float, ends: Floats, first: int, last: int) -> int:
    """Return which gap of the ends `first` to `last` holds the value, -1 if it is below all.

    A NaN is below all. O(log k).
    """
    low = first
    size = last - first
    while size > 0:
        half = size >> 1
        if ends[low + half] <= value:
            low += half + 1
            size -= half + 1
        else:
            size = half
    return low - first - 1


@kernel
def rank_ends(
    order: Int64s, ends: Floats, first: Int64s, tree: Int32s, rank: Int32s, size: Int64s
) -> None:
    """Write each end's rank among the distinct ends of its tree, and how many there are.

    One pass over all ends in ascending order deals them out to the trees: no tree sorts its own.

    Parameters
    ----------
    order : shape (2n,): the rows' ends in ascending order, NaN last; row i has ends i and n + i
    ends : shape (2n,): the lows, then the highs; a high of NaN ranks behind all ends of its tree
    first : shape (n + 1,): where each row's items begin
    tree : shape (items,): the tree that an item is in
    rank : shape (2, items): written, the rank of its low and of its high
    size : shape (trees,), all 0: written, the distinct ends
    """
    n = first.size - 1
    latest = np.full(size.size, np.nan)
    for i in order:
        row = i % n
        side = i // n
        end = ends[i]
        for item in range(first[row], first[row + 1]):
            t = tree[item]
            if np.isnan(end):
                rank[side, item] = size[t]
                continue
            if latest[t] != end:
                latest[t] = end
                size[t] += 1
            rank[side, item] = size[t] - 1


@kernel
def place_ends(
    low: Floats, high: Floats, first: Int64s, tree: Int32s, rank: Int32s, start: Int64s, out: Floats
) -> None:
    """Write the distinct ends of each tree, from `start` of the tree on, to `out`."""
    for row in range(first.size - 1):
        for item in range(first[row], first[row + 1]):
            begin = start[tree[item]]
            out[begin + rank[0, item]] = low[row]
            if not np.isnan(high[row]):
                out[begin + rank[1, item]] = high[row]


@kernel
def count_nodes(first: Int64s, tree: Int32s, rank: Int32s, size: Int64s, row_start: Int64s) -> None:
    """Write how many canonical nodes each row has, in the place behind its own."""
    for row in range(first.size - 1):
        found = 0
        for item in range(first[row], first[row + 1]):
            left = rank[0, item] + size[tree[item]]
            right = rank[1, item] + size[tree[item]]
            while left < right:
                found += (left & 1) + (right & 1)
                left = (left + 1) >> 1
                right >>= 1
        row_start[row + 1] = found


@kernel
def list_nodes(
    first: Int64s, tree: Int32s, rank: Int32s, size: Int64s, start: Int64s, out: Int32s
) -> None:
    """Write the canonical nodes of all rows, row by row; O(log k) for each item.

    Both borders climb from the leaves; a border that is a right child (left border) or has a left
    sibling (right border) leaves a node behind.
    """
    n = 0
    for row in range(first.size - 1):
        for item in range(first[row], first[row + 1]):
            t = tree[item]
            root = 2 * start[t]
            left = rank[0, item] + size[t]
            right = rank[1, item] + size[t]
            while left < right:
                if left & 1:
                    out[n] = root + left
                    n += 1
                if right & 1:
                    out[n] = root + right - 1
                    n += 1
                left = (left + 1) >> 1
                right >>= 1


@dataclass(frozen=True, slots=True)
class EndpointTrees:
    """The trees of a set of boxes, and each box's canonical nodes.

    A node of the pool has the number ``2 * start[tree] + its number in the tree``. Fewer than 2**31
    nodes and canonical nodes: they would take more than 48 GB.

    Attributes
    ----------
    attributes : how many attributes the boxes have, d
    lanes : the trees 0 to lanes - 1 are the lanes' trees over the first attribute
    ends : float64, the ascending ends of each tree
    start : int64, shape (trees + 1,), where the ends of each tree begin
    child : int32, the next attribute's tree of each node that is not in a tree of the last
        attribute, -1 for none; the last attribute's trees are at the end of the pool
    row_start : int64, shape (n + 1,), where each row's canonical nodes begin
    node : int32, shape (entries,), the canonical nodes, counted from the last attribute's first
    """

    attributes: int
    lanes: int
    ends: Floats
    start: Int64s
    child: Int32s
    row_start: Int64s
    node: Int32s

    @classmethod
    def build(cls, low: Floats, high: Floats, lane: Int32s, lanes: int) -> EndpointTrees:
        """Build the trees over boxes of shape (d, n), each in a lane; O(entries + d n log n).

        A `high` of NaN means no upper limit. A box whose `high` is not above its `low` is empty,
        and has no nodes.
        """
        attributes, n = low.shape
        first, tree, trees = np.arange(n + 1, dtype=np.int64), lane, lanes
        used = number = 0
        pools: list[Floats] = []
        starts: list[Int64s] = []
        children: list[Int32s] = [np.empty(0, np.int32)]
        for a in range(attributes):
            rank, size = _ranks(low[a], high[a], first, tree, trees)
            start = np.concatenate([[used], used + np.cumsum(size)]).astype(np.int64)
            pool = np.empty(start[-1] - used)
            place_ends(low[a], high[a], first, tree, rank, start - used, pool)
            row_start = np.zeros(n + 1, np.int64)
            count_nodes(first, tree, rank, size, row_start)
            row_start = np.cumsum(row_start)
            node = np.empty(row_start[-1], np.int32)
            list_nodes(first, tree, rank, size, start - used, node)
            pools.append(pool)
            starts.append(start[:-1])
            number += trees
            if a < attributes - 1:
                owns = np.zeros(2 * pool.size, np.bool_)
                owns[node] = True
                child = _numbered(owns)
                tree, trees, first = child[node], int(np.count_nonzero(owns)), row_start
                children.append(np.where(owns, child + np.int32(number), np.int32(-1)))
            used = int(start[-1])
        return cls(
            attributes=attributes,
            lanes=lanes,
            ends=np.concatenate(pools),
            start=np.concatenate([*starts, [used]]).astype(np.int64),
            child=np.concatenate(children),
            row_start=row_start,
            node=node,
        )

    @property
    def nodes(self) -> int:
        """The nodes of the last attribute's trees: what `node` counts."""
        return 2 * self.ends.size - self.child.size

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(self.ends, self.start, self.child, self.row_start, self.node)


def _ranks(
    low: Floats, high: Floats, first: Int64s, tree: Int32s, trees: int
) -> tuple[Int32s, Int64s]:
    """Return the ranks of the items' ends, shape (2, items), and the distinct ends of each tree."""
    ends = np.concatenate([low, high])
    rank = np.empty((2, tree.size), np.int32)
    size = np.zeros(trees, np.int64)
    rank_ends(np.argsort(ends), ends, first, tree, rank, size)
    return rank, size


def _numbered(owns: Bools) -> Int32s:
    """Return for each node how many before it own a tree."""
    return (np.cumsum(owns, dtype=np.int32) - owns).astype(np.int32)
