"""Quantile queries that come and go one by one: Algorithm 2 of the paper continuous-quantiles.

Section 3.4 (OQC). Clusters count as queries of their own: only their intersections are looked at,
never their members. A new query joins a cluster or makes one; nothing else is touched but clusters
that would contain the new intersection, which merge into it.
"""

from __future__ import annotations

from benchmarks.papers.cluster_tree import (
    CHANGED,
    CLUSTERS,
    DROPPED,
    FORMED,
    FREE,
    NONE,
    ClusterTree,
    find,
    find_neighbours,
    insert,
    remove,
)
from everquery.core.arrays import Floats, Int32s, Int64s
from everquery.core.jit import kernel, part


@part
def note_change(tree: ClusterTree, number: int) -> None:
    """List a cluster among the changed ones, once."""
    if tree.is_changed[number] == 0:
        tree.is_changed[number] = 1
        tree.changed[tree.state[CHANGED]] = number
        tree.state[CHANGED] += 1


@part
def make_cluster(tree: ClusterTree, low: float, high: float, before: int, after: int) -> int:
    """Make a cluster of one query between its neighbours; return its number, or `NONE`.

    `NONE` if no number is free; then nothing has happened.
    """
    new = int(tree.state[FREE])
    if new == NONE:
        return NONE
    tree.state[FREE] = tree.ring[new]
    tree.ring[new] = new
    tree.low[new] = low
    tree.high[new] = high
    tree.members[new] = 1
    insert(tree, new, before, after)
    tree.state[CLUSTERS] += 1
    tree.state[FORMED] += 1
    note_change(tree, new)
    return new


@part
def absorb(tree: ClusterTree, cluster: int, other: int) -> None:
    """Merge another cluster into this one, whose intersection stays as it is."""
    remove(tree, other)
    tree.heir[other] = cluster
    tree.members[cluster] += tree.members[other]
    tree.members[other] = 0
    swap = tree.ring[cluster]  # makes one ring of two
    tree.ring[cluster] = tree.ring[other]
    tree.ring[other] = swap
    tree.state[CLUSTERS] -= 1
    note_change(tree, other)


@part
def narrow(tree: ClusterTree, cluster: int, low: float, high: float) -> None:
    """Narrow an intersection; merge all clusters whose intersection contains it.

    Those are neighbours: of the ones above, all whose lower end it has reached, and of the ones
    below, all whose upper end it has. They go first, for the narrower one would be out of order.
    """
    while tree.after[cluster] != NONE and tree.low[tree.after[cluster]] <= low:
        absorb(tree, cluster, tree.after[cluster])
    while tree.before[cluster] != NONE and tree.high[tree.before[cluster]] >= high:
        absorb(tree, cluster, tree.before[cluster])
    tree.low[cluster] = low
    tree.high[cluster] = high
    tree.members[cluster] += 1
    tree.state[FORMED] += 1
    note_change(tree, cluster)


@part
def place_query(tree: ClusterTree, low: float, high: float) -> int:
    """Add a query to a cluster, or make one; return its number, or `NONE` if none was free.

    Takes O(log k + s log k), of k clusters, where s are merged: but every cluster merges once.

    A query that contains intersections joins the lowest of those. Else it narrows the cluster with
    which it has the widest overlap, the lower one of two: of those that begin before it, that is
    the last, and of those that begin in it, the first.
    """
    before, after = find_neighbours(tree, low)
    if after != NONE and tree.high[after] <= high:
        tree.members[after] += 1
        return after
    best, widest = NONE, -1.0
    if before != NONE and tree.high[before] >= low:
        best, widest = before, min(tree.high[before], high) - low
    if after != NONE and tree.low[after] <= high and high - tree.low[after] > widest:
        best = after
    if best == NONE:
        return make_cluster(tree, low, high, before, after)
    narrow(tree, best, max(tree.low[best], low), min(tree.high[best], high))
    return best


@part
def take_query(tree: ClusterTree, number: int) -> None:
    """Take a query out of its cluster; free the numbers of a cluster that has no more.

    An intersection stays as narrow as it was, which is right for all who remain.
    """
    cluster = find(tree, number)
    tree.state[DROPPED] += 1
    tree.members[cluster] -= 1
    if tree.members[cluster] > 0:
        return
    remove(tree, cluster)
    tree.state[CLUSTERS] -= 1
    note_change(tree, cluster)
    member = tree.ring[cluster]
    while True:
        following = tree.ring[member]
        tree.heir[member] = member
        tree.ring[member] = tree.state[FREE]
        tree.state[FREE] = member
        if member == cluster:
            break
        member = following


@kernel
def place_queries(
    tree: ClusterTree, low: Floats, high: Floats, queries: Int64s, begin: int, label: Int32s
) -> int:
    """Place queries from `begin` on; return where it ended because no number was free.

    Parameters
    ----------
    low, high, label : float64, float64, int32, by query; `label` out
    queries : int64, shape (m,)
    """
    for i in range(begin, queries.size):
        q = queries[i]
        label[q] = place_query(tree, low[q], high[q])
        if label[q] == NONE:
            return i
    return queries.size


@kernel
def take_queries(tree: ClusterTree, queries: Int64s, label: Int32s) -> int:
    """Take queries out of their clusters, but those without one; return how many had one."""
    taken = 0
    for q in queries:
        if label[q] != NONE:
            take_query(tree, label[q])
            label[q] = NONE
            taken += 1
    return taken


@kernel
def settle_labels(tree: ClusterTree, label: Int32s) -> None:
    """Give each query the number that stands for its cluster. O(n)."""
    for q in range(label.size):
        if label[q] != NONE:
            label[q] = find(tree, label[q])


@kernel
def list_changed(tree: ClusterTree, out: Int32s) -> None:
    """Write the numbers of all changed clusters, and forget them."""
    for i in range(out.size):
        out[i] = tree.changed[i]
        tree.is_changed[out[i]] = 0
    tree.state[CHANGED] = 0
