"""Summaries of sliding windows against exact ranks, after every batch."""

import numpy as np
import pytest

from everquery.kinds.quantile.gk_merge import capacity
from everquery.kinds.quantile.window_buckets import SHORTEST, WHOLE, fits, plan_buckets
from everquery.kinds.quantile.window_summary import WindowSummaries
from tests.unit.kinds.quantile.streams import STREAMS, check_answers, check_theorem_1, check_tuples
from tests.unit.kinds.quantile.test_gk_summary import ONE, batches


def check_window(summaries, key, rows):
    epsilon, window = summaries.epsilon, summaries.window
    inside = np.sort(rows[-window:])
    assert summaries.count(key) == inside.size
    check_answers(lambda ranks: summaries.query_many(key, ranks), inside, epsilon)
    if inside.size:
        check_tuples(summaries.tuples(key), inside)
        check_theorem_1(summaries.tuples(key), epsilon, inside.size)


# Kept whole; just above that, with buckets of two samples' step; longer steps.
SHAPES = [
    (0.05, 15),
    (0.05, 390),
    (0.05, 900),
    (0.05, 3000),
    (0.2, 1111),
    (0.02, 9001),
    (0.01, 8200),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.__name__)
def test_every_batch_of_one_key(stream, shape):
    epsilon, window = shape
    rng = np.random.default_rng(1)
    values = stream(rng, 30_000)
    summaries = WindowSummaries(epsilon, window)
    seen = 0
    for batch in batches(values, rng, 10_000 if rng.random() < 0.5 else 900):
        summaries.update(ONE, np.array([0, batch.size]), batch)
        seen += batch.size
        check_window(summaries, 0, values[:seen])
        spare = 2 * epsilon * window  # the oldest bucket, and the one that fills
        assert summaries.sizes()[0] <= min(window, 2 / epsilon**2) + spare


@pytest.mark.parametrize("size", [1, 7, 149, 150, 151])
def test_batches_about_as_long_as_buckets(size):
    rng = np.random.default_rng(size)
    values = rng.choice([-np.inf, 0.0, 1.0, 2.0, np.inf, *rng.random(300)], 5000)
    summaries = WindowSummaries(0.05, 3000)
    assert summaries.plan.step > 2
    assert summaries.plan.length < summaries.window
    for end in range(size, values.size, size):
        summaries.update(ONE, np.array([0, size]), values[end - size : end])
        if size > 100 or end % 41 == 0:
            check_window(summaries, 0, values[:end])


@pytest.mark.parametrize("window", [30, 2000])
@pytest.mark.parametrize("longest", [3, 40, 3000])
def test_many_keys(window, longest):
    rng = np.random.default_rng(longest)
    keys = 40
    summaries = WindowSummaries(0.05, window)
    rows = [np.empty(0) for _ in range(keys)]
    for batch in range(12):
        touched = rng.permutation(keys)[: rng.integers(1, keys)].astype(np.int32)
        starts = np.append(0, np.cumsum(rng.integers(0, longest, touched.size)))
        values = STREAMS[batch % len(STREAMS)](rng, int(starts[-1]))
        for key, begin, end in zip(touched, starts, starts[1:], strict=False):
            rows[key] = np.append(rows[key], values[begin:end])
        summaries.update(touched, starts, values)
        for key in range(keys):
            check_window(summaries, key, rows[key])


@pytest.mark.parametrize("epsilon", [0.003, 0.01, 0.1, 0.49])
def test_every_plan_fits(epsilon):
    sampled = 0
    for window in np.unique(np.geomspace(1, 3e7, 150).astype(int)):
        plan = plan_buckets(epsilon, int(window))
        if plan.length == window:
            assert window <= max(WHOLE, SHORTEST / epsilon)
            continue
        if plan.step == 1:
            assert window <= 2 / epsilon**2 + 2
        sampled += 1
        assert plan.length % plan.step == 0
        assert plan.length <= epsilon * window
        assert fits(plan, epsilon, int(window))
        most = window // plan.length
        assert most * (plan.step - 1) + 1 + plan.length <= capacity(epsilon, int(window))
        assert window / plan.step <= 2 / epsilon**2 + 2
    assert sampled


@pytest.mark.parametrize("window", [1, 9, 99])
def test_windows_shorter_than_one_over_epsilon_are_exact(window):
    values = np.random.default_rng(5).random(300)
    summaries = WindowSummaries(0.01, window)
    for i, value in enumerate(values):
        summaries.update(ONE, np.array([0, 1]), np.array([value]))
        exact = np.sort(values[max(0, i + 1 - window) : i + 1])
        kept, low, high = summaries.query_many(0, np.arange(1.0, exact.size + 1))
        assert np.array_equal(kept, exact)
        assert np.array_equal(low, high)


@pytest.mark.parametrize("window", [30, 2000])
def test_saved_and_loaded(window):
    rng = np.random.default_rng(6)
    ours = WindowSummaries(0.05, window)
    keys = np.arange(9, dtype=np.int32)
    for _ in range(12):
        ours.update(keys, np.arange(10) * 333, rng.random(9 * 333))
        arrays = {}
        ours.save(arrays)
        theirs = WindowSummaries(0.05, window)
        theirs.load({name: array.copy() for name, array in arrays.items()})
        more = rng.random(9 * 77)
        for summaries in (ours, theirs):
            summaries.update(keys, np.arange(10) * 77, more)
        for key in range(9):
            for mine, other in zip(ours.tuples(key), theirs.tuples(key), strict=True):
                assert np.array_equal(mine, other)
    assert theirs.nbytes() > 0


def test_a_key_never_heard_of():
    summaries = WindowSummaries(0.05, 10)
    summaries.update(np.array([1], np.int32), np.array([0, 1]), np.ones(1))
    assert summaries.query(0, 1) is None
    assert summaries.query(5, 1) is None
    assert summaries.query(1, 1) == (1.0, 1, 1)
