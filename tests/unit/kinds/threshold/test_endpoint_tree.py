"""Endpoint trees (range-thresholding, sections 4 and 6) against plain comparison of ranges."""

import numpy as np
import pytest

from everquery.kinds.threshold.endpoint_tree import EndpointTrees, leaf_of


def random_boxes(seed, *, attributes, rows, lanes=1, domain=20):
    """Boxes on few values, so that ends coincide; some empty, some without a limit."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, domain, (attributes, rows)).astype(float)
    high = low + rng.integers(0, domain, (attributes, rows))
    low[rng.random(low.shape) < 0.1] = -np.inf
    high[rng.random(low.shape) < 0.1] = np.inf
    high[rng.random(low.shape) < 0.1] = np.nan
    return low, high, rng.integers(0, lanes, rows).astype(np.int32)


def inside(low, high, point):
    value = np.asarray(point)[:, None]
    return ((low <= value) & ~(high <= value)).all(axis=0)


def nodes_at(trees, lane, point):
    """The nodes of the last attribute that an event is in, by the walk that the kernel does."""
    todo, found = [(lane, 0)], []
    while todo:
        tree, attribute = todo.pop()
        first, last = trees.start[tree], trees.start[tree + 1]
        leaf = leaf_of(float(point[attribute]), trees.ends, first, last)
        number = last - first + leaf if leaf >= 0 else 0
        while number:
            node = 2 * first + number
            if attribute == trees.attributes - 1:
                found.append(int(node - trees.child.size))
            elif trees.child[node] >= 0:
                todo.append((trees.child[node], attribute + 1))
            number >>= 1
    return found


def points(attributes, count=60, domain=20):
    values = np.concatenate([np.arange(-1, 2 * domain, 0.5), [-np.inf, np.inf, np.nan]])
    return np.random.default_rng(5).choice(values, (count, attributes))


@pytest.mark.parametrize("attributes", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 40])
def test_canonical_nodes_cover_exactly_the_box(attributes, rows):
    for seed in range(5):
        low, high, lane = random_boxes(seed, attributes=attributes, rows=rows, lanes=3)
        trees = EndpointTrees.build(low, high, lane, 3)
        for point in points(attributes):
            for event_lane in range(3):
                hit = np.isin(trees.node, nodes_at(trees, event_lane, point))
                times = np.add.reduceat(np.append(hit, 0), trees.row_start[:-1]) * (
                    np.diff(trees.row_start) > 0
                )
                want = inside(low, high, point) & (lane == event_lane)
                assert times.tolist() == want.astype(int).tolist()


def test_ends_are_ascending_and_distinct():
    low, high, lane = random_boxes(1, attributes=2, rows=200, lanes=4)
    trees = EndpointTrees.build(low, high, lane, 4)
    assert trees.start[-1] == trees.ends.size
    for tree in range(trees.start.size - 1):
        ends = trees.ends[trees.start[tree] : trees.start[tree + 1]]
        assert (ends[1:] > ends[:-1]).all()
    for number in range(4):
        picked = lane == number
        want = np.unique(np.concatenate([low[0, picked], high[0, picked]]))
        ends = trees.ends[trees.start[number] : trees.start[number + 1]]
        assert ends.tolist() == want[~np.isnan(want)].tolist()


def test_empty_boxes_have_no_nodes():
    low, high = np.array([[3.0, 5.0, 1.0]]), np.array([[3.0, 2.0, 4.0]])
    trees = EndpointTrees.build(low, high, np.zeros(3, np.int32), 1)
    assert np.diff(trees.row_start).tolist()[:2] == [0, 0]
    assert np.diff(trees.row_start)[2] > 0


def test_no_rows_and_lanes_without_rows():
    nothing = np.empty((2, 0))
    trees = EndpointTrees.build(nothing, nothing, np.empty(0, np.int32), 3)
    assert (trees.nodes, trees.node.size) == (0, 0)
    assert nodes_at(trees, 2, (1.0, 1.0)) == []


@pytest.mark.parametrize("ends", range(2, 70))
def test_a_range_has_at_most_two_nodes_a_level(ends):
    pairs = [(i, j) for i in range(ends) for j in range(i + 1, ends)]
    low, high = np.array(pairs, float).T[:, None, :]
    trees = EndpointTrees.build(low, high, np.zeros(len(pairs), np.int32), 1)
    h = np.diff(trees.row_start)
    assert h.min() == 1
    assert h.max() <= 2 * np.log2(ends)


@pytest.mark.parametrize("attributes", [2, 3])
def test_entries_of_more_attributes(attributes):
    rng = np.random.default_rng(3)
    low = rng.random((attributes, 120))
    trees = EndpointTrees.build(low, low + 0.4, np.zeros(120, np.int32), 1)
    h = np.diff(trees.row_start)
    assert h.max() <= (2 * np.log2(240)) ** attributes
    assert h.max() > 2 * np.log2(240)  # or the bound would say nothing


@pytest.mark.parametrize("size", [0, 1, 2, 5, 8])
def test_leaf_of_counts_the_ends_up_to_a_value(size):
    ends = np.concatenate([[100.0], np.arange(size), [-100.0]])  # neighbours of the tree in a pool
    for value in [-np.inf, -0.5, 0.0, 0.5, 3.0, 7.0, 9.0, np.inf, np.nan]:
        want = np.count_nonzero(np.arange(size) <= value) - 1
        assert leaf_of(value, ends, 1, 1 + size) == want
