"""Events as a shard takes them in: keys and times at their limits."""

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


def test_a_key_of_many_megabytes(engine):
    engine.register(eq.Range("all", {}))
    notices = engine.process(batch(k=["a" * (17 << 20), "b"], x=[1.0, 2.0]))
    assert notices["key"].to_pylist()[1] == "b"


def test_a_column_of_nulls_teaches_no_key_type(engine):
    engine.process(batch(k=pa.nulls(0), x=pa.array([], pa.float64())))
    engine.process(batch(k=pa.nulls(1), x=[1.0]))
    engine.process(batch(k=[7], x=[1.0]))
    engine.process(batch(k=pa.nulls(2), x=[1.0, 2.0]))
    assert engine.stats()["dead_letters_by_reason"] == {"null_key": 3}


def test_times_near_the_end_of_time():
    engine = eq.Engine(eq.Stream("s", key="k", time="t", attributes=["x"], expire_after=10))
    engine.register(eq.Border("q", {"x": (0, 2)}))
    notices = engine.process(batch(k=["a"], t=[2**63 - 5], x=[1.0]))
    assert notices["event"].to_pylist() == ["enter"]
