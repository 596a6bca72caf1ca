"""Standing quantile queries in clusters that one value each answers.

From the paper continuous-quantiles. A given set is grouped at its best (`rank_intervals`, section
3.3); queries then come and go one by one (`online_clusters`, section 3.4), which is quick and
drifts from the best. When it may have drifted far, all live queries are grouped anew from a copy,
in any thread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.papers.cluster_tree import (
    CHANGED,
    CLUSTERS,
    DROPPED,
    FORMED,
    NONE,
    ClusterTree,
    list_in_order,
    new_tree,
    with_room,
)
from benchmarks.papers.online_clusters import (
    list_changed,
    place_queries,
    settle_labels,
    take_queries,
)
from benchmarks.papers.rank_intervals import Grouping, Method, group_intervals
from everquery.core.arrays import Floats, Int32s, Int64s, resized, total_bytes
from everquery.errors import InvalidQueryError

GROWTH = 0.5  # new clusters by those of the last grouping, or drops by its queries
FEWEST = 64  # of either, before a grouping is worth its while


@dataclass(frozen=True, slots=True)
class Reclustering:
    """A grouping of all queries to be done off the hot path: `run` it, then `Clusters.install`.

    Attributes
    ----------
    size : int
        Queries that had come until then, dropped ones too.
    query : int64, shape (n,)
        Those that were live.
    low, high : float64, shape (n,)
    method, epsilon : as in `Clusters`
    """

    size: int
    query: Int64s
    low: Floats
    high: Floats
    method: Method
    epsilon: float

    def run(self) -> Grouping:
        """Group the queries; reads nothing but copies."""
        return group_intervals(self.low, self.high, method=self.method, epsilon=self.epsilon)


class Clusters:
    """Quantile queries in clusters; every interval contains its cluster's intersection.

    Queries are numbered as they come, clusters by any small numbers, which are used again. A number
    keeps its meaning until `take_changed` lists it, or until `install` and `recluster`, which
    number all clusters anew.

    Parameters
    ----------
    method : "a" or "b"
        Whether to aim at the least cost, see `cluster_cost`, or at the fewest clusters.
    epsilon : float
        What the summary errs, below 1; the intervals are narrowed by it already.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.papers.rank_intervals import rank_intervals
    >>> phi, epsilon = np.array([0.50, 0.49, 0.9]), np.array([0.05, 0.06, 0.02])
    >>> clusters = Clusters.build(*rank_intervals(phi, epsilon, summary_epsilon=0.01))
    >>> clusters.cluster_of.tolist()
    [0, 0, 1]
    >>> low, high = clusters.intersections()
    >>> low[:2].round(3).tolist(), high[:2].round(3).tolist()
    ([0.46, 0.89], [0.54, 0.91])
    >>> clusters.register(np.array([0.5]), np.array([0.9])).tolist()
    [0]
    """

    def __init__(self, *, method: Method = "a", epsilon: float = 0.0) -> None:
        if not 0.0 <= epsilon < 1.0:
            raise InvalidQueryError(f"epsilon is {epsilon}; a summary errs by 0 or more, below 1")
        self.method: Method = method
        self.epsilon = epsilon
        self._size = 0
        self._live = 0
        self._low, self._high = np.empty(0), np.empty(0)
        self._label = np.empty(0, np.int32)
        self._outstanding: Reclustering | None = None
        none = group_intervals(self._low, self._high, method=method, epsilon=epsilon)
        self._tree = self._start(none)

    @classmethod
    def build(
        cls, low: Floats, high: Floats, *, method: Method = "a", epsilon: float = 0.0
    ) -> Clusters:
        """Return clusters of a given set. Cost: a sort, and see `group_intervals`."""
        clusters = cls(method=method, epsilon=epsilon)
        clusters._append(low, high)
        grouping = group_intervals(low, high, method=method, epsilon=epsilon)
        clusters._tree = clusters._start(grouping)
        clusters._label[:] = grouping.cluster_of
        clusters._live = low.size
        return clusters

    def __len__(self) -> int:
        """Return how many clusters there are."""
        return int(self._tree.state[CLUSTERS])

    @property
    def live(self) -> int:
        """How many queries there are."""
        return self._live

    @property
    def tree(self) -> ClusterTree:
        """The clusters, for kernels; another one whenever numbers have run out."""
        return self._tree

    @property
    def cluster_of(self) -> Int32s:
        """The cluster of each query, -1 of those dropped; int32, not to be written. O(n)."""
        settle_labels(self._tree, self._label[: self._size])
        return self._label[: self._size]

    @property
    def counts(self) -> Int64s:
        """The members by cluster, 0 where a number is free; int64, not to be written."""
        return self._tree.members

    def intersections(self) -> tuple[Floats, Floats]:
        """Return both ends by cluster, NaN where a number is free; not to be written."""
        return self._tree.low, self._tree.high

    def order(self) -> Int32s:
        """Return the clusters by ascending intersection: both ends ascend strictly. O(k)."""
        order = np.empty(len(self), np.int32)
        list_in_order(self._tree, order)
        return order

    def register(self, low: Floats, high: Floats) -> Int32s:
        """Add queries, numbered on from the last; return their clusters. See `place_query`."""
        first = self._size
        self._append(low, high)
        self._live += low.size
        self._place(np.arange(first, self._size))
        settle_labels(self._tree, self._label[first : self._size])
        return self._label[first : self._size].copy()

    def drop(self, queries: Int64s) -> None:
        """Drop queries, those dropped already excepted. O(1) each, O(log k) if a cluster goes."""
        self._live -= take_queries(self._tree, queries.astype(np.int64), self._label)

    def take_changed(self) -> Int32s:
        """Return clusters made, narrowed, merged away or emptied since the last call.

        The last two have no members in `counts`. Each comes once, in the order of its first change.
        """
        changed = np.empty(self._tree.state[CHANGED], np.int32)
        list_changed(self._tree, changed)
        return changed

    def due_recluster(self) -> Reclustering | None:
        """Return a grouping of all queries if it is due; None while one is under way.

        Due once the clusters made or narrowed are more than `GROWTH` of those that the last
        grouping gave, or the drops more than `GROWTH` of its queries.
        """
        if self._outstanding is not None:
            return None
        formed, dropped = self._tree.state[FORMED], self._tree.state[DROPPED]
        clusters, queries = self._grouped
        if formed <= FEWEST + GROWTH * clusters and dropped <= FEWEST + GROWTH * queries:
            return None
        self._outstanding = self._copy()
        return self._outstanding

    def install(self, job: Reclustering, grouping: Grouping) -> None:
        """Take over the result of what `due_recluster` handed out.

        Queries dropped since then are dropped from it, those that came since then are registered.
        """
        if job is self._outstanding:  # not one from before queries were renumbered
            self._install(job, grouping)

    def abandon(self, job: Reclustering) -> None:
        """Give up what `due_recluster` handed out; it may come again."""
        if job is self._outstanding:
            self._outstanding = None

    def recluster(self) -> None:
        """Group all queries now; a grouping under way is not wanted any more."""
        job = self._copy()
        self._install(job, job.run())

    def compact(self) -> Int64s:
        """Forget dropped queries; return the present numbers of those that remain, in order.

        They are numbered from 0 on. Clusters stay; a grouping under way is not wanted any more.
        """
        self._outstanding = None
        kept = np.flatnonzero(self._label[: self._size] != NONE)
        self._low, self._high = self._low[kept], self._high[kept]
        self._label = self._label[kept]
        self._size = kept.size
        return kept

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(self._low, self._high, self._label, *self._tree)

    def _append(self, low: Floats, high: Floats) -> None:
        if not (low <= high).all():  # nor if one is NaN
            i = int(np.flatnonzero(~(low <= high))[0])
            raise InvalidQueryError(f"interval {i} is [{low[i]}, {high[i]}]; no rank is in it")
        end = self._size + low.size
        if end > self._label.size:
            room = max(end, 2 * self._size)
            self._low, self._high = resized(self._low, room), resized(self._high, room)
            self._label = resized(self._label, room, NONE)
        self._low[self._size : end] = low
        self._high[self._size : end] = high
        self._size = end

    def _place(self, queries: Int64s) -> None:
        placed = 0
        while True:
            placed = place_queries(
                self._tree, self._low, self._high, queries, placed, self._label
            )  # fmt: skip
            if placed == queries.size:
                return
            self._tree = with_room(self._tree, self._tree.low.size)

    def _copy(self) -> Reclustering:
        """Return the grouping of all queries that are live, on copies."""
        query = np.flatnonzero(self._label[: self._size] != NONE)
        return Reclustering(
            self._size, query, self._low[query], self._high[query], self.method, self.epsilon
        )

    def _start(self, grouping: Grouping) -> ClusterTree:
        """Return the clusters of a grouping, and note what later ones are held against."""
        clusters = grouping.low.size
        members = np.bincount(grouping.cluster_of, minlength=clusters)
        self._grouped = clusters, grouping.cluster_of.size
        return new_tree(grouping.low, grouping.high, members)

    def _install(self, job: Reclustering, grouping: Grouping) -> None:
        self._outstanding = None
        before = self._label
        self._tree = self._start(grouping)
        self._label = np.full(before.size, NONE, np.int32)
        self._label[job.query] = grouping.cluster_of
        take_queries(self._tree, job.query[before[job.query] == NONE], self._label)
        self._place(job.size + np.flatnonzero(before[job.size : self._size] != NONE))
