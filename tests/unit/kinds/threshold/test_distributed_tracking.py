"""Rows that fire at a weight (range-thresholding) against a count for each row, and the bounds."""

import numpy as np
import pytest

from everquery.kinds.threshold.distributed_tracking import Tracking
from everquery.kinds.threshold.node_heaps import COUNT
from everquery.kinds.threshold.tracking_rounds import NEED, SLACK, SPARE

ENDS = [-np.inf, *range(12), np.inf]


class Counted:
    """The answer by brute force: every row counts every event in its box."""

    def __init__(self, low, high, lane, need):
        self.low, self.high, self.lane, self.need = low, high, lane, need.copy()
        self.total = np.zeros_like(need)
        self.seen = np.zeros_like(need)
        self.alive = np.ones(need.size, bool)
        self.paused = np.zeros(need.size, bool)

    def run(self, lane, values, weight, first=0):
        fired = []
        for i, (event_lane, value) in enumerate(zip(lane, values.T, strict=True)):
            value = value[:, None]
            hit = ((self.low <= value) & ~(self.high <= value)).all(axis=0)
            hit &= self.alive & ~self.paused & (self.lane == event_lane)
            self.seen[hit] += weight[i]
            for row in np.flatnonzero(hit & (self.seen >= self.need)):
                fired.append((first + i, int(row), int(self.seen[row])))
                if self.total[row] > 0:
                    self.seen[row], self.need[row] = 0, self.total[row]
                else:
                    self.alive[row] = False
        return fired


def boxes(rng, attributes, rows, lanes):
    low = rng.choice(ENDS[:-1], (attributes, rows))
    high = rng.choice([*ENDS[1:], np.nan], (attributes, rows))
    swap = high < low
    low[swap], high[swap] = high[swap], low[swap]
    return low, high, rng.integers(0, lanes, rows).astype(np.int32)


def events(rng, attributes, count, lanes, heaviest):
    values = rng.choice([*ENDS, -1.0, 5.5, 20.0, np.nan], (attributes, count))
    lane = rng.integers(-1, lanes + 1, count).astype(np.int32)
    return lane, values, rng.integers(1, heaviest + 1, count)


def fired_by(tracking, stream, first=0):
    return list(zip(*(part.tolist() for part in tracking.run(*stream, first)), strict=True))


def pair(rng, attributes, *, rows=40, lanes=2, heaviest=1, most=200):
    low, high, lane = boxes(rng, attributes, rows, lanes)
    need = rng.integers(1, most * heaviest + 1, rows)
    need[rng.random(rows) < 0.3] = rng.integers(1, 12 * heaviest + 1)
    return Tracking.build(low, high, lane, lanes, need), Counted(low, high, lane, need)


@pytest.mark.parametrize("heaviest", [1, 3, 100, 2**40])
@pytest.mark.parametrize("attributes", [1, 2, 3])
def test_fires_as_counted(attributes, heaviest):
    fired = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        tracking, counted = pair(rng, attributes, heaviest=heaviest)
        tracking.total[:] = counted.total[:] = counted.need * rng.integers(0, 2, 40)
        stream = events(rng, attributes, 600 * attributes, 2, heaviest)
        want = counted.run(*stream)
        assert fired_by(tracking, stream) == want
        assert tracking.seen(np.arange(40)).tolist() == counted.seen.tolist()
        fired += len(want)
    assert fired > 15


@pytest.mark.parametrize("heaviest", [1, 50])
def test_a_crowd_fires_as_counted(heaviest):
    """Many rows at the same nodes: heaps are deep, and more fire than the first out arrays hold."""
    rng = np.random.default_rng(7)
    low = rng.random((1, 500))
    need = rng.integers(1, 400 * heaviest, 500)
    lane = np.zeros(500, np.int32)
    tracking = Tracking.build(low, low + 0.5, lane, 1, need)
    counted = Counted(low, low + 0.5, lane, need)
    weight = rng.integers(1, heaviest + 1, 2000)
    stream = (np.zeros(2000, np.int32), rng.random((1, 2000)) * 1.5, weight)
    want = counted.run(*stream)
    assert len(want) > 128
    assert fired_by(tracking, stream) == want
    assert tracking.alive == np.count_nonzero(counted.alive)


@pytest.mark.parametrize("attributes", [1, 2])
def test_changes_between_runs(attributes):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        tracking, counted = pair(rng, attributes, heaviest=5)
        counted.total[:] = np.where(rng.random(40) < 0.5, rng.integers(1, 400, 40), 0)
        tracking.total[:] = counted.total
        first = 0
        for _ in range(30):
            rows = rng.integers(0, 40, 4)  # some twice, some in another state already
            change = rng.choice(["pause", "resume", "resume", "terminate"])
            getattr(tracking, change)(rows)
            if change == "terminate":
                counted.alive[rows] = False
            else:
                counted.paused[rows] = change == "pause"
            stream = events(rng, attributes, int(rng.integers(0, 60)), 2, 5)
            assert fired_by(tracking, stream, first) == counted.run(*stream, first)
            assert tracking.seen(np.arange(40)).tolist() == counted.seen.tolist()
            first += stream[0].size


@pytest.mark.parametrize("length", [1, 7, 100])
def test_splits_of_the_run_change_nothing(length):
    rng = np.random.default_rng(2)
    low, high, lane = boxes(rng, 2, 60, 2)
    need = rng.integers(1, 300, 60)
    stream = events(rng, 2, 500, 2, 4)
    whole, split = (Tracking.build(low, high, lane, 2, need) for _ in range(2))
    whole.total[:] = split.total[:] = need
    want = fired_by(whole, stream)
    got = []
    for first in range(0, 500, length):
        got += fired_by(split, [part[..., first : first + length] for part in stream], first)
    assert got == want
    assert len(want) > 20


def test_sums_up_to_the_limit_do_not_wrap():
    low, high, lane = (
        np.array([[0.0, 0.0, 3.0]]),
        np.array([[9.0, 5.0, np.nan]]),
        np.zeros(3, np.int32),
    )
    need = np.array([2**62, 2**62 - 1, 2**61])
    tracking = Tracking.build(low, high, lane, 1, need)
    tracking.total[:] = 2**62
    values = np.array([[4.0, 1.0, 4.0, 4.0]])
    weight = np.array([2**61 - 1, 2**61, 1, 1])
    stream = (np.zeros(4, np.int32), values, weight)
    assert fired_by(tracking, stream) == [(1, 1, 2**62 - 1), (2, 0, 2**62), (2, 2, 2**61)]
    assert tracking.seen(np.arange(3)).tolist() == [1, 2, 1]


def test_nothing_to_track():
    none = np.empty((1, 0))
    tracking = Tracking.build(none, none, np.empty(0, np.int32), 1, np.empty(0, np.int64))
    stream = (np.zeros(3, np.int32), np.ones((1, 3)), np.ones(3, np.int64))
    assert fired_by(tracking, stream) == []
    assert (tracking.alive, tracking.entries, tracking.signals, tracking.rounds) == (0, 0, 0, 0)


def plain_tracking(rng, rows, need):
    low = rng.random((1, rows))
    lane = np.zeros(rows, np.int32)
    return Tracking.build(low, low + 0.3, lane, 1, np.full(rows, need))


@pytest.mark.parametrize("heaviest", [1, 30])
def test_rounds_and_signals_of_even_traffic(heaviest):
    rng = np.random.default_rng(4)
    need = 2000 * (heaviest + 1)
    tracking = plain_tracking(rng, 300, need)
    count = 30_000
    weight = rng.integers(1, heaviest + 1, count)
    fired = tracking.run(np.zeros(count, np.int32), rng.random((1, count)) * 1.3, weight)[1]
    assert fired.size == 300
    h = np.diff(tracking.trees.row_start)
    assert tracking.rounds_of.max() <= np.log(need) / np.log(1.5) + 2
    assert (tracking.signals_of <= 2 * h * np.log2(need)).all()
    assert tracking.signals_of.min() >= 1
    # The rows are told of few events: counting each would be thousands of signals.
    assert tracking.signals < 300 * 4000 / 20
    assert tracking.signals == tracking.signals_of.sum()
    assert tracking.rounds == tracking.rounds_of.sum()


def test_rounds_and_signals_when_the_traffic_always_moves():
    """All events go where the row expects least: rounds by share fail, the plain ones hold."""
    rng = np.random.default_rng(6)
    need = 2**40
    tracking = plain_tracking(rng, 200, need)
    heavy = np.full(40, 2**28)
    fired = 0
    for spot in np.tile(rng.permutation(np.linspace(0, 1.3, 997)), 20):
        fired += tracking.run(np.zeros(40, np.int32), np.full((1, 40), spot), heavy)[0].size
        if fired == 200:
            break
    h = np.diff(tracking.trees.row_start)
    assert fired == 200
    assert tracking.rounds_of.min() > 5  # or the bounds would say nothing
    assert tracking.rounds_of.max() <= 2 * np.log2(need) + 2
    assert (tracking.signals_of <= 2 * h * np.log2(need)).all()


def test_memory_is_told():
    tracking = plain_tracking(np.random.default_rng(0), 1000, 100)
    per_entry = 8 + 4 * 4  # key; entry, slot, node and owner
    assert tracking.nbytes() > per_entry * tracking.entries
    assert tracking.nbytes() < 2 * per_entry * tracking.entries + 1000 * 500


def test_rounds_when_the_counters_mislead():
    """A long past at one node, then all events at another: every second round is a plain one."""
    rng = np.random.default_rng(8)
    low = rng.random((1, 60))
    high = low + 0.2
    low[0, 0], high[0, 0] = 0.0, 1.0
    tracking = Tracking.build(low, high, np.zeros(60, np.int32), 1, np.full(60, 2**50))
    tracking.total[:] = 2**40
    lane, row = np.zeros(1, np.int32), np.zeros(1, np.int64)
    assert 0 in tracking.run(lane, np.array([[0.3]]), np.array([2**50]))[1]
    before = tracking.rounds_of[0]
    fired = False
    while not fired:
        weight = np.maximum(1, (2**40 - tracking.seen(row)) // 64)
        fired = 0 in tracking.run(lane, np.array([[0.7]]), weight)[1]
    rounds = tracking.rounds_of[0] - before
    assert 10 < rounds <= 2 * 40 + 2


@pytest.mark.parametrize("heaviest", [1, 4])
def test_a_row_never_lends_more_than_is_left(heaviest):
    """Why no row fires late, looked at after every event."""
    rng = np.random.default_rng(9)
    low = rng.random((1, 30))
    lane = np.zeros(30, np.int32)
    tracking = Tracking.build(low, low + 0.5, lane, 1, rng.integers(60, 400, 30))
    tracking.total[:] = rng.integers(30, 400, 30)
    nodes, rows, (due, _, slot) = tracking._nodes, tracking._rows, tracking._heaps
    start, node = tracking.trees.row_start[:-1], tracking.trees.node
    checked = 0
    for value in rng.random(1500) * 1.5:
        weight = rng.integers(1, heaviest + 1, 1)
        tracking.run(lane[:1], np.array([[value]]), weight)
        lent = np.add.reduceat(due[slot] - nodes[node, COUNT], start)
        left = rows[:, NEED] - tracking.seen(np.arange(30))
        in_round = rows[:, SLACK] > 0
        assert (lent + rows[:, SPARE] <= left)[in_round].all()
        assert (rows[:, SPARE] >= 0)[in_round].all()
        checked += np.count_nonzero(in_round)
    assert checked > 1500
