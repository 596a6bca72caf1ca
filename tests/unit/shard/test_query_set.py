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


@pytest.mark.parametrize(
    ("ids", "failing"), [(["good"], "box_of_one"), (["good", "too"], "blocks_of_queries")]
)
def test_queries_that_wait_survive_a_failure(engine, monkeypatch, ids, failing):
    for name in ids:
        engine.register(eq.Border(name, {"x": (0, 2)}))
    with monkeypatch.context() as patch:
        patch.setattr(numbered_queries, failing, lambda given, stream: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.process(batch(k=["a"], x=[1.0]))
    assert engine.process(batch(k=["a"], x=[1.0]))["query_id"].to_pylist() == ids


@pytest.mark.parametrize("key", ["a", None])
@pytest.mark.parametrize("box", [{}, {"x": (0, None)}, {"y": (-0.0, 3), "x": (None, 2)}])
@pytest.mark.parametrize("options", [{}, {"silent": True}, {"emit": "leave"}])
def test_one_query_is_numbered_as_several_are(key, box, options):
    stream = eq.Stream("s", key="k", attributes=["x", "y"])
    told = []
    for others in (0, 1):
        with eq.Engine(stream) as engine:
            engine.process(batch(k=["a", "b"], x=[1.0, 1.0], y=[1.0, 1.0]))
            engine.register(eq.Border("q", box, key=key, **options))
            if others:
                engine.register(eq.Border("z", {"x": (99, 100)}, **options))
            notices = engine.process(batch(k=["a", "b"], x=[1.0, 3.0], y=[5.0, 1.0]))
            listed = [row for row in engine.queries().to_pylist() if row["id"] == "q"]
            told.append((notices.to_pylist(), listed))
    assert told[0] == told[1]


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
