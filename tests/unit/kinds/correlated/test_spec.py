"""Correlated queries: what a spec takes and refuses, and its life as columns and SQL."""

import math
import pickle
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from everquery.kinds.correlated.strategies import queries
from everquery.queries.sql import print_query, read_statement

CALLS = eq.Stream("calls", key="caller", time="ts", attributes=["duration", "fee"])
PLAIN = eq.Stream("calls", attributes=["duration", "fee"])


def correlated(query_id="c", aggregate="count", **fields):
    said = {"where": "duration", "compared": "<=", "to": "avg", **fields}
    return eq.Correlated(query_id, aggregate, **said)


def test_what_a_spec_holds():
    query = correlated("c", "sum", of="fee", factor=2, last=500, key="ann", epsilon=0, ttl=5)
    assert (query.kind, query.aggregate, query.of, query.where) == (
        "correlated", "sum", "fee", "duration",
    )  # fmt: skip
    assert (query.factor, query.last, query.epsilon, query.buckets) == (2.0, 500, 0.0, 10)
    assert set(query.box) == {"duration", "fee"}
    assert correlated(last=timedelta(minutes=5)).span == timedelta(minutes=5)
    assert correlated(last="5m").span == timedelta(minutes=5)
    assert pickle.loads(pickle.dumps(query)) == query


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"aggregate": "max"}, "aggregate is 'max'; it takes one of count, sum, avg"),
        ({"aggregate": "sum"}, "sum of what"),
        ({"compared": "=="}, "compared is '=='"),
        ({"to": "median"}, "to is 'median'"),
        ({"where": None}, "where is None"),
        ({"where": 7}, "where is 7"),
        ({"factor": math.nan}, "factor"),
        ({"factor": math.inf}, "must be finite"),
        ({"factor": 0}, "must not be 0"),
        ({"factor": -1.0, "compared": "within"}, "above 0"),
        ({"last": 0}, "must be 1 or more"),
        ({"last": -3}, "must be 1 or more"),
        ({"last": 5, "span": 3}, "give one of the two"),
        ({"last": "5s", "span": 3}, "give one"),
        ({"epsilon": -1}, "must be 0, which is exact"),
        ({"epsilon": -0.5}, "must be 0, which is exact"),
        ({"epsilon": 1}, "below 1"),
        ({"buckets": 1}, "2 or more"),
        ({"buckets": 2.5}, "whole number"),
        ({"by_key": True, "key": "ann"}, "give one of the two"),
        ({"dwell": 5}, "give a range"),
        ({"when": (None, None)}, "holds every value"),
        ({"when": (5, 1)}, "when"),
    ],
)
def test_what_a_spec_refuses(fields, reason):
    with pytest.raises(eq.InvalidQueryError, match=reason):
        correlated(**fields)


@pytest.mark.parametrize(
    ("stream", "fields", "reason"),
    [
        (CALLS, {"where": "durations"}, "did you mean 'duration'"),
        (CALLS, {"of": "cost"}, "no attribute 'cost'"),
        (PLAIN, {"span": 5}, "span needs a stream with a time column"),
        (PLAIN, {"key": "ann"}, "has no key"),
        (PLAIN, {"by_key": True}, "has none"),
        (CALLS, {"dwell": 5, "when": (1, 2)}, "dwell is by key"),
    ],
)
def test_what_does_not_fit_a_stream(stream, fields, reason):
    with pytest.raises(eq.InvalidQueryError, match=reason):
        eq.Engine(stream).register(correlated(**fields))


def test_tables():
    engine = eq.Engine(CALLS)
    table = pa.table(
        {
            "id": list("abcdefgh"),
            "aggregate": ["count", "sum", "avg", "sum", "count", "count", "oops", "count"],
            "where": ["duration"] * 7 + [None],
            "of": [None, "fee", "fee", None, "nope", None, None, None],
            "compared": ["<=", ">", "within", "<", "<", "within", "<", "<"],
            "to": ["avg", "max", "min", "min", "min", "min", "min", "min"],
            "factor": [None, 0.5, 0.1, None, None, -1.0, None, None],
            "last": [None, 500, None, None, None, None, None, None],
            "epsilon": [0, 0.1, None, None, None, None, None, None],
        }
    )
    registered = engine.register_table(table, kind="correlated", on_error="skip")
    reasons = {row["id"]: row["reason"] for row in registered.errors.to_pylist()}
    assert set(reasons) == set("defgh")
    assert "needs of" in reasons["d"]
    assert "no attribute" in reasons["e"]
    assert "negative factor" in reasons["f"]
    listed = {row["id"]: row for row in engine.queries().to_pylist()}
    assert (listed["a"]["factor"], listed["a"]["epsilon"], listed["a"]["buckets"]) == (1.0, 0.0, 10)
    assert (listed["b"]["factor"], listed["b"]["last"], listed["b"]["of"]) == (0.5, 500, "fee")
    assert (listed["c"]["epsilon"], listed["c"]["compared"]) == (0.01, "within")


def test_a_table_with_ranges_is_refused():
    table = pa.table(
        {
            "id": ["a"], "aggregate": ["count"], "where": ["duration"], "compared": ["<"],
            "to": ["avg"], "fee_lo": [1.0],
        }
    )  # fmt: skip
    with pytest.raises(eq.InvalidTableError, match="fee_lo"):
        eq.Engine(CALLS).register_table(table, kind="correlated")


@given(data=st.data())
def test_sql_reads_back_equal(data):
    query = data.draw(queries("q", CALLS))
    text = print_query(query, CALLS)
    assert read_statement(text, stream_of={"calls": CALLS}.__getitem__).query == query


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "COUNT(*) FROM calls WHERE duration >= 0.9 * MAX(duration) EMIT CHANGES",
            {"compared": ">=", "to": "max", "factor": 0.9},
        ),
        (
            "SUM(fee) FROM calls WHERE caller = 'ann' AND duration <= AVG(duration)"
            " OVER LAST 500 ROWS EMIT ENTER, LEAVE WHEN VALUE > 3",
            {"aggregate": "sum", "of": "fee", "key": "ann", "last": 500,
             "when": eq.Interval(3, None, "neither")},
        ),
        (
            "AVG(fee) FROM calls WHERE duration WITHIN 10 PERCENT OF AVG(duration)"
            " GROUP BY caller OVER LAST INTERVAL '5' MINUTE EMIT CHANGES WITH (epsilon = 0)",
            {"aggregate": "avg", "of": "fee", "compared": "within", "factor": 0.1, "by_key": True,
             "span": timedelta(minutes=5), "epsilon": 0},
        ),
    ],
)  # fmt: skip
def test_sql(text, fields):
    text = f"CREATE STANDING QUERY c AS SELECT CORRELATED {text}"
    read = read_statement(text, stream_of={"calls": CALLS}.__getitem__).query
    assert read == correlated(**fields)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("COUNT(*) FROM calls EMIT CHANGES", "expected WHERE"),
        ("MEDIAN(fee) FROM calls WHERE fee < AVG(fee) EMIT CHANGES", "expected COUNT, SUM or AVG"),
        ("COUNT(*) FROM calls WHERE fee < 3 EMIT CHANGES", "expected"),
        ("COUNT(*) FROM calls WHERE fee < AVG(duration) EMIT CHANGES", "of itself"),
        ("COUNT(*) FROM calls WHERE fees < AVG(fees) EMIT CHANGES", "did you mean"),
        ("SUM(fees) FROM calls WHERE fee < AVG(fee) EMIT CHANGES", "did you mean"),
        ("COUNT(*) FROM calls WHERE caller = 'ann' EMIT CHANGES", "compares an attribute"),
        ("COUNT(*) FROM calls WHERE fee < 0 * AVG(fee) EMIT CHANGES", "must not be 0"),
        ("COUNT(*) FROM calls WHERE fee < AVG(fee) OVER LAST 0 ROWS EMIT CHANGES", "1 or more"),
        ("COUNT(*) FROM calls WHERE fee < AVG(fee) AND fee > MIN(fee) EMIT CHANGES", "one compari"),
        ("COUNT(*) FROM calls WHERE fee < AVG(fee) EMIT CHANGES BY 0.1", "epsilon"),
    ],
)
def test_bad_sql(text, reason):
    with pytest.raises(eq.InvalidSqlError, match=reason):
        read_statement(
            f"CREATE STANDING QUERY c AS SELECT CORRELATED {text}",
            stream_of={"calls": CALLS}.__getitem__,
        )
