"""Streams that windows are tested with, and what their windows really are."""

from __future__ import annotations

import numpy as np


def uniform(rng, n):
    """Values of 0 to 100."""
    return rng.uniform(0, 100, n)


def bursty(rng, n):
    """Long calm with values near 0, and bursts of large ones."""
    return np.where(np.arange(n) // 97 % 5 == 0, rng.uniform(1_000, 2_000, n), rng.uniform(0, 1, n))


def ascending(rng, n):
    """The values of a uniform stream in order."""
    return np.sort(uniform(rng, n))


def constant(rng, n):
    """One value."""
    return np.full(n, 7.25)


def adversarial(rng, n):
    """Blocks of ever longer runs of ones between zeros, as in the paper's lower bound (theorem 2).

    Each block may hold its ones at any of many places, and no structure may take two such streams
    for the same.
    """
    values = np.zeros(n)
    at, size = 0, 1
    while at < n:
        quarter = int(rng.integers(0, 4))
        values[at + quarter * size : at + (quarter + 1) * size] = 1.0
        at += 4 * size
        size = size * 2 if size < n // 16 else 1
    return values


STREAMS = {each.__name__: each for each in (uniform, bursty, ascending, constant, adversarial)}


def truth(statistic, values):
    """Return a statistic of values by NumPy; None of nothing where it has none."""
    if statistic == "count":
        return float(len(values))
    if statistic == "sum":
        return float(np.sum(values))
    if not len(values):
        return None
    compute = {"mean": np.mean, "variance": np.var, "min": np.min, "max": np.max}
    return float(compute[statistic](values))
