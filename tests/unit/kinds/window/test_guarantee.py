"""Every value that is told or asked for is within its bounds, after every event."""

import math

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.kinds.window.families import COUNTS, SUMS
from tests.unit.kinds.window.streams import STREAMS, truth

ROWS = 400
LAST = 150
STATISTICS = ("count", "sum", "mean", "variance", "min", "max")


def engine_of(epsilon, *, last=LAST):
    stream = eq.Stream("s", attributes=["x"])
    engine = eq.Engine(stream)
    engine.register([eq.Window(s, s, "x", last=last, epsilon=epsilon) for s in STATISTICS])
    engine.register(eq.Window("ones", "count", box={"x": (0.5, 1.5)}, last=last, epsilon=epsilon))
    return engine


def assert_within(found, real, epsilon):
    """Assert that the bounds hold, and that the value is as near as was asked for."""
    value, low, high = found
    if real is None:
        assert value is None
        return
    noise = 1e-9 * max(1.0, abs(real))
    assert low - noise <= real <= high + noise
    assert low <= value <= high
    assert abs(value - real) <= epsilon * abs(real) + noise


@pytest.mark.parametrize("epsilon", [0.3, 0.05])
@pytest.mark.parametrize("name", STREAMS)
def test_every_told_and_asked_value_is_within_its_bounds(name, epsilon):
    values = STREAMS[name](np.random.default_rng(1), ROWS)
    engine = engine_of(epsilon)
    for i, value in enumerate(values):
        window = values[max(0, i + 1 - LAST) : i + 1]
        real = {each: truth(each, window) for each in STATISTICS}
        real["ones"] = float(np.count_nonzero((window >= 0.5) & (window < 1.5)))
        for notice in engine.process(pa.table({"x": [value]})).to_pylist():
            found = notice["value"], notice["low"], notice["high"]
            assert_within(found, real[notice["query_id"]], epsilon)
        if i % 7 == 0:
            for query_id in STATISTICS:
                answer = engine.answer(query_id)
                assert_within((answer.value, answer.low, answer.high), real[query_id], epsilon)


@pytest.mark.parametrize("name", STREAMS)
def test_exact_windows_are_what_numpy_says(name):
    values = STREAMS[name](np.random.default_rng(2), 300)
    engine = engine_of(0, last=40)
    engine.process(pa.table({"x": values}))
    for statistic in STATISTICS:
        real, answer = truth(statistic, values[-40:]), engine.answer(statistic)
        assert answer.low == answer.value == answer.high
        assert math.isclose(answer.value, real, rel_tol=1e-12, abs_tol=1e-12)


def test_exact_sums_do_not_drift():
    engine = engine_of(0, last=10)
    rng = np.random.default_rng(3)
    engine.process(pa.table({"x": rng.uniform(-1e9, 1e9, 20_000)}))
    engine.process(pa.table({"x": np.full(10, 0.1)}))
    assert engine.answer("sum").value == math.fsum([0.1] * 10)
    assert engine.answer("variance").value == 0.0


def test_negative_values_are_bounded_by_their_sizes():
    epsilon, last = 0.1, 200
    engine = engine_of(epsilon, last=last)
    values = np.random.default_rng(4).normal(0, 10, 1_000)
    engine.process(pa.table({"x": values}))
    window = values[-last:]
    answer = engine.answer("sum")
    assert answer.low <= window.sum() <= answer.high
    assert abs(answer.value - window.sum()) <= epsilon * np.abs(window).sum()


def lane_sizes(engine, family):
    index = engine._shard.contents.indexes["window"]
    for name, store in index.stores.items():
        if name.family == family:
            return store.lanes.used[: store.used]
    raise AssertionError("no such store")


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.1])
def test_there_are_no_more_buckets_than_theorem_1_allows(epsilon):
    last = 5_000
    engine = engine_of(epsilon, last=last)
    engine.process(pa.table({"x": np.ones(3 * last)}))
    k = math.ceil(1 / epsilon)
    most = (k / 2 + 1) * (math.log2(2 * last / k + 1) + 1)
    assert lane_sizes(engine, COUNTS).max() <= most


@pytest.mark.parametrize("epsilon", [0.02, 0.1])
def test_there_are_no_more_buckets_than_theorem_5_allows(epsilon):
    last, largest = 5_000, 1_000
    engine = engine_of(epsilon, last=last)
    values = np.random.default_rng(5).integers(1, largest, 3 * last).astype(float)
    engine.process(pa.table({"x": values}))
    k = math.ceil(1 / epsilon)
    most = (k / 2 + 1) * (math.log2(2 * last * largest / k + 1) + 1)
    assert lane_sizes(engine, SUMS).max() <= most


@pytest.mark.parametrize("statistic", ["sum", "mean", "variance"])
@pytest.mark.parametrize("outlier", [1e8, 1e12, -1e12, 1e16, 1e20])
def test_a_large_value_that_is_gone_leaves_nothing_behind(statistic, outlier):
    if statistic == "variance" and abs(outlier) > 1e12:
        return  # of a square twice as many digits are gone
    last, epsilon = 10, 0.01
    engine = eq.Engine(eq.Stream("packets", attributes=["length"]))
    engine.register(eq.Window("w", statistic, "length", last=last, epsilon=epsilon))
    engine.register(eq.Window("long", statistic, "length", last=5 * last, epsilon=epsilon))
    values = [3.0, outlier, *(1.0 + i % 2 for i in range(80)), *([7.0] * 20)]
    for i, value in enumerate(values):
        engine.process(pa.table({"length": [value]}))
        window = np.array(values[max(0, i + 1 - last) : i + 1])
        real = {"sum": window.sum(), "mean": window.mean(), "variance": window.var()}[statistic]
        answer = engine.answer("w")
        if outlier not in window:
            assert answer.low <= real <= answer.high
            assert abs(answer.value - real) <= epsilon * real + 1e-3 * epsilon
