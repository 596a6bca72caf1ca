"""Streams of the paper's experiments and nastier ones, and what must hold of every summary."""

import numpy as np

PHIS = np.append(np.linspace(0.001, 1, 173), [0.01, 0.5, 0.9, 0.99, 0.999, 0.9999])


def uniform(rng, n):
    return rng.random(n)


def normal(rng, n):
    return rng.normal(size=n)


def semi_sorted(rng, n):
    """Sorted blocks."""
    pieces = np.array_split(rng.random(n), max(1, n // 700))
    return np.concatenate([np.sort(piece) for piece in pieces])


def ascending(rng, n):
    return np.arange(n, dtype=float)


def descending(rng, n):
    return -np.arange(n, dtype=float)


def constant(rng, n):
    return np.full(n, 7.0)


def duplicates(rng, n):
    return rng.choice([-np.inf, -1.0, -0.0, 0.0, 1.0, 2.0, 3.0, np.inf], n)


def inwards(rng, n):
    """From both ends to the middle: every value falls into the same gap."""
    i = np.arange(n)
    return np.where(i % 2 == 0, 1.0, -1.0) * (n - i)


def outwards(rng, n):
    return inwards(rng, n)[::-1].copy()


def few_and_many(rng, n):
    """Half of all values are one; the tail is long."""
    return np.where(rng.random(n) < 0.5, 1.0, rng.pareto(0.3, n))


STREAMS = [
    uniform, normal, semi_sorted, ascending, descending, constant, duplicates, inwards, outwards,
    few_and_many,
]  # fmt: skip


def interval(values, ordered):
    """Return the first and last rank of each value."""
    return np.searchsorted(ordered, values) + 1, np.searchsorted(ordered, values, "right")


def check_tuples(tuples, ordered):
    """Definition 1."""
    values, low, high = tuples
    assert (values[:-1] <= values[1:]).all()
    assert (low[:-1] <= low[1:]).all()
    assert (high[:-1] <= high[1:]).all()
    assert (low <= high).all()
    first, last = interval(values, ordered)
    assert (first <= last).all()  # each is one of the values
    assert (low <= last).all()
    assert (high >= first).all()


def check_theorem_1(tuples, epsilon, n):
    """Check the three conditions; gaps of one are exact, whatever epsilon."""
    _, low, high = tuples
    assert high[0] <= epsilon * n + 1
    assert low[-1] >= (1 - epsilon) * n
    assert (high[1:] - low[:-1] <= max(1, 2 * epsilon * n)).all()


def check_answers(query, ordered, epsilon):
    """Whole ranks are answered within epsilon; others where two whole ranks are within epsilon."""
    n = ordered.size
    if not n:
        assert query(np.array([1.0]))[0].size == 0
        return
    ranks = np.ceil(PHIS * n)
    if 2 * epsilon * n >= 1:
        between = PHIS * n
        ranks = np.append(ranks, between[between + epsilon * n >= 1])
    values, low, high = query(ranks)
    assert (low <= high).all()
    assert (low >= ranks - epsilon * n).all()
    assert (high <= ranks + epsilon * n).all()
    first, last = interval(values, ordered)
    assert (first <= last).all()
    assert (first <= ranks + epsilon * n).all()
    assert (last >= ranks - epsilon * n).all()
    assert (low <= last).all()
    assert (high >= first).all()
