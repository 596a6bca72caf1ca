"""Samples and sketches as state: changes of some keys, and arrays that can't be."""

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.core.framing import DamagedError
from everquery.core.parts import Saved
from everquery.kinds.window.state import WindowPart

STREAM = eq.Stream("s", key="k", attributes=["x", "y"])


def batch(keys, n, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(0, 1, n), rng.integers(0, 5_000, n).astype(float)
    return pa.table({"k": rng.choice(keys, n), "x": x, "y": y})


def engine_of(statistics=("distinct", "l1", "l2")):
    engine = eq.Engine(STREAM)
    for each in statistics:
        of, per = ("y", None) if each == "distinct" else ("x", "y")
        engine.register(eq.Window(each, each, of, per=per, last=3_000, epsilon=0.6, by_key=True))
    engine.process(batch(list("abc"), 9_000, 1))
    return engine


def part_of(engine):
    contents = engine._state.contents
    slots = np.flatnonzero(contents.catalog.flags).astype(np.int32)
    return WindowPart(contents.indexes["window"], lambda: slots, lambda: len(contents.keys))


def copied(saved):
    return Saved(saved.values, dict(saved.arrays), dict(saved.strings), saved.whole)


def test_changes_are_less_than_all_and_lead_to_the_same():
    engine, copy = engine_of(), eq.Engine(STREAM)
    copy.restore(engine.snapshot())
    part, follower = part_of(engine), part_of(copy)
    part.mark_committed()
    assert part.changes() is None
    engine.process(batch(["a"], 50, 2))
    saved = part.changes()
    assert not saved.whole
    assert all(saved.arrays[f"store {family} 0 0 lane.key"].size == 1 for family in (5, 7, 8))
    follower.load(copied(saved))
    for key in "abc":
        for statistic in ("distinct", "l1", "l2"):
            assert copy.answer(statistic, key=key) == engine.answer(statistic, key=key)
    more = batch(list("abc"), 4_000, 3)
    assert copy.process(more).num_rows == engine.process(more).num_rows
    for key in "abc":
        assert copy.answer("l2", key=key) == engine.answer("l2", key=key)


def first_bucket(total):
    return int(np.flatnonzero(np.isnan(total[:, 1]))[0])


def set_at(row, column, value):
    def damage(total):
        total[first_bucket(total) + row, column] = value

    return damage


DAMAGES = {
    "too long": set_at(0, 0, 1e9),
    "of no entries": set_at(0, 0, 0.0),
    "of half an entry": set_at(0, 0, 1.5),
    "neither list nor sketch": set_at(0, 0, 400.0),
    "of no events": set_at(1, 0, 0.0),
    "of a length below 0": set_at(1, 1, -1.0),
    "with another bucket inside": set_at(4, 1, np.nan),
    "without numbers": set_at(3, 0, np.nan),
    "of infinite sums": set_at(3, 0, np.inf),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_buckets_that_cannot_be_are_refused(name):
    engine = engine_of(["l2"])
    saved = copied(part_of(engine).whole())
    total = saved.arrays["store 8 0 0 entry.total"].copy()
    DAMAGES[name](total)
    saved.arrays["store 8 0 0 entry.total"] = total
    with pytest.raises(DamagedError, match=r"entry\.total"):
        part_of(engine).load(saved)


def test_buckets_of_several_moments_are_refused():
    engine = engine_of(["l2"])
    saved = copied(part_of(engine).whole())
    row = first_bucket(saved.arrays["store 8 0 0 entry.total"])
    mark = saved.arrays["store 8 0 0 entry.mark"].copy()
    mark[row] -= 1
    mark[:row] = np.minimum(mark[:row], mark[row])
    saved.arrays["store 8 0 0 entry.mark"] = mark
    with pytest.raises(DamagedError, match=r"entry\.total"):
        part_of(engine).load(saved)


@pytest.mark.parametrize(("column", "value"), [(3, 0.0), (3, -1.0), (2, np.inf), (0, -np.inf)])
def test_samples_that_cannot_be_are_refused(column, value):
    engine = engine_of(["l1"])
    saved = copied(part_of(engine).whole())
    total = saved.arrays["store 7 0 0 entry.total"].copy()
    total[5, column] = value
    saved.arrays["store 7 0 0 entry.total"] = total
    with pytest.raises(DamagedError, match=r"entry\.total"):
        part_of(engine).load(saved)
