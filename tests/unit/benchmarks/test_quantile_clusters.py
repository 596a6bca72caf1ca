"""Clusters are the cheapest or the fewest, and every interval contains its cluster's intersection.

The best is found by trying everything: all partitions of a few intervals, without any preparation.
"""

import itertools
import math

import numpy as np
import pytest
from benchmarks.papers import quantile_clusters
from benchmarks.papers.cluster_tree import NONE
from benchmarks.papers.quantile_clusters import Clusters
from benchmarks.papers.rank_intervals import (
    FINEST,
    cluster_cost,
    find_innermost,
    group_intervals,
    rank_intervals,
)

from everquery.errors import InvalidQueryError

EPSILON = 0.1


def intervals(kind, n, rng):
    """Return intervals on a coarse grid, so that ends often are equal, or on a fine one."""
    if kind == "coarse":
        low = rng.integers(0, 8, n) / 8
        return low, low + rng.integers(0, 4, n) / 8
    if kind == "thin":  # all of them narrower than what the cost tells apart
        low = rng.integers(0, 8, n) * 2.0**-31
        return low, low + rng.integers(0, 4, n) * 2.0**-31
    if kind == "points":
        low = rng.integers(0, 6, n) / 6
        return low, low.copy()
    if kind == "one width":
        low = rng.random(n)
        return low, low + 0.3
    low = rng.random(n)
    return low, low + 0.4 * rng.random(n)


KINDS = ["coarse", "thin", "points", "one width", "fine"]


def partitions(items):
    """Yield all partitions of a list into non-empty lists."""
    if not items:
        yield []
        return
    first, *rest = items
    for parts in partitions(rest):
        yield [[first], *parts]
        for i, part in enumerate(parts):
            yield [*parts[:i], [first, *part], *parts[i + 1 :]]


def best_of_all(low, high):
    """Return the least cost and the least number over all partitions with common ranks."""
    cheapest, fewest = math.inf, len(low)
    for parts in partitions(list(range(len(low)))):
        widths = [min(high[i] for i in part) - max(low[i] for i in part) for part in parts]
        if min(widths) >= 0:
            cheapest = min(cheapest, math.fsum(cluster_cost(w, EPSILON) for w in widths))
            fewest = min(fewest, len(parts))
    return cheapest, fewest


def cheapest_by_the_book(low, high):
    """Return the least cost of intervals sorted by both ends, by Algorithm 1: all j for all i."""
    cost = [0.0]
    for i in range(len(low)):
        options = (
            cost[j] + cluster_cost(high[j] - low[i], EPSILON)
            for j in range(i + 1)
            if high[j] >= low[i]
        )
        cost.append(min(options))
    return cost[-1]


def check(clusters, low, high, live):
    """Check all invariants against the intervals of the queries in `live`."""
    cluster_of = clusters.cluster_of
    assert (np.flatnonzero(cluster_of != NONE) == live).all()
    assert clusters.live == len(live)
    common_low, common_high = clusters.intersections()
    mine = cluster_of[live]
    assert (low[live] <= common_low[mine]).all()
    assert (common_low[mine] <= common_high[mine]).all()
    assert (common_high[mine] <= high[live]).all()
    members = np.bincount(mine, minlength=common_low.size)
    assert (clusters.counts == members).all()
    order = clusters.order()
    assert sorted(order) == np.flatnonzero(members).tolist()
    assert (np.diff(common_low[order]) > 0).all()
    assert (np.diff(common_high[order]) > 0).all()
    assert np.isnan(common_low[members == 0]).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 7])
def test_groupings_are_the_best_of_all_partitions(kind, n):
    rng = np.random.default_rng(n)
    for _ in range(6):
        low, high = intervals(kind, n, rng)
        cheapest, fewest = best_of_all(low.tolist(), high.tolist())
        a = group_intervals(low, high, method="a", epsilon=EPSILON)
        b = group_intervals(low, high, method="b", epsilon=EPSILON)
        assert a.cost(EPSILON) == pytest.approx(cheapest, rel=1e-12)
        assert b.low.size == fewest


@pytest.mark.parametrize("kind", KINDS)
def test_innermost_are_those_that_contain_no_other_one(kind):
    rng = np.random.default_rng(2)
    for n in (1, 2, 10, 40):
        low, high = intervals(kind, n, rng)
        owner, inner_low, inner_high = np.empty(n, np.int32), np.empty(n), np.empty(n)
        m = find_innermost(np.argsort(low), low, high, owner, inner_low, inner_high)
        pairs = sorted(set(zip(low.tolist(), high.tolist(), strict=True)), reverse=True)
        expected = [
            (a, b)
            for a, b in pairs
            if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in pairs)
        ]
        inner = list(zip(inner_low[:m].tolist(), inner_high[:m].tolist(), strict=True))
        assert inner == expected
        assert (low <= inner_low[owner]).all()
        assert (inner_high[owner] <= high).all()


@pytest.mark.parametrize("width", [0.0, 1e-9, 1e-3, 0.02, 0.3])
def test_the_queue_of_candidates_finds_what_trying_all_finds(width):
    rng = np.random.default_rng(5)
    low = np.unique(rng.random(300))
    high = np.sort(low + width * (1 + 1e-3 * rng.random(low.size)))
    inner = group_intervals(low, high, method="a", epsilon=EPSILON)
    by_the_book = cheapest_by_the_book(low.tolist(), high.tolist())
    assert inner.cost(EPSILON) == pytest.approx(by_the_book, rel=1e-12)


def test_of_equally_cheap_plans_the_last_cluster_is_the_shortest():
    low, high = np.array([0.0, 0.5, 1.0]), np.array([1.0, 1.5, 2.0])
    a = group_intervals(low, high, method="a", epsilon=EPSILON)
    two = cluster_cost(0.5, EPSILON) + cluster_cost(1.0, EPSILON)
    assert a.cost(EPSILON) == pytest.approx(two, rel=1e-15)  # {0, 1}, {2} or {0}, {1, 2}
    assert a.cluster_of.tolist() == [0, 0, 1]


def test_the_cost_is_the_papers_and_goes_on_straight_below_the_finest():
    assert cluster_cost(0.3, 0.1) == pytest.approx(1 / math.log(1 + 0.3 / 1.8), rel=1e-14)
    assert cluster_cost(-1e-9, 0.1) == math.inf
    widths = [0.0, FINEST / 2, FINEST, FINEST * 1.5, FINEST * 2]
    costs = [cluster_cost(width, 0.1) for width in widths]
    assert costs[0] - costs[1] == pytest.approx(costs[1] - costs[2], rel=1e-6)
    steps = [before - after for before, after in itertools.pairwise(costs[1:])]
    assert steps == sorted(steps, reverse=True)  # convex
    assert costs[0] == pytest.approx(2 * costs[2], rel=1e-6)


def test_the_papers_first_observation():
    phi, epsilon = np.array([0.50, 0.49]), np.array([0.05, 0.06])
    low, high = rank_intervals(phi, epsilon, summary_epsilon=0.01)
    assert low == pytest.approx([0.46, 0.44])
    assert high == pytest.approx([0.54, 0.54])
    clusters = Clusters.build(low, high)
    assert clusters.cluster_of.tolist() == [0, 0]
    assert [end[0] for end in clusters.intersections()] == pytest.approx([0.46, 0.54])


def test_intervals_are_cut_at_the_ends_and_never_finer_than_the_summary():
    phi, epsilon = np.array([0.01, 1.0, 0.5]), np.array([0.05, 0.03, 0.001])
    low, high = rank_intervals(phi, epsilon, summary_epsilon=0.01)
    assert low == pytest.approx([0.0, 0.98, 0.5])
    assert high == pytest.approx([0.05, 1.0, 0.5])


def test_figure_4_the_wide_queries_join_an_innermost_one():
    # q1 holds q2 and q4, q3 holds q4; only q2 and q4 matter.
    low, high = np.array([0.0, 0.1, 0.45, 0.5]), np.array([1.0, 0.3, 0.9, 0.8])
    for method in ("a", "b"):
        grouping = group_intervals(low, high, method=method, epsilon=0.0)
        assert grouping.cluster_of.tolist() == [0, 0, 1, 1]
        assert grouping.low.tolist() == [0.1, 0.5]
        assert grouping.high.tolist() == [0.3, 0.8]


@pytest.mark.parametrize("method", ["a", "b"])
@pytest.mark.parametrize(
    ("low", "high", "clusters"),
    [
        ([], [], 0),
        ([0.5], [0.5], 1),
        ([0.2] * 9, [0.4] * 9, 1),
        ([0.0, 0.1, 0.2, 0.3], [1.0, 0.9, 0.8, 0.7], 1),
        ([0.0, 0.0, 0.0], [0.1, 0.2, 0.3], 1),
        ([0.0, 0.1, 0.2], [0.3, 0.3, 0.3], 1),
        ([0.0, 0.2, 0.4], [0.1, 0.3, 0.5], 3),
        ([0.1, 0.5, 0.1, 0.9], [0.1, 0.5, 0.1, 0.9], 3),
    ],
    ids=["none", "one", "equal", "nested", "one low", "one high", "disjoint", "points"],
)
def test_degenerate_sets(method, low, high, clusters):
    low, high = np.array(low, float), np.array(high, float)
    built = Clusters.build(low, high, method=method)
    assert len(built) == clusters
    check(built, low, high, np.arange(low.size))
    online = Clusters(method=method)
    online.register(low, high)
    assert len(online) == clusters
    check(online, low, high, np.arange(low.size))


def test_touching_intervals_share_a_rank_when_few_clusters_are_wanted():
    low, high = np.array([0.0, 0.5]), np.array([0.5, 1.0])
    assert len(Clusters.build(low, high, method="b")) == 1
    assert len(Clusters.build(low, high, method="a")) == 2


def one_by_one(*pairs):
    clusters = Clusters()
    labels = [int(clusters.register(np.array([low]), np.array([high]))[0]) for low, high in pairs]
    return clusters, labels


def test_a_query_joins_what_it_contains_even_if_it_overlaps_another_one_more():
    clusters, labels = one_by_one((0.0, 0.5), (0.6, 0.7), (0.1, 0.7))
    assert labels[2] == labels[1]
    assert clusters.intersections()[0][labels[1]] == 0.6


def test_a_query_narrows_what_it_overlaps_most_and_the_lower_of_two():
    _, labels = one_by_one((0.0, 0.5), (0.75, 1.5), (0.375, 1.0))
    assert labels[2] == labels[1]
    clusters, labels = one_by_one((0.0, 0.5), (0.75, 1.5), (0.25, 1.0))
    assert labels[2] == labels[0]
    assert [end[labels[0]] for end in clusters.intersections()] == [0.25, 0.5]


def test_touching_is_overlapping_online_too():
    for first, second in (((0.0, 0.5), (0.5, 1.0)), ((0.5, 1.0), (0.0, 0.5))):
        clusters, labels = one_by_one(first, second)
        assert len(clusters) == 1
        assert [end[labels[0]] for end in clusters.intersections()] == [0.5, 0.5]


def overlapping():
    """Return clusters that overlap: a grouping for the least cost keeps them apart."""
    low, high = np.array([0.0, 0.3, 0.6, 0.9]), np.array([0.5, 0.8, 1.1, 1.4])
    clusters = Clusters.build(low, high)
    assert len(clusters) == 4
    clusters.take_changed()
    return clusters, low, high


@pytest.mark.parametrize("new", [(0.62, 0.7), (0.6, 0.7), (0.62, 0.8), (0.6, 0.8)])
def test_clusters_that_contain_the_new_intersection_merge(new):
    clusters, low, high = overlapping()
    low, high = np.append(low, new[0]), np.append(high, new[1])
    [joined] = clusters.register(low[4:], high[4:])
    check(clusters, low, high, np.arange(5))
    assert clusters.cluster_of.tolist() == [0, joined, joined, 3, joined]
    assert sorted(clusters.take_changed()) == [1, 2]
    assert clusters.take_changed().size == 0


def test_labels_returned_know_of_merges_later_in_the_same_call():
    clusters, _, _ = overlapping()
    first, second = clusters.register(np.array([0.3, 0.62]), np.array([0.85, 0.7]))
    assert first == second == clusters.cluster_of[1]


def test_numbers_of_merged_clusters_are_used_again_when_the_last_member_has_gone():
    clusters, _, _ = overlapping()
    clusters.register(np.array([0.62]), np.array([0.7]))
    clusters.drop(np.arange(5))
    numbers = clusters.intersections()[0].size
    points = np.arange(numbers) / numbers
    labels = clusters.register(points, points)
    assert sorted(labels) == list(range(numbers))
    assert clusters.intersections()[0].size == numbers
    gone = np.zeros(5)
    check(clusters, np.append(gone, points), np.append(gone, points), 5 + np.arange(numbers))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["a", "b"])
def test_long_histories_keep_every_interval_around_its_intersection(kind, method, monkeypatch):
    monkeypatch.setattr(quantile_clusters, "FEWEST", 8)
    rng = np.random.default_rng(KINDS.index(kind))
    low, high = intervals(kind, 40, rng)
    high = low + (high - low) / 8  # some dozen clusters
    clusters = Clusters.build(low, high, method=method, epsilon=EPSILON)
    live = np.arange(40)
    job = None
    installed = 0
    for step in range(300):
        before = [end.copy() for end in clusters.intersections()]
        clusters.take_changed()
        if rng.random() < 0.5 and live.size < 100:
            more = intervals(kind, int(rng.integers(1, 6)), rng)
            more = more[0], more[0] + (more[1] - more[0]) / 8
            labels = clusters.register(*more)
            live = np.append(live, np.arange(low.size, low.size + more[0].size))
            low, high = np.append(low, more[0]), np.append(high, more[1])
            assert (clusters.cluster_of[-labels.size :] == labels).all()
        else:
            gone = rng.choice(live, min(live.size, int(rng.integers(1, 6))), replace=False)
            clusters.drop(gone)
            clusters.drop(gone)  # once more is nothing
            live = np.setdiff1d(live, gone)
        check(clusters, low, high, live)
        unchanged = np.setdiff1d(np.arange(before[0].size), clusters.take_changed())
        for old, new in zip(before, clusters.intersections(), strict=True):
            assert np.array_equal(old[unchanged], new[unchanged], equal_nan=True)
        if job is None:
            job = clusters.due_recluster()
        elif step % 5 == 0:
            clusters.install(job, job.run())
            installed += 1
            job = None
            check(clusters, low, high, live)
        if step == 200:
            kept = clusters.compact()
            assert (kept == live).all()
            low, high, live = low[kept], high[kept], np.arange(kept.size)
    assert installed > 2


def test_after_all_are_dropped_all_numbers_are_free_again():
    rng = np.random.default_rng(3)
    clusters = Clusters()
    sizes = set()
    for round_ in range(5):
        low, high = intervals("fine", 500, rng)
        clusters.register(low, low + (high - low) / 50)
        clusters.drop(np.arange(500 * round_, 500 * (round_ + 1)))
        assert len(clusters) == clusters.live == 0
        sizes.add(clusters.intersections()[0].size)
    assert max(sizes) <= 512
    assert np.isnan(clusters.intersections()[0]).all()


def test_a_reclustering_is_as_good_as_a_new_grouping():
    rng = np.random.default_rng(8)
    low, high = intervals("fine", 400, rng)
    high = low + (high - low) / 10
    for method in ("a", "b"):
        clusters = Clusters(method=method, epsilon=EPSILON)
        clusters.register(low, high)
        clusters.drop(np.arange(0, 400, 2))
        clusters.recluster()
        fresh = group_intervals(low[1::2], high[1::2], method=method, epsilon=EPSILON)
        assert clusters.intersections()[0][clusters.order()].tolist() == fresh.low.tolist()
        assert clusters.cluster_of[1::2].tolist() == fresh.cluster_of.tolist()


def test_a_reclustering_is_due_by_clusters_formed_or_queries_dropped():
    low = np.arange(200) / 200
    clusters = Clusters.build(low, low)
    assert clusters.due_recluster() is None
    clusters.drop(np.arange(164))
    assert clusters.due_recluster() is None
    clusters.drop(np.array([164]))
    job = clusters.due_recluster()
    assert job.query.tolist() == list(range(165, 200))
    assert clusters.due_recluster() is None  # under way
    clusters.abandon(job)
    again = clusters.due_recluster()
    clusters.install(again, again.run())
    assert clusters.due_recluster() is None
    clusters.install(job, job.run())  # an abandoned one is not wanted
    clusters.register(low[:81] + 0.001, low[:81] + 0.001)
    assert clusters.due_recluster() is None  # 64 and half of 35 is 81.5
    clusters.register(low[:1] + 0.002, low[:1] + 0.002)
    assert clusters.due_recluster() is not None


def test_narrowed_clusters_count_as_formed():
    clusters = Clusters()
    for i in range(65):
        assert clusters.due_recluster() is None
        clusters.register(np.array([i / 100]), np.array([1.0]))
    assert len(clusters) == 1
    assert clusters.due_recluster() is not None


def test_what_was_under_way_before_queries_were_renumbered_is_not_wanted():
    low = np.arange(200) / 200
    clusters = Clusters.build(low, low)
    clusters.drop(np.flatnonzero(np.arange(200) % 9))
    job = clusters.due_recluster()
    kept = clusters.compact()
    clusters.install(job, job.run())
    check(clusters, low[kept], low[kept], np.arange(kept.size))


@pytest.mark.parametrize("online", [False, True])
def test_many_points_are_kept_in_order_by_a_shallow_tree(online):
    points = np.arange(4000) / 4000
    clusters = Clusters() if online else Clusters.build(points, points)
    if online:
        clusters.register(points, points)
    check(clusters, points, points, np.arange(points.size))
    child = clusters.tree.child
    level, depth = [int(child[0])], 0
    while level:
        level = [n for node in level for n in child[2 * node + 1 : 2 * node + 3].tolist() if n >= 0]
        depth += 1
    assert depth < 40
    assert clusters.nbytes() > 4000 * 20


def test_bad_intervals_are_refused():
    with pytest.raises(InvalidQueryError, match=r"interval 1 is \[0\.6, 0\.5\]"):
        Clusters.build(np.array([0.1, 0.6]), np.array([0.2, 0.5]))
    with pytest.raises(InvalidQueryError, match="nan"):
        Clusters().register(np.array([np.nan]), np.array([0.5]))
    with pytest.raises(InvalidQueryError, match=r"epsilon is 1\.0"):
        Clusters(epsilon=1.0)
