"""Queries that are gone give their memory back, and nobody notices."""

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.shard import upkeep
from everquery.testing import notices_of

STREAM = eq.Stream("s", key="k", attributes=["x"])


@pytest.fixture
def _small(monkeypatch):
    monkeypatch.setattr(upkeep, "SWEEP", 10)
    monkeypatch.setattr(upkeep, "COMPACT", 40)


def wave(number, size=50):
    return pa.table(
        {
            "id": [f"w{number}q{i}" for i in range(size)],
            "x_lo": np.arange(size, dtype=float) % 7,
            "x_hi": np.arange(size, dtype=float) % 7 + 2,
            "key": [None if i % 3 else "a" for i in range(size)],
        }
    )


def run(kind, monkeypatch, *, compacting):
    if not compacting:
        monkeypatch.setattr(upkeep, "COMPACT", 10**9)
    engine = eq.Engine(STREAM)
    engine.register(eq.Border("stays", {"x": (1, 3)}))
    rng = np.random.default_rng(1)
    told = []
    for number in range(30):
        engine.register_table(wave(number), kind=kind)
        engine.pause(f"w{number}q0")
        if number:
            engine.deregister(wave(number - 1)["id"])
        batch = pa.table({"k": rng.choice(["a", "b"], 20), "x": rng.uniform(0, 9, 20)})
        told += notices_of(engine.process(batch), STREAM)
    engine.close()
    return told, engine


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("kind", ["border", "range"])
def test_compaction_changes_no_notice_and_bounds_memory(kind, monkeypatch):
    compacted, engine = run(kind, monkeypatch, compacting=True)
    assert len(engine._shard.contents.catalog) < 250
    assert engine.stats()["queries"][kind] == 50 + (kind == "border")
    assert engine.stats()["paused"] == 1
    plain, other = run(kind, monkeypatch, compacting=False)
    assert len(other._shard.contents.catalog) > 1_500
    assert compacted == plain
    assert len(plain) > 1_000
    assert engine.queries().equals(other.queries())


@pytest.mark.usefixtures("_small")
def test_announcements_survive_a_compaction():
    engine = eq.Engine(STREAM)
    engine.process(pa.table({"k": ["a"], "x": [2.0]}))
    engine.register_table(wave(0, 100), kind="border")
    engine.deregister(wave(0, 100)["id"])
    engine.register(eq.Border("late", {"x": (1, 3)}))
    notices = engine.process(pa.table({"k": ["a"], "x": [2.5]}))
    assert len(engine._shard.contents.catalog) == 2
    assert notices.select(["query_id", "event", "reason"]).to_pylist() == [
        {"query_id": "late", "event": "enter", "reason": "registered"}
    ]


@pytest.mark.usefixtures("_small")
def test_segments_of_dropped_rows_are_swept():
    engine = eq.Engine(STREAM)
    engine.register_table(wave(0, 1_000), kind="border")
    full = engine.stats()["bytes"]["border index"]
    engine.deregister(wave(0, 1_000)["id"].slice(0, 900))
    empty = pa.table({"k": pa.array([], pa.string()), "x": pa.array([], pa.float64())})
    for _ in range(3):
        engine.process(empty)
        engine.close()  # waits for the merge
    assert engine.stats()["bytes"]["border index"] < full / 5
