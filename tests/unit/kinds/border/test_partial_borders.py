"""Borders over events that lack values: each query follows the events that know what it needs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.testing import BruteForce, assert_same_notices, notices_of

STREAM = eq.Stream("s", key="k", time="t", attributes=["x", "y"], expire_after=10)
X = eq.Border("x", {"x": (0, 10)})
Y = eq.Border("y", {"y": (0, 10)})
BOTH = eq.Border("both", {"x": (0, 10), "y": (0, 10)})
ALL = eq.Border("all", {})


def engine_of(*queries):
    engine = eq.Engine(STREAM)
    engine.register(queries)
    return engine


def feed(engine, *rows):
    """Return what rows of key, time, x and y lead to."""
    columns = zip(*rows, strict=True)
    kinds = pa.string(), pa.int64(), pa.float64(), pa.float64()
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return told(engine.process(pa.table(arrays, names=["k", "t", "x", "y"])))


def told(notices):
    names = ["query_id", "event", "reason", "key", "time", "seq", "x", "y"]
    return [tuple(row.values()) for row in notices.select(names).to_pylist()]


def test_an_event_that_lacks_a_value_moves_only_the_others():
    engine = engine_of(X, Y, BOTH, ALL)
    assert feed(engine, ("a", 1, 5, None)) == [
        ("x", "enter", None, "a", 1, 0, 5.0, None),
        ("all", "enter", None, "a", 1, 0, 5.0, None),
    ]
    assert feed(engine, ("a", 2, None, 5)) == [("y", "enter", None, "a", 2, 1, None, 5.0)]
    assert feed(engine, ("a", 3, 5, 5)) == [("both", "enter", None, "a", 3, 2, 5.0, 5.0)]
    assert feed(engine, ("a", 4, 50, None)) == [("x", "leave", None, "a", 4, 3, 50.0, None)]
    assert feed(engine, ("a", 5, None, None)) == []
    assert feed(engine, ("a", 6, 5, 50)) == [
        ("x", "enter", None, "a", 6, 5, 5.0, 50.0),
        ("y", "leave", None, "a", 6, 5, 5.0, 50.0),
        ("both", "leave", None, "a", 6, 5, 5.0, 50.0),
    ]


def test_a_key_expires_at_an_event_that_a_query_does_not_see():
    engine = engine_of(X, BOTH)
    feed(engine, ("a", 1, 5, 5), ("a", 3, 6, None))
    # The leaves name what each query saw last, and the time at which the key expired.
    assert feed(engine, ("a", 30, None, 5)) == [
        ("x", "leave", "expired", "a", 13, 1, 6.0, None),
        ("both", "leave", "expired", "a", 13, 0, 5.0, 5.0),
    ]
    assert feed(engine, ("a", 31, 5, None)) == [("x", "enter", None, "a", 31, 3, 5.0, None)]


def test_an_expiry_within_a_batch_names_events_of_that_batch_and_of_earlier_ones():
    engine = engine_of(X, BOTH, Y)
    feed(engine, ("a", 1, 5, 5), ("a", 2, None, 6))
    assert feed(engine, ("a", 3, 7, None), ("a", 20, None, 50), ("a", 40, None, None)) == [
        ("x", "leave", "expired", "a", 13, 2, 7.0, None),
        ("both", "leave", "expired", "a", 13, 0, 5.0, 5.0),
        ("y", "leave", "expired", "a", 13, 1, None, 6.0),
    ]


def test_an_event_that_lacks_values_keeps_its_key_in_sight():
    engine = engine_of(X)
    feed(engine, ("a", 1, 5, None))
    assert feed(engine, ("a", 9, None, 1), ("b", 18, 99, None)) == []
    assert feed(engine, ("b", 19, 99, None)) == [("x", "leave", "expired", "a", 19, 0, 5.0, None)]


def test_keys_already_inside_are_told_by_what_the_query_would_have_seen():
    engine = engine_of()
    feed(engine, ("a", 1, 5, 5), ("a", 2, 6, None), ("a", 3, None, 7), ("b", 3, None, 5))
    engine.register([X, Y, BOTH, ALL])
    assert told(engine.process(pa.table({"k": ["c"], "t": [4]}))) == [
        ("x", "enter", "registered", "a", 2, 1, 6.0, None),
        ("y", "enter", "registered", "a", 3, 2, None, 7.0),
        ("both", "enter", "registered", "a", 1, 0, 5.0, 5.0),
        ("all", "enter", "registered", "a", 3, 2, None, 7.0),
        ("y", "enter", "registered", "b", 3, 0, None, 5.0),
        ("all", "enter", "registered", "b", 3, 0, None, 5.0),
        ("all", "enter", None, "c", 4, 0, None, None),
    ]
    engine.pause("both")
    engine.resume("both")
    assert told(engine.process(pa.table({"k": ["c"], "t": [4]}))) == [
        ("both", "enter", "resumed", "a", 1, 0, 5.0, 5.0)
    ]
    assert told(engine.expire("a")) == [
        ("x", "leave", "expired", "a", 3, 1, 6.0, None),
        ("y", "leave", "expired", "a", 3, 2, None, 7.0),
        ("both", "leave", "expired", "a", 3, 0, 5.0, 5.0),
        ("all", "leave", "expired", "a", 3, 2, None, 7.0),
    ]


def test_a_snapshot_knows_what_queries_saw_last():
    engine = engine_of(BOTH)
    feed(engine, ("a", 1, 5, 5), ("a", 2, 6, None), ("a", 3, None, 7))
    fresh = eq.Engine(STREAM)
    fresh.restore(engine.snapshot())
    assert fresh.stats()["partial_by_column"] == {"x": 1, "y": 1}
    fresh.register(eq.Border("more", {"x": (0, 10)}))
    assert feed(fresh, ("a", 4, 50, 5)) == [
        ("more", "enter", "registered", "a", 2, 1, 6.0, None),
        ("both", "leave", None, "a", 4, 3, 50.0, 5.0),
        ("more", "leave", None, "a", 4, 3, 50.0, 5.0),
    ]


def test_a_range_without_limits_needs_a_value_and_an_empty_box_needs_none(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    engine = eq.Engine(STREAM, registry=url, create=True)
    engine.register(eq.Border("known", {"x": (None, None)}))
    engine.sql("CREATE STANDING QUERY sql AS SELECT * FROM s WHERE x IS NOT NULL EMIT ENTER")
    table = pa.table({"id": ["table"], "x_lo": pa.nulls(1, pa.float64())})
    engine.register_table(table, kind="border")
    engine.register([eq.Border("empty", {}), eq.Border("keyed", {}, key="b")])
    fresh, opened = eq.Engine(STREAM), eq.open(url)
    fresh.restore(engine.snapshot())
    for each in (engine, fresh, opened):
        assert [row[0] for row in feed(each, ("a", 1, None, 5))] == ["table", "empty"]
        assert [row[0] for row in feed(each, ("b", 1, None, None))] == ["table", "empty", "keyed"]
        assert [row[0] for row in feed(each, ("a", 1, 7, None))] == ["known", "sql"]
        assert each.explain("table").attributes == each.explain("empty").attributes == ()
        assert each.explain("known").attributes == ("x",)
        assert each.queries()["x_lo"].to_pylist() == [None] * 5


def test_an_empty_box_stays_empty_where_its_stream_gets_an_attribute(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        engine.register_table(pa.table({"id": ["table"]}), kind="border")
        engine.register(ALL)
        engine.sql("ALTER STREAM s ADD COLUMN z DOUBLE")
    with eq.open(url) as opened:
        opened.register_table(pa.table({"id": ["z", "more"], "z_lo": [1.0, None]}), kind="border")
        assert [row[0] for row in feed(opened, ("a", 1, None, 5))] == ["table", "all", "more"]


@pytest.mark.parametrize("batch", [1, 7, 60])
def test_sensors_that_send_one_measure_at_a_time(batch):
    """Many boxes, so that walks go over borders and jump, with expiries between."""
    rng = np.random.default_rng(batch)
    twin, engine = BruteForce(STREAM), eq.Engine(STREAM)
    for i in range(40):
        low = rng.integers(0, 90, 2)
        names = [("x",), ("y",), ("x", "y")][i % 3]
        box = {name: (float(a), float(a) + 12) for name, a in zip(names, low, strict=False)}
        query = eq.Border(f"q{i}", box, key="a" if i % 4 == 0 else None)
        engine.register(query)
        twin.register(query)
    ours, theirs, time = [], [], 0
    for _ in range(300 // batch):
        rows = []
        for _ in range(batch):
            time += int(rng.choice([0, 1, 12], p=[0.5, 0.45, 0.05]))
            values = [float(value) for value in rng.integers(0, 100, 2)]
            lost = int(rng.integers(0, 4))  # one, the other, both or none
            row = {"k": str(rng.choice(["a", "b"])), "t": time}
            row |= {"x": None if lost & 1 else values[0], "y": None if lost & 2 else values[1]}
            rows.append(row)
        schema = pa.schema(
            [("k", pa.string()), ("t", pa.int64()), ("x", pa.float64()), ("y", pa.float64())]
        )
        ours += notices_of(engine.process(pa.Table.from_pylist(rows, schema)), STREAM)
        theirs += twin.process(rows)
    assert_same_notices(ours, theirs)
    assert len(ours) > 500
