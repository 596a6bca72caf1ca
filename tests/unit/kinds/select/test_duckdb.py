"""Answers equal those of DuckDB over the rows of the window."""

import math
import statistics
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from everquery.kinds.select.plan import print_plan
from everquery.queries.sql.printer import print_interval
from tests.unit.kinds.select.drawn import R, S, batches, joins, selects
from tests.unit.kinds.select.plain import PlainStream, assert_same

TYPES = {"k": pa.string(), "t": pa.int64(), "w": pa.int64()}


def asked_of_duckdb(connection, query, streams):
    """Return the answer over the rows of the window, which plain Python has found."""
    plan = query.parsed
    now = max((each.now for each in streams if each.now is not None), default=None)
    for each in streams:
        window = each.window(plan, now)
        columns = {
            name: pa.array([row[name] for row in window], TYPES.get(name, pa.float64()))
            for name in each.stream.columns()
        }
        connection.register(each.stream.name, pa.table(columns))
    whose = "r." if plan.joins else ""
    conditions = [print_interval(f"{whose}{name}", each) for name, each in query.box.items()]
    if query.key is not None:
        conditions.append(f"{whose}k = '{query.key}'")
    text = print_plan(plan, stream="r", conditions=tuple(conditions)).partition(" BEGIN ")[0]
    return connection.sql(text).fetchall()


@given(data=st.data())
def test_over_one_stream(data):
    query, plain, engine = data.draw(selects()), PlainStream(R), eq.Engine(R)
    engine.register(query)
    for batch in data.draw(batches(R, ordered=data.draw(st.booleans()))):
        engine.process(batch)
        plain.process(batch)
    with duckdb.connect() as connection:
        assert_same(engine.invoke("q"), asked_of_duckdb(connection, query, [plain]))


@given(data=st.data())
def test_over_two_streams(data):
    query, engine = data.draw(joins()), eq.Engine([R, S])
    plain = {"r": PlainStream(R), "s": PlainStream(S)}
    engine.register(query)
    for stream in (R, S):
        for batch in data.draw(batches(stream, ordered=True)):
            engine.process(batch, stream=stream.name)
            plain[stream.name].process(batch)
    with duckdb.connect() as connection:
        theirs = asked_of_duckdb(connection, query, list(plain.values()))
        assert_same(engine.invoke("j"), theirs)


@pytest.mark.parametrize("offset", [0.0, 1e9, -3e12])
def test_variances_of_many_numbers_are_close(offset):
    engine = eq.Engine(eq.Stream("r", key="k", attributes=["x"]))
    plan = "SELECT k, VAR_POP(x) AS v, COUNT(DISTINCT x) AS n GROUP BY k BEGIN OLDEST END NOW"
    engine.register(eq.Select("q", plan))
    values = [offset + round(math.sin(i), 3) for i in range(5_000)]
    engine.process({"k": ["ab"[i % 2] for i in range(5_000)], "x": values})
    for row in engine.invoke("q").to_pylist():
        mine = values["ab".index(row["k"]) :: 2]
        assert math.isclose(row["v"], statistics.pvariance(map(Fraction, mine)), rel_tol=1e-12)
        assert row["n"] == len(set(mine))


def test_infinite_values_have_no_variance():
    engine = eq.Engine(eq.Stream("r", attributes=["x"]))
    engine.register(eq.Select("q", "SELECT VAR_POP(x), AVG(x) BEGIN OLDEST END NOW"))
    engine.process({"x": [math.inf, -math.inf, 1.0]})
    assert engine.invoke("q").to_pylist() == [{"var_pop_x": None, "avg_x": None}]


def test_sums_of_many_numbers_are_close():
    engine = eq.Engine(eq.Stream("r", attributes=["x"]))
    engine.register(eq.Select("q", "SELECT SUM(x), AVG(x) BEGIN NOW - 7000 ROWS END NOW"))
    values = [math.sin(i) * 1e6 for i in range(10_000)]
    for begin in range(0, 10_000, 1_024):
        engine.process({"x": values[begin : begin + 1_024]})
    found = engine.invoke("q").to_pylist()[0]
    assert math.isclose(found["sum_x"], math.fsum(values[-7_000:]), rel_tol=1e-9, abs_tol=1e-3)
