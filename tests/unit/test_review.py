"""What a review of the whole engine found; each was wrong once."""

import math

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.core.names import encode
from everquery.index import layers
from everquery.shard import query_set

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


def test_queries_that_wait_survive_a_failure(engine, monkeypatch):
    engine.register(eq.Border("good", {"x": (0, 2)}))
    with monkeypatch.context() as patch:
        patch.setattr(query_set, "blocks_of_queries", lambda queries, stream: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.process(batch(k=["a"], x=[1.0]))
    assert engine.process(batch(k=["a"], x=[1.0]))["query_id"].to_pylist() == ["good"]


def test_a_key_of_many_megabytes(engine):
    engine.register(eq.Range("all", {}))
    notices = engine.process(batch(k=["a" * (17 << 20), "b"], x=[1.0, 2.0]))
    assert notices["key"].to_pylist()[1] == "b"


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


def test_a_registry_that_is_older_than_the_engine(tmp_path):
    ahead = eq.Engine(STREAM, registry=f"sqlite:///{tmp_path / 'a.db'}")
    ahead.register(eq.Range("z", {}))
    behind = eq.Engine(STREAM, registry=f"sqlite:///{tmp_path / 'b.db'}")
    behind.restore(ahead.snapshot())
    with pytest.raises(eq.RegistryError, match="stands at position 1"):
        behind.register(eq.Range("new", {}))


def test_integer_keys_and_dead_letters_after_a_restore(engine):
    engine.process(batch(k=[1], x=[1.0]))
    fresh = eq.Engine(STREAM)
    fresh.restore(engine.snapshot())
    fresh.process(batch(k=[1], x=[math.nan]))
    assert fresh.dead_letters()["key"].to_pylist() == [1]
    fresh.restore(fresh.snapshot())
    assert fresh.dead_letters()["key"].to_pylist() == [1]


@pytest.mark.parametrize("time", [math.inf, math.nan, 10**30, 1.5, "soon", None])
def test_advance_to_what_is_no_time(time):
    engine = eq.Engine(eq.Stream("s", time="t", attributes=["x"], expire_after=5))
    engine.process(batch(t=[1], x=[1.0]))
    with pytest.raises(eq.InvalidBatchError, match="is no time of type int64"):
        engine.advance(time)
    engine.process(batch(t=[2], x=[1.0]))
    assert engine.stats()["events"] == 2


def test_a_merge_that_fails_is_tried_again(engine, monkeypatch, caplog):
    monkeypatch.setattr(layers, "MERGED_AT_ONCE", 4)
    border = engine._shard.indexes["border"]
    build = border.layers._build

    def broken(rows):
        raise MemoryError("no room")

    assert engine.stats()["last_failed_merge"] is None
    for wave in range(6):
        engine.register([eq.Border(f"w{wave}q{i}", {"x": (i, i + 1)}) for i in range(4)])
        monkeypatch.setattr(border.layers, "_build", build)
        engine._shard.settle()
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


def test_times_near_the_end_of_time():
    engine = eq.Engine(eq.Stream("s", key="k", time="t", attributes=["x"], expire_after=10))
    engine.register(eq.Border("q", {"x": (0, 2)}))
    notices = engine.process(batch(k=["a"], t=[2**63 - 5], x=[1.0]))
    assert notices["event"].to_pylist() == ["enter"]


def test_a_column_of_nulls_teaches_no_key_type(engine):
    engine.process(batch(k=pa.nulls(0), x=pa.array([], pa.float64())))
    engine.process(batch(k=pa.nulls(1), x=[1.0]))
    engine.process(batch(k=[7], x=[1.0]))
    engine.process(batch(k=pa.nulls(2), x=[1.0, 2.0]))
    assert engine.stats()["dead_letters_by_reason"] == {"null_key": 3}


def test_one_event_of_very_many_notices_is_in_order(engine):
    n = 60_000
    ids = [f"q{i}" for i in np.random.default_rng(0).permutation(n)]
    engine.register_table(
        pa.table({"id": ids, "x_lo": np.zeros(n), "x_hi": np.arange(1.0, n + 1)}), kind="range"
    )
    assert engine.process(batch(k=["a"], x=[0.5]))["query_id"].to_pylist() == ids


def test_a_null_decimal_bound_is_no_limit(engine):
    from decimal import Decimal

    bounds = pa.array([Decimal("0.5"), None, Decimal("0.1")])
    with pytest.raises(eq.InvalidTableError) as caught:
        engine.register_table(pa.table({"id": ["a", "b", "c"], "x_lo": bounds}), kind="range")
    assert caught.value.errors["row"].to_pylist() == [2]


def test_dead_letters_of_many_small_batches_are_joined(engine):
    for _ in range(600):
        engine.process(batch(k=["a"], x=[math.nan]))
    assert engine.dead_letters().num_rows == 600
    assert len(engine._shard.dead_letters._kept) < 300


@pytest.mark.parametrize("keys", [[None], [1.5], [True]])
def test_expire_of_what_is_no_key(engine, keys):
    with pytest.raises(eq.InvalidQueryError, match="no string or integer"):
        engine.expire(keys)
    assert engine.expire([2**63, "nobody"]).num_rows == 0


def test_spans_and_names_that_can_not_be():
    with pytest.raises(eq.InvalidStreamError, match="longer than times are"):
        eq.Stream("s", time="t", attributes=["x"], grace=10**30)
    with pytest.raises(eq.InvalidStreamError, match="name of a notice column"):
        eq.Stream("s", attributes=["position"])
