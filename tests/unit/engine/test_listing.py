"""The columns of `Engine.queries`."""

import pyarrow as pa
import pytest

import everquery as eq

COLUMNS = [
    "id", "kind", "key", "attribute", "emit", "state", "owner", "labels", "silent", "repeat",
    "count", "by_key", "total", "phi", "epsilon", "last", "by", "aggregate", "of", "where",
    "compared", "to", "factor", "buckets", "when_lo", "when_hi", "statistic", "per", "ttl",
    "dwell", "every", "after", "span", "throttle", "zone", "plan", "negative", "tell", "upkeep",
    "price_lo", "price_hi",
]  # fmt: skip


@pytest.fixture
def engine():
    stream = eq.Stream("trades", key="symbol", time="ts", attributes=["price"], weight="shares")
    with eq.Engine(stream) as engine:
        yield engine


def test_no_queries_have_the_same_columns(engine):
    empty = engine.queries().schema
    assert empty.names == COLUMNS
    engine.register(eq.Threshold("sold", {"price": (1, 2)}, total=5))
    assert engine.queries().schema == empty
    assert empty.field("total").type == pa.int64()
    engine.register(eq.Quantile("high", "price", phi=0.99, epsilon=0.01, key="IBM"))
    assert engine.queries().schema == empty


def test_ranks_are_of_quantiles_alone(engine):
    engine.register(
        [
            eq.Quantile("p", "price", phi=[0.5, 1], epsilon=0.25, last=4, ttl=9),
            eq.Range("cheap", {"price": (None, 2)}),
            eq.Quantile("each", "price", phi=1e-300, epsilon=0.999, by_key=True),
        ]
    )
    names = ["id", "kind", "attribute", "emit", "by_key", "phi", "epsilon", "last", "ttl"]
    rows = engine.queries().select(names)
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        ("p[0.5]", "quantile", "price", "change", False, 0.5, 0.25, 4, "9"),
        ("p[1.0]", "quantile", "price", "change", False, 1.0, 0.25, 4, "9"),
        ("cheap", "range", None, "match", None, None, None, None, None),
        ("each", "quantile", "price", "change", True, 1e-300, 0.999, None, None),
    ]
    assert set(engine.queries()["price_lo"].to_pylist()) == {None}
    assert engine.queries(kind="quantile").num_rows == 3


def test_totals_are_of_thresholds_alone(engine):
    engine.register(
        [
            eq.Threshold("sold", {"price": (1, 2)}, total=2**63 - 1, key="IBM"),
            eq.Border("band", {"price": (1, 2)}),
            eq.Threshold("each", {}, total=7, repeat=True, count=True),
            eq.Range("cheap", {"price": (None, 2)}),
        ]
    )
    rows = engine.queries().select(["id", "emit", "total", "repeat", "count", "silent"])
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        ("sold", "fire", 2**63 - 1, False, False, None),
        ("band", "enter,leave", None, None, None, False),
        ("each", "fire", 7, True, True, None),
        ("cheap", "match", None, None, None, None),
    ]


def test_a_total_stays_what_was_asked_for(engine):
    engine.register(eq.Threshold("each", {}, total=7, repeat=True))
    events = {"symbol": ["A"] * 3, "ts": [1, 2, 3], "price": [1.0] * 3, "shares": [5] * 3}
    engine.process(pa.table(events))
    assert engine.queries()["total"].to_pylist() == [7]
    assert engine.progress("each") == 5
