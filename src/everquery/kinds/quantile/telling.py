"""Who is told a new value: cells are looked at again when their values may be wrong.

A cell is looked at only after as many rows as its value surely lasts. If the rank is still allowed
then, the value is kept. The paper continuous-quantiles would choose a new value, the one that may
last longest; here a query is told a new value only if it needs one.
"""

from __future__ import annotations

import math

import numpy as np

from everquery.core.arrays import Floats, Int64s
from everquery.core.jit import kernel, part
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.kinds.quantile.rank_answers import (
    NewAnswers,
    Views,
    answer_cell,
    answer_query,
    may_have_left,
)
from everquery.kinds.quantile.rank_cells import NOWHERE, CellTable, Members, ends_of

FEWEST_RANKS = 4.0  # of a cell that one value answers


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
