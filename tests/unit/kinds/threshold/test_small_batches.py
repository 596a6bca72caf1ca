"""Thresholds in batches of a few events, beside the brute-force twin."""

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.index.rows import NO_KEY, Rows, Shape
from everquery.index.weighed import HEAVIEST, NEVER, WeighedEvents
from everquery.kinds.threshold.interval_order import neighbours_first, places_on_curve
from everquery.kinds.threshold.interval_totals import IntervalTotals
from everquery.kinds.threshold.twin import Twin
from everquery.kinds.twin import Seen

KEYS = ["a", "b", "c", "d"]
STREAM = eq.Stream("s", key="k", attributes=["x"], weight="w")


class Model:
    """The twin of a set of queries, event by event."""

    def __init__(self):
        self.twin = Twin(STREAM)
        self.seq = dict.fromkeys(KEYS, 0)

    def process(self, keys, values, weights):
        told = []
        for key, value, weight in zip(keys, values, weights, strict=True):
            seen = Seen(key, (value,), None, weight, None, last_of_key=False, last_of_all=False)
            for query in list(self.twin.queries.values()):
                for happened in self.twin.answer(query, seen):
                    told.append((query.id, key, self.seq[key], *dict(happened.further).values()))
                    if happened.ends:
                        self.twin.end(query)
            self.seq[key] += 1
        return sorted(told)


def random_query(rng, name, heaviest):
    low = float(rng.integers(-2, 40))
    high = low + float(rng.integers(1, 30))
    box = {"x": (None if rng.random() < 0.1 else low, None if rng.random() < 0.1 else high)}
    if box["x"] == (None, None) or rng.random() < 0.05:
        box = {}
    key = None if rng.random() < 0.4 else str(rng.choice(KEYS))
    total = int(rng.integers(1, heaviest))
    return eq.Threshold(name, box, key=key, total=total, repeat=bool(rng.random() < 0.6))


@pytest.mark.parametrize("heaviest", [30, 3_000])
@pytest.mark.parametrize("largest", [1, 10, 100])
def test_small_batches_are_counted_one_by_one(largest, heaviest):
    """Ties, many fires in one batch, queries that come and go, snapshots, large batches between."""
    rng = np.random.default_rng([largest, heaviest])
    engine, model = eq.Engine(STREAM), Model()
    made = fired = 0
    for turn in range(30):
        fresh = [random_query(rng, f"q{made + i}", heaviest) for i in range(60 if not turn else 5)]
        made += len(fresh)
        engine.register(fresh)
        for query in fresh:
            model.twin.begin(query)
        for name in rng.permutation(list(model.twin.queries))[:3].tolist():
            engine.deregister(name)
            model.twin.end(model.twin.queries[name])
        if turn % 7 == 3:
            other = eq.Engine(STREAM)
            other.restore(engine.snapshot())
            engine = other
        size = 700 if turn % 10 == 9 else int(rng.integers(1, largest + 1))
        keys = rng.choice(KEYS, size).tolist()
        values = rng.integers(0, 60, size).astype(float)
        weights = rng.integers(1, 20, size)
        table = pa.table({"k": keys, "x": values, "w": weights})
        rows = engine.process(table).select(["query_id", "key", "seq", "total", "rounds"])
        told = sorted(tuple(row.values()) for row in rows.to_pylist())
        assert told == model.process(keys, values.tolist(), weights.tolist())
        fired += len(told)
        if turn % 4 == 0:
            for query in list(model.twin.queries.values())[::7]:
                assert engine.progress(query.id) == model.twin.progress(query)
    assert fired > 100 or (heaviest > 1_000 and largest < 100)


def rows_of(low, high, key=None):
    n = low.size
    key = np.full(n, NO_KEY, np.int32) if key is None else key
    shape = Shape((0,), keyed=bool(key[0] >= 0))
    return Rows(shape, np.arange(n, dtype=np.int32), key, low[None], high[None])


def started(rows, total, repeats):
    totals = IntervalTotals.build(rows)
    slot = totals.rows.slot
    totals.lefts.total[:] = totals.lefts.left[:] = total[slot]
    totals.lefts.repeats[:] = repeats[slot]
    totals.expect()
    return totals


@pytest.mark.parametrize("lanes", [1, 7])
def test_deep_trees_miss_no_row(lanes):
    """Thousands of rows and ranks: sums and trees have several levels."""
    rng = np.random.default_rng(lanes)
    n = 6_000
    ends = np.sort(rng.random((2, n)), axis=0)
    ends[1, ::3] = ends[0, ::3] + 0.01 * rng.random(n)[::3]
    ends[0, ::50], ends[1, ::70] = -np.inf, np.nan
    key = None if lanes == 1 else np.sort(rng.integers(0, lanes, n)).astype(np.int32)
    rows = rows_of(ends[0], ends[1], key)
    total, repeats = rng.integers(1, 5_000, n), rng.random(n) < 0.8
    totals = started(rows, total, repeats)
    left = total.copy()
    flags = np.ones(n, np.uint16)
    flags[::11] = 0
    fired = 0
    for size in [1, 3, 40, 100, 9, 2_000, 1, 70, 100, 100, 4_000, 5]:
        values, weight = rng.random((1, size)), rng.integers(1, 50, size)
        groups = np.zeros(1, np.int64) if lanes == 1 else np.unique(rng.integers(0, lanes, 5))
        start = np.sort(np.append(rng.integers(0, size + 1, groups.size - 1), [0, size]))
        group_key = np.full(1, NO_KEY) if lanes == 1 else groups
        events = WeighedEvents(
            group_key.astype(np.int32), start, 2 * np.arange(size) + 1, values, weight
        )
        wanted = []
        for group, which in enumerate(group_key):
            for i in range(start[group], start[group + 1]):
                inside = (rows.low[0] <= values[0, i]) & ~(rows.high[0] <= values[0, i])
                inside &= (rows.key == which) & (left != NEVER) & (flags != 0)
                left[inside] -= weight[i]
                for row in np.flatnonzero(inside & (left <= 0)):
                    wanted.append((i, int(row), int(total[row] - left[row])))
                    left[row] = total[row] if repeats[row] else NEVER
        fires = totals.count(events, flags)
        slot = totals.rows.slot[fires.row]
        told = zip(fires.event.tolist(), slot.tolist(), fires.seen.tolist(), strict=True)
        assert sorted(told) == sorted(wanted)
        fired += len(wanted)
    totals.add_up()
    live = flags[totals.rows.slot] != 0
    assert (totals.lefts.left[live] == left[totals.rows.slot][live]).all()
    assert fired > 1_000


def test_sums_begin_anew_before_they_wrap():
    rows = rows_of(np.zeros(3), np.array([1.0, 2.0, 3.0]))
    total = np.array([HEAVIEST + 5, 7, 2**63 - 1])
    totals = started(rows, total, np.ones(3, bool))
    flags = np.ones(3, np.uint16)
    seen = np.zeros(3, np.int64)
    heavy = np.array([HEAVIEST // 3 + 1])
    for turn in range(12):
        value = np.array([[turn % 3 + 0.5]])
        events = WeighedEvents(
            np.full(1, NO_KEY, np.int32), np.array([0, 1]), np.array([1]), value, heavy
        )
        wanted = []
        for row in range(turn % 3, 3):
            if int(seen[row]) + int(heavy[0]) >= int(total[row]):
                wanted.append((row, min(int(seen[row]) + int(heavy[0]), 2**63 - 1)))
                seen[row] = 0
            else:
                seen[row] += heavy[0]
        fires = totals.count(events, flags)
        told = zip(totals.rows.slot[fires.row].tolist(), fires.seen.tolist(), strict=True)
        assert sorted(told) == sorted(wanted)
    totals.add_up()
    assert (totals.lefts.left == (total - seen)[totals.rows.slot]).all()


def test_neighbours_stand_together_however_many_lanes():
    lane = np.repeat(np.arange(3), 4)
    first = np.array([0, 9, 1, 8] * 3)
    order = neighbours_first(lane, first, first + 1)
    assert lane[order].tolist() == lane.tolist()
    assert first[order].tolist() == [0, 1, 8, 9] * 3
    huge = np.array([0, 2**29, 2**29, 0]), np.array([2**30, 2**30 + 1, 5, 6])
    order = neighbours_first(huge[0], huge[1], huge[1])
    assert huge[0][order].tolist() == [0, 0, 2**29, 2**29]


def test_a_curve_goes_through_all_points_from_neighbour_to_neighbour():
    x, y = (each.ravel() for each in np.indices((16, 16)))
    place = np.empty(256, np.int64)
    places_on_curve(x, y, 4, place)
    order = np.argsort(place)
    assert place[order].tolist() == list(range(256))
    assert (np.abs(np.diff(x[order])) + np.abs(np.diff(y[order])) == 1).all()


def test_many_fires_are_found_both_ways():
    """In one batch, by a search structure; in small ones, by walking through the events."""
    found = []
    for size in (2_000, 20):
        rng = np.random.default_rng(3)
        low = rng.random(300)
        totals = started(rows_of(low, low + 0.3), rng.integers(1, 9_000, 300), low < 0.5)
        values, weight = rng.random((1, 2_000)), rng.integers(1, 50, 2_000)
        told = []
        for first in range(0, 2_000, size):
            events = WeighedEvents(
                np.full(1, NO_KEY, np.int32),
                np.array([0, size]),
                2 * np.arange(size) + 1,
                values[:, first : first + size],
                weight[first : first + size],
            )
            fires = totals.count(events, np.ones(300, np.uint16))
            event = (fires.event + first).tolist()
            told += zip(event, fires.row.tolist(), fires.seen.tolist(), strict=True)
        totals.add_up()
        found.append((sorted(told), totals.lefts.left.tolist()))
    assert found[0] == found[1]
    assert len(found[0][0]) > 300
