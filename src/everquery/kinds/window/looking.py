"""What a window is at a moment: its value, with bounds that hold, and of how many events."""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Floats
from everquery.core.jit import part
from everquery.kinds.window.double_double import NOISE, added, divided, multiplied
from everquery.kinds.window.entries import before, difference, spread_of, sum_of
from everquery.kinds.window.families import (
    COUNT,
    DISTINCT,
    EVENT_SAMPLES,
    L1,
    MEAN,
    SKETCHES,
    SQUARES,
    SUM,
    UNCOUNTED,
    VALUE_SAMPLES,
    VARIANCE,
)
from everquery.kinds.window.norms import norm
from everquery.kinds.window.samples import sampled_distinct, sampled_norm
from everquery.kinds.window.sketches import sketched_norm

# More than what rounding can come to: of a difference, as a share of it, and of the totals whose
# difference it is, for each event in between.
SLACK = 2.0**-48
FAR_SLACK = 2.0**-100


@part
def listed_value(
    statistic: int, layout: int, error: float, total: Floats, start: int, first: int, end: int
) -> tuple[float, float, float, int]:
    """Return a statistic of a lane whose entries are what events brought.

    It is exact, unless only a sample of them or a sketch is left.
    """
    n = end - first
    if layout == VALUE_SAMPLES:
        return sampled_distinct(error, total, start + first, start + end)
    if layout == EVENT_SAMPLES:
        return sampled_norm(error, total, start + first, start + end)
    if layout == SKETCHES:
        return sketched_norm(error, total, start + first, start + end)
    if statistic == DISTINCT:
        return float(n), float(n), float(n), UNCOUNTED
    if statistic > DISTINCT:
        value = norm(1 if statistic == L1 else 2, total, start + first, start + end)
        return value, value, value, n
    value = total[start + first, 0] if n > 0 else np.nan
    return value, value, value, UNCOUNTED


@part
def exact_value(
    statistic: int, total: Floats, rest: Floats, base: Floats, base_rest: Floats, lane: int,
    start: int, first: int, end: int,
) -> tuple[float, int]:  # fmt: skip
    """Return a statistic of the entries of an exact lane from `first` on, and of how many."""
    if first >= end:
        return (0.0 if statistic <= SUM else np.nan), 0
    n = float(end - first)
    if statistic == COUNT:
        return n, end - first
    one, one_low = difference(total, rest, base, base_rest, lane, start, first, end, 1)
    two, two_low = difference(total, rest, base, base_rest, lane, start, first, end, 2)
    if statistic == VARIANCE:
        if n == 1:
            return 0.0, 1
        square, square_low = multiplied(one, one_low, one, one_low)
        most, most_low = multiplied(two, two_low, n, 0.0)
        over, over_low = added(most, most_low, -square, -square_low)
        if over <= NOISE * most:
            return 0.0, end - first
        return divided(over, over_low, n * n), end - first
    whole, whole_low = added(one, one_low, -two, -two_low)
    if statistic == MEAN:
        return divided(whole, whole_low, n), end - first
    return whole + whole_low + 0.0, end - first


@part
def bounded_spread(
    total: Floats, rest: Floats, base: Floats, base_rest: Floats, lane: int, start: int, first: int,
    end: int,
) -> tuple[float, float, float, int]:  # fmt: skip
    """Return the variance of an approximate lane from an entry on, with bounds.

    Of the bucket that ends with that entry, the newest event is in the window; of the others nobody
    knows. Bounds have room for rounding.
    """
    if first >= end:
        return np.nan, np.nan, np.nan, 0
    newest = start + end - 1
    most = total[newest, 0] - before(total, base, lane, start, first, 0)
    least = total[newest, 0] - total[start + first, 0] + 1
    known = first if least == most else first + 1  # the bucket may be one event
    two_high = sum_of(total, rest, base, base_rest, lane, start, first, end, 2)
    # The sum of distances from the shift is at most this, and so is its error a share of it.
    reach = abs(total[newest, 1]) + np.sqrt(most * two_high)
    far = FAR_SLACK * (most + 2) * (total[newest, 2] + 4 * np.sqrt(two_high) * reach)
    high = spread_of(total, rest, base, base_rest, lane, start, first, end)
    low = spread_of(total, rest, base, base_rest, lane, start, known, end)
    slack = SLACK * high + FAR_SLACK * two_high + far
    low, high = max(low - slack, 0.0) / most, (high + slack) / least
    return (low + high) / 2, low, high, int((most + least) / 2)


@part
def value_of(
    statistic: int, layout: int, exact: bool, error: float, total: Floats, rest: Floats,
    base: Floats, base_rest: Floats, lane: int, start: int, first: int, end: int,
) -> tuple[float, float, float, int]:  # fmt: skip
    """Return a statistic of a lane from an entry on, its bounds, and of how many events."""
    if layout > SQUARES:
        return listed_value(statistic, layout, error, total, start, first, end)
    if exact:
        value, n = exact_value(statistic, total, rest, base, base_rest, lane, start, first, end)
        return value, value, value, n
    return bounded_spread(total, rest, base, base_rest, lane, start, first, end)
