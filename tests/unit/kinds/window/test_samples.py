"""Distinct values and norms within an error: from few events on, with luck that is bounded.

The truth is computed from the events by NumPy. Answers are exact as long as a window holds few
events. Beyond, 99 of 100 are within epsilon, and all are within their bounds.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.kinds.window.chances import LEAST_SAMPLE, reach, sample_size

STREAM = eq.Stream("s", time="t", attributes=["x", "y"])
STATISTICS = ("distinct", "l1", "l2")
N, BATCH = 12_000, 400
WINDOWS = (60, 900, 6_000)


def skewed(rng):
    return rng.exponential(1, N), rng.zipf(1.2, N) % 100_000


def signed(rng):
    return rng.normal(0, 1, N), rng.integers(0, 9_000, N)


def constant(rng):
    return np.full(N, 7.25), np.full(N, 3.0)


def ascending(rng):
    return np.sort(rng.uniform(0, 100, N)), np.arange(N)


def falling(rng):
    return np.sort(rng.uniform(0, 100, N))[::-1], np.arange(N)[::-1]


def bursty(rng):
    large = np.arange(N) // 97 % 5 == 0
    return np.where(large, rng.uniform(1e3, 2e3, N), rng.uniform(0, 1, N)), rng.integers(0, N, N)


def cancelling(rng):
    """Each place has a value, and at once its opposite."""
    return np.where(np.arange(N) % 2, -1.0, 1.0), np.arange(N) // 2


def few_places(rng):
    return rng.normal(1, 1, N), rng.integers(0, 5, N)


def in_turns(rng):
    """Many places, the same again and again: what was orthogonal adds up later."""
    return rng.uniform(0, 1, N), np.arange(N) % 2_000


SHAPES = {
    each.__name__: each
    for each in (
        skewed, signed, constant, ascending, falling, bursty, cancelling, few_places, in_turns
    )
}  # fmt: skip


def table(x, y, t):
    return pa.table({"x": np.asarray(x, float), "y": np.asarray(y, float), "t": t})


def query(statistic, epsilon, **window):
    if statistic == "distinct":
        return eq.Window(f"{statistic} {window}", statistic, "y", epsilon=epsilon, **window)
    return eq.Window(f"{statistic} {window}", statistic, "x", per="y", epsilon=epsilon, **window)


def truth(statistic, x, y):
    """Return the statistic, and what epsilon is a share of."""
    _, place = np.unique(y, return_inverse=True)
    sums, sizes = np.bincount(place, x), np.bincount(place, np.abs(x))
    power = {"distinct": 0, "l1": 1, "l2": 2}[statistic]
    if power == 0:
        return float(sums.size), float(sums.size)
    norms = [(np.abs(each) ** power).sum() ** (1 / power) for each in (sums, sizes)]
    return norms[0], norms[1]


def assert_bounds(answer, real, scale):
    """Assert that bounds hold but for what rounding does to the truth, which is in floats too."""
    assert answer.low <= answer.value <= answer.high
    assert answer.low - 1e-12 * scale <= real <= answer.high + 1e-12 * scale


@pytest.mark.parametrize("epsilon", [0.15, 0.4])
@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_hold_and_nearly_all_values_are_within_epsilon(shape, epsilon):
    x, y = SHAPES[shape](np.random.default_rng(round(100 * epsilon)))
    engine = eq.Engine(STREAM)
    engine.register([query(s, epsilon, last=last) for s in STATISTICS for last in WINDOWS])
    errors = []
    for end in range(BATCH, N + 1, BATCH):
        part = slice(end - BATCH, end)
        engine.process(table(x[part], y[part], np.arange(end - BATCH, end)))
        for statistic in STATISTICS:
            for last in WINDOWS:
                window = slice(max(0, end - last), end)
                real, scale = truth(statistic, x[window], y[window])
                answer = engine.answer(f"{statistic} {{'last': {last}}}")
                assert_bounds(answer, real, scale)
                if last < LEAST_SAMPLE:
                    assert answer.low == answer.value == answer.high
                    assert answer.value == pytest.approx(real, rel=1e-12)
                errors.append(abs(answer.value - real) / scale)
    # Answers to overlapping windows share their luck: of one stream, a few more may be off.
    assert np.mean(np.array(errors) > epsilon) <= 0.03
    assert max(errors) < 2 * epsilon


@pytest.mark.parametrize("statistic", STATISTICS)
def test_one_of_a_hundred_values_is_off_by_more_than_epsilon(statistic):
    """Streams of their own: 400 keys, each with other values."""
    epsilon, keys, n = 0.3, 400, 600
    rng = np.random.default_rng(5)
    stream = eq.Stream("s", key="k", attributes=["x", "y"])
    engine = eq.Engine(stream)
    engine.register(replace(query(statistic, epsilon, last=n), id="w", by_key=True))
    x = rng.normal(0, 1, (keys, n))
    y = rng.integers(0, 400, (keys, n)) + 1_000.0 * np.arange(keys)[:, None]
    k = np.repeat(np.arange(keys), n)
    engine.process(pa.table({"k": k, "x": x.ravel(), "y": y.ravel()}))
    off = 0
    for key in range(keys):
        real, scale = truth(statistic, x[key], y[key])
        answer = engine.answer("w", key=key)
        assert_bounds(answer, real, scale)
        off += abs(answer.value - real) > epsilon * scale
    assert off <= 10  # 4 are expected; more than 10 have a probability of 0.3%


def test_values_that_leave_all_at_once():
    queries = [query(s, 0.4, span=span) for s in STATISTICS for span in (10, 1_000)]
    engine = eq.Engine(STREAM)
    engine.register(queries)
    rng = np.random.default_rng(7)
    x, y = rng.normal(0, 1, 4_020), rng.integers(0, 3_000, 4_020)
    t = np.append(np.full(4_000, 5), 6 + np.arange(20) // 4)
    engine.process(table(x, y, t))
    for now in (14, 15, 17, 30):
        engine.advance(now)
        for each in queries:
            here = t > now - each.span
            real, scale = truth(each.statistic, x[here], y[here]) if here.any() else (0.0, 0.0)
            answer = engine.answer(each.id)
            assert_bounds(answer, real, scale)
            if np.count_nonzero(here) < LEAST_SAMPLE:
                assert answer.low == answer.value == answer.high
    engine.advance(2_000)
    assert {engine.answer(each.id).value for each in queries} == {0.0}


def held_bytes(engine):
    """Return the bytes of the entries of all lanes, by family."""
    index = engine._shard.contents.indexes["window"]
    return {
        name.family: int(store.lanes.used[: store.used].sum()) * store.entry_bytes()
        for name, store in index.stores.items()
    }


@pytest.mark.million
def test_memory_does_not_grow_with_the_window():
    """It grows with the logarithm: for each doubling by as much again."""
    rng = np.random.default_rng(8)
    size = 50_000
    held = []
    for last in (200_000, 2_000_000):
        engine = eq.Engine(STREAM)
        engine.register([query(s, 0.5, last=last) for s in STATISTICS])
        most = {}
        for begin in range(0, last + last // 4, size):
            x, y = rng.exponential(1, size), rng.integers(0, 10**9, size)
            engine.process(table(x, y, np.arange(begin, begin + size)))
            for family, held_now in held_bytes(engine).items():
                most[family] = max(most.get(family, 0), held_now)
        held.append(most)
    exact = 2_000_000 * 16
    for family, before in held[0].items():
        assert held[1][family] < 1.5 * before
        assert held[1][family] < exact / 50


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_restored_engine_tells_the_same(statistic):
    rng = np.random.default_rng(9)
    engine = eq.Engine(STREAM)
    engine.register([query(statistic, 0.4, last=last) for last in (500, 3_000)])
    engine.register(query(statistic, 0.4, span=2_000))
    for begin in range(0, 12_000, 500):
        x, y = rng.normal(0, 1, 500), rng.integers(0, 5_000, 500)
        batch = table(x, y, np.arange(begin, begin + 500))
        fresh = eq.Engine(STREAM)
        fresh.restore(engine.snapshot())
        before, after = engine.process(batch), fresh.process(batch)
        assert before.equals(after)
        for each in engine.queries()["id"].to_pylist():
            assert engine.answer(each) == fresh.answer(each)
        engine = fresh


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_longer_window_begins_with_what_was_held(statistic):
    rng = np.random.default_rng(10)
    x, y = rng.normal(0, 1, 3_000), rng.integers(0, 5_000, 3_000)
    engine = eq.Engine(STREAM)
    engine.register(query(statistic, 0.4, last=1_000))
    engine.process(table(x[:2_000], y[:2_000], np.arange(2_000)))
    engine.register(query(statistic, 0.4, last=2_000))
    engine.process(table(x[2_000:], y[2_000:], np.arange(2_000, 3_000)))
    answer = engine.answer(f"{statistic} {{'last': 2000}}")
    assert answer.whole
    assert_bounds(answer, *truth(statistic, x[1_000:], y[1_000:]))


def test_an_l1_norm_of_values_that_cannot_be_below_zero_is_a_sum():
    rng = np.random.default_rng(11)
    x, y = rng.uniform(-5, 10, 5_000), rng.integers(0, 3_000, 5_000)
    engine = eq.Engine(STREAM)
    engine.register(
        eq.Window("w", "l1", "x", per="y", box={"x": (0, None)}, last=4_000, epsilon=0.01)
    )
    engine.process(table(x, y, np.arange(5_000)))
    engine.process(pa.table({"x": [3.0], "y": pa.array([None], pa.float64()), "t": [5_000]}))
    window = x[-3_999:]
    answer, real = engine.answer("w"), window[window >= 0].sum()
    assert answer.low <= real <= answer.high
    assert abs(answer.value - real) <= 0.01 * real
    assert "buckets" in str(engine.explain("w"))


def test_huge_values_that_are_gone_leave_nothing_behind():
    engine = eq.Engine(STREAM)
    engine.register([query(s, 0.4, last=2_000) for s in ("l1", "l2")])
    rng = np.random.default_rng(12)
    x, y = rng.normal(0, 1, 9_000), rng.integers(0, 4_000, 9_000)
    x[1_000:1_010] = 1e100
    engine.process(table(x, y, np.arange(9_000)))
    for statistic in ("l1", "l2"):
        real, scale = truth(statistic, x[-2_000:], y[-2_000:])
        assert_bounds(engine.answer(f"{statistic} {{'last': 2000}}"), real, scale)
        assert engine.answer(f"{statistic} {{'last': 2000}}").high < 10 * scale


def test_explain_gives_the_memory_of_both():
    engine = eq.Engine(STREAM)
    rng = np.random.default_rng(13)
    engine.register(
        [query("distinct", 0.4, last=5_000), eq.Window("exact", "distinct", "y", last=50)]
    )
    engine.process(table(rng.normal(0, 1, 6_000), rng.uniform(0, 1, 6_000), np.arange(6_000)))
    near, exact = str(engine.explain("distinct {'last': 5000}")), str(engine.explain("exact"))
    assert "a sample of its values" in near
    assert "with epsilon=0, it would hold about" in near
    assert "entries of 16 bytes" in near
    assert "with epsilon=0.01, it would hold about" in exact


@pytest.mark.parametrize("n", [32, 64, 500, 100_000])
def test_reach_is_where_the_probability_is_one_in_a_billion(n):
    low, high = reach(n)
    for r in (low, high):
        assert n * (r - 1 - np.log(r)) == pytest.approx(22.1, rel=1e-6)
    assert low < 1 < high


def test_samples_are_as_large_as_the_error_needs_and_bounded():
    assert sample_size(0.9) == LEAST_SAMPLE
    assert sample_size(0.1) == pytest.approx(6.635 / 0.1**2 * 1.1, abs=3)
    assert sample_size(1e-300) == 1 << 31
