"""Summaries of whole streams against exact ranks, after every batch."""

import math

import numpy as np
import pytest

from everquery.kinds.quantile import gk_summary
from everquery.kinds.quantile.gk_summary import Summaries
from tests.unit.kinds.quantile.streams import STREAMS, check_answers, check_theorem_1, check_tuples

ONE = np.zeros(1, np.int32)


def batches(values, rng, longest):
    at = 0
    while at < values.size:
        size = int(np.exp(rng.uniform(0, np.log(longest))))
        yield values[at : at + size]
        at += size


def bound(epsilon, n):
    """Greenwald and Khanna's bound, and what may wait besides."""
    waiting = 1 / (2 * epsilon)
    return 11 / (2 * epsilon) * math.log2(max(2, 2 * epsilon * n)) + waiting


@pytest.mark.parametrize("epsilon", [0.2, 0.03, 0.005])
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.__name__)
def test_every_batch_of_one_key(stream, epsilon):
    rng = np.random.default_rng(1)
    values = stream(rng, 40_000)
    summaries = Summaries(epsilon)
    seen = 0
    for batch in batches(values, rng, 10_000):
        summaries.update(ONE, np.array([0, batch.size]), batch)
        seen += batch.size
        assert summaries.count(0) == seen
        so_far = np.sort(values[:seen])
        tuples = summaries.tuples(0)
        check_tuples(tuples, so_far)
        check_theorem_1(tuples, epsilon, seen)
        check_answers(lambda ranks: summaries.query_many(0, ranks), so_far, epsilon)
        assert summaries.sizes()[0] <= min(seen, bound(epsilon, seen))


@pytest.mark.parametrize("longest", [3, 40, 2000])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_many_keys(longest, is_sorted):
    rng = np.random.default_rng(longest)
    epsilon, keys = 0.02, 60
    summaries = Summaries(epsilon)
    seen = [np.empty(0) for _ in range(keys)]
    for batch in range(12):
        touched = rng.permutation(keys)[: rng.integers(1, keys)].astype(np.int32)
        lengths = rng.integers(0, longest, touched.size)
        starts = np.append(0, np.cumsum(lengths))
        values = STREAMS[batch % len(STREAMS)](rng, int(starts[-1]))
        for key, begin, end in zip(touched, starts, starts[1:], strict=False):
            if is_sorted:
                values[begin:end].sort()
            seen[key] = np.sort(np.append(seen[key], values[begin:end]))
        given = values.copy()
        summaries.update(touched, starts, values, is_sorted=is_sorted)
        assert np.array_equal(values, given)
        for key in range(keys):
            check_answers(
                lambda ranks, key=key: summaries.query_many(key, ranks), seen[key], epsilon
            )
            check_tuples(summaries.tuples(key), seen[key])


def test_a_key_that_comes_twice_in_a_batch():
    summaries = Summaries(0.1)
    keys = np.array([2, 0, 2], np.int32)
    summaries.update(keys, np.array([0, 3, 5, 8]), np.arange(8.0))
    assert summaries.count(2) == 6
    assert summaries.count(1) == 0
    assert summaries.query(2, 6) == (7.0, 6, 6)
    assert summaries.query(1, 1) is None
    assert summaries.query(9, 1) is None
    assert summaries.tuples(1)[0].size == 0


def test_a_small_summary_grows_within_one_batch():
    rng = np.random.default_rng(3)
    values = rng.random(50_000)
    summaries = Summaries(0.0004)
    summaries.update(ONE, np.array([0, values.size]), values)
    check_answers(lambda ranks: summaries.query_many(0, ranks), np.sort(values), 0.0004)
    check_theorem_1(summaries.tuples(0), 0.0004, values.size)


@pytest.mark.parametrize("piece", [50, 700])
def test_pieces_of_any_length(piece, monkeypatch):
    monkeypatch.setattr(gk_summary, "LEAST_PIECE", piece)
    rng = np.random.default_rng(4)
    summaries = Summaries(0.05)
    keys = np.array([0, 1, 2], np.int32)
    lengths = np.array([1000, 0, 1401])
    values = rng.normal(size=2401)
    summaries.update(keys, np.append(0, np.cumsum(lengths)), values)
    assert [summaries.count(key) for key in range(3)] == list(lengths)
    check_answers(lambda ranks: summaries.query_many(0, ranks), np.sort(values[:1000]), 0.05)
    check_answers(lambda ranks: summaries.query_many(2, ranks), np.sort(values[1000:]), 0.05)


def test_fewer_values_than_one_over_epsilon_are_exact():
    values = np.random.default_rng(5).random(99)
    summaries = Summaries(0.01)
    for i, value in enumerate(values):
        summaries.update(ONE, np.array([0, 1]), np.array([value]))
        exact = np.sort(values[: i + 1])
        kept, low, high = summaries.query_many(0, np.arange(1.0, i + 2))
        assert np.array_equal(kept, exact)
        assert np.array_equal(low, np.arange(1, i + 2))
        assert np.array_equal(high, low)


@pytest.mark.parametrize("stop", [1, 30, 5000])
def test_saved_and_loaded(stop):
    rng = np.random.default_rng(6)
    ours, theirs = Summaries(0.01), Summaries(0.01)
    keys = np.arange(20, dtype=np.int32)
    starts = np.arange(21) * stop
    ours.update(keys, starts, rng.random(20 * stop))
    arrays = {}
    ours.save(arrays)
    theirs.load({name: array.copy() for name, array in arrays.items()})
    for _ in range(3):
        more = rng.random(20 * 77)
        for summaries in (ours, theirs):
            summaries.update(keys, np.arange(21) * 77, more)
        for key in range(20):
            for mine, other in zip(ours.tuples(key), theirs.tuples(key), strict=True):
                assert np.array_equal(mine, other)
    assert theirs.nbytes() > 0


def test_nothing_saved_and_loaded():
    arrays = {}
    Summaries(0.1).save(arrays)
    loaded = Summaries(0.1)
    loaded.load(arrays)
    assert len(loaded) == 0


def test_memory_is_a_few_times_what_is_held():
    rng = np.random.default_rng(7)
    summaries = Summaries(0.01)
    keys = np.arange(1000, dtype=np.int32)
    for _ in range(40):
        summaries.update(keys, np.arange(1001) * 20, rng.random(20_000))
    assert summaries.nbytes() < 8 * 24 * int(summaries.sizes().sum())


@pytest.mark.million
def test_sizes_of_long_streams_stay_far_below_the_bound():
    epsilon = 0.005
    rng = np.random.default_rng(8)
    for stream in STREAMS:
        values = stream(rng, 1_000_000)
        summaries = Summaries(epsilon)
        for begin in range(0, values.size, 20_000):
            batch = values[begin : begin + 20_000]
            summaries.update(ONE, np.array([0, batch.size]), batch)
            assert summaries.sizes()[0] <= 8 / epsilon
