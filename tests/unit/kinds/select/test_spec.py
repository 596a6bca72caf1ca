"""Select queries as specs, SQL and tables."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from everquery.queries.sql import print_query, read_statement
from tests.unit.kinds.select.drawn import R, S, joins, selects

STREAMS = {"r": R, "s": S}


@given(query=st.one_of(selects(), joins()))
def test_sql_reads_back_equal(query):
    text = print_query(query, R)
    assert read_statement(text, stream_of=STREAMS.__getitem__).query == query
    assert pickle.loads(pickle.dumps(query)) == query


@pytest.mark.parametrize(
    ("select", "place", "why"),
    [
        ("k FROM r BEGIN NOW END NOW - 3", "1:50", "begins after it ends"),
        ("k FROM r BEGIN 5 END 3", "1:50", "begins after it ends"),
        ("k FROM r BEGIN NOW - 3 ROWS END NOW - 5", "1:50", "both by ROWS"),
        ("kk FROM r BEGIN OLDEST END NOW", "1:35", "did you mean"),
        ("s.k FROM r BEGIN OLDEST END NOW", "1:35", "FROM names no 's'"),
        ("k, COUNT(*) FROM r BEGIN OLDEST END NOW", "1:35", "GROUP BY"),
        ("SUM(k) FROM r BEGIN OLDEST END NOW", "1:35", "SUM is of attributes"),
        ("MEDIAN(x) FROM r BEGIN OLDEST END NOW", "1:35", "the aggregates are"),
        ("k FROM r WHERE x > 'a' BEGIN OLDEST END NOW", "1:50", "compared with numbers"),
        ("k FROM r WHERE k > 'a' BEGIN OLDEST END NOW", "1:50", "compared with = only"),
        ("k FROM r WHERE x = 1 OR y = 2 BEGIN OLDEST END NOW", "1:56", "OR is not possible"),
        ("k FROM r WHERE t = x BEGIN OLDEST END NOW", "1:50", "can't be compared"),
        ("k FROM r WHERE x > 3 AND x < 2 BEGIN OLDEST END NOW", "1:60", "holds no value"),
        ("k FROM r BEGIN OLDEST END NOW + 3", "1:65", "after NOW"),
        ("k FROM r BEGIN NOW - 1.5 ROWS END NOW", "1:56", "whole"),
        ("x, x FROM r BEGIN OLDEST END NOW", "1:35", "two columns"),
        ("k FROM r HAVING x > 3 BEGIN OLDEST END NOW", "1:51", "HAVING compares an aggregate"),
    ],
)
def test_errors_point_at_their_place(select, place, why):
    text = f"CREATE STANDING QUERY q AS SELECT {select}"
    with pytest.raises(eq.InvalidSqlError, match="line 1") as caught:
        read_statement(text, stream_of=STREAMS.__getitem__)
    assert why in str(caught.value)
    line, column = place.split(":")
    assert f"line {line}, column {column}" in str(caught.value)


def test_constants_of_the_plan_become_box_and_key():
    query = eq.Select("q", "SELECT x WHERE x >= 1 AND k = 'a' AND x < y BEGIN OLDEST END NOW")
    assert query.box == {"x": eq.Interval(1, None)}
    assert query.key == "a"
    assert query.plan == "SELECT x WHERE x < y BEGIN OLDEST END NOW"
    with pytest.raises(eq.InvalidQueryError, match="say it once"):
        eq.Select("q", "SELECT x WHERE x >= 1 BEGIN OLDEST END NOW", box={"x": (0, 1)})
    with pytest.raises(eq.InvalidQueryError, match="give one"):
        eq.Select("q", "SELECT x WHERE k = 'a' BEGIN OLDEST END NOW", key="b")


def test_a_table_of_queries(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    table = pa.table(
        {
            "id": ["a", "b", "c", "d"],
            "plan": ["SELECT x BEGIN OLDEST END NOW"] * 2
            + ["SELECT z BEGIN OLDEST END NOW", "SELECT"],
            "x_lo": [0.0, 1.0, 0.0, 0.0],
            "x_hi": [1.0, 2.0, 1.0, 1.0],
        }
    )
    with eq.Engine(R, registry=url, create=True) as engine:
        done = engine.register_table(table, kind="select", on_error="skip")
        assert done.registered == 2
        assert "no column 'z'" in done.errors["reason"][0].as_py()
        assert "can't be read" in done.errors["reason"][1].as_py()
    with eq.open(url) as engine:
        engine.process(
            {"k": ["a", "b"], "t": [1, 2], "x": [0.5, 1.5], "y": [0.0, 0.0], "w": [1, 1]}
        )
        assert engine.invoke("b")["x"].to_pylist() == [1.5]
        listed = engine.queries(kind="select").to_pylist()
        assert [each["emit"] for each in listed] == ["", ""]
        assert [each["plan"] for each in listed] == ["SELECT x BEGIN OLDEST END NOW"] * 2


def test_a_query_that_replaces_another_answers_anew():
    engine = eq.Engine(R)
    engine.register(eq.Select("q", "SELECT x WHERE x > 0 BEGIN OLDEST END NOW", ttl=100))
    events = {"k": ["a", "b"], "t": [1, 2], "x": [0.5, 1.5], "y": [0.0, 0.0], "w": [1, 1]}
    engine.process(events)
    assert engine.invoke("q").num_rows == 2
    engine.register(
        eq.Select("q", "SELECT x WHERE x > 1 BEGIN OLDEST END NOW", ttl=100), replace=True
    )
    assert engine.invoke("q")["x"].to_pylist() == [1.5]
    engine.advance(200)
    with pytest.raises(eq.UnknownQueryError):
        engine.invoke("q")


def test_explain_says_what_is_kept():
    engine = eq.Engine(R)
    engine.register(
        [
            eq.Select("all", "SELECT x BEGIN OLDEST END NOW"),
            eq.Select("last", "SELECT SUM(x) BEGIN NOW - 5 ROWS END NOW"),
        ]
    )
    assert "bounded memory: no" in str(engine.explain("all"))
    assert "bounded memory: yes" in str(engine.explain("last"))
    assert any(each.startswith("scratch:") for each in engine.explain("last").further)
