"""The structures of thresholds, where they take the ways of large batches."""

import numpy as np
import pytest

from everquery.index.rows import NO_KEY, Rows, Shape
from everquery.index.weighed import NEVER, WeighedEvents
from everquery.kinds.threshold import box_totals
from everquery.kinds.threshold import segment as threshold_segment
from everquery.kinds.threshold.box_totals import BoxTotals
from everquery.kinds.threshold.first_passage import first_reaching, passages
from everquery.kinds.threshold.interval_totals import IntervalTotals
from everquery.kinds.threshold.segment import ThresholdSegment


def random_rows(rng, n, attributes, keys=None):
    low = rng.integers(0, 60, (attributes, n)).astype(float)
    high = low + rng.integers(1, 40, (attributes, n))
    low[rng.random(low.shape) < 0.05] = -np.inf
    high[rng.random(low.shape) < 0.05] = np.nan
    key = np.full(n, NO_KEY, np.int32) if keys is None else rng.integers(0, keys, n, np.int32)
    shape = Shape(tuple(range(attributes)), keys is not None)
    return Rows(shape, np.arange(n, dtype=np.int32), key, low, high)


def random_events(rng, n, attributes, keys=None):
    values = rng.choice([-np.inf, np.inf, *range(100)], (attributes, n)).astype(float)
    weight = rng.integers(1, 20, n)
    if keys is None:
        start = np.array([0, n])
        key = np.full(1, NO_KEY, np.int32)
    else:
        key = np.arange(keys, dtype=np.int32)
        start = np.append(np.sort(rng.integers(0, n + 1, keys)), n)
        start[0] = 0
    return WeighedEvents(key, start, 2 * np.arange(n) + 1, values, weight)


class Naive:
    """Counts for each row by itself."""

    def __init__(self, rows, total, repeats):
        self.rows, self.total, self.repeats = rows, total, repeats
        self.seen = np.zeros(len(rows), np.int64)
        self.alive = np.ones(len(rows), bool)

    def count(self, events):
        fires = []
        for group, key in enumerate(events.key):
            for i in range(events.start[group], events.start[group + 1]):
                value = events.values[:, i : i + 1]
                inside = (self.rows.low <= value).all(axis=0)
                inside &= ~(self.rows.high <= value).any(axis=0)
                inside &= self.alive & (self.rows.key == key)
                self.seen[inside] += events.weight[i]
                for row in np.flatnonzero(inside & (self.seen >= self.total)):
                    fires.append((i, int(self.rows.slot[row]), int(self.seen[row])))
                    self.seen[row] = 0
                    self.alive[row] = self.repeats[row]
        return sorted(fires)


def segment_of(rows, total, repeats):
    segment = ThresholdSegment.build(rows)
    slot = segment.rows.slot
    segment.lefts.total[:] = segment.lefts.left[:] = total[slot]
    segment.lefts.repeats[:] = repeats[slot]
    segment.expect()
    return segment


def begin(totals, total, repeats):
    slot = totals.rows.slot
    totals.lefts.total[:] = totals.lefts.left[:] = total[slot]
    totals.lefts.repeats[:] = repeats[slot]
    totals.expect()


def counted(totals, events, flags):
    fires = totals.count(events, flags)
    slots = totals.rows.slot[fires.row]
    return sorted(zip(fires.event.tolist(), slots.tolist(), fires.seen.tolist(), strict=True))


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("keys", [None, 3])
@pytest.mark.parametrize("attributes", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(1, 3, 8, 2, 1), (5_000, 4_000), (40, 3_000, 5, 700)])
def test_fires_are_those_of_counting_one_by_one(sizes, attributes, keys, repeat, monkeypatch):
    monkeypatch.setattr(box_totals, "SCANNED", 1 << 14)
    rng = np.random.default_rng(len(sizes) * attributes)
    rows = random_rows(rng, 150, attributes, keys)
    total = rng.integers(1, 20 * max(sizes) // 4**attributes + 2, len(rows))
    repeats = rng.random(len(rows)) < (0.7 if repeat else 0)
    totals = (IntervalTotals if attributes == 1 else BoxTotals).build(rows)
    begin(totals, total, repeats)
    naive = Naive(rows, total, repeats)
    flags = np.ones(len(rows), np.uint16)
    fired = 0
    for size in sizes:
        events = random_events(rng, size, attributes, keys)
        wanted = naive.count(events)
        assert counted(totals, events, flags) == wanted
        fired += len(wanted)
    totals.add_up()
    left = totals.lefts.left
    slot = totals.rows.slot
    assert (left == np.where(naive.alive, total - naive.seen, NEVER)[slot]).all()
    assert fired or max(sizes) < 100


def test_sweeping_and_stabbing_tell_the_same(monkeypatch):
    rng = np.random.default_rng(5)
    rows = random_rows(rng, 400, 2)
    total, repeats = rng.integers(1, 9_000, 400), rng.random(400) < 0.5
    events = random_events(rng, 2_000, 2)
    flags = np.ones(400, np.uint16)
    found = []
    for sweeps in (True, False):
        monkeypatch.setattr(BoxTotals, "_sweeps", lambda _self, _events, sweeps=sweeps: sweeps)
        totals = BoxTotals.build(rows)
        begin(totals, total, repeats)
        found.append((counted(totals, events, flags), totals.lefts.left.tolist()))
    assert found[0] == found[1]
    assert len(found[0][0]) > 50


@pytest.mark.parametrize("keys", [None, 3])
@pytest.mark.parametrize("attributes", [1, 2, 3])
def test_ways_change_and_the_answer_does_not(attributes, keys, monkeypatch):
    monkeypatch.setattr(threshold_segment, "BUILD_NS", 0.0)
    monkeypatch.setattr(threshold_segment, "EVENT_NS", 1.0)
    monkeypatch.setattr(threshold_segment, "SIGNAL_NS", 1.0)
    rng = np.random.default_rng(attributes)
    rows = random_rows(rng, 60, attributes, keys)
    total, repeats = rng.integers(1, 300, 60), rng.random(60) < 0.6
    segment, naive = segment_of(rows, total, repeats), Naive(rows, total, repeats)
    flags = np.ones(60, np.uint16)
    tracked = []
    for size in [1] * 60 + [5_000] * 4 + [2] * 30 + [3_000] * 3:
        if size > 2:  # as if a signal were dear
            monkeypatch.setattr(threshold_segment, "SIGNAL_NS", 1e6)
        events = random_events(rng, size, attributes, keys)
        assert counted(segment, events, flags) == naive.count(events)
        tracked.append(segment.tracking is not None)
        segment.add_up()
        slot = segment.rows.slot
        wanted = np.where(naive.alive, total - naive.seen, NEVER)[slot]
        assert (segment.lefts.left == wanted).all()
        monkeypatch.setattr(threshold_segment, "SIGNAL_NS", 1.0)
    assert any(tracked[:60])
    assert not all(tracked[60:64])


def test_explain_tells_the_way(monkeypatch):
    rng = np.random.default_rng(1)
    segment = segment_of(random_rows(rng, 60, 1), np.full(60, 5_000), np.zeros(60, bool))
    assert "prefix sums over" in segment.explain(3).path
    monkeypatch.setattr(threshold_segment, "BUILD_NS", 0.0)
    monkeypatch.setattr(threshold_segment, "EVENT_NS", 1.0)
    monkeypatch.setattr(threshold_segment, "SIGNAL_NS", 1.0)
    segment.lefts.left[0] = 1
    segment.expect()
    segment.count(random_events(rng, 1, 1), np.ones(60, np.uint16))
    assert "endpoint tree" in segment.explain(3).path
    assert segment.nbytes() > segment.totals.nbytes()


def test_dropped_rows_do_not_fire():
    rng = np.random.default_rng(1)
    for attributes in (1, 2):
        rows = random_rows(rng, 50, attributes)
        flags = np.ones(50, np.uint16)
        flags[::2] = 0
        for size in (4, 4_000):
            totals = (IntervalTotals if attributes == 1 else BoxTotals).build(rows)
            begin(totals, np.full(50, 1), np.zeros(50, bool))
            slots = {
                slot for _, slot, _ in counted(totals, random_events(rng, size, attributes), flags)
            }
            assert slots
            assert all(slot % 2 for slot in slots)


def test_first_passage_is_that_of_a_running_sum():
    rng = np.random.default_rng(2)
    for n in (1, 2, 3, 64, 1_000):
        rank, weight = rng.integers(-1, 50, n), rng.integers(1, 9, n)
        found = passages(rank, weight)
        for _ in range(50):
            low, high = np.sort(rng.integers(0, 51, 2))
            inside = np.cumsum(np.where((low <= rank) & (rank < high), weight, 0))
            if not inside[-1]:
                continue
            run = np.searchsorted(found.rank, [low, high])
            amount = int(rng.integers(1, inside[-1] + 1))
            event, until = first_reaching(
                tuple(run), (low, high), amount, found.zeros, found.weight, rank, weight, 0
            )
            assert event == np.searchsorted(inside, amount)
            assert until == inside[event]
