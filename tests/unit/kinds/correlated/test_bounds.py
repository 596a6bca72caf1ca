"""Every told and every asked value is within its bounds, after every event, on hard streams."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.kinds.correlated.twin import Twin
from everquery.kinds.twin import Seen

STREAM = eq.Stream("calls", key="k", time="t", attributes=["x", "y"])
N = 90


def _uniform(rng):
    return rng.uniform(0, 100, N)


def _bursty(rng):
    return np.where(rng.random(N) < 0.1, rng.pareto(0.7, N) * 1e6, rng.normal(0, 1, N))


def _ascending(rng):
    return np.sort(rng.normal(0, 100, N))


def _descending(rng):
    return -np.sort(rng.lognormal(0, 4, N))[::-1] + 1e3


def _constant(rng):
    return np.full(N, 0.1)


def _few_values(rng):
    return rng.choice([-3.0, -0.0, 0.0, 1e-3, 2.0, 7.0], N)


def _adversarial(rng):
    """Values just around where the average was: each lands on the other side of an edge."""
    values = [1.0, 2.0]
    for i in range(N - 2):
        mean = float(np.mean(values))
        values.append(np.nextafter(mean, np.inf if i % 2 else -np.inf) if i % 3 else mean * 1.5)
    return np.array(values)


def _jumping(rng):
    """The extreme leaves the window again and again, and the average jumps."""
    values = rng.uniform(10, 20, N)
    values[::17] = rng.uniform(-1e5, 1e5, values[::17].size)
    return values


SHAPES = [
    _uniform, _bursty, _ascending, _descending, _constant, _few_values, _adversarial, _jumping,
]  # fmt: skip
WINDOWS = [{}, {"last": 23}, {"last": 1}, {"span": 31}]
FACTORS = [1.0, 1.7, -0.6]


def queries(**fields):
    """Return queries of all sorts."""
    asked = itertools.product(("count", "sum", "avg"), ("min", "max", "avg"), FACTORS)
    for aggregate, to, factor in asked:
        for compared in ("<", "<=", ">", ">=", "within"):
            if compared == "within" and factor < 0:
                continue
            name = f"{aggregate} {compared} {factor} {to}"
            yield eq.Correlated(
                name, aggregate, of="y", where="x", compared=compared, to=to, factor=factor,
                **fields,
            )  # fmt: skip


def true_value(twin, query):
    lane = "a" if query.by_key else None
    return twin.value(query, lane)


def is_within(value, low, high):
    return low is None or low <= value <= high


def check(answer, truth, n, query, step):
    where = f"{query.id}, after {step} events: {answer}, truly {truth}"
    if np.isnan(truth):
        assert answer.value is None or answer.low is not None, where
        return
    assert answer.value is not None or not np.isfinite(truth), where
    assert is_within(truth, answer.low, answer.high), where
    if answer.value is not None:
        assert answer.low <= answer.value <= answer.high, where
    if query.span is None:
        assert answer.n == n, where


def play(specs, xs, ys, size, *, times=None):
    engine, twin = eq.Engine(STREAM), Twin(STREAM)
    specs = list(specs)
    engine.register(specs)
    for query in specs:
        twin.begin(query)
    times = np.arange(len(xs)) if times is None else times
    by_id = {query.id: query for query in specs}
    for begin in range(0, len(xs), size):
        part = slice(begin, begin + size)
        rows = zip(xs[part].tolist(), ys[part].tolist(), times[part].tolist(), strict=True)
        for x, y, time in rows:
            twin.take_in(Seen("a", (x, y), None, 1, time, last_of_key=False, last_of_all=False))
        batch = {"k": ["a"] * len(xs[part]), "t": times[part], "x": xs[part], "y": ys[part]}
        notices = engine.process(pa.table(batch))
        step = begin + size
        for told in notices.to_pylist():
            truth, _ = true_value(twin, by_id[told["query_id"]])
            if not np.isnan(truth) and told["value"] is not None:
                assert is_within(truth, told["low"], told["high"]), told
                assert told["low"] <= told["value"] <= told["high"], told
        for query in specs:
            truth, n = true_value(twin, query)
            key = {"key": "a"} if query.by_key else {}
            check(engine.answer(query.id, **key), truth, n, query, step)
    return engine


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__.strip("_"))
def test_bounds_hold_after_every_event(shape, window):
    rng = np.random.default_rng(3)
    xs, ys = shape(rng), rng.normal(0, 10, N)
    times = np.cumsum(rng.choice([0, 0, 1, 2, 9], N))
    chosen = list(queries(buckets=4, **window))
    picked = rng.permutation(len(chosen))[:8]
    play([chosen[i] for i in picked], xs, ys, 1, times=times)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_bounds_hold_for_all_queries_and_batches(window):
    rng = np.random.default_rng(4)
    play(queries(by_key=True, **window), _jumping(rng), rng.pareto(1, N), 30)


def test_few_values_are_exact_whatever_the_buckets():
    rng = np.random.default_rng(5)
    specs = list(queries())
    engine = play(specs, _few_values(rng), np.ones(N), 40)
    for query in specs:
        answer = engine.answer(query.id)
        if query.aggregate == "count":
            assert answer.low == answer.value == answer.high


def test_bounds_narrow_with_more_buckets():
    rng = np.random.default_rng(6)
    xs, ys = rng.lognormal(0, 1, 20_000), np.ones(20_000)
    widths = []
    for buckets in (5, 10, 40):
        engine = eq.Engine(STREAM)
        engine.register(
            eq.Correlated("q", "count", where="x", compared=">", to="avg", buckets=buckets)
        )
        engine.process(pa.table({"k": ["a"] * 20_000, "t": range(20_000), "x": xs, "y": ys}))
        answer = engine.answer("q")
        truth = np.count_nonzero(xs > xs.mean())
        assert answer.low <= truth <= answer.high
        widths.append(answer.high - answer.low)
    assert widths[0] >= widths[1] >= widths[2]
    assert widths[1] < 0.02 * 20_000


def test_sums_beyond_float64_are_unknown_and_not_wrong():
    xs = np.array([1e308, 1e308, 1.0, -1e308, 2.0])
    for aggregate in ("sum", "avg"):
        for to in ("avg", "max"):
            engine = eq.Engine(STREAM)
            engine.register(
                eq.Correlated("q", aggregate, of="x", where="x", compared="<=", to=to, buckets=2)
            )
            engine.process(pa.table({"k": ["a"] * 5, "t": range(5), "x": xs, "y": xs}))
            answer = engine.answer("q")
            assert answer.value is None or answer.low <= answer.value <= answer.high
