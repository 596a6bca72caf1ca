"""What users give to an engine: taken in any form that says what it means, or refused."""

import math

import pyarrow as pa
import pytest

import everquery as eq
from everquery.core.encoded_names import encode

STREAM = eq.Stream("s", key="k", attributes=["x"])


def batch(**columns):
    return pa.table(columns)


@pytest.fixture
def engine():
    with eq.Engine(STREAM) as engine:
        yield engine


def test_ids_in_any_arrow_encoding(engine):
    engine.register([eq.Range(f"query-number-{i:04d}", {"x": (0, 2)}) for i in range(8)])
    engine.deregister(pa.array(["query-number-0001", "query-number-0002"], pa.string_view()))
    matched = engine.process(batch(k=["a"], x=[1.0]))["query_id"].unique()
    engine.deregister(matched.slice(0, 2))
    engine.deregister(pa.chunked_array([["query-number-0004"], ["query-number-0005"]]))
    assert engine.queries()["id"].to_pylist() == ["query-number-0006", "query-number-0007"]
    for wrong in ([1], pa.array([1]), [None]):
        with pytest.raises((eq.InvalidQueryError, eq.UnknownQueryError)):
            engine.deregister(wrong)
    with pytest.raises(TypeError, match="names are strings"):
        encode(pa.array(["a"], pa.string_view()))


def test_a_bad_query_never_costs_a_good_one(engine):
    engine.register(eq.Border("good", {"x": (0, 2)}))
    for wrong in ({"key": "\ud800"}, {"silent": [1, 2]}, {"key": "k" * (2 << 20)}):
        with pytest.raises(eq.InvalidQueryError):
            engine.register(eq.Border("bad", {"x": (0, 2)}, **wrong))
    engine.process(batch(k=["a"], x=[5.0]))
    assert engine.queries()["id"].to_pylist() == ["good"]


@pytest.mark.parametrize("time", [math.inf, math.nan, 10**30, 1.5, "soon", None])
def test_advance_to_what_is_no_time(time):
    engine = eq.Engine(eq.Stream("s", time="t", attributes=["x"], expire_after=5))
    engine.process(batch(t=[1], x=[1.0]))
    with pytest.raises(eq.InvalidBatchError, match="is no time of type int64"):
        engine.advance(time)
    engine.process(batch(t=[2], x=[1.0]))
    assert engine.stats()["events"] == 2


@pytest.mark.parametrize("keys", [[None], [1.5], [True]])
def test_expire_of_what_is_no_key(engine, keys):
    with pytest.raises(eq.InvalidQueryError, match="no string or integer"):
        engine.expire(keys)
    assert engine.expire([2**63, "nobody"]).num_rows == 0
