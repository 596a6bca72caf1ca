"""What select queries refuse, with one clear error that says what to do instead."""

from datetime import datetime

import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import EverqueryError

R = eq.Stream("r", key="k", time="t", attributes=["x", "y"])
S = eq.Stream("s", key="k", time="t", attributes=["x", "z"])
JOIN = "SELECT r.x, s.z FROM r, s WHERE r.k = s.k BEGIN NOW - 3 END NOW"


def _batch(*times):
    return {"k": ["a"] * len(times), "t": list(times), "x": [1.0] * len(times)}


# -- FROM ---------------------------------------------------------------------------------


def test_from_another_stream_is_refused():
    engine = eq.Engine(R)
    with pytest.raises(eq.InvalidQueryError, match="FROM 's', so it belongs to that stream"):
        engine.register(eq.Select("q", "SELECT x FROM s BEGIN OLDEST END NOW"))
    engine.register(eq.Select("q", "SELECT x FROM r BEGIN OLDEST END NOW"))
    assert engine.queries()["id"].to_pylist() == ["q"]


def test_from_says_the_stream_in_an_engine_of_several():
    engine = eq.Engine([R, S])
    engine.register(eq.Select("q", "SELECT other.z FROM s AS other BEGIN OLDEST END NOW"))
    engine.process({"k": ["a"], "t": [1], "x": [1.0], "z": [7.0]}, stream="s")
    assert engine.invoke("q").to_pylist() == [{"z": 7.0}]
    with pytest.raises(eq.InvalidQueryError, match="belongs to that stream, not 'r'"):
        engine.register(eq.Select("p", "SELECT z FROM s BEGIN OLDEST END NOW"), stream="r")


def test_a_plan_with_from_is_printed_and_read_again():
    engine = eq.Engine(R, registry="sqlite://")
    query = eq.Select("q", "SELECT x FROM r WHERE y > 3 BEGIN NOW - 5 ROWS END NOW")
    assert query.plan == "SELECT x FROM r BEGIN NOW - 5 ROWS END NOW"
    assert eq.Select("q", query.plan, box=query.box) == query
    engine.register(query)
    engine.process({"k": ["a", "b"], "t": [1, 2], "x": [1.0, 2.0], "y": [2.0, 4.0]})
    assert engine.invoke("q")["x"].to_pylist() == [2.0]


# -- places -------------------------------------------------------------------------------


def _two() -> eq.Engine:
    engine = eq.Engine(R)
    engine.register(
        [
            eq.Select("p", "SELECT x BEGIN OLDEST END NOW"),
            eq.Select("q", "SELECT x BEGIN OLDEST END NOW"),
        ]
    )
    engine.process(_batch(1, 2))
    return engine


@pytest.mark.parametrize("said", ["since", "after"])
def test_a_place_of_another_query_is_refused(said):
    engine = _two()
    place = eq.place_of(engine.invoke("p"))
    with pytest.raises(eq.InvalidQueryError, match="is no place of this query"):
        engine.invoke("q", **{said: place})


@pytest.mark.parametrize(
    "other",
    [
        eq.Select("p", "SELECT x, t BEGIN OLDEST END NOW"),
        eq.Select("p", "SELECT x BEGIN OLDEST END NOW", box={"x": (0, 5)}),
        eq.Select("p", "SELECT x BEGIN OLDEST END NOW", key="a"),
    ],
    ids=["plan", "box", "key"],
)
def test_a_place_of_a_query_that_was_replaced_is_refused(other):
    engine = _two()
    place = eq.place_of(engine.invoke("p"))
    engine.register(other, replace=True)
    with pytest.raises(eq.InvalidQueryError, match="is no place of this query"):
        engine.invoke("p", since=place)
    assert engine.invoke("p", since=eq.place_of(engine.invoke("p"))).num_rows == 0


def test_a_place_is_good_after_a_restart_and_a_replacement_that_says_the_same():
    engine = _two()
    place = eq.place_of(engine.invoke("p"))
    engine.register(eq.Select("p", "SELECT x BEGIN OLDEST END NOW", owner="ann"), replace=True)
    engine = eq.Engine(R, snapshot=engine.snapshot())
    engine.process(_batch(3))
    assert engine.invoke("p", since=place)["change"].to_pylist() == ["insert"]


def test_a_place_that_the_stream_has_not_come_to_is_refused():
    engine = _two()
    snapshot = engine.snapshot()
    engine.process(_batch(3))
    place = eq.place_of(engine.invoke("p"))
    with pytest.raises(eq.InvalidQueryError, match="the stream has come to row 2"):
        eq.Engine(R, snapshot=snapshot).invoke("p", since=place)


@pytest.mark.parametrize("place", ["", "[]", "7", "{}", "[1, 0]", '[1, 0, [1, "x"]]', 5, "[1, -1]"])
def test_what_is_no_place_is_refused(place):
    with pytest.raises(eq.InvalidQueryError, match="is no place of this query"):
        _two().invoke("p", since=place)


# -- joins --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM r, s WHERE r.k = s.k EMIT MATCHES",
        "SELECT COUNT(*) FROM r, s WHERE r.k = s.k EMIT CHANGES",
    ],
)
def test_a_join_without_a_window_is_refused(statement):
    with pytest.raises(EverqueryError, match="a join needs a window, which bounds what it keeps"):
        eq.Engine([R, S]).sql(f"CREATE STANDING QUERY j AS {statement}")
    with pytest.raises(eq.InvalidQueryError, match="a join needs a window"):
        eq.Select("j", "SELECT r.x FROM r, s WHERE r.k = s.k")


@pytest.mark.parametrize("begin", ["OLDEST", "0 ROWS", "5"])
def test_a_join_that_keeps_all_rows_says_which_bound_is_missing(begin):
    with pytest.raises(eq.InvalidQueryError, match="the bound that is missing is BEGIN NOW"):
        eq.Engine([R, S]).register(
            eq.Select("j", f"SELECT r.x FROM r, s WHERE r.k = s.k BEGIN {begin} END NOW")
        )


# -- what else can't be -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ("SELECT x BEGIN 5 END 3", "the window begins after it ends"),
        ("SELECT x BEGIN NOW - 3 END NOW - 5", "the window begins after it ends"),
        ("SELECT x BEGIN NOW - 3 ROWS END NOW - 5 ROWS", "the window begins after it ends"),
        ("SELECT x BEGIN NOW END NOW - 5", "the window begins after it ends"),
        ("SELECT x BEGIN NOW - 3 END 5 ROWS", "begins and ends by time, or both by ROWS"),
        ("SELECT nope BEGIN OLDEST END NOW", "has no column 'nope'"),
        ("SELECT x WHERE nope > 3 BEGIN OLDEST END NOW", "has no attribute 'nope'"),
        ("SELECT x WHERE x > nope BEGIN OLDEST END NOW", "has no column 'nope'"),
        ("SELECT COUNT(*) GROUP BY nope BEGIN OLDEST END NOW", "has no column 'nope'"),
        ("SELECT x FROM r, s WHERE r.k = s.k BEGIN NOW - 3 END NOW", "say whose column x is"),
    ],
)
def test_a_plan_that_can_not_be_is_refused(plan, says):
    with pytest.raises(eq.InvalidQueryError, match=says):
        eq.Engine(R).register(eq.Select("q", plan))


def test_an_ambiguous_column_of_a_join_is_refused():
    with pytest.raises(EverqueryError, match=r"x is ambiguous: write r\.x or s\.x"):
        eq.Engine([R, S]).sql(
            "CREATE STANDING QUERY j AS SELECT x FROM r, s WHERE r.k = s.k BEGIN NOW - 3 END NOW"
        )


def test_a_query_that_was_dropped_is_not_read():
    engine = _two()
    engine.deregister("p")
    with pytest.raises(eq.UnknownQueryError, match="no live query has the id 'p'"):
        engine.invoke("p")


def test_a_clock_that_goes_back_moves_no_window_back():
    engine = eq.Engine(R)
    engine.register(eq.Select("q", "SELECT t BEGIN NOW - 3 END NOW"))
    engine.process(_batch(10, 11))
    engine.advance(5)
    engine.process(_batch(4))  # late: a dead letter
    assert engine.invoke("q")["t"].to_pylist() == [10, 11]
    assert engine.dead_letters()["reason"].to_pylist() == ["late"]


def test_begin_before_what_is_kept_names_what_is():
    stream = eq.Stream("r", key="k", time="t", attributes=["x"], keep="all")
    engine = eq.Engine(stream)
    engine.process(_batch(10, 11))
    engine = eq.Engine(stream, snapshot=engine.snapshot())  # its past is in memory, and gone
    engine.process(_batch(12))
    query = eq.Range("q", {"x": (0, 5)})
    for begin in (10, (0, 0)):
        with pytest.raises(eq.HistoryError, match=r"\(1, 0\)"):
            engine.register(query, begin=begin)
        with pytest.raises(eq.HistoryError, match=r"\(1, 0\)"):
            engine.dry_run(query, begin=begin)


# -- times --------------------------------------------------------------------------------

MINUTES = "SELECT COUNT(*) BEGIN NOW - INTERVAL '5' MINUTE END NOW"


@pytest.mark.parametrize(
    ("window", "times", "why"),
    [
        ("BEGIN NOW - INTERVAL '5' MINUTE END NOW", [1, 2], "have no unit to measure it by; give"),
        ("BEGIN NOW - 0.5 END NOW", [1, 2], "no whole number"),
        ("BEGIN '2026-01-01T00:00:00' END NOW", [1, 2], "give a number"),
        ("BEGIN NOW - 5 END NOW", [datetime(2026, 1, 1), datetime(2026, 1, 2)], "with a unit"),
        ("BEGIN 5 END NOW", [datetime(2026, 1, 1), datetime(2026, 1, 2)], "give a text"),
    ],
)
def test_a_window_that_is_none_of_the_times_is_refused_once_they_are_known(
    window, times, why, caplog
):
    engine = eq.Engine(R)
    early = [
        eq.Select("early", f"SELECT x {window}"),
        eq.Select("told", f"SELECT x {window}", tell="changes"),
    ]
    engine.register(early)
    engine.register(eq.Range("all", {}))
    batch = {"k": ["a", "a"], "t": times, "x": [1.0, 2.0]}
    with caplog.at_level("WARNING", "everquery.select"):
        assert engine.process(batch)["query_id"].to_pylist() == ["all", "all"]
    reported = [each.getMessage() for each in caplog.records]
    assert len(reported) == 2
    assert "query 'early' has no answer" in reported[0]
    assert why in reported[0]
    for query_id in ("early", "told"):
        with pytest.raises(eq.InvalidQueryError, match=why):
            engine.invoke(query_id)
    caplog.clear()
    engine.process({"k": ["a"], "t": times[-1:], "x": [3.0]})
    assert not caplog.records
    with pytest.raises(eq.InvalidQueryError, match=f"query 'late': .*{why}"):
        engine.register(eq.Select("late", f"SELECT x {window}"))
    with pytest.raises(eq.InvalidQueryError, match=why):
        engine.sql(f"CREATE STANDING QUERY late AS SELECT x FROM r {window}")
    with pytest.raises(eq.InvalidQueryError, match=why):
        engine.register_table(
            pa.table({"id": ["late"], "plan": [eq.Select("late", f"SELECT x {window}").plan]}),
            kind="select",
        )
    assert engine.queries().num_rows == 3


def test_rows_go_on_where_a_window_is_none_of_the_times(monkeypatch):
    monkeypatch.setattr("everquery.kinds.select.matching.SLACK", 2)
    engine = eq.Engine(R)
    engine.register(eq.Select("minutes", MINUTES))
    engine.register(eq.Select("rows", "SELECT t BEGIN NOW - 2 ROWS END NOW"))
    for first in range(0, 30, 3):
        engine.process(_batch(first, first + 1, first + 2))
    assert engine.invoke("rows")["t"].to_pylist() == [28, 29]
