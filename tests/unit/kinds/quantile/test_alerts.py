"""Quantiles that are told when they cross a range, or have moved far enough."""

import math

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import InvalidQueryError, InvalidTableError
from everquery.kinds.told_values import CHANGE, ENTER, LEAVE, NOTHING, ValueRules, one_told
from everquery.queries.sql import InvalidSqlError, read_sql

STREAM = eq.Stream("s", key="k", time="t", attributes=["x"])
ROWS = 20
CODES = {"change": CHANGE, "enter": ENTER, "leave": LEAVE, None: NOTHING}


def quantile(name="q", **fields):
    """Return a query of the median of as many rows as `told` puts into a batch."""
    return eq.Quantile(name, "x", phi=0.5, epsilon=1 / ROWS, last=ROWS, **fields)


def batch(value, key="a", time=0):
    return pa.table({"k": [key] * ROWS, "t": [time] * ROWS, "x": [float(value)] * ROWS})


def told(engine, *values, **how):
    """Return what is told of values that come one a batch, so that each is the median."""
    found = []
    for value in values:
        notices = engine.process(batch(value, **how))
        found += [tuple(row.values()) for row in notices.select(["event", "value"]).to_pylist()]
    return found


@pytest.fixture
def engine():
    with eq.Engine(STREAM) as engine:
        yield engine


def test_a_range_is_entered_and_left(engine):
    engine.register(quantile(when=(10, 20)))
    assert told(engine, 1, 10, 15, 20, 5, 19) == [("enter", 10), ("leave", 20), ("enter", 19)]


def test_a_first_value_inside_is_an_enter_and_a_jump_is_nothing(engine):
    engine.register(quantile(when=(10, 20)))
    assert told(engine, 12, 30, 1) == [("enter", 12), ("leave", 30)]


def test_a_move_is_told_by_what_was_told_last(engine):
    engine.register(quantile(by=0.1))
    assert told(engine, 100, 109, 95, 110, 100, 98.9) == [
        ("change", 100), ("change", 110), ("change", 98.9),
    ]  # fmt: skip


def test_moves_from_zero_and_across_it(engine):
    engine.register(quantile(by=0.5))
    assert told(engine, 0, 1e-300, -1e-300, -1, -1.2, math.inf, 5) == [
        ("change", 0), ("change", 1e-300), ("change", -1e-300), ("change", -1),
        ("change", math.inf), ("change", 5),
    ]  # fmt: skip


def test_both_tell_moves_within_the_range(engine):
    engine.register(quantile(when=(10, None), by=0.5))
    assert told(engine, 1, 5, 10, 12, 16, 11, 9, 1) == [
        ("enter", 10), ("change", 16), ("leave", 9),
    ]  # fmt: skip


def test_keys_apart(engine):
    engine.register(quantile(by_key=True, when=(10, None)))
    assert told(engine, 15, key="a") == [("enter", 15)]
    assert told(engine, 15, key="b") == [("enter", 15)]
    assert told(engine, 16, 2, key="a") == [("leave", 2)]


def test_a_notice_has_the_columns_of_a_change(engine):
    engine.register(quantile(when=(10, None)))
    (row,) = engine.process(batch(12)).to_pylist()
    assert {name: row[name] for name in ("kind", "event", "seq", "n", "epsilon", "x")} == {
        "kind": "quantile", "event": "enter", "seq": 19, "n": 20, "epsilon": 0.05, "x": 12.0,
    }  # fmt: skip


def test_the_answer_is_the_present_value(engine):
    engine.register(quantile(by=10.0))
    assert told(engine, 1, 2, 3) == [("change", 1)]
    assert engine.answer("q").value == 3


def test_pausing_and_resuming(engine):
    engine.register(quantile(when=(10, None)))
    assert told(engine, 15) == [("enter", 15)]
    engine.pause("q")
    assert told(engine, 5) == []
    engine.resume("q")
    assert told(engine, 4) == [("leave", 4)]


def test_a_query_that_comes_back_begins_anew(engine):
    engine.register([quantile("other"), quantile(when=(10, None))])
    engine.process(batch(15))
    engine.deregister("q")
    engine.register(quantile(when=(10, None)))
    notices = engine.process(batch(16)).to_pylist()
    assert [(row["query_id"], row["event"]) for row in notices] == [
        ("other", "change"), ("q", "enter"),
    ]  # fmt: skip


def test_a_snapshot_knows_what_was_told(engine):
    engine.register([quantile(when=(10, None)), quantile("m", by=0.5, by_key=True)])
    assert told(engine, 15) == [("enter", 15), ("change", 15)]
    assert told(engine, 16) == []
    with eq.Engine(STREAM) as other:
        other.restore(engine.snapshot())
        assert other.queries().equals(engine.queries())
        assert told(other, 17) == []
        assert told(other, 23) == [("change", 23)]
        assert told(other, 9) == [("leave", 9), ("change", 9)]


def test_plain_queries_are_saved_and_named_as_before_there_were_rules(engine):
    engine.register(quantile())
    engine.process(batch(1))
    frame = engine.snapshot()
    assert b"quantile by" not in frame
    assert b"member.said" not in frame


def test_throttle_sums_crossings_up(engine):
    engine.register(quantile(when=(10, None), throttle=10))
    assert told(engine, 15, time=0) == [("enter", 15)]
    assert told(engine, 5, time=1) == []
    assert told(engine, 15, time=20) == [("leave", 5), ("enter", 15)]


class TestTables:
    def test_columns(self, engine):
        asked = pa.table(
            {
                "id": ["p", "q", "r"], "phi": [0.5] * 3, "epsilon": [0.1] * 3,
                "when_lo": [0, None, None], "when_hi": [None, 5.0, None], "by": [None, 0.5, 0.1],
            }
        )  # fmt: skip
        assert engine.register_table(asked, kind="quantile").registered == 3
        listed = engine.queries().select(["id", "emit", "when_lo", "when_hi", "by", "x_lo"])
        assert [tuple(row.values()) for row in listed.to_pylist()] == [
            ("p", "enter,leave", 0.0, None, None, None),
            ("q", "change,enter,leave", None, 5.0, 0.5, None),
            ("r", "change", None, None, 0.1, None),
        ]
        notices = engine.process(batch(1)).to_pylist()
        assert [(row["query_id"], row["event"]) for row in notices] == [
            ("p", "enter"), ("q", "enter"), ("r", "change"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("columns", "reason"),
        [
            ({"when_lo": [5.0], "when_hi": [5.0]}, "when_lo is not below when_hi"),
            ({"when_lo": [math.nan]}, "when_lo is NaN"),
            ({"when_hi": [2**53 + 1]}, "float64 can't hold exactly"),
            ({"when_lo": ["a"]}, "'when_lo' has type string; it must be numbers"),
            ({"by": [-0.1]}, "by must be above 0"),
            ({"by": [math.inf]}, "by must be finite"),
        ],
    )
    def test_what_can_not_be(self, engine, columns, reason):
        asked = pa.table({"id": ["q"], "phi": [0.5], "epsilon": [0.1], **columns})
        with pytest.raises(InvalidTableError, match=reason):
            engine.register_table(asked, kind="quantile")


def test_a_registry_keeps_ranges_and_shares(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    single = quantile("single", when=eq.Interval(1, 2, closed="both"), by=0.5)
    rows = {"id": ["a", "b"], "phi": [1.0, 0.5], "epsilon": [0.9, 0.9], "by": [0.1, None]}
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        engine.register(single)
        engine.register_table(pa.table({**rows, "when_lo": [None, 7.0]}), kind="quantile")
        listed = engine.queries()
    with eq.open(url) as again:
        assert again.queries().equals(listed)
        again.process(batch(1))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"when": (5, 1)}, "holds no value"),
        ({"when": (None, None)}, "which holds every value; leave it out"),
        ({"when": (-math.inf, None)}, "which holds every value; leave it out"),
        ({"when": 5}, "when: 5 is no range"),
        ({"when": ("a", None)}, "lo is 'a', which is not a number"),
        ({"by": 0}, "by is 0.0; it must be above 0"),
        ({"by": "a"}, "by is 'a', which is not a number"),
        ({"by": math.inf}, "by is inf; it must be finite"),
    ],
)
def test_what_can_not_be(fields, reason):
    with pytest.raises(InvalidQueryError, match=reason):
        quantile(**fields)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ENTER WHEN VALUE > 1", "expected ,"),
        ("ENTER, LEAVE", "expected WHEN"),
        ("ENTER, LEAVE WHEN x > 1", "expected VALUE"),
        ("ENTER, LEAVE WHEN VALUE <> 1", "expected >="),
        ("ENTER, LEAVE WHEN VALUE > 2 AND VALUE < 1", "holds no value"),
        ("ENTER, LEAVE WHEN VALUE > 'a'", "which is not a number"),
        ("ENTER, LEAVE WHEN VALUE >= UNBOUNDED", "holds every value"),
        ("CHANGES BY", "expected by, a number"),
        ("CHANGES BY -1", "must be above 0"),
        ("MATCHES", "takes EMIT CHANGES, ENTER or LEAVE"),
    ],
)
def test_what_sql_can_not_say(text, reason):
    statement = f"CREATE STANDING QUERY q AS SELECT QUANTILE(x, 0.5, 0.1) FROM s EMIT {text}"
    with pytest.raises(InvalidSqlError, match=reason):
        read_sql(statement, stream_of=lambda name: STREAM)


def test_the_rules_of_many_are_those_of_each():
    values = [-math.inf, -2.0, -0.1, 0.0, 0.1, 1.0, 1.05, 1.1, 3.0, math.inf]
    ranges = [None, eq.Interval(0, None), eq.Interval(None, 1), eq.Interval(0.1, 1, closed="both")]
    cases = [
        (when, by, value, said)
        for when in ranges
        for by in (None, 0.05, 1.0)
        for value in values
        for said in [None, *values]
        if when is not None or by is not None
    ]
    ends = [(eq.Interval() if when is None else when).half_open() for when, _, _, _ in cases]
    low, high = np.array(ends).T
    rules = ValueRules(low, high, np.array([by or 0.0 for _, by, _, _ in cases]))
    said = np.array([math.nan if said is None else said for _, _, _, said in cases])
    code = rules.told(np.array([value for _, _, value, _ in cases]), said)
    assert code.tolist() == [CODES[one_told(*case)] for case in cases]
    assert set(code.tolist()) == set(CODES.values())
