"""What thresholds promise, and what they refuse."""

import math

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import InvalidQueryError, InvalidTableError, UnknownQueryError

STREAM = eq.Stream("s", key="k", attributes=["x"], weight="w")
LARGEST = 2**63 - 1


def feed(engine, *events):
    keys, values, weights = zip(*events, strict=True)
    table = pa.table({"k": keys, "x": pa.array(values, pa.float64()), "w": weights})
    notices = engine.process(table)
    names = ["query_id", "event", "key", "seq", "total", "rounds"]
    return [tuple(row.values()) for row in notices.select(names).to_pylist()]


def engine_of(*queries):
    engine = eq.Engine(STREAM)
    engine.register(queries)
    return engine


class TestTotals:
    @pytest.mark.parametrize("total", [0, -1, 2**63, 2**80, 1.5, float("nan"), "7", True, None])
    def test_bad_totals_are_refused(self, total):
        with pytest.raises(InvalidQueryError, match="total is"):
            eq.Threshold("t", {}, total=total)

    def test_a_total_is_needed(self):
        with pytest.raises(TypeError, match="total"):
            eq.Threshold("t", {})

    @pytest.mark.parametrize("option", ["repeat", "count"])
    def test_options_are_true_or_false(self, option):
        with pytest.raises(InvalidQueryError, match=f"{option} is 1"):
            eq.Threshold("t", {}, total=1, **{option: 1})

    def test_a_box_without_volume_is_refused(self):
        with pytest.raises(InvalidQueryError):
            eq.Threshold("t", {"x": (5, 5)}, total=1)

    def test_numpy_totals_are_taken(self):
        assert eq.Threshold("t", {}, total=np.int32(7)) == eq.Threshold("t", {}, total=7)

    @pytest.mark.parametrize(
        ("totals", "reason"),
        [
            ([0, 5], "total must be 1 or more"),
            ([None, 5], "total is null"),
            ([1.5, 5.0], "whole number"),
            ([float("nan"), 5.0], "whole number"),
            ([2.0**63, 5.0], "at most 9,223,372,036,854,775,807"),
            (pa.array([2**63, 5], pa.uint64()), "at most 9,223,372,036,854,775,807"),
        ],
    )
    def test_bad_rows_of_a_table_are_told(self, totals, reason):
        engine = eq.Engine(STREAM)
        table = pa.table({"id": ["a", "b"], "total": totals})
        with pytest.raises(InvalidTableError, match=reason):
            engine.register_table(table, kind="threshold")
        found = engine.register_table(table, kind="threshold", on_error="skip")
        assert found.registered == 1
        assert found.errors["id"].to_pylist() == ["a"]
        assert engine.queries()["id"].to_pylist() == ["b"]

    def test_a_table_needs_totals(self):
        with pytest.raises(InvalidTableError, match="no column 'total'"):
            eq.Engine(STREAM).register_table(pa.table({"id": ["a"]}), kind="threshold")

    def test_other_kinds_have_no_totals(self):
        with pytest.raises(InvalidTableError, match="no column 'total'"):
            eq.Engine(STREAM).register_table(pa.table({"id": ["a"], "total": [1]}), kind="range")


class TestLargeNumbers:
    def test_the_largest_total_is_reached_and_nothing_wraps(self):
        engine = engine_of(eq.Threshold("t", {}, total=LARGEST, repeat=True))
        assert feed(engine, ("a", 0, 2**62), ("a", 0, 2**62 - 2)) == []
        assert engine.progress("t") == LARGEST - 1
        assert feed(engine, ("a", 0, 2**62)) == [("t", "fire", "a", 2, LARGEST, 1)]
        assert engine.progress("t") == 0

    def test_a_batch_of_heavy_events_is_counted_one_by_one(self):
        engine = engine_of(
            eq.Threshold("t", {}, total=2**62, repeat=True),
            eq.Threshold("k", {"x": (0, 1)}, total=3 * 2**60, key="a", repeat=True),
        )
        heavy = [("a", 0, 2**61)] * 7
        told = feed(engine, *heavy)
        assert [row[3:] for row in told if row[0] == "t"] == [(i, 2**62, 1) for i in (1, 3, 5)]
        assert [row[3:] for row in told if row[0] == "k"] == [(i, 2**62, 1) for i in (1, 3, 5)]
        assert engine.progress("t") == engine.progress("k") == 2**61

    def test_a_weight_beyond_the_limit_is_a_dead_letter(self):
        engine = engine_of(eq.Threshold("t", {}, total=5))
        assert feed(engine, ("a", 0, 2**62 + 1), ("a", 0, 2**63 - 1)) == []
        assert engine.dead_letters()["reason"].to_pylist() == ["bad_weight"] * 2


@pytest.mark.parametrize("weights", [[0, 5], [-1, 5], [math.nan, 5.0], [None, 5]])
def test_an_event_of_unknown_weight_is_seen_by_queries_that_count(weights):
    counting = eq.Threshold("c", {}, total=100, count=True)
    boxes = eq.Threshold("b", {"x": (0, 1)}, total=100, key="a")
    engine = engine_of(eq.Threshold("t", {}, total=100), counting, boxes)
    engine.process(pa.table({"k": ["a", "a"], "x": [0.0, 0.0], "w": weights}))
    assert (engine.progress("t"), engine.progress("b"), engine.progress("c")) == (5, 5, 2)
    assert engine.stats()["dead_letters"] == 0
    assert engine.stats()["partial_by_column"] == {"w": 1}


def test_a_weight_that_is_no_whole_number_is_a_dead_letter():
    engine = engine_of(eq.Threshold("t", {}, total=100))
    engine.process(pa.table({"k": ["a", "a"], "x": [0.0, 0.0], "w": [1.5, 5.0]}))
    assert engine.progress("t") == 5
    assert engine.stats()["dead_letters_by_reason"] == {"bad_weight": 1}


@pytest.mark.parametrize("rows", [40, 4_000])
def test_boxes_do_not_see_events_that_lack_an_attribute(rows):
    """A few events stab the boxes, many are swept."""
    stream = eq.Stream("s", attributes=["x", "y"], weight="w")
    engine = eq.Engine(stream)
    rng = np.random.default_rng(rows)
    low = rng.uniform(0, 5, (2, 50))
    queries = [
        eq.Threshold(f"t{i}", {"x": (a, None), "y": (None, b + 4)}, total=2**50)
        for i, (a, b) in enumerate(low.T)
    ]
    engine.register([*queries, eq.Threshold("x", {"x": (2, 8)}, total=2**50)])
    values = rng.uniform(0, 10, (2, rows))
    values[rng.random(values.shape) < 0.2] = math.nan
    weight = rng.integers(-1, 5, rows)
    engine.process(pa.table({"x": values[0], "y": values[1], "w": weight}))
    heavy = np.maximum(weight, 0)
    for i, (a, b) in enumerate(low.T):
        inside = (values[0] >= a) & (values[1] < b + 4)
        assert engine.progress(f"t{i}") == heavy[inside].sum()
    assert engine.progress("x") == heavy[(values[0] >= 2) & (values[0] < 8)].sum()


class TestEnds:
    def test_a_query_that_has_fired_is_gone(self):
        engine = engine_of(eq.Threshold("t", {}, total=5))
        assert feed(engine, ("a", 0, 7), ("a", 0, 9)) == [("t", "fire", "a", 0, 7, 1)]
        for method in (engine.deregister, engine.pause, engine.progress, engine.explain):
            with pytest.raises(UnknownQueryError, match="'t'"):
                method("t")
        assert engine.stats()["queries"]["threshold"] == 0

    def test_its_id_is_free_again(self):
        engine = engine_of(eq.Threshold("t", {}, total=5))
        feed(engine, ("a", 0, 7))
        engine.register(eq.Threshold("t", {}, total=6))
        assert engine.progress("t") == 0
        assert feed(engine, ("a", 0, 5), ("b", 0, 5)) == [("t", "fire", "b", 0, 10, 1)]

    def test_the_registry_is_told(self, tmp_path):
        url = f"sqlite:///{tmp_path}/q.db"
        with eq.Engine(STREAM, registry=url, create=True) as engine:
            engine.register([eq.Threshold("t", {}, total=5), eq.Threshold("u", {}, total=500)])
            feed(engine, ("a", 0, 7))
        with eq.open(url) as later:
            assert later.queries()["id"].to_pylist() == ["u"]

    def test_a_repeating_query_lives_on(self):
        engine = engine_of(eq.Threshold("t", {}, total=5, repeat=True))
        assert feed(engine, ("a", 0, 17), ("a", 0, 4), ("a", 0, 1)) == [
            ("t", "fire", "a", 0, 17, 3),
            ("t", "fire", "a", 2, 5, 1),
        ]


class TestProgress:
    def test_only_thresholds_make_progress(self):
        engine = engine_of(eq.Range("r", {}))
        with pytest.raises(InvalidQueryError, match="a range query"):
            engine.progress("r")

    def test_events_before_the_registration_do_not_count(self):
        engine = engine_of(eq.Threshold("old", {}, total=100))
        feed(engine, ("a", 0, 7))
        engine.register(eq.Threshold("new", {}, total=100))
        feed(engine, ("a", 0, 5))
        assert (engine.progress("old"), engine.progress("new")) == (12, 5)

    def test_a_snapshot_keeps_it(self):
        engine = engine_of(
            eq.Threshold("wide", {}, total=100),
            eq.Threshold("keyed", {"x": (0, 5)}, total=100, key="a"),
            eq.Threshold("still", {}, total=100),
        )
        feed(engine, ("a", 1, 30), ("b", 1, 5))
        engine.pause("still")
        feed(engine, ("a", 1, 30))
        other = eq.Engine(STREAM)
        other.restore(engine.snapshot())
        for name, seen in (("wide", 65), ("keyed", 60), ("still", 35)):
            assert other.progress(name) == engine.progress(name) == seen
        other.resume("still")
        assert feed(other, ("a", 1, 40), ("a", 9, 25)) == [
            ("wide", "fire", "a", 2, 105, 1),
            ("keyed", "fire", "a", 2, 100, 1),
            ("still", "fire", "a", 3, 100, 1),
        ]

    def test_counting_ignores_weights(self):
        engine = engine_of(eq.Threshold("n", {}, total=3, count=True))
        assert feed(engine, ("a", 0, 50), ("a", 0, 50)) == []
        assert engine.progress("n") == 2
        assert feed(engine, ("a", 0, 50)) == [("n", "fire", "a", 2, 3, 1)]


class TestSql:
    @pytest.mark.parametrize(
        ("clause", "fields"),
        [
            ("ONCE WHEN SUM(w) >= 5", {"total": 5}),
            ("EACH WHEN SUM(w) >= 1e3", {"total": 1_000, "repeat": True}),
            ("ONCE WHEN COUNT(*) >= 7", {"total": 7, "count": True}),
            ("EACH WHEN COUNT(*) >= 7", {"total": 7, "count": True, "repeat": True}),
        ],
    )
    def test_clauses(self, clause, fields):
        engine = eq.Engine(STREAM)
        engine.sql(f"CREATE STANDING QUERY q AS SELECT * FROM s WHERE x < 5 EMIT {clause}")
        wanted = engine_of(eq.Threshold("q", {"x": (None, 5)}, **fields))
        assert engine.queries().equals(wanted.queries())

    @pytest.mark.parametrize(
        ("clause", "reason"),
        [
            ("ONCE", "expected WHEN"),
            ("ONCE WHEN SUM(x) >= 5", "SUM adds up the stream's weight, 'w'"),
            ("ONCE WHEN AVG(x) >= 5", "expected SUM or COUNT"),
            ("ONCE WHEN SUM(w) > 5", "expected >="),
            ("ONCE WHEN SUM(w) >= 0", "a whole number of 1 or more"),
            ("ONCE WHEN SUM(w) >= 1.5", "a whole number of 1 or more"),
            ("ONCE WHEN SUM(w) >= 'x'", "a whole number of 1 or more"),
            ("ONCE WHEN SUM(w) >=", "a whole number of 1 or more"),
            ("ONCE WHEN SUM(w) >= 9223372036854775808", "a whole number of 1 or more"),
            ("ONCE WHEN COUNT(w) >= 5", r"expected \*"),
        ],
    )
    def test_errors(self, clause, reason):
        with pytest.raises(eq.InvalidSqlError, match=reason):
            eq.Engine(STREAM).sql(f"CREATE STANDING QUERY q AS SELECT * FROM s EMIT {clause}")

    def test_a_stream_without_weight_can_count(self):
        stream = eq.Stream("s", attributes=["x"])
        engine = eq.Engine(stream)
        with pytest.raises(eq.InvalidSqlError, match=r"write COUNT\(\*\)"):
            engine.sql("CREATE STANDING QUERY q AS SELECT * FROM s EMIT ONCE WHEN SUM(x) >= 5")
        engine.sql("CREATE STANDING QUERY q AS SELECT * FROM s EMIT ONCE WHEN COUNT(*) >= 2")
        assert engine.process(pa.table({"x": [1.0, 2.0]}))["seq"].to_pylist() == [1]
