"""Segments stay in proportion, and a merge loses and doubles nothing whenever it lands."""

import numpy as np
import pytest

from everquery.index import merge_rules
from everquery.index.layers import Layers
from everquery.index.rows import Rows, Shape
from everquery.kinds.border.region_segments import RegionSegments

SHAPE = Shape((0,), False)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(merge_rules, "MERGED_AT_ONCE", 16)
    monkeypatch.setattr(merge_rules, "TINY", 0)


def rows(first, count, shape=SHAPE):
    slot = np.arange(first, first + count, dtype=np.int32)
    low = slot[None].astype(float)
    return Rows(shape, slot, np.full(count, -1, np.int32), low, low + 1)


def slots_of(layers):
    return sorted(int(slot) for part in layers for slot in part.all_rows().slot)


def test_small_segments_are_merged_at_once():
    layers = Layers(RegionSegments.build)
    flags = np.ones(100, np.uint16)
    for slot in range(16):
        layers.add(rows(slot, 1), flags)
    assert [len(part) for part in layers] == [16]


def test_a_few_tiny_segments_stay_apart(monkeypatch):
    monkeypatch.setattr(merge_rules, "TINY", 8)
    layers = Layers(RegionSegments.build)
    flags = np.ones(100, np.uint16)
    sizes = []
    for slot in range(12):
        layers.add(rows(slot, 1), flags)
        sizes.append([len(part) for part in layers])
    assert sizes[:5] == [[1], [1, 1], [1, 1, 1], [4], [4, 1]]
    assert max(map(len, sizes)) == merge_rules.SPARE - 1
    assert slots_of(layers) == list(range(12))


def test_large_merges_are_handed_out_one_at_a_time():
    layers = Layers(RegionSegments.build)
    flags = np.ones(100, np.uint16)
    layers.add(rows(0, 40), flags)
    layers.add(rows(40, 20), flags)
    merge = layers.due_merge(flags)
    assert [len(part) for part in merge.parts] == [40, 20]
    assert layers.due_merge(flags) is None
    layers.install(merge, merge.run())
    assert [len(part) for part in layers] == [60]
    assert layers.due_merge(flags) is None


def test_rows_added_and_dropped_while_a_merge_runs_are_kept_right():
    layers = Layers(RegionSegments.build)
    flags = np.ones(100, np.uint16)
    layers.add(rows(0, 40), flags)
    layers.add(rows(40, 20), flags)
    flags[3] = 0
    merge = layers.due_merge(flags)
    for slot in range(60, 90):  # small merges go on meanwhile, around the parts of the large one
        layers.add(rows(slot, 1), flags)
    flags[5] = 0
    layers.install(merge, merge.run())
    assert slots_of(layers) == [slot for slot in range(90) if slot != 3]
    kept = [int(slot) for part in layers.rows(flags) for slot in part.slot]
    assert sorted(kept) == [slot for slot in range(90) if slot not in (3, 5)]


def test_a_merge_of_dropped_rows_leaves_nothing():
    layers = Layers(RegionSegments.build)
    flags = np.ones(100, np.uint16)
    layers.add(rows(0, 40), flags)
    layers.add(rows(40, 40), flags)
    flags[:] = 0
    merge = layers.due_merge(flags)
    layers.install(merge, merge.run())
    assert list(layers) == []
    assert list(layers.rows(flags)) == []


def test_shapes_are_kept_apart():
    layers = Layers(RegionSegments.build)
    flags = np.ones(100, np.uint16)
    layers.add(rows(0, 2), flags)
    layers.add(rows(2, 2, Shape((1,), False)), flags)
    assert [len(part) for part in layers] == [2, 2]


def test_find_returns_the_rows_of_slots():
    layers = Layers(RegionSegments.build)
    flags = np.ones(100, np.uint16)
    layers.add(rows(0, 20), flags)
    layers.add(rows(20, 2), flags)
    found = [int(slot) for part in layers.find(np.array([3, 21], np.int32)) for slot in part.slot]
    assert found == [3, 21]
    assert list(layers.find(np.array([], np.int32))) == []


@pytest.mark.parametrize("seed", range(5))
def test_random_histories_of_merges(seed):
    rng = np.random.default_rng(seed)
    layers = Layers(RegionSegments.build)
    flags = np.zeros(2_000, np.uint16)
    count, running = 0, None
    for _ in range(200):
        size = int(rng.integers(1, 12))
        flags[count : count + size] = 1
        layers.add(rows(count, size), flags)
        count += size
        flags[rng.integers(0, count, 3)] = 0
        running = running or layers.due_merge(flags)
        if running and rng.random() < 0.3:
            layers.install(running, running.run())
            running = None
        alive = sorted(int(slot) for part in layers.rows(flags) for slot in part.slot)
        assert alive == np.flatnonzero(flags).tolist()
        assert len(list(layers)) <= 12


def settle(layers, flags, *, loading=False):
    """Run all merges that are due; return how many rows they wrote."""
    written = 0
    while (merge := layers.due_merge(flags, loading=loading)) is not None:
        merged = merge.run()
        written += len(merged)
        layers.install(merge, merged)
    return written


def test_segments_of_one_size_become_one_with_the_next_events():
    layers = Layers(RegionSegments.build)
    flags = np.ones(1_000, np.uint16)
    for number in range(10):
        layers.add(rows(100 * number, 100), flags)
    assert settle(layers, flags) == 1_000
    assert [len(part) for part in layers] == [1_000]


def test_segments_in_proportion_become_one_once_events_have_paid_for_it():
    layers = Layers(RegionSegments.build)
    flags = np.ones(2_000, np.uint16)
    for first, count in ((0, 1_600), (1_600, 160), (1_760, 17)):
        layers.add(rows(first, count), flags)
    assert settle(layers, flags) == 0
    events = written = 0
    while len(layers) > 1:
        layers.walked(10)
        events += 10
        written += settle(layers, flags)
        cost, paid = written * merge_rules.BUILD_NS, 2 * events * merge_rules.WALK_NS
        assert cost <= paid
        assert events < 20_000
    assert slots_of(layers) == list(range(1_777))


@pytest.mark.parametrize("seed", range(5))
def test_many_loads_without_events_leave_few_segments_and_write_each_row_a_few_times(seed):
    rng = np.random.default_rng(seed)
    layers = Layers(RegionSegments.build)
    flags = np.ones(200_000, np.uint16)
    sizes = rng.integers(17, 400, 400) if seed else np.full(400, 100)
    count = written = 0
    for size in sizes.tolist():
        layers.add(rows(count, size), flags)
        count += size
        written += settle(layers, flags, loading=True)
        assert len(layers) <= 40
    assert written <= count * np.log2(count / sizes.min())
    assert slots_of(layers) == list(range(count))
    assert settle(layers, flags) <= 2 * count
    assert len(layers) <= 4
