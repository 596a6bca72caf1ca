"""However queries were loaded, their segments become few, and with events one (issue 16)."""

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.index import merge_rules

STREAM = eq.Stream("s", key="k", attributes=["x"])


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(merge_rules, "MERGED_AT_ONCE", 16)


def load(engine, name, size):
    low = np.arange(size) % 9.0
    table = {"id": [f"{name}-{i}" for i in range(size)], "key": [f"k{i % 3}" for i in range(size)]}
    engine.register_table(pa.table({**table, "x_lo": low, "x_hi": low + 1}), kind="border")
    engine.close()  # waits for the merge


def segments(engine):
    return [len(part) for part in engine._shard.contents.indexes["border"].layers]


def test_loads_without_events_are_merged_16():
    engine = eq.Engine(STREAM)
    for number in range(64):
        load(engine, f"t{number}", 20)
    assert len(segments(engine)) < 16
    assert sum(segments(engine)) == 64 * 20


@pytest.mark.parametrize("sizes", [[100] * 10, [20, 100, 2_000], [1_600, 160, 20]])
def test_events_make_one_segment_of_any_16(sizes):
    engine = eq.Engine(STREAM)
    for number, size in enumerate(sizes):
        load(engine, f"t{number}", size)
    batch = pa.table({"k": ["k0", "k1"] * 500, "x": np.arange(1_000) % 11.0})
    told = []
    for _ in range(100):
        told.append(engine.process(batch).num_rows)
        engine.close()
    assert segments(engine) == [sum(sizes)]
    assert len(set(told[1:])) == 1
