"""The answer that a summary gives to a query, or to all queries of a cell (paper, 3.2 and 3.5).

A value that was told is kept as long as its rank is allowed; otherwise the answer is the value
whose rank is nearest to the best one. The paper is continuous-quantiles.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Floats, Int32s, Int64s
from everquery.core.jit import kernel, part
from everquery.kinds.quantile.allowed_ranks import (
    first_not_below,
    ranks_of_cell,
    ranks_of_query,
    rows_until,
    surely,
)
from everquery.kinds.quantile.gk_merge import nearest
from everquery.kinds.quantile.rank_cells import NOWHERE, ends_of


class Views(NamedTuple):
    """The summaries of some lanes.

    Attributes
    ----------
    lane : int32, shape (k,)
    n, seen : int64, shape (k,)
        How many rows each summary stands for, and how many rows have ever come.
    begin, end : int64, shape (k,)
    values, r_minus, r_plus : tuples of all lanes
    """

    lane: Int32s
    n: Int64s
    seen: Int64s
    begin: Int64s
    end: Int64s
    values: Floats
    r_minus: Int64s
    r_plus: Int64s


class NewAnswers(NamedTuple):
    """What queries are told.

    Attributes
    ----------
    slot, place, member : int32
        The query, the index of the view that answers it, and the member of its cell.
    value : float64
    low, high : int64
        Lower and upper bound of the value's rank.
    """

    slot: Int32s
    place: Int32s
    member: Int32s
    value: Floats
    low: Int64s
    high: Int64s

    @classmethod
    def room(cls, n: int) -> NewAnswers:
        """Return room for `n` answers, not yet filled."""
        slot, place, member = np.empty((3, n), np.int32)
        low, high = np.empty((2, n), np.int64)
        return cls(slot, place, member, np.empty(n), low, high)

    def take(self, picked: Int64s | slice) -> NewAnswers:
        """Return the picked answers."""
        columns: tuple[Array, ...] = self
        return NewAnswers(*(column[picked] for column in columns))


@part
def answer_query(
    views: Views, i: int, phi: float, epsilon: float, told: float
) -> tuple[bool, float, int, int]:
    """Return whether a query keeps its value, its value now, and the bounds of that value's rank.

    The value that it was told is kept as long as its rank is allowed; `told` is NaN if there is
    none yet.
    """
    n = int(views.n[i])
    begin, end = views.begin[i], views.end[i]
    low, high, best = ranks_of_query(phi, epsilon, n)
    if not math.isnan(told):
        above, below, first, last = surely(
            views.values, views.r_minus, views.r_plus, begin, end, told, n
        )
        if above <= high and below >= low:
            return True, told, max(first, low), min(last, high)
    at = nearest(views.r_minus, views.r_plus, begin, end, float(best))
    return False, views.values[at], views.r_minus[at], views.r_plus[at]


@kernel
def answer_one(
    views: Views, phi: float, epsilon: float, told: float
) -> tuple[float, int, int]:  # fmt: skip
    """Return the answer to a query by the first view, and the lower and upper bound of its rank."""
    _, value, low, high = answer_query(views, 0, phi, epsilon, told)
    return value, low, high


@part
def answer_cell(
    views: Views, i: int, code: int, error: float, window: int, value: float
) -> tuple[bool, float, int, int, int]:
    """Return the value of a cell: the present one if its rank is allowed, else the best one.

    Parameters
    ----------
    value : float
        The present value, NaN if there is none.

    Returns
    -------
    answered : whether there is a value that all queries of the cell allow
    value
    low, high : lower and upper bound of its rank
    due : the lane's row count at which it may be wrong
    """
    n = int(views.n[i])
    begin, end = views.begin[i], views.end[i]
    lowest, highest = ranks_of_cell(code, error, n)
    for attempt in range(2):
        if attempt or math.isnan(value):
            low, high = ends_of(code)
            at = nearest(views.r_minus, views.r_plus, begin, end, (low + high) / 2 * n + 0.5)
            value = views.values[at]
        above, below, first, last = surely(
            views.values, views.r_minus, views.r_plus, begin, end, value, n
        )
        if above <= highest and below >= lowest:
            due = rows_until(code, error, n, int(views.seen[i]), window, (above, below))
            low_rank = max(first, math.ceil(lowest))
            return True, value, low_rank, min(last, math.floor(highest)), due
    return False, value, 0, 0, 0


@part
def may_have_left(views: Views, i: int, window: int, value: float) -> bool:
    """Return whether a value that was told earlier may have left the window.

    All tuples of a window's summary are rows of the window. A value that is no tuple may still be
    a row.
    """
    if views.n[i] < window or window == 0:
        return False
    at = first_not_below(views.values, views.begin[i], views.end[i], value)
    return bool(at == views.end[i] or views.values[at] != value)


@kernel
def order_by_slot(slot: Int32s, slots: int, order: Int64s) -> None:
    """Write the order of answers by ascending slot; no query has two."""
    place = np.full(slots, NOWHERE, np.int64)
    for k in range(slot.size):
        place[slot[k]] = k
    n = 0
    for q in range(slots):
        if place[q] != NOWHERE:
            order[n] = place[q]
            n += 1


@kernel
def write_figures(
    told: NewAnswers, order: Int64s, n: Int64s, epsilon: Floats, finest: float,
    value: Floats, rank_low: Int64s, rank_high: Int64s, rows: Int64s, kept_epsilon: Floats,
) -> None:  # fmt: skip
    """Write the figures of notices, one notice for each answer, in the given order."""
    for i in range(order.size):
        k = order[i]
        value[i] = told.value[k]
        rank_low[i] = told.low[k]
        rank_high[i] = told.high[k]
        rows[i] = n[told.place[k]]
        kept_epsilon[i] = max(epsilon[told.slot[k]], finest)
