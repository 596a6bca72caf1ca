"""Quantile queries as intervals of ranks, and the grouping of a given set of them into clusters.

From the paper continuous-quantiles, sections 3.1 and 3.3. A query (phi, epsilon) allows an interval
of ranks, as fractions of all events; intervals with a rank in common form a cluster that one value
answers. Two groupings are offered: the fewest clusters (the paper's QC_B), and the least bound on
how often clusters are evaluated (QC_A, its Algorithm 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s
from everquery.core.jit import kernel, part

Method = Literal["a", "b"]

FINEST = 1e-8
"""The width below which the cost of a cluster grows on a straight line.

The paper's bound goes to infinity there, far above one evaluation an event, which is the most that
can happen. One such summand in a sum of float64 would drown all others.
"""


def rank_intervals(
    phi: Floats, epsilon: Floats, *, summary_epsilon: float = 0.0
) -> tuple[Floats, Floats]:
    """Return the ends of the ranks that a summary may be asked for in place of each query.

    Equation 2 of section 3.1: within an interval narrowed by what the summary errs itself, every
    answer of the summary is an answer to the query. A query finer than the summary is taken to be
    as fine as the summary, and becomes a point.

    Parameters
    ----------
    phi, epsilon : float64, shape (n,)
    summary_epsilon : float

    Returns
    -------
    low, high : float64, shape (n,)
        Within [0, 1]; with `phi` in [0, 1], no lower end is above its upper end.
    """
    spread = np.maximum(epsilon - summary_epsilon, 0.0)
    return np.maximum(phi - spread, 0.0), np.minimum(phi + spread, 1.0)


@part
def cluster_cost(width: float, epsilon: float) -> float:
    """Return what a cluster with an intersection of this width costs; infinity below 0.

    ``1 / ln(1 + width / (2 (1 - epsilon)))``, section 3.3.1: times ln(N) it bounds how often the
    cluster is evaluated in N events. Below `FINEST` the tangent goes on, so that the cost stays
    convex, and finite for a point.
    """
    if width < 0.0:
        return math.inf
    scale = 2.0 * (1.0 - epsilon)
    rate = math.log1p(max(width, FINEST) / scale)
    if width >= FINEST:
        return 1.0 / rate
    return 1.0 / rate + (FINEST - width) / ((scale + FINEST) * rate * rate)


@kernel
def find_innermost(
    order: Int64s, low: Floats, high: Floats, owner: Int32s, inner_low: Floats, inner_high: Floats
) -> int:
    """Find the intervals that contain no other one; return how many there are. O(n).

    Descending by lower end, an interval contains an earlier one exactly if its upper end is not
    below all earlier ones. Of equal intervals one stands for all.

    Parameters
    ----------
    order : int64, shape (n,): by ascending `low`, in any order among equals
    low, high : float64, shape (n,), without NaN
    owner : int32, shape (n,), out
        The place of an innermost interval within each interval: of those, the lowest.
    inner_low, inner_high : float64, shape (n,), out
        The innermost intervals, descending; both ends strictly.
    """
    found = 0
    end = order.size
    while end > 0:
        begin = end - 1
        at = low[order[begin]]
        lowest = high[order[begin]]
        while begin > 0 and low[order[begin - 1]] == at:
            begin -= 1
            lowest = min(lowest, high[order[begin]])
        if found == 0 or lowest < inner_high[found - 1]:
            inner_low[found] = at
            inner_high[found] = lowest
            found += 1
        for i in range(begin, end):
            owner[order[i]] = found - 1
        end = begin
    return found


@kernel
def sweep_fewest(low: Floats, high: Floats, start: Int64s) -> int:
    """Write where the fewest possible clusters begin; return how many there are. O(m).

    QC_B, section 3.3.2: a cluster takes all that reach its first one's upper end.

    Parameters
    ----------
    low, high : float64, shape (m,): both strictly ascending
    start : int64, shape (m + 1,), out: the first interval of each cluster
    """
    clusters = 0
    reach = -math.inf
    for i in range(low.size):
        if low[i] > reach:
            start[clusters] = i
            clusters += 1
            reach = high[i]
    return clusters


@part
def is_better(
    new: int, old: int, last: int, low: Floats, high: Floats, cost: Floats, epsilon: float
) -> bool:
    """Say if a cluster up to `last` had better begin at `new` than at `old`, which is before it.

    Once true, it is true for all that come after `last`: see `plan_cheapest`.
    """
    if high[old] < low[last]:
        return True
    with_old = cost[old] + cluster_cost(high[old] - low[last], epsilon)
    with_new = cost[new] + cluster_cost(high[new] - low[last], epsilon)
    return bool(with_new <= with_old)


@kernel
def plan_cheapest(low: Floats, high: Floats, epsilon: float, start: Int64s) -> int:
    """Write where clusters of the least total cost begin; return how many there are.

    QC_A, section 3.3.1: the best plan for the first i intervals is the best for the first j and one
    cluster of the rest. The paper tries all j that overlap, O(m^2) where queries have one epsilon.
    The cost being convex in the width, a later j that is the better one for some i stays so for all
    that follow; so the candidates queue up by the i from which they are best, and every new one is
    placed by a binary search. O(m log m) time, O(m) space. Of equally cheap plans, the last cluster
    is the shortest, as in the paper, and so on towards the front.

    Parameters
    ----------
    low, high : float64, shape (m,): both strictly ascending
    epsilon : what the summary errs, below 1
    start : int64, shape (m + 1,), out: the first interval of each cluster
    """
    m = low.size
    cost = np.zeros(m + 1)
    first = np.empty(m, np.int64)  # of the last cluster of the plan up to each interval
    queue = np.empty(m + 1, np.int64)
    since = np.empty(m + 1, np.int64)
    head, tail = 0, 0
    for i in range(m):
        while tail > head and since[tail - 1] > i:
            if not is_better(i, queue[tail - 1], since[tail - 1], low, high, cost, epsilon):
                break
            tail -= 1
        begin = i
        if tail > head:
            begin, end = max(since[tail - 1], i), m
            while begin < end:
                middle = (begin + end) // 2
                if is_better(i, queue[tail - 1], middle, low, high, cost, epsilon):
                    end = middle
                else:
                    begin = middle + 1
        if begin < m:
            queue[tail] = i
            since[tail] = begin
            tail += 1
        while head + 1 < tail and since[head + 1] <= i:
            head += 1
        first[i] = queue[head]
        cost[i + 1] = cost[first[i]] + cluster_cost(high[first[i]] - low[i], epsilon)
    clusters = 0
    end = m
    while end > 0:  # from the last cluster to the first
        end = first[end - 1]
        start[clusters] = end
        clusters += 1
    for c in range(clusters // 2):
        start[c], start[clusters - 1 - c] = start[clusters - 1 - c], start[c]
    return clusters


@dataclass(frozen=True, slots=True)
class Grouping:
    """Intervals in clusters, which are numbered by ascending intersection.

    Attributes
    ----------
    cluster_of : int32, shape (n,)
    low, high : float64, shape (clusters,)
        The intersections; both strictly ascending.
    """

    cluster_of: Int32s
    low: Floats
    high: Floats

    def cost(self, epsilon: float) -> float:
        """Return the sum of what the clusters cost, see `cluster_cost`."""
        widths = (self.high - self.low).tolist()
        return math.fsum(cluster_cost(width, epsilon) for width in widths)


def group_intervals(low: Floats, high: Floats, *, method: Method, epsilon: float) -> Grouping:
    """Group intervals into the cheapest (`"a"`) or the fewest (`"b"`) clusters.

    Only those that contain no other one are looked at; the others join one that they contain.
    Cost: one sort of n, then O(n), and O(m log m) for the m innermost with `"a"`.
    """
    n = low.size
    owner = np.empty(n, np.int32)
    inner_low, inner_high = np.empty(n), np.empty(n)
    m = find_innermost(np.argsort(low), low, high, owner, inner_low, inner_high)
    inner_low, inner_high = inner_low[:m][::-1].copy(), inner_high[:m][::-1].copy()
    start = np.empty(m + 1, np.int64)
    if method == "a":
        clusters = plan_cheapest(inner_low, inner_high, epsilon, start)
    else:
        clusters = sweep_fewest(inner_low, inner_high, start)
    start[clusters] = m
    start = start[: clusters + 1]
    descending = np.repeat(np.arange(clusters, dtype=np.int32), np.diff(start))[::-1]
    return Grouping(descending[owner], inner_low[start[1:] - 1], inner_high[start[:-1]])
