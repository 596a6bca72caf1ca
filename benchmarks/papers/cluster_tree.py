"""Clusters in the order of their intersections: a treap in flat arrays, and links to neighbours.

The paper (continuous-quantiles, section 3.4) keeps them in a B+ tree by their lower ends. No
intersection contains another one, so the upper ends have the same order, and no two lower ends are
equal. A treap needs no more than two children and a number drawn by lot for each cluster, and
inserts and removes in loops of a few lines; both take O(log k), expected.

A cluster is known by a small number. Where clusters merge, one number stands for all of them from
then on (`find`), and the others are free again once the last member has gone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Bytes, Floats, Int32s, Int64s, resized
from everquery.core.jit import kernel, part

NONE = -1

# Places in `ClusterTree.state`.
FREE = 0  # the first free number; the others follow in `ring`
CLUSTERS = 1  # clusters
FORMED = 2  # clusters made or narrowed since the last grouping of all
DROPPED = 3  # queries dropped since then
CHANGED = 4  # numbers in `ClusterTree.changed`
STATE_WORDS = 5

_SEED = 20060301


class ClusterTree(NamedTuple):
    """Clusters by number.

    Attributes
    ----------
    low, high : float64
        The intersections; NaN where there is no cluster of this number.
    members : int64
        How many; 0 where there is no cluster of this number.
    lot : int32
        Drawn by lot: none is above its parent's in the tree.
    child : int32, shape (2 * numbers + 1,)
        The root, then of each number what is below and above it.
    before, after : int32
        The neighbours in order.
    heir : int32
        The number that stands for this one; its own, if it has not been merged into another one.
    ring : int32
        The next of the numbers that merged into one cluster, in a ring; or the next free number.
    changed : int32
        Numbers of clusters made, narrowed, merged away or emptied since they were last asked for.
    is_changed : uint8
    state : int64
        See `FREE` and the words after it.
    """

    low: Floats
    high: Floats
    members: Int64s
    lot: Int32s
    child: Int32s
    before: Int32s
    after: Int32s
    heir: Int32s
    ring: Int32s
    changed: Int32s
    is_changed: Bytes
    state: Int64s


def new_tree(low: Floats, high: Floats, members: Int64s) -> ClusterTree:
    """Return a tree of clusters whose intersections ascend, numbered in this order. O(k)."""
    k = low.size
    numbers = np.arange(k, dtype=np.int32)
    tree = ClusterTree(
        low=low.copy(),
        high=high.copy(),
        members=members.astype(np.int64),
        lot=_lots(0, k),
        child=np.full(2 * k + 1, NONE, np.int32),
        before=numbers - np.int32(1),
        after=np.where(numbers + 1 < k, numbers + 1, NONE).astype(np.int32),
        heir=numbers.copy(),
        ring=numbers,
        changed=np.empty(k, np.int32),
        is_changed=np.zeros(k, np.uint8),
        state=np.array([NONE, k, 0, 0, 0], np.int64),
    )
    plant(tree.lot, tree.child)
    return with_room(tree, max(16, k // 8))


def with_room(tree: ClusterTree, more: int) -> ClusterTree:
    """Return a copy with so many more free numbers."""
    k = tree.low.size
    size = k + more
    new = np.arange(k, size, dtype=np.int32)
    heir, ring = resized(tree.heir, size), resized(tree.ring, size)
    heir[k:] = new
    ring[k:] = np.append(new[1:], tree.state[FREE])
    state = tree.state.copy()
    state[FREE] = k
    return ClusterTree(
        low=resized(tree.low, size, np.nan),
        high=resized(tree.high, size, np.nan),
        members=resized(tree.members, size),
        lot=np.append(tree.lot, _lots(k, more)),
        child=resized(tree.child, 2 * size + 1, NONE),
        before=resized(tree.before, size, NONE),
        after=resized(tree.after, size, NONE),
        heir=heir,
        ring=ring,
        changed=resized(tree.changed, size),
        is_changed=resized(tree.is_changed, size),
        state=state,
    )


def _lots(first: int, count: int) -> Int32s:
    """Return lots for numbers from `first` on; always the same, so that replays are."""
    draw = np.random.default_rng((_SEED, first))
    return draw.integers(0, np.iinfo(np.int32).max, count, np.int32)


@kernel
def plant(lot: Int32s, child: Int32s) -> None:
    """Make a tree of all numbers, which are in order. O(k), along the path to the highest."""
    path = np.empty(lot.size, np.int64)
    depth = 0
    for node in range(lot.size):
        below = NONE
        while depth > 0 and lot[path[depth - 1]] < lot[node]:
            depth -= 1
            below = path[depth]
        child[2 * node + 1] = below
        child[2 * path[depth - 1] + 2 if depth > 0 else 0] = node
        path[depth] = node
        depth += 1


@part
def find_neighbours(tree: ClusterTree, at: float) -> tuple[int, int]:
    """Return the last cluster whose lower end is below `at`, and the first whose is not."""
    before, after = NONE, NONE
    node = tree.child[0]
    while node != NONE:
        if tree.low[node] < at:
            before = node
            node = tree.child[2 * node + 2]
        else:
            after = node
            node = tree.child[2 * node + 1]
    return before, after


@part
def insert(tree: ClusterTree, new: int, before: int, after: int) -> None:
    """Put a cluster, whose lower end is set, between its neighbours."""
    low, lot, child = tree.low, tree.lot, tree.child
    at = low[new]
    place = 0
    while child[place] != NONE and lot[child[place]] >= lot[new]:
        node = child[place]
        place = 2 * node + 2 if low[node] < at else 2 * node + 1
    rest = child[place]
    child[place] = new
    below, above = 2 * new + 1, 2 * new + 2
    while rest != NONE:  # what hung here is split at the new one
        if low[rest] < at:
            child[below] = rest
            below = 2 * rest + 2
            rest = child[below]
        else:
            child[above] = rest
            above = 2 * rest + 1
            rest = child[above]
    child[below] = NONE
    child[above] = NONE
    tree.before[new] = before
    tree.after[new] = after
    if before != NONE:
        tree.after[before] = new
    if after != NONE:
        tree.before[after] = new


@part
def remove(tree: ClusterTree, old: int) -> None:
    """Take a cluster out of the order; its intersection is forgotten."""
    low, lot, child = tree.low, tree.lot, tree.child
    at = low[old]
    place = 0
    while child[place] != old:
        node = child[place]
        place = 2 * node + 2 if low[node] < at else 2 * node + 1
    below, above = child[2 * old + 1], child[2 * old + 2]
    while below != NONE and above != NONE:
        if lot[below] >= lot[above]:
            child[place] = below
            place = 2 * below + 2
            below = child[place]
        else:
            child[place] = above
            place = 2 * above + 1
            above = child[place]
    child[place] = below if below != NONE else above
    before, after = tree.before[old], tree.after[old]
    if before != NONE:
        tree.after[before] = after
    if after != NONE:
        tree.before[after] = before
    low[old] = np.nan
    tree.high[old] = np.nan


@part
def find(tree: ClusterTree, number: int) -> int:
    """Return the number that stands for this one, and shorten the way for the next to ask."""
    heir = tree.heir
    while heir[number] != number:
        heir[number] = heir[heir[number]]
        number = heir[number]
    return number


@kernel
def list_in_order(tree: ClusterTree, out: Int32s) -> None:
    """Write the numbers of all clusters by ascending intersection. O(k)."""
    node = tree.child[0]
    while node != NONE and tree.child[2 * node + 1] != NONE:
        node = tree.child[2 * node + 1]
    for i in range(out.size):
        out[i] = node
        node = tree.after[node]
