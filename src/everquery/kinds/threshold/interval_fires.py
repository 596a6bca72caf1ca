"""At which events of a batch rows fire that are known to do so, for intervals of one attribute.

Few rows, or few events, are walked through. Where many rows fire among many events, a search
structure over the events is built first (`first_passage`).
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Int32s, Int64s
from everquery.core.jit import kernel
from everquery.index.weighed import NEVER, note_fire, saturated
from everquery.kinds.threshold.first_passage import first_reaching
from everquery.kinds.threshold.running_sums import ENDS_MASK, ENDS_SHIFT, weight_between
from everquery.kinds.threshold.slack_tree import (
    ENDS,
    LEFT,
    MOST_LEVELS,
    SINCE,
    TOTAL,
    Watched,
    expect_row,
    list_levels,
)


@kernel
def scan_fires(
    lane: int, found: Int64s, size: int, begin: int, end: int, ranks: Int64s, weight: Int64s,
    watched: Watched, levels: Int64s, out: Int64s, n: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Find when rows that are due fire by scanning the events; expect those that repeat again.

    A row's gain may be of earlier batches in part: what it lacked in front of this one is less.

    Parameters
    ----------
    found : int64
        The rows, of which the first `size` count.
    ranks, weight : of the events; those from `begin` to `end` are the lane's
    levels : room
    """
    lanes, rows, _, repeats, nodes, sums = watched
    depth = list_levels(lane, lanes, levels)
    for k in range(size):
        row = found[k]
        first, last = rows[row, ENDS] >> ENDS_SHIFT, rows[row, ENDS] & ENDS_MASK
        here = 0
        for i in range(begin, end):
            here += weight[i] if first <= ranks[i] < last else 0
        seen = weight_between(rows[row, ENDS], lane, lanes, sums)
        rest = rows[row, LEFT] - (seen - rows[row, SINCE] - here)
        for i in range(begin, end):
            if first <= ranks[i] < last:
                rest -= weight[i]
                if rest <= 0:
                    out = note_fire(i, row, saturated(rows[row, TOTAL], rest), out, n)
                    n += 1
                    rest = rows[row, TOTAL]
                    if not repeats[row]:
                        rest = NEVER
                        break
        rows[row, LEFT] = rest
        rows[row, SINCE] = seen
        if rest != NEVER:
            expect_row(row, rest, depth, levels, lane, lanes, nodes, sums)
    return out, n


@kernel
def pass_rows(
    lane: int, found: Int64s, first_event: int, runs: tuple[Int64s, Int64s], ranks: Int64s,
    weight: Int64s, split: tuple[Int32s, Int64s], watched: Watched, out: Int64s, n: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Do what `scan_fires` does, by `first_passage`.

    Parameters
    ----------
    runs : where the events of each row's interval begin and end, among all in order of rank
    split : zeros and weight of `Passages`
    """
    lanes, rows, _, repeats, nodes, sums = watched
    zeros, split_weight = split
    levels = np.empty(MOST_LEVELS, np.int64)
    depth = list_levels(lane, lanes, levels)
    for k in range(found.size):
        row = found[k]
        ends = rows[row, ENDS] >> ENDS_SHIFT, rows[row, ENDS] & ENDS_MASK
        run = runs[0][k], runs[1][k]
        here = split_weight[0, run[1]] - split_weight[0, run[0]]
        seen = weight_between(rows[row, ENDS], lane, lanes, sums)
        rest = rows[row, LEFT] - (seen - rows[row, SINCE] - here)
        total = rows[row, TOTAL]
        spent = 0
        while here - spent >= rest:
            event, until = first_reaching(
                run, ends, spent + rest, zeros, split_weight, ranks, weight, first_event
            )
            rest -= until - spent
            out = note_fire(event, row, saturated(total, rest), out, n)
            n += 1
            spent = until
            if not repeats[row]:
                break
            rest = total
        rows[row, SINCE] = seen
        rows[row, LEFT] = NEVER
        if repeats[row]:
            rows[row, LEFT] = rest - (here - spent)
            expect_row(row, rows[row, LEFT], depth, levels, lane, lanes, nodes, sums)
    return out, n
