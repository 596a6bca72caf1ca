"""At which events of a batch rows fire that are known to do so, for intervals of one attribute.

Few rows, or few events, are walked through. Where many rows fire among many events, a search
structure over the events is built first (`first_passage`).
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Int32s, Int64s
from everquery.core.jit import kernel, part
from everquery.index.weighed import NEVER, note_fire, saturated
from everquery.kinds.threshold.first_passage import first_reaching, weight_until
from everquery.kinds.threshold.slack_tree import MOST_LEVELS, Watched, expect_row, seen_by_row


@part
def walk_events(
    row: int, begin: int, end: int, rest: int, ranks: Int64s, weight: Int64s, rows: Watched,
    out: Int64s, n: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Take a row that lacks `rest` through events in order; write where it fires.

    Sets what it lacks afterwards. Returns `out` or a larger copy, and how many fires it holds.
    """
    first, last = rows.first[row], rows.last[row]
    total = rows.lefts.total[row]
    for i in range(begin, end):
        if first <= ranks[i] < last:
            rest -= weight[i]
            if rest <= 0:
                out = note_fire(i, row, saturated(total, rest), out, n)
                n += 1
                rest = total
                if not rows.lefts.repeats[row]:
                    rest = NEVER
                    break
    rows.lefts.left[row] = rest
    return out, n


@kernel
def scan_fires(
    lane: int, due: Int64s, found: int, begin: int, end: int, ranks: Int64s, weight: Int64s,
    rows: Watched, levels: Int64s, out: Int64s, n: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Find when rows that are due fire by scanning the events; expect those that repeat again.

    A row's gain may be of earlier batches in part: what it lacked in front of this one is less.

    Parameters
    ----------
    ranks, weight : of the events; those from `begin` to `end` are the lane's
    levels : room
    """
    for k in range(found):
        row = due[k]
        first, last = rows.first[row], rows.last[row]
        here = 0
        for i in range(begin, end):
            here += weight[i] if first <= ranks[i] < last else 0
        seen = seen_by_row(row, lane, rows)
        rest = rows.lefts.left[row] - (seen - rows.since[row] - here)
        out, n = walk_events(row, begin, end, rest, ranks, weight, rows, out, n)
        rows.since[row] = seen
        if rows.lefts.left[row] != NEVER:
            expect_row(row, lane, rows, levels)
    return out, n


@kernel
def pass_rows(
    lane: int, due: Int64s, first_event: int, runs: tuple[Int64s, Int64s], zeros: Int32s,
    weight: Int64s, rows: Watched, out: Int64s, n: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Do what `scan_fires` does, by `first_passage`.

    Parameters
    ----------
    runs : where the events of each row's interval begin and end, among all in order of rank
    zeros, weight : of `Passages`
    """
    levels = np.empty(MOST_LEVELS, np.int64)
    left, total, repeats = rows.lefts.left, rows.lefts.total, rows.lefts.repeats
    for k in range(due.size):
        row = due[k]
        begin, end = runs[0][k], runs[1][k]
        here = weight[0, end] - weight[0, begin]
        seen = seen_by_row(row, lane, rows)
        rest = left[row] - (seen - rows.since[row] - here)
        spent = 0
        while here - spent >= rest:
            event = first_reaching(begin, end, spent + rest, zeros, weight)
            until = weight_until(begin, end, event, zeros, weight)
            rest -= until - spent
            out = note_fire(first_event + event, row, saturated(total[row], rest), out, n)
            n += 1
            spent = until
            if not repeats[row]:
                break
            rest = total[row]
        rows.since[row] = seen
        if repeats[row]:
            left[row] = rest - (here - spent)
            expect_row(row, lane, rows, levels)
        else:
            left[row] = NEVER
    return out, n
