"""What window queries are told, and when."""

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import InvalidQueryError, InvalidTableError
from everquery.queries.sql import print_query, read_statement
from everquery.queries.sql.errors import InvalidSqlError

STREAM = eq.Stream("packets", key="host", time="t", attributes=["length", "port"])


def batch(*rows):
    host, t, length = zip(*rows, strict=True)
    return pa.table({"host": host, "t": t, "length": length, "port": [1.0] * len(rows)})


def told(notices):
    return [
        (row["query_id"], row["event"], row["key"], row["time"], row["value"])
        for row in notices.to_pylist()
    ]


def test_rows_outside_the_box_push_others_out():
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("w", "count", box={"length": (100, None)}, last=3))
    rows = [("a", 1, 200.0), ("b", 2, 50.0), ("a", 3, 150.0), ("a", 4, 10.0)]
    assert [each[-1] for each in told(engine.process(batch(*rows)))] == [1.0, 2.0, 1.0]
    assert engine.answer("w").n == 1


def test_windows_of_time_are_closed_by_time():
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("w", "sum", "length", span=10, by_key=True))
    engine.process(batch(("a", 0, 5.0), ("b", 4, 7.0)))
    assert told(engine.advance(10)) == [("w", "change", "a", 10, 0.0)]
    assert engine.answer("w", key="b").value == 7.0
    assert told(engine.process(batch(("a", 14, 1.0)))) == [
        ("w", "change", "a", 14, 1.0),
        ("w", "change", "b", 14, 0.0),
    ]


def test_a_range_is_entered_and_left():
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("busy", "count", span=5, key="a", when={"above": 1}))
    rows = [("a", 1, 1.0), ("a", 2, 1.0), ("a", 3, 1.0)]
    assert told(engine.process(batch(*rows))) == [("busy", "enter", "a", 2, 2.0)]
    assert told(engine.advance(7)) == [("busy", "leave", "a", 7, 1.0)]


def test_dwell_and_throttle_hold_alerts_back():
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("w", "count", span=5, key="a", when={"above": 1}, dwell=2))
    assert told(engine.process(batch(("a", 1, 1.0), ("a", 2, 1.0)))) == []
    assert told(engine.advance(4)) == [("w", "enter", "a", 4, 2.0)]


def test_every_tells_the_value_in_each_period():
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("w", "count", span=100, every=10))
    found = engine.process(batch(("a", 1, 1.0), ("a", 2, 1.0), ("a", 11, 1.0)))
    assert [each[-2:] for each in told(found)] == [(1, 1.0), (10, 2.0)]
    assert [each[-2:] for each in told(engine.advance(20))] == [(20, 3.0)]
    times = [each[-2] for each in told(engine.advance(1_000))]
    assert times == [30, 40, 50, 60, 70, 80, 90, 100, 110]  # then the window is empty


def test_a_new_window_is_filled_from_what_is_held():
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("long", "sum", "length", last=10, key="a"))
    engine.process(batch(*(("a", i, float(i)) for i in range(12))))
    engine.register(eq.Window("short", "sum", "length", last=3, key="a"))
    answer = engine.answer("short")
    assert (answer.value, answer.whole) == (9.0 + 10 + 11, True)
    engine.register(eq.Window("longer", "sum", "length", last=20, key="a"))
    answer = engine.answer("longer")
    assert (answer.value, answer.whole, answer.whole_from) == (sum(range(2, 12)), False, 10)


def test_a_histogram_is_a_count_for_each_bin():
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("h", "histogram", "length", last=10, edges=[0, 100, 1_500]))
    engine.process(batch(("a", 1, 50.0), ("a", 2, 70.0), ("b", 3, 900.0), ("b", 4, 5_000.0)))
    assert [answer.value for answer in engine.answer("h")] == [2.0, 1.0]


def test_distinct_values_and_norms():
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("d", "distinct", "length", last=4))
    engine.register(eq.Window("l1", "l1", "length", per="port", last=4))
    engine.register(eq.Window("l2", "l2", "length", per="port", last=4))
    table = pa.table(
        {"host": ["a"] * 5, "t": range(5), "length": [9.0, 3.0, 3.0, -1.0, 4.0],
         "port": [1.0, 1.0, 2.0, 2.0, 1.0]}
    )  # fmt: skip
    engine.process(table)
    assert engine.answer("d").value == 3.0
    assert engine.answer("l1").value == 7.0 + 2.0
    assert engine.answer("l2").value == (49.0 + 4.0) ** 0.5


def test_infinite_values_have_no_sum_and_are_left_out():
    engine = eq.Engine(STREAM)
    engine.register([eq.Window(each, each, "length", last=5) for each in ("sum", "max")])
    engine.process(batch(("a", 1, 1.0), ("a", 2, float("inf"))))
    assert (engine.answer("sum").value, engine.answer("max").value) == (1.0, float("inf"))


def test_a_table_of_windows():
    engine = eq.Engine(STREAM)
    table = pa.table(
        {"id": ["a", "b"], "key": ["x", None], "statistic": ["count", "mean"],
         "attribute": [None, "length"], "last": [10, 20], "epsilon": [0.1, None],
         "length_lo": [5.0, None], "when_lo": [3.0, None]}
    )  # fmt: skip
    engine.register_table(table, kind="window")
    listed = {row["id"]: row for row in engine.queries().to_pylist()}
    assert listed["a"]["statistic"] == "count"
    assert (listed["b"]["attribute"], listed["b"]["last"]) == ("length", 20)
    bad = table.set_column(4, "last", pa.array([0, 20]))
    with pytest.raises(InvalidTableError, match="last"):
        eq.Engine(STREAM).register_table(bad, kind="window")


SQL = (
    "SELECT COUNT(*) FROM packets WHERE length >= 1000 GROUP BY host OVER LAST 10000 ROWS"
    " WITHIN 1 PERCENT EMIT CHANGES",
    "SELECT COUNT(*) FROM packets OVER LAST INTERVAL '5' MINUTE"
    " EMIT ENTER, LEAVE WHEN COUNT(*) > 100",
    "SELECT SUM(length) FROM packets WHERE host = 'a' OVER LAST SPAN 30 EMIT CHANGES EVERY 10",
    "SELECT COUNT(DISTINCT port) FROM packets OVER LAST 50 ROWS EMIT CHANGES",
    "SELECT L2(length BY port) FROM packets OVER LAST 50 ROWS WITHIN 0.05 EMIT CHANGES",
    "SELECT HISTOGRAM(length, 0, 100, 1500) FROM packets OVER LAST 50 ROWS EMIT CHANGES",
    "SELECT AVG(length) FROM packets OVER LAST 50 ROWS"
    " EMIT ENTER, LEAVE WHEN VALUE BETWEEN 1 AND 2",
    "SELECT VAR_POP(length) FROM packets OVER LAST 50 ROWS EMIT CHANGES",
)


@pytest.mark.parametrize("statement", SQL)
def test_sql_reads_back_equal(statement):
    def read(text):
        return read_statement(text, stream_of=lambda name: STREAM).query

    query = read(f"CREATE STANDING QUERY w AS {statement}")
    assert read(print_query(query, STREAM)) == query


BAD = {
    "rows": ({"last": 0}, "at least one row"),
    "no extent": ({"last": None}, "extent"),
    "both extents": ({"last": 5, "span": 5}, "give one"),
    "epsilon": ({"last": 5, "epsilon": 1.0}, "below 1"),
    "negative epsilon": ({"last": 5, "epsilon": -0.1}, "0, which is exact"),
    "statistic": ({"statistic": "median", "last": 5}, "median"),
    "no attribute": ({"statistic": "sum", "attribute": None, "last": 5}, "of what"),
    "edges": ({"statistic": "histogram", "last": 5, "edges": [3, 1]}, "ascend"),
    "no edges": ({"statistic": "histogram", "last": 5}, "edges"),
    "key twice": ({"last": 5, "key": "a", "by_key": True}, "by_key"),
    "dwell": ({"last": 5, "dwell": 5}, "dwell"),
    "when": ({"last": 5, "when": {"over": 3}}, "above"),
    "per": ({"last": 5, "per": "port"}, "l1 and l2"),
    "every": ({"last": 5, "every": 3}, "window of time"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_windows_have_one_clear_error(name):
    fields, words = BAD[name]
    fields = {"statistic": "sum", "attribute": "length", **fields}
    with pytest.raises(InvalidQueryError, match=words):
        eq.Window("w", fields.pop("statistic"), fields.pop("attribute"), **fields)


def test_a_span_needs_a_stream_with_time():
    engine = eq.Engine(eq.Stream("s", attributes=["x"]))
    with pytest.raises(InvalidQueryError, match="time"):
        engine.register(eq.Window("w", "count", span="5s"))


def test_explain_says_what_is_held():
    engine = eq.Engine(STREAM)
    for epsilon in (0, 0.1):
        engine.register(eq.Window(f"w{epsilon}", "count", last=1_000, epsilon=epsilon))
    engine.process(batch(*(("a", i, 1.0) for i in range(1_000))))
    exact, near = (str(engine.explain(f"w{epsilon}")) for epsilon in (0, 0.1))
    assert "1,000 entries of 16 bytes" in exact
    assert "buckets of events" in near


def _cut(rows, size):
    return [
        pa.table(dict(zip("ktx", map(list, zip(*rows[i : i + size], strict=True)), strict=True)))
        for i in range(0, len(rows), size)
    ]


TIMED = eq.Stream("s", key="k", time="t", attributes=["x"])


def _told(queries, batches, until=1_000):
    engine = eq.Engine(TIMED)
    engine.register(queries)
    tables = [*(engine.process(batch) for batch in batches), engine.advance(until)]
    return [row for table in tables for row in table.to_pylist()]


def _short(rows):
    return [(row["key"], row["time"], row["seq"], row["event"], row["value"]) for row in rows]


def test_an_exact_window_is_told_when_an_event_leaves_it():
    rows = [("a", 1, 1.0), ("a", 2, 2.0), ("b", 4, 0.0), ("a", 20, 5.0)]
    told = _told(eq.Window("w", "sum", "x", span=5, key="a"), _cut(rows, 4))
    assert _short(told) == [
        ("a", 1, 0, "change", 1.0), ("a", 2, 1, "change", 3.0), ("a", 6, 1, "change", 2.0),
        ("a", 7, 1, "change", 0.0), ("a", 20, 2, "change", 5.0), ("a", 25, 2, "change", 0.0),
    ]  # fmt: skip


def test_a_window_of_all_keys_tells_of_the_last_event_before():
    rows = [("a", 1, 1.0), ("b", 2, 2.0), ("c", 50, 3.0), ("a", 60, 3.0)]
    told = _told(eq.Window("w", "count", span=5, when=(1, 2)), _cut(rows, 4))
    assert sorted(_short(told)) == sorted([
        ("a", 1, 0, "enter", 1.0), ("b", 2, 0, "leave", 2.0), ("b", 6, 0, "enter", 1.0),
        ("b", 7, 0, "leave", 0.0), ("c", 50, 0, "enter", 1.0), ("c", 55, 0, "leave", 0.0),
        ("a", 60, 1, "enter", 1.0), ("a", 65, 1, "leave", 0.0),
    ])  # fmt: skip


def test_events_that_leave_at_one_moment_are_one_change_and_leave_before_a_new_one():
    rows = [("a", 1, 1.0), ("a", 1, 2.0), ("a", 6, 4.0)]
    told = _told(eq.Window("w", "sum", "x", span=5, by_key=True), _cut(rows, 3))
    assert [row["value"] for row in told] == [1.0, 3.0, 0.0, 4.0, 0.0]
    assert [row["time"] for row in told] == [1, 1, 6, 6, 11]


def test_times_that_round_leave_once():
    rows = [("a", 0.1, 1.0), ("a", 0.7, 1.0), ("a", 1.1, 1.0)]
    told = _told(eq.Window("w", "count", span=0.3, by_key=True), _cut(rows, 3), 10.0)
    assert [row["value"] for row in told] == [1.0, 0.0] * 3


@pytest.mark.parametrize("by_key", [False, True])
def test_large_exact_windows_of_time_do_not_see_batches(by_key):
    rng = np.random.default_rng(7)
    times = np.sort(rng.integers(0, 400, 600)).tolist()
    values = rng.integers(-3, 9, 600).astype(float).tolist()
    rows = list(zip(rng.choice(list("abcde"), 600).tolist(), times, values, strict=True))
    queries = [
        eq.Window(f"{statistic}-{span}", statistic, "x", span=span, by_key=by_key, **more)
        for statistic in ("count", "mean", "variance", "min", "distinct")
        for span, more in ((1, {}), (7, {}), (60, {"when": (2, 5)}), (20, {"every": 50}))
    ]
    whole = sorted(map(repr, _told(queries, _cut(rows, 600))))
    assert len(whole) > 4_000
    for size in (1, 7, 100):
        assert sorted(map(repr, _told(queries, _cut(rows, size)))) == whole


def test_a_query_of_others_events_is_told_when_its_own_window_changes():
    engine = eq.Engine(TIMED)
    engine.register(eq.Window("long", "count", span=10, by_key=True))
    engine.process(_cut([("a", 1, 1.0), ("a", 3, 1.0)], 2)[0])
    engine.register(eq.Window("short", "count", span=4, by_key=True))
    told = engine.advance(6).to_pylist() + engine.advance(12).to_pylist()
    assert [(row["query_id"], row["time"], row["value"]) for row in told] == [
        ("short", 5, 1.0), ("short", 7, 0.0), ("long", 11, 1.0),
    ]  # fmt: skip


def test_an_approximate_window_is_not_told_of_a_key_whose_events_are_late():
    engine = eq.Engine(TIMED)
    engine.register(eq.Window("w", "min", "x", last=5, epsilon=0.1, key="a"))
    engine.process(_cut([("a", 5, 1.0)], 1)[0])
    engine.register(eq.Window("v", "min", "x", last=3, epsilon=0.1, key="a"))
    assert engine.process(_cut([("a", 1, 0.0), ("b", 6, 0.0)], 2)[0]).num_rows == 0


def test_infinities_are_told_as_other_values_are():
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("exact", "min", "length", last=1, by_key=True))
    engine.register(eq.Window("near", "min", "length", last=1, by_key=True, epsilon=0.1))
    found = []
    for t, length in enumerate([1.0, float("-inf"), 3.0, float("inf"), 4.0]):
        found += told(engine.process(batch(("a", t, length))))
    for query in ("exact", "near"):
        values = [each[-1] for each in found if each[0] == query]
        assert values == [1.0, float("-inf"), 3.0, float("inf"), 4.0]


@pytest.mark.parametrize("epsilon", [0, 0.1])
def test_a_window_that_becomes_empty_tells_that_it_has_no_value(epsilon):
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("mean", "mean", "length", last=1, by_key=True, epsilon=epsilon))
    engine.register(eq.Window("max", "max", "length", span=5, by_key=True, epsilon=epsilon))
    for row in [("a", 1, 5.0), ("a", 2, None)]:
        found = told(engine.process(batch(row)))
    assert found == [("mean", "change", "a", 2, None)]
    assert told(engine.advance(6)) == [("max", "change", "a", 6, None)]
    assert told(engine.advance(9)) == []


def test_a_window_of_time_that_is_asked_before_its_first_event_is_not_whole_too_early():
    engine = eq.Engine(STREAM)
    engine.process(batch(("a", 1, 1.0), ("b", 5, 1.0)))
    scopes = {"all": {}, "one": {"key": "a"}, "each": {"by_key": True}}
    for name, scope in scopes.items():
        engine.register(eq.Window(name, "sum", "length", span=50, **scope))
    before = [engine.answer(name).whole_from for name in ("all", "one")]
    assert before == [55, 55]
    engine.process(batch(("a", 20, 1.0)))
    after = [engine.answer(name, **({"key": "a"} if name == "each" else {})) for name in scopes]
    assert [(each.whole, each.whole_from) for each in after] == [(False, 55)] * 3


def test_a_longer_span_than_what_is_held_is_not_whole():
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("short", "sum", "length", span=50))
    engine.process(batch(("a", 1, 1.0), ("b", 20, 1.0)))
    engine.process(batch(("a", 100, 1.0), ("a", 110, 1.0)))
    engine.register(eq.Window("long", "sum", "length", span=200))
    answer = engine.answer("long")
    assert (answer.value, answer.whole, answer.whole_from) == (2.0, False, 260)


def test_answers_before_the_first_event():
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("rows", "sum", "length", last=3))
    engine.register(eq.Window("least", "min", "length", last=3, by_key=True))
    answer = engine.answer("rows")
    assert (answer.value, answer.n, answer.whole, answer.whole_from) == (0.0, 0, False, 3)
    answer = engine.answer("least", key="a")
    assert (answer.value, answer.n, answer.whole) == (None, None, False)


def test_a_condition_of_another_value_than_the_selected_one_is_refused():
    statement = "SELECT COUNT(*) FROM packets OVER LAST 9 ROWS EMIT ENTER, LEAVE WHEN {} > 3"
    begin = "CREATE STANDING QUERY q AS "
    with pytest.raises(InvalidSqlError, match="another value"):
        read_statement(begin + statement.format("SUM(length)"), stream_of=lambda name: STREAM)
    read_statement(begin + statement.format("COUNT(*)"), stream_of=lambda name: STREAM)


@pytest.mark.parametrize("last", [1.5, 10_000.0, np.float64(3)])
def test_a_fraction_is_neither_rows_nor_a_span(last):
    with pytest.raises(InvalidQueryError, match="whole number of rows"):
        eq.Window("w", "count", last=last)


@pytest.mark.parametrize("size", [1, 2, 10])
def test_what_a_window_of_all_keys_tells_is_in_order(size):
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("all", "count", span=10))
    rows = [("a", 1, 5.0), ("a", 3, 5.0), ("b", 4, 1.0), ("a", 11, 5.0), ("b", 30, 1.0),
            ("c", 41, 1.0), ("a", 60, 1.0)]  # fmt: skip
    found = []
    for begin in range(0, len(rows), size):
        found += told(engine.process(batch(*rows[begin : begin + size])))
    wanted = [
        ("a", 1, 1.0), ("a", 3, 2.0), ("b", 4, 3.0), ("b", 11, 2.0), ("a", 11, 3.0),
        ("a", 13, 2.0), ("a", 14, 1.0), ("a", 21, 0.0), ("b", 30, 1.0), ("b", 40, 0.0),
        ("c", 41, 1.0), ("c", 51, 0.0), ("a", 60, 1.0),
    ]  # fmt: skip
    assert [each[2:] for each in found] == wanted
