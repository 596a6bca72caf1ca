"""Merges that fail: warned of, counted, and tried again."""

import pyarrow as pa
import pytest

import everquery as eq
from everquery.index import merge_rules

STREAM = eq.Stream("s", key="k", attributes=["x"])


def batch(**columns):
    return pa.table(columns)


@pytest.fixture
def engine():
    with eq.Engine(STREAM) as engine:
        yield engine


def test_a_merge_that_fails_is_tried_again(engine, monkeypatch, caplog):
    monkeypatch.setattr(merge_rules, "MERGED_AT_ONCE", 4)
    border = engine._shard.contents.indexes["border"]
    build = border.layers._build

    def broken(rows):
        raise MemoryError("no room")

    assert engine.stats()["last_failed_merge"] is None
    for wave in range(6):
        engine.register([eq.Border(f"w{wave}q{i}", {"x": (i, i + 1)}) for i in range(4)])
        monkeypatch.setattr(border.layers, "_build", build)
        engine._shard.queries.settle()
        monkeypatch.setattr(border.layers, "_build", broken if wave < 4 else build)
        engine.process(batch(k=["a"], x=[0.5]))
        engine.close()
    assert engine.stats()["failed_merges"] > 0
    assert engine.stats()["last_failed_merge"] == "border: MemoryError: no room"
    records = [record for record in caplog.records if record.name == "everquery.engine"]
    assert len(records) == engine.stats()["failed_merges"]
    assert records[0].levelname == "WARNING"
    assert "in broken" in caplog.text  # the traceback
    engine.process(batch(k=["a"], x=[0.5]))
    engine.close()
    assert len(list(border.layers)) <= 2
    assert engine.stats()["queries"]["border"] == 24
