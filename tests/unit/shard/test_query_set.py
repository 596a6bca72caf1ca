"""Queries that have been registered, and wait for the next batch."""

import pyarrow as pa
import pytest

import everquery as eq
from everquery.shard import numbered_queries

STREAM = eq.Stream("s", key="k", attributes=["x"])


def batch(**columns):
    return pa.table(columns)


@pytest.fixture
def engine():
    with eq.Engine(STREAM) as engine:
        yield engine


def test_queries_that_wait_survive_a_failure(engine, monkeypatch):
    engine.register(eq.Border("good", {"x": (0, 2)}))
    with monkeypatch.context() as patch:
        patch.setattr(numbered_queries, "blocks_of_queries", lambda queries, stream: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.process(batch(k=["a"], x=[1.0]))
    assert engine.process(batch(k=["a"], x=[1.0]))["query_id"].to_pylist() == ["good"]


def test_resumed_before_announced_tells_once(engine):
    engine.process(batch(k=["a"], x=[1.0]))
    engine.register(eq.Border("q", {"x": (0, 2)}))
    for _ in range(2):
        engine.pause("q")
        engine.resume("q")
    notices = engine.process(batch(k=["b"], x=[5.0])).to_pylist()
    assert [(row["event"], row["reason"], row["key"]) for row in notices] == [
        ("enter", "resumed", "a")
    ]
