"""Which ranks a quantile query allows, and which ranks a value surely has (paper, 3.2 and 3.5).

The rank of the value that was told says how many more rows can come before that value could be
wrong: `rows_until`. The paper is continuous-quantiles.
"""

from __future__ import annotations

import math

from everquery.core.arrays import Floats, Int64s
from everquery.core.jit import part
from everquery.kinds.quantile.gk_merge import first_above
from everquery.kinds.quantile.rank_cells import ends_of

# By how much allowed ranks are narrowed at both ends. The product of a fraction and a count has a
# smaller rounding error than this, so no rank is ever allowed by mistake.
ABSOLUTE_MARGIN = 1e-9
RELATIVE_MARGIN = 1e-12


@part
def margin(n: int) -> float:
    """Return by how much allowed ranks among `n` rows are narrowed at both ends."""
    return ABSOLUTE_MARGIN + RELATIVE_MARGIN * n


@part
def ranks_of_query(phi: float, epsilon: float, n: int) -> tuple[int, int, int]:
    """Return the lowest and the highest rank that a query allows, and the best one.

    The exact quantile has the rank ``phi n``, rounded up; that is the best rank. Allowed are ranks
    within ``epsilon n`` of ``phi n`` and, if there are such ranks, within ``epsilon n`` of the best
    rank too. If no whole number is within ``epsilon n`` of ``phi n``, only the best is allowed.
    """
    target, spread, drawn = phi * n, epsilon * n, margin(n)
    best = min(max(math.ceil(target - drawn), 1), n)
    low = max(math.ceil(target - spread + drawn), 1)
    high = min(math.floor(target + spread - drawn), n)
    if low > high:
        return best, best, best
    strict = math.ceil(best - spread + drawn)
    if low < strict <= high:
        low = strict
    return low, high, min(max(best, low), high)


@part
def ranks_of_cell(code: int, error: float, n: int) -> tuple[float, float]:
    """Return the lowest and the highest rank that all queries of a cell allow."""
    low, high = ends_of(code)
    drawn = margin(n)
    lowest = max((low - error) * n + 1.0 + drawn, 1.0)
    return lowest, min((high + error) * n - drawn, float(n))


@part
def first_not_below(values: Floats, begin: int, end: int, value: float) -> int:
    """Return the index of the first element of a sorted run that is `value` or more."""
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@part
def surely(
    values: Floats, r_minus: Int64s, r_plus: Int64s, begin: int, end: int, value: float, n: int
) -> tuple[int, int, int, int]:
    """Return what a summary knows of the ranks of a value.

    Equal values have consecutive ranks. A value that is not among the rows any more has the rank
    that it would have. Both ends of the equal values are found by a search: a walk from one to the
    other took 80 times as long where all values are equal.

    Returns
    -------
    above : upper bound of the rank of the first equal value
    below : lower bound of the rank of the last equal value
    first, last : lower and upper bound of the ranks of all equal values
    """
    first = first_not_below(values, begin, end, value)
    after = first_above(values, first, end, value)
    if after > first:
        last = after - 1
        return r_plus[first], r_minus[last], r_minus[first], r_plus[last]
    above = r_plus[first] if first < end else n + 1
    below = r_minus[first - 1] + 1 if first > begin else 1
    return above, below, below, above


@part
def rows_until(
    code: int, error: float, n: int, seen: int, window: int, ranks: tuple[int, int]
) -> int:
    """Return the lane's row count at which a value's rank may first be outside the allowed ones.

    Corollary 1 counts on the worst case: all new rows fall on one side of the value. In a full
    window, each row that comes and each that leaves may move its rank by one.

    Parameters
    ----------
    window : int
        The rows of a window, 0 without one.
    ranks : tuple of two int
        Upper bound of the rank of the first equal value, and lower bound of the rank of the last:
        `above` and `below` of `surely`.
    """
    lowest, highest = ranks_of_cell(code, error, n)
    above, below = ranks
    if window and n == window:
        return seen + int(min(below - lowest, highest - above)) + 1
    low, high = ends_of(code)
    rows = 2.0**60
    if low > error:
        rows = min(rows, (below - lowest) / (low - error + RELATIVE_MARGIN))
    if high + error < 1.0:
        rows = min(rows, (highest - above) / (1.0 - high - error + RELATIVE_MARGIN))
    if window:
        rows = min(rows, float(window - n))
    return seen + int(rows) + 1
