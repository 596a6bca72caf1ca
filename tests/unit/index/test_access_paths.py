"""Boxes are found exactly whatever structure finds them."""

import numpy as np
import pytest

from everquery.index.access_paths import BoxSegment, share_of_lane
from everquery.index.cei import CeiSegment
from everquery.index.flags import LIVE, PAUSED
from everquery.index.rows import Grouped, Rows, Shape, Step
from everquery.index.tiles import TileSegment, Tiling


def step_of(points, keys, flags, all_live=False) -> Step:
    order = np.argsort(keys, kind="stable")
    group_key, counts = np.unique(keys, return_counts=True)
    grouped = Grouped(
        group_key.astype(np.int32),
        np.concatenate([[0], np.cumsum(counts)]),
        2 * order + 1,
        np.ascontiguousarray(points[:, order]),
    )
    empty = np.empty(0, np.uint8)
    return Step(grouped, empty, empty, np.empty((0, 0)), flags, all_live)


def search(parts, step) -> set[tuple[int, int]]:
    """Return pairs of event and slot; fail if one is found twice."""
    found = []
    out, used = np.empty(1, np.int32), 0
    for part in parts:
        ends, out = part.search(step, out, used)
        begin = used
        for event, end in zip(step.grouped.position >> 1, ends, strict=True):
            found += [(int(event), int(slot)) for slot in out[begin:end]]
            begin = end
        used = int(ends[-1])
    assert len(found) == len(set(found))
    return set(found)


def boxes(rng, n, attributes, keys, width) -> Rows:
    low = rng.uniform(0, 1, (attributes, n)).round(3)
    high = low + (width * rng.uniform(0.1, 1, (attributes, n))).round(3) + 0.001
    high[0, rng.integers(0, n, n // 50 + 1)] = np.nan
    low[0, rng.integers(0, n, n // 50 + 1)] = -np.inf
    high[-1, rng.integers(0, n, n // 50 + 1)] = np.inf
    key = np.full(n, -1) if keys is None else rng.integers(0, keys, n)
    shape = Shape(tuple(range(attributes)), keys is not None)
    return Rows(shape, np.arange(n, dtype=np.int32)[::-1].copy(), key.astype(np.int32), low, high)


def brute(rows: Rows, points, keys, flags) -> set[tuple[int, int]]:
    pairs = set()
    for event in range(points.shape[1]):
        point = points[:, event, None]
        inside = ((rows.low <= point) & ~(rows.high <= point)).all(axis=0)
        inside &= (rows.key < 0) | (rows.key == keys[event])
        inside &= flags[rows.slot] == LIVE
        pairs |= {(event, int(slot)) for slot in rows.slot[inside]}
    return pairs


@pytest.mark.parametrize("keys", [None, 7])
@pytest.mark.parametrize("attributes", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 5, 700])
@pytest.mark.parametrize("width", [0.01, 0.9])
def test_search_equals_brute_force(keys, attributes, n, width):
    rng = np.random.default_rng(n + attributes)
    rows = boxes(rng, n, attributes, keys, width)
    points = rng.uniform(-0.1, 1.1, (attributes, 300)).round(3)
    points[:, :3] = np.inf
    points[:, 3:6] = -np.inf
    at = rng.integers(0, 9, 300)
    flags = np.full(n, LIVE, np.uint16)
    flags[::5] = 0
    flags[1::5] |= PAUSED
    segment = BoxSegment.build(rows)
    assert len(segment) == n
    assert search(segment.parts, step_of(points, at, flags)) == brute(rows, points, at, flags)


@pytest.mark.parametrize("levels", range(12))
def test_any_length_of_the_largest_interval_gives_the_same_matches(levels):
    rng = np.random.default_rng(3)
    rows = boxes(rng, 300, 1, None, 0.5)
    points = rng.uniform(0, 1, (1, 200))
    flags = np.full(300, LIVE, np.uint16)
    at = np.zeros(200, np.int64)
    segment = CeiSegment.build(rows, levels=levels)
    found = search([segment], step_of(points, at, flags, all_live=True))
    assert found == brute(rows, points, at, flags)


def test_skewed_ends_and_extreme_spans_are_ranked_exactly():
    ends = np.array([-1e308, -1.0, 0.0, 5e-324, 1e-300, 1e-299, 1.0, 1.0 + 2**-52, 1e308, np.inf])
    low = np.repeat(ends, ends.size)
    high = np.tile(ends, ends.size)
    kept = low < high
    low, high = low[kept][None], high[kept][None]
    n = low.size
    rows = Rows(
        Shape((0,), False), np.arange(n, dtype=np.int32), np.full(n, -1, np.int32), low, high
    )
    points = np.concatenate([ends, np.nextafter(ends, np.inf), np.nextafter(ends, -np.inf)])[None]
    at = np.zeros(points.size, np.int64)
    flags = np.full(n, LIVE, np.uint16)
    assert search(BoxSegment.build(rows).parts, step_of(points, at, flags)) == brute(
        rows, points, at, flags
    )


def test_squares_are_tiled_and_thin_boxes_are_not():
    rng = np.random.default_rng(5)
    n = 4_000
    low = rng.uniform(0, 1, (2, n))
    width = np.stack([np.full(n, 0.02), np.where(np.arange(n) % 2, 0.02, 0.9)])
    rows = Rows(
        Shape((0, 1), False),
        np.arange(n, dtype=np.int32),
        np.full(n, -1, np.int32),
        low,
        low + width,
    )
    parts = BoxSegment.build(rows).parts
    by_type = {type(part): part for part in parts}
    assert set(by_type) == {CeiSegment, TileSegment}
    assert (by_type[TileSegment].rows.slot % 2 == 1).mean() > 0.9
    thin = by_type[CeiSegment].rows.slot % 2 == 0
    assert thin.mean() > 0.9
    assert by_type[CeiSegment].primary == 0


def test_hit_rate_is_the_share_of_tiles_that_list_a_box():
    rng = np.random.default_rng(6)
    rows = boxes(rng, 1_000, 2, None, 0.2)
    tiling = Tiling.plan(rows, (0, 1))
    segment = TileSegment.build(rows, tiling)
    listed = np.bincount(segment.pieces, minlength=1_000)
    assert listed.max() <= 16
    finest = rows.take(np.lexsort((tiling.cover[0][0], tiling.cover[1][0], tiling.layer)))
    assert np.array_equal(finest.slot, segment.rows.slot)
    in_finest = np.flatnonzero(np.sort(tiling.layer) == 0)
    assert np.allclose(segment.hit_rate[in_finest], listed[in_finest] / tiling.across**2)


def test_share_of_lane_counts_distinct_ends_within_the_lane():
    rows = Rows(
        Shape((0,), True),
        np.arange(3, dtype=np.int32),
        np.array([0, 0, 1], np.int32),
        np.array([[0.0, 1.0, 5.0]]),
        np.array([[1.0, 3.0, 6.0]]),
    )
    assert share_of_lane(rows, 0).tolist() == [1 / 3, 1 / 3, 1 / 2]
