"""Streams without attributes: events are counted, weights added up, keys come and go."""

import pyarrow as pa
import pytest

import everquery as eq
from everquery.queries.sql import print_query, print_stream, read_sql

STREAM = eq.Stream("clicks", key="user", time="t", attributes=[], weight="n", expire_after=10)


def batch(users, times, weights):
    return pa.table({"user": users, "t": times, "n": weights})


def told(notices):
    return [
        tuple(row[name] for name in ("query_id", "event", "key", "seq"))
        for row in notices.to_pylist()
    ]


def queries():
    return [
        eq.Range("all", {}),
        eq.Border("in sight", {}),
        eq.Threshold("five", {}, total=5),
        eq.Threshold("two of b", {}, total=2, key="b", count=True, repeat=True),
    ]


def test_every_kind_with_a_box_works():
    engine = eq.Engine(STREAM)
    engine.register(queries())
    assert told(engine.process(batch(["a", "b", "b"], [1, 2, 3], [2, 3, 1]))) == [
        ("all", "match", "a", 0),
        ("in sight", "enter", "a", 0),
        ("all", "match", "b", 0),
        ("in sight", "enter", "b", 0),
        ("five", "fire", "b", 0),
        ("all", "match", "b", 1),
        ("two of b", "fire", "b", 1),
    ]
    assert told(engine.advance(11)) == [("in sight", "leave", "a", 0)]
    assert engine.explain("all").attributes == ()


def test_snapshots_and_registries_hold_such_queries(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    engine = eq.Engine(STREAM, registry=url, create=True)
    engine.register(queries())
    table = pa.table({"id": ["x", "y"], "total": [3, 4], "key": ["a", None]})
    engine.register_table(table, kind="threshold")
    engine.process(batch(["a"], [1], [2]))
    restored = eq.Engine(STREAM)
    restored.restore(engine.snapshot())
    following = eq.Engine(STREAM, registry=url)
    assert restored.queries().equals(engine.queries())
    assert following.queries().equals(engine.queries())
    more = batch(["a", "b"], [2, 3], [1, 1])
    assert restored.process(more).equals(engine.process(more))


def test_sql_reads_back():
    streams = {"clicks": STREAM}
    for query in queries():
        [created] = read_sql(print_query(query, STREAM), stream_of=streams.__getitem__)
        assert created.query == query
    [created] = read_sql(print_stream(STREAM), stream_of=streams.__getitem__)
    assert created.stream.attributes == ()


def test_a_table_without_ranges_is_registered():
    engine = eq.Engine(STREAM)
    engine.register_table(pa.table({"id": ["r"]}), kind="range")
    assert told(engine.process(batch(["a"], [1], [1]))) == [("r", "match", "a", 0)]


def test_what_needs_an_attribute_is_refused():
    engine = eq.Engine(STREAM)
    with pytest.raises(eq.InvalidQueryError, match=r"no attribute 'x' \(it has none\)"):
        engine.register(eq.Quantile("q", "x", phi=0.5, epsilon=0.1))
    with pytest.raises(eq.InvalidQueryError, match=r"no attribute 'x' \(it has none\)"):
        engine.register(eq.Range("r", {"x": (1, 2)}))
    table = pa.table({"id": ["q"], "phi": [0.5], "epsilon": [0.1]})
    with pytest.raises(eq.InvalidTableError, match="no column 'attribute'"):
        engine.register_table(table, kind="quantile")
    table = table.append_column("attribute", pa.array([""]))
    with pytest.raises(eq.InvalidTableError, match=r"no such attribute \(it has none\)"):
        engine.register_table(table, kind="quantile")
    with pytest.raises(eq.InvalidSqlError, match=r"no attribute 'x'"):
        engine.sql("CREATE STANDING QUERY q AS SELECT * FROM clicks WHERE x > 1 EMIT MATCHES")
    assert engine.queries().num_rows == 0


def test_dead_letters_have_no_values():
    engine = eq.Engine(STREAM)
    engine.process(batch(["a", None], [1, 2], [1, 1]))
    assert engine.dead_letters().column_names == ["position", "reason", "detail", "key", "time"]
