"""Which stretch of x a query picks, given its reference, and what it is told of a value."""

from __future__ import annotations

import numpy as np

from everquery.core.jit import callee
from everquery.kinds.told_values import CHANGE, ENTER, LEAVE

# Codes of words, which are their places in the spec's lists, from 1 on.
COUNT, SUM, AVG = 1, 2, 3
LESS, AT_MOST, MORE, AT_LEAST, WITHIN = 1, 2, 3, 4, 5
MIN, MAX, MEAN = 1, 2, 3

NOTHING = -1


@callee
def just_below(value: float) -> float:
    """Return the next smaller float64; NaN, which is below all, for the least."""
    return np.nan if value == -np.inf else float(np.nextafter(value, -np.inf))


@callee
def cuts(compared: int, factor: float, reference: float) -> tuple[float, float]:
    """Return the ends of what is picked: above the first, up to the second; NaN is below all.

    Within a share of an infinite reference is only what is equal to it.
    """
    if compared == WITHIN:
        away = factor * abs(reference)
        if abs(reference) == np.inf:
            return just_below(reference), reference
        if not away < np.inf:
            return np.nan, np.inf
        return just_below(reference - away), reference + away
    limit = factor * reference
    if compared == LESS:
        return np.nan, just_below(limit)
    if compared == AT_MOST:
        return np.nan, limit
    if compared == MORE:
        return limit, np.inf
    return just_below(limit), np.inf


@callee
def ordered(first: float, second: float) -> tuple[float, float]:
    """Return two ends in order, where NaN is below all."""
    if first != first or second != second:
        return np.nan, (second if first != first else first)
    return min(first, second), max(first, second)


@callee
def outcome(value: float, said: float, low: float, high: float, least_move: float) -> int:
    """Return what a query is told of a value, having been told another one before, or `NOTHING`.

    Parameters
    ----------
    low, high : the range of which entries and exits are told; -inf and NaN are no limit
    least_move : how much a value must have moved to be told; more than that
    """
    if low != -np.inf or high == high:
        inside = low <= value and not high <= value
        was_inside = low <= said and not high <= said
        if inside and not was_inside:
            return ENTER
        return LEAVE if was_inside and not inside else NOTHING
    if value == said or (value != value and said != said):
        return NOTHING
    if value != value or said != said or abs(value - said) > least_move:
        return CHANGE
    return NOTHING
