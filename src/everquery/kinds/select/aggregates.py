"""Aggregates of values, group by group."""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Floats, Int64s

BITS = 12  # of a mean that values are measured from; so few that differences are rarely rounded
ROUNDS = 5  # after which all bits of a mean have been taken off


def aggregated(function: str, values: Array, group: Array, n: int) -> tuple[Floats, Int64s]:
    """Return an aggregate of each of `n` groups, and how many values it is of.

    Parameters
    ----------
    values : numbers
        All are known.
    group : of each value
    """
    count = np.bincount(group, minlength=n).astype(np.int64)
    found: Floats
    match function:
        case "COUNT":
            found = count.astype(np.float64)
        case "COUNT DISTINCT":
            found = _distinct(values, group, n)
        case "MIN":
            found = np.full(n, np.inf)
            np.minimum.at(found, group, values)
        case "MAX":
            found = np.full(n, -np.inf)
            np.maximum.at(found, group, values)
        case "VAR_POP":
            found = _variance(values, group, count)
        case _:
            found = _sums(values, group, n)
            if function == "AVG":
                with np.errstate(invalid="ignore", divide="ignore"):
                    found = found / count
    return found, count


def _sums(values: Array, group: Array, n: int) -> Floats:
    return np.asarray(np.bincount(group, weights=values, minlength=n), np.float64)


def _distinct(values: Array, group: Array, n: int) -> Floats:
    """Return how many different values each group has."""
    order = np.lexsort((values, group))
    values, group = values[order], group[order]
    first = np.ones(values.size, np.bool_)
    first[1:] = (values[1:] != values[:-1]) | (group[1:] != group[:-1])
    return np.bincount(group[first], minlength=n).astype(np.float64)


def _variance(values: Floats, group: Array, count: Int64s) -> Floats:
    """Return the variance of all values of each group, not of a sample.

    Values are measured from about their mean until no digits are lost where they lie close
    together. What they are measured from is a short number each time, so that values of few digits
    have squares and sums that are not rounded, whatever their order.
    """
    n = count.size
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for _ in range(ROUNDS):
            total, squares = _sums(values, group, n), _sums(values * values, group, n)
            far = 2 * total * total > count * squares
            if not far.any():
                break
            values = values - np.where(far, _shortened(total / count), 0.0)[group]
        total, squares = _sums(values, group, n), _sums(values * values, group, n)
        found = np.asarray((count * squares - total * total) / (count * count), np.float64)
    found[found < 0] = 0.0  # NaN, as with infinite values, stays
    return found


def _shortened(numbers: Floats) -> Floats:
    """Return numbers with their first `BITS` bits."""
    fraction, exponent = np.frexp(numbers)
    found: Floats = np.ldexp(np.rint(np.ldexp(fraction, BITS)), exponent - BITS)
    return found
