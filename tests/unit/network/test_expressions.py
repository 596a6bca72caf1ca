"""Expressions mean what DuckDB says they mean."""

import math

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everquery.network.expressions.aggregates import read_aggregates
from everquery.network.expressions.lists import compiled, scope_of
from everquery.network.expressions.parsing import parse
from everquery.network.expressions.ranges import Ranges
from everquery.network.expressions.types import BadExpressionError

ROWS = pa.table(
    {
        "a": pa.array([1.0, None, -3.5, 0.25, 100.0]),
        "b": pa.array([2.0, 5.0, None, -0.5, 7.0]),
        "i": pa.array([1, 2, None, -7, 5]),
        "j": pa.array([3, 4, 5, 2, -3]),
        "s": pa.array(["x", "Yz", None, " w ", "xy"]),
        "f": pa.array([True, False, None, True, False]),
    }
)
SCOPE = scope_of({field.name: field.type for field in ROWS.schema}, "rows")

EXPRESSIONS = [
    *("a + b", "a - i", "i * j", "a / 4", "i % j", "-a", "-i", "abs(i)", "abs(a)", "i // j"),
    *("a > b", "a = 1", "i <> 2", "s = 'x'", "NOT f", "f AND a > 0", "f OR a > 0", "i >= a"),
    *(
        "a IS NULL",
        "a IS NOT NULL",
        "f IS TRUE",
        "f IS NOT FALSE",
        "i IN (1, 5)",
        "s IN ('x', 'q')",
    ),
    *("a BETWEEN 0 AND 2", "a NOT BETWEEN 0 AND 2", "NOT (i IN (1, 2))"),
    *("CASE WHEN a > 0 THEN 'up' WHEN a < 0 THEN 'down' END", "CASE i WHEN 1 THEN 10 ELSE 2.5 END"),
    *("coalesce(a, b, 0)", "least(a, b)", "greatest(a, b, 1)", "if(a > 0, i, j)"),
    *("round(a)", "round(a, 1)", "floor(a)", "ceil(a)", "exp(b)", "pow(b, 2)", "sqrt(abs(a))"),
    *("upper(s)", "lower(s)", "trim(s)", "length(s)", "s || '!'", "s LIKE 'x%'", "s ILIKE 'y%'"),
    *("starts_with(s, 'x')", "CAST(i AS DOUBLE)", "CAST(a AS BIGINT)", "CAST(i AS VARCHAR)"),
    *("substr(s, 1, 1)", "md5(s)", "TRY_CAST(s AS INT)", "regexp_matches(s, 'x')"),
    *("rows.a + 1", "A + 1", "(a + b) * (a - b)", "a % 2"),
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_as_duckdb(text):
    found = compiled(parse(text), SCOPE).array(
        {name: ROWS.column(name).combine_chunks() for name in ROWS.column_names}, ROWS.num_rows
    )
    rows = ROWS  # noqa: F841 - DuckDB finds it by its name
    wanted = duckdb.sql(f"SELECT {text} AS it FROM rows").fetchall()
    assert found.to_pylist() == [
        None
        if value is None
        else pytest.approx(float(value))
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        else value
        for (value,) in wanted
    ]


AGGREGATES = [
    *(
        "count(*)",
        "count(a)",
        "count(DISTINCT s)",
        "sum(a)",
        "sum(i)",
        "avg(a)",
        "min(a)",
        "max(i)",
    ),
    *("min(s)", "max(s)", "first(i)", "last(a)", "stddev(a)", "stddev_pop(a)", "var_samp(b)"),
    *("var_pop(b)", "median(a)", "quantile_cont(b, 0.3)", "arg_max(s, b)", "arg_min(i, a)"),
    *("max(a) - min(a)", "sum(a) / count(*)", "max(f)", "any_value(s)"),
]


@pytest.mark.parametrize("text", AGGREGATES)
def test_aggregates_as_duckdb(text):
    columns = {name: ROWS.column(name).combine_chunks() for name in ROWS.column_names}
    read = read_aggregates(f"{text} AS it", SCOPE, (), {})
    windows = [(0, 5), (0, 2), (2, 3), (1, 4)] + ([] if "/" in text else [(3, 3)])
    low, high = (pa.array(side).to_numpy() for side in zip(*windows, strict=True))
    values = read.values(columns, 5, Ranges(low, high))
    ((_, item),) = read.items
    found = item.array(values, len(windows)).to_pylist()
    for (begin, end), value in zip(windows, found, strict=True):
        part = ROWS.slice(begin, end - begin)  # noqa: F841 - DuckDB finds it by its name
        ((wanted,),) = duckdb.sql(f"SELECT {text} FROM part").fetchall()
        if text.startswith(("first", "any")) and wanted is None:
            continue
        assert value == (pytest.approx(wanted) if isinstance(wanted, float) else wanted), (
            begin,
            end,
        )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=8),
    st.sampled_from(["x > 1 AND x < 50", "NOT (x > 1) OR x IS NULL", "x + x = 2 * x", "x <> x"]),
)
def test_conditions_know_three_truths(values, text):
    column = pa.array(values, pa.float64())
    found = compiled(parse(text), scope_of({"x": pa.float64()})).array({"x": column}, len(values))
    rows = pa.table({"x": column})  # noqa: F841 - DuckDB finds it by its name
    assert found.to_pylist() == [
        one for (one,) in duckdb.sql(f"SELECT {text} FROM rows").fetchall()
    ]


def test_what_is_not_a_number_is_unknown():
    columns = {"x": pa.array([-1.0, 4.0])}
    found = compiled(parse("sqrt(x)"), scope_of({"x": pa.float64()})).array(columns, 2)
    assert found.to_pylist() == [None, 2.0]
    found = compiled(parse("ln(x)"), scope_of({"x": pa.float64()})).array(columns, 2)
    assert found.to_pylist() == [None, math.log(4)]


@pytest.mark.parametrize("text", ["linear(a)", "nosuch(a)", "sum(a)"])
def test_what_nobody_knows_is_refused(text):
    with pytest.raises(BadExpressionError):
        compiled(parse(text), SCOPE)
