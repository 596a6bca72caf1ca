"""Dead letters, kept."""

import pyarrow as pa
import pytest

import everquery as eq

STREAM = eq.Stream("s", key="k", attributes=["x"])


def batch(**columns):
    return pa.table(columns)


@pytest.fixture
def engine():
    with eq.Engine(STREAM) as engine:
        yield engine


def test_integer_keys_and_dead_letters_after_a_restore(engine):
    engine.process(batch(k=[1], x=[1.0]))
    fresh = eq.Engine(STREAM)
    fresh.restore(engine.snapshot())
    fresh.process(batch(k=[1], x=[2**53 + 1]))
    assert fresh.dead_letters()["key"].to_pylist() == [1]
    fresh.restore(fresh.snapshot())
    assert fresh.dead_letters()["key"].to_pylist() == [1]


def test_dead_letters_of_many_small_batches_are_joined(engine):
    for _ in range(600):
        engine.process(batch(k=["a"], x=[2**53 + 1]))
    assert engine.dead_letters().num_rows == 600
    assert len(engine._shard.dead_letters._kept) < 300
