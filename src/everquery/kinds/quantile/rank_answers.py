"""Which ranks a quantile query allows, which values surely have such a rank, and what is told.

Sections 3.2 and 3.5 of the paper continuous-quantiles, a batch at a time. The rank of the value
that was told says how many more rows can come before that value could be wrong. A cell is looked
at again only after that many rows. If the rank is still allowed then, the value is kept. The paper
would choose a new value, the one that may last longest; here a query is told a new value only if
it needs one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Floats, Int32s, Int64s
from everquery.core.jit import kernel, part
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.kinds.quantile.gk_merge import first_above, nearest
from everquery.kinds.quantile.rank_cells import NOWHERE, CellTable, Members, ends_of

FEWEST_RANKS = 4.0  # of a cell that one value answers

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


# -- what is told ---------------------------------------------------------------------------------


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


@part
def tell(
    members: Members,
    m: int,
    place: int,
    value: float,
    ranks: tuple[int, int],
    out: NewAnswers,
    k: int,
) -> None:
    """Tell a member a value: write it as answer number `k`."""
    out.slot[k] = members.slot[m]
    out.place[k] = place
    out.member[k] = m
    out.value[k] = value
    out.low[k] = ranks[0]
    out.high[k] = ranks[1]
    members.told[m] = value


@part
def tell_each(
    found: CellTable, cell: int, views: Views, i: int, queries: tuple[Floats, Floats],
    flags: Flags, error: float, out: NewAnswers, k: int,
) -> int:  # fmt: skip
    """Answer each query of a cell by itself; return the new number of answers."""
    phi, epsilon = queries
    members = found.members
    m = found.cells.first[cell]
    while m != NOWHERE:
        q = members.slot[m]
        if flags[q] & LIVE_MASK == LIVE:
            kept, value, low, high = answer_query(
                views, i, phi[q], max(epsilon[q], 2 * error), members.told[m]
            )
            if not kept and value != members.told[m]:
                tell(members, m, i, value, (low, high), out, k)
                k += 1
        m = members.after[m]
    return k


@part
def tell_all(
    found: CellTable,
    cell: int,
    i: int,
    flags: Flags,
    ranks: tuple[int, int],
    out: NewAnswers,
    k: int,
) -> int:
    """Tell a cell's new value to all of its queries that were not told it already.

    Return the new number of answers.
    """
    members = found.members
    value = found.cells.value[cell]
    m = found.cells.first[cell]
    while m != NOWHERE:
        q = members.slot[m]
        if members.told[m] != value and flags[q] & LIVE_MASK == LIVE:
            tell(members, m, i, value, ranks, out, k)
            k += 1
        m = members.after[m]
    return k


@part
def tell_others(
    found: CellTable, cell: int, views: Views, i: int, flags: Flags, error: float, window: int,
    ranks: tuple[int, int], out: NewAnswers, k: int,
) -> int:  # fmt: skip
    """Answer the queries of a cell that were not told its value; the cell keeps that value.

    A query that was told another value keeps that one as long as its rank is allowed. The others
    are told the cell's value or, if that may have left the window, the nearest value that is in it.
    So no query is told a value that is not there, and a query that joins the cell changes nothing
    for those that were told its value before. The cell is looked at again as soon as one of these
    values may be wrong. Return the new number of answers.
    """
    cells, members = found.cells, found.members
    code, value = cells.code[cell], cells.value[cell]
    offer, first, last, offer_due = value, ranks[0], ranks[1], cells.due[cell]
    if may_have_left(views, i, window, value):
        _, offer, first, last, offer_due = answer_cell(views, i, code, error, window, np.nan)
    apart = 0
    # Queries that joined together were told the same value, so the last one is remembered.
    other, does, other_due = np.nan, False, offer_due
    m = cells.first[cell]
    while m != NOWHERE:
        told = members.told[m]
        if told != value and flags[members.slot[m]] & LIVE_MASK == LIVE:
            if not math.isnan(told) and told != other:
                answered, other, _, _, other_due = answer_cell(views, i, code, error, window, told)
                does, other = answered and other == told, told
            if does and told == other:
                cells.due[cell] = min(cells.due[cell], other_due)
                apart = 1
            else:
                tell(members, m, i, offer, (first, last), out, k)
                k += 1
                cells.due[cell] = min(cells.due[cell], offer_due)
                apart = 1 if offer != value else apart
        m = members.after[m]
    cells.apart[cell] = apart
    return k


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


@kernel
def look_at_lanes(
    found: CellTable, views: Views, queries: tuple[Floats, Floats], flags: Flags, error: float,
    window: int, out: NewAnswers, looks: Int64s,
) -> int:  # fmt: skip
    """Answer all queries of some lanes whose answers may have become wrong.

    Parameters
    ----------
    queries : phi and epsilon by slot
    error : the largest rank error of the summaries, as a share of the rows
    window : int
        The rows of a window, 0 without one.
    out : room for all members of the lanes
    looks : int64, shape (1,)
        Counts how often a cell was looked at.

    Returns
    -------
    how many answers there are
    """
    cells = found.cells
    k = 0
    for i in range(views.lane.size):
        lane = views.lane[i]
        n, seen = views.n[i], views.seen[i]
        next_due = np.int64(1) << 62
        cell = found.lanes.first[lane]
        while cell != NOWHERE:
            if cells.members[cell] and (cells.due[cell] <= seen or cells.fresh[cell]):
                looks[0] += 1
                before = cells.value[cell]
                low, high = ends_of(cells.code[cell])
                answered, value, first, last, due = False, np.nan, 0, 0, 0
                if error * n >= 1.0 and (high - low) * n >= FEWEST_RANKS:
                    answered, value, first, last, due = answer_cell(
                        views, i, cells.code[cell], error, window, before
                    )
                if answered:
                    cells.value[cell] = value
                    cells.due[cell] = due
                    if value != before:
                        k = tell_all(found, cell, i, flags, (first, last), out, k)
                        cells.apart[cell] = 0
                    elif cells.fresh[cell] or cells.apart[cell]:
                        k = tell_others(
                            found, cell, views, i, flags, error, window, (first, last), out, k
                        )
                else:
                    cells.value[cell] = np.nan
                    cells.due[cell] = seen + 1
                    k = tell_each(found, cell, views, i, queries, flags, error, out, k)
                cells.fresh[cell] = 0
            if cells.members[cell]:
                next_due = min(next_due, cells.due[cell])
            cell = cells.after[cell]
        found.lanes.due[lane] = next_due
    return k
