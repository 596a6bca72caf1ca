"""Earlier events of keys: the last that knows some attributes is always there, and no more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from everquery.core.parts import Saved
from everquery.index.rows import Grouped
from everquery.state.accepted import Accepted, Events
from everquery.state.sights import Sights

ATTRIBUTES = 3
NEEDS = [
    need for size in range(1, 4) for need in itertools.combinations(range(ATTRIBUTES), size)
]  # fmt: skip


class Model:
    """All events of each key since it came into sight, beside the sights."""

    def __init__(self, keys=5):
        self.sights = Sights(ATTRIBUTES)
        self.events = {key: [] for key in range(keys)}
        self.last = np.full((ATTRIBUTES, keys), np.nan)
        self.seen = np.zeros(keys, np.uint8)
        self.time = np.zeros(keys, np.int64)
        self.seq = np.zeros(keys, np.int64)

    def take(self, rows):
        """Take in rows of key, values and whether the key expired before, in order."""
        keys = np.unique([key for key, _, _ in rows]).astype(np.int32)
        before = self.last_events(keys)
        order = sorted(range(len(rows)), key=lambda row: rows[row][0])
        n = len(rows)
        seq, time = np.zeros(n, np.int64), np.zeros(n, np.int64)
        values = np.array([values for _, values, _ in rows], float).T.reshape(ATTRIBUTES, n)
        fresh = np.zeros(n, np.uint8)
        for place, row in enumerate(order):
            key, _, expired = rows[row]
            fresh[place] = expired and bool(self.events[key])
            if fresh[place]:
                self.events[key].clear()
            seq[row], time[row] = self.seq[key], 10 * self.seq[key] + key
            self.events[key].append((int(seq[row]), int(time[row]), tuple(values[:, row])))
            self.seq[key] += 1
        key = np.array([key for key, _, _ in rows], np.int32)
        events = Events(key, time, seq, values, time, time)
        start = np.searchsorted(key[order], np.append(keys, 1 << 20)).astype(np.int64)
        grouped = Grouped(
            keys, start, 2 * np.array(order) + 1,
            np.ascontiguousarray(np.vstack([values, np.zeros(n)])[:, order]),
        )  # fmt: skip
        partial = bool(np.isnan(values).any())
        none = events.take(np.empty(0, np.int64))
        self.sights.remember(
            Accepted(events, grouped, fresh, seq[:0], none, partial, before if partial else None),
            self.seen,
        )
        for place, row in enumerate(order):
            number = grouped.key[np.searchsorted(start, place, "right") - 1]
            self.last[:, number], self.seen[number] = values[:, row], 1
            self.time[number] = time[row]

    def last_events(self, keys):
        none = np.zeros(keys.size, np.int64)
        return Events(
            keys, self.time[keys], self.seq[keys] - 1,
            np.ascontiguousarray(self.last[:, keys]), none, none,
        )  # fmt: skip

    def forget(self, key):
        self.events[key].clear()
        self.seen[key] = 0
        self.sights.forget(np.array([key], np.int32))

    def check(self):
        """Compare what is recalled with all events, for all attributes."""
        keys = np.flatnonzero(self.seen).astype(np.int32)
        for need in NEEDS:
            found = self.sights.recalled(self.last_events(keys), need)
            for place, key in enumerate(keys.tolist()):
                known = [e for e in self.events[key] if not any(np.isnan(e[2][a]) for a in need)]
                if known:
                    seq, time, values = known[-1]
                    assert (found.seq[place], found.time[place]) == (seq, time)
                    np.testing.assert_array_equal(found.values[:, place], values)
                else:
                    assert found.seq[place] == -1
                    assert np.isnan(found.values[:, place]).all()

    def needed(self):
        """Return how many events are kept if none is that a later one makes useless."""
        count = 0
        for events in self.events.values():
            masks = [~np.isnan(values) for _, _, values in events]
            for place, mask in enumerate(masks[:-1]):
                count += not any((mask <= later).all() for later in masks[place + 1 :])
        return count


def rows(rng, n, keys=5, expiring=0.1):
    found = []
    for _ in range(n):
        values = np.where(rng.random(ATTRIBUTES) < 0.5, np.nan, rng.integers(0, 9, ATTRIBUTES))
        found.append((int(rng.integers(keys)), values, rng.random() < expiring))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_the_last_event_that_knows_some_attributes_is_recalled(seed):
    rng = np.random.default_rng(seed)
    model = Model()
    for step in range(12):
        model.take(rows(rng, int(rng.integers(1, 30))))
        model.check()
        assert len(model.sights) == model.needed()
        if step % 4 == 3:
            model.forget(int(rng.integers(5)))
            model.check()
            assert len(model.sights) == model.needed()


def test_complete_events_leave_nothing_behind():
    model = Model()
    model.take([(0, (1, np.nan, np.nan), False), (0, (np.nan, 2, np.nan), False)])
    model.take([(0, (np.nan, np.nan, 3), False)])
    assert len(model.sights) == 2
    model.take([(0, (4, 5, 6), False)])
    assert len(model.sights) == 0
    model.check()


def test_one_measure_at_a_time_keeps_one_event_a_measure():
    model = Model(keys=1)
    for turn in range(50):
        values = np.full(ATTRIBUTES, np.nan)
        values[turn % ATTRIBUTES] = turn
        model.take([(0, values, False)])
    assert len(model.sights) == ATTRIBUTES - 1
    model.check()


def test_state_goes_to_other_sights_and_keys_get_other_numbers():
    rng = np.random.default_rng(1)
    model = Model()
    for _ in range(6):
        model.take(rows(rng, 20))
    saved = Saved()
    model.sights.save(np.arange(5, dtype=np.int32), np.dtype(np.int64), saved)
    fresh = Sights(ATTRIBUTES)
    for _ in range(2):  # what was loaded before is replaced
        fresh.load(np.arange(5, dtype=np.int32), saved)
        assert len(fresh) == len(model.sights)
    model.sights = fresh
    model.check()
    kept = np.array([1, 3, 4])
    model.sights.keep(kept)
    model.events = {new: model.events[old] for new, old in enumerate(kept.tolist())}
    for name in ("seen", "time", "seq"):
        setattr(model, name, getattr(model, name)[kept])
    model.last = model.last[:, kept]
    model.check()
    assert len(model.sights) == model.needed()
    model.take(rows(rng, 20, keys=3))
    model.check()
