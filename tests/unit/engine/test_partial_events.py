"""Events that lack values: accepted, counted, and hidden only from queries that need them."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.state.events import decode

STREAM = eq.Stream("s", key="k", time="t", attributes=["x", "y"], weight="w")


def told(notices, *names):
    return [tuple(row.values()) for row in notices.select([*names]).to_pylist()]


def test_decode_makes_unknown_what_is_missing():
    columns = {
        "k": ["a"] * 4,
        "t": [1, 2, 3, 4],
        "x": pa.array([1.0, None, math.nan, 4.0], from_pandas=False),
        "w": pa.array([None, 0, -7, 3]),
    }
    found = decode(pa.table(columns), STREAM)
    np.testing.assert_array_equal(found.values[0], [1.0, math.nan, math.nan, 4.0])
    assert np.isnan(found.values[1]).all()  # a column that is not there
    assert found.weight.tolist() == [0, 0, -7, 3]
    assert not found.refused.any()
    assert decode(pa.table({"k": ["a"], "t": [1]}), STREAM).weight.tolist() == [0]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float32(), pa.decimal128(9, 2), pa.uint64()])
def test_a_null_is_unknown_in_columns_of_all_types(kind):
    column = pa.array([1, None, 3], kind)
    values = decode(pa.table({"k": ["a"] * 3, "t": [1, 2, 3], "x": column}), STREAM).values
    np.testing.assert_array_equal(values[0], [1, math.nan, 3])


def test_what_is_wrong_is_still_a_dead_letter():
    engine = eq.Engine(STREAM)
    columns = {
        "k": ["a", None, "a", "a"],
        "t": [1, 1, 1, 0],
        "x": pa.array([2**53 + 1, None, None, None]),
        "w": [1.0, 1.0, 1.5, 1.0],
    }
    engine.process(pa.table({**columns, "k": ["b", None, "b", "a"]}).slice(3))
    engine.process(pa.table(columns))
    reasons = ["inexact_attribute", "null_key", "bad_weight"]
    assert engine.dead_letters()["reason"].to_pylist() == reasons
    assert engine.dead_letters()["x"].to_pylist() == [2.0**53, None, None]
    assert engine.stats()["partial"] == 2


def test_events_without_any_column_of_the_stream_but_key_and_time():
    engine = eq.Engine(STREAM)
    engine.register([eq.Range("x", {"x": (None, 5)}), eq.Range("all", {}, key="a")])
    notices = engine.process(pa.table({"k": ["a", "b"], "t": [1, 2], "z": [1.0, 2.0]}))
    assert told(notices, "query_id", "key", "seq", "x", "y") == [("all", "a", 0, None, None)]
    assert engine.stats()["events"] == 2
    assert engine.stats()["partial"] == 2
    assert engine.stats()["partial_by_column"] == {"w": 2, "x": 2, "y": 2}


def test_late_events_are_not_counted_as_partial_and_held_ones_once_they_are_let_out():
    stream = eq.Stream("s", key="k", time="t", attributes=["x"], grace=5)
    engine = eq.Engine(stream)
    table = pa.table({"k": ["a", "a"], "t": [10, 20], "x": pa.nulls(2, pa.float64())})
    engine.process(table)
    assert engine.stats()["partial"] == 1
    fresh = eq.Engine(stream)
    fresh.restore(engine.snapshot())
    fresh.process(pa.table({"k": ["a"], "t": [3], "x": pa.nulls(1, pa.float64())}))
    assert fresh.stats()["dead_letters_by_reason"] == {"late": 1}
    fresh.flush()
    assert fresh.stats()["partial_by_column"] == {"x": 2}


@pytest.mark.parametrize("attributes", [1, 2, 3])
def test_ranges_on_every_access_path(attributes):
    """Few boxes are in lists, many in tiles."""
    names = ["x", "y", "z"][:attributes]
    stream = eq.Stream("s", key="k", attributes=names)
    rng = np.random.default_rng(attributes)
    low = rng.uniform(0, 9, (attributes, 600))
    boxes = [
        {name: (a, a + 3 if i % 3 else None) for name, a in zip(names, ends, strict=True)}
        for i, ends in enumerate(low.T.tolist())
    ]
    engine = eq.Engine(stream)
    engine.register([eq.Range(f"q{i}", box) for i, box in enumerate(boxes)])
    engine.register([eq.Range(f"k{i}", box, key="a") for i, box in enumerate(boxes[:40])])
    values = rng.uniform(0, 12, (attributes, 200))
    values[rng.random(values.shape) < 0.3] = math.nan
    keys = rng.choice(["a", "b"], 200)
    columns = dict(zip(names, values, strict=True))
    found = told(engine.process(pa.table({"k": keys, **columns})), "query_id", "key", "seq")
    expected = set()
    seq = {"a": 0, "b": 0}
    for key, point in zip(keys.tolist(), values.T, strict=True):
        for i, ends in enumerate(low.T):
            high = ends + 3 if i % 3 else np.full(attributes, math.inf)
            if ((ends <= point) & (point < high)).all():
                expected.add((f"q{i}", key, seq[key]))
                if i < 40 and key == "a":
                    expected.add((f"k{i}", key, seq[key]))
        seq[key] += 1
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_unknown_values_are_null_in_notices_that_waited():
    stream = eq.Stream("s", key="k", time="t", attributes=["x", "y"])
    engine = eq.Engine(stream)
    engine.register(eq.Border("b", {"x": (0, 10)}, dwell=5))
    table = pa.table({"k": ["a"], "t": [1], "x": [5.0]})
    assert engine.process(table).num_rows == 0
    fresh = eq.Engine(stream)
    fresh.restore(engine.snapshot())
    names = "query_id", "event", "time", "x", "y"
    assert told(fresh.advance(9), *names) == [("b", "enter", 6, 5.0, None)]
