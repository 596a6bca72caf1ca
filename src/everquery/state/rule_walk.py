"""Loops that take notices through the rules of alerts: dwell, throttle, and the ends of queries.

When a deadline is reached (`everquery.state.timeline`) does not depend on where a batch ends. The
pairs of a query with its keys do not know of each other: each notice is taken through the state of
its own pair, and what comes out is put into one order afterwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bytes, Floats, Int32s, Int64s, Uint64s
from everquery.core.jit import kernel, part
from everquery.core.mixing import scramble
from everquery.index.flags import Flags
from everquery.state.pairs import (
    CANCELLED,
    FREE,
    HELD_BACK,
    KEY_SHIFT,
    NOTHING,
    SLOT_MASK,
    TOLD,
    USED,
    Entries,
    add_pair,
    find_pair,
    remove_pair,
)
from everquery.state.timeline import (
    EVENT,
    Timeline,
    group_of,
    place_reached,
    rank_of,
    stage_reached,
)

# What an outcome does to a key.
OTHER, ENTERS, LEAVES = range(3)


class Spans(NamedTuple):
    """Spans and flags of queries, by slot (see `everquery.state.rules`); outcomes, by code."""

    flags: Flags
    dwell: Array
    throttle: Array
    end: Array
    direction: Bytes
    throttled: Bytes
    skip: Flags


class Diverted(NamedTuple):
    """Notices on their way into or out of the rules, each with the event that it is about.

    Attributes
    ----------
    slot : int64
    key : int32
    code : uint8
    time : like time
    seq : int64
    values : float64, shape (attributes, n)
    place : int64
        The event's index in the timeline; `BEFORE_EVENTS` for an announcement; the number of events
        for the end of the step.
    stage : uint8
    figures : int64, shape (columns, n)
        The figures of all kinds; floats as their bits.
    """

    slot: Int64s
    key: Int32s
    code: Bytes
    time: Array
    seq: Int64s
    values: Floats
    place: Int64s
    stage: Bytes
    figures: Int64s

    def first(self, n: int) -> Diverted:
        """Return the first `n`."""
        columns: Any = (column[..., :n] for column in self)
        return Diverted(*columns)


class Ranks(NamedTuple):
    """The order of notices that came out of the rules, and how many notices each sums up.

    Attributes
    ----------
    rank : int64
        Their order in the step: announcements by key, then events, then keys at the end of the
        step; within each, its stages.
    moment : like time
        Orders deadlines of the same rank; 0 for other notices, which are ordered by slot alone.
    held : int64
        How many notices this one sums up, or 0.
    """

    rank: Int64s
    moment: Array
    held: Int64s


@part
def later(time: Any, span: Any, never: Any) -> Any:  # noqa: ANN401 - numbers of either type
    """Return a time this much later; never, if 64 bits can't hold it."""
    return time + span if time <= never - span else never


@part
def draft(
    slot: int, key: int, code: int, time: Any, seq: int, values: Floats, figures: Int64s,  # noqa: ANN401
    column: int, place: int, stage: int, line: Timeline, out: Diverted, told: Ranks, n: int,
) -> None:  # fmt: skip
    """Write a notice behind those that are told; it is told if their number grows.

    Callers pass 64-bit numbers throughout, for Numba compiles this anew for each other type.
    """
    out.slot[n] = slot
    out.key[n] = key
    out.code[n] = code
    out.time[n] = time
    out.seq[n] = seq
    out.place[n] = place
    out.stage[n] = stage
    for a in range(values.shape[0]):
        out.values[a, n] = values[a, column]
    for f in range(figures.shape[0]):
        out.figures[f, n] = figures[f, column]
    told.held[n] = 0
    told.rank[n] = rank_of(line, place, stage, key)
    told.moment[n] = time if stage & 1 == 0 else 0  # at a deadline


@part
def tell_or_hold(
    entry: int, opened_at: int, spans: Spans, line: Timeline, entries: Entries, out: Diverted,
    counts: Int64s,
) -> None:  # fmt: skip
    """Tell the notice that is drafted, unless its query skips it or its window is open."""
    n = counts[TOLD]
    slot = out.slot[n]
    if spans.flags[slot] & spans.skip[out.code[n]] != 0:
        return
    if slot >= spans.throttle.size or spans.throttle[slot] == 0:
        counts[TOLD] += 1
    elif entries.open[entry] == 0:
        entries.open[entry] = 1
        entries.held[entry] = 0
        entries.closes[entry] = later(out.time[n], spans.throttle[slot], line.never[0])
        entries.opened_at[entry] = opened_at
        counts[TOLD] += 1
    else:
        entries.held[entry] += 1
        entries.last[entry] = out.code[n]
        entries.last_seq[entry] = out.seq[n]
        for a in range(out.values.shape[0]):
            entries.last_values[a, entry] = out.values[a, n]
        for f in range(out.figures.shape[0]):
            entries.last_figures[f, entry] = out.figures[f, n]
        counts[HELD_BACK] += 1


@part
def set_soonest(entry: int, line: Timeline, entries: Entries) -> None:
    """Note the earlier of an entry's deadlines."""
    soonest = line.never[0]
    if entries.crossing[entry] != NOTHING:
        soonest = min(soonest, entries.deadline[entry])
    if entries.open[entry] != 0:
        soonest = min(soonest, entries.closes[entry])
    entries.soonest[entry] = soonest


@part
def catch_up(
    entry: int, place: int, stage: int, until: Any, spans: Spans, line: Timeline,  # noqa: ANN401
    entries: Entries, out: Diverted, told: Ranks, counts: Int64s,
) -> None:  # fmt: skip
    """Let everything happen that is due of an entry up to a place and stage, and up to a time."""
    key = entries.pair[entry] >> KEY_SHIFT
    slot = entries.pair[entry] & SLOT_MASK
    begin, end = group_of(line, key)
    life = spans.end[slot] if slot < spans.end.size else line.never[0]
    while entries.soonest[entry] < life and entries.soonest[entry] <= until:
        due = entries.soonest[entry]
        # At one time, a window ends before a crossing counts: the next window has it then.
        closing = entries.open[entry] != 0 and entries.closes[entry] == due
        since = entries.opened_at[entry] if closing else entries.crossed_at[entry]
        at = place_reached(line, due, since - line.ranks[0], begin, end)
        if at > place:
            break
        here = stage_reached(line, at, key, due)
        if at == place and here > stage:
            break
        n = counts[TOLD]
        if not closing:
            draft(
                slot, key, entries.crossing[entry], due, entries.crossing_seq[entry],
                entries.crossing_values, entries.crossing_figures, entry, at, here, line, out,
                told, n,
            )  # fmt: skip
            entries.crossing[entry] = NOTHING
            tell_or_hold(entry, line.ranks[0] + at, spans, line, entries, out, counts)
        elif entries.held[entry] > 0:
            draft(
                slot, key, int(np.int64(spans.throttled[entries.last[entry]])), due,
                entries.last_seq[entry], entries.last_values, entries.last_figures, entry, at,
                here, line, out, told, n,
            )  # fmt: skip
            told.held[n] = entries.held[entry]
            counts[TOLD] += 1
            entries.held[entry] = 0
            entries.closes[entry] = later(due, spans.throttle[slot], line.never[0])
            entries.opened_at[entry] = line.ranks[0] + at
        else:
            entries.open[entry] = 0
        set_soonest(entry, line, entries)


@part
def cross(
    entry: int, i: int, crossed_at: int, spans: Spans, line: Timeline, notices: Diverted,
    entries: Entries, counts: Int64s,
) -> None:  # fmt: skip
    """Let a crossing wait, or undo the one that waits."""
    direction = spans.direction[notices.code[i]]
    waiting = entries.crossing[entry]
    if waiting != NOTHING and spans.direction[waiting] != direction:
        entries.crossing[entry] = NOTHING
        counts[CANCELLED] += 2
        return
    entries.crossing[entry] = notices.code[i]
    entries.deadline[entry] = later(notices.time[i], spans.dwell[notices.slot[i]], line.never[0])
    entries.crossing_seq[entry] = notices.seq[i]
    entries.crossed_at[entry] = crossed_at
    for a in range(notices.values.shape[0]):
        entries.crossing_values[a, entry] = notices.values[a, i]
    for f in range(notices.figures.shape[0]):
        entries.crossing_figures[f, entry] = notices.figures[f, i]


@kernel
def tidy(
    line: Timeline, spans: Spans, notices: Diverted, top: Array, entries: Entries, table: Int32s,
    free: Int32s, counts: Int64s, out: Diverted, told: Ranks,
) -> None:  # fmt: skip
    """Take notices, in order, through the state of their pairs; then what the step's end makes due.

    Cost: a search of the pair and of its key a notice, and of a place a deadline that is reached;
    one comparison an entry.

    Parameters
    ----------
    top : like time, shape (1,)
        No deadline beyond it can be reached in this step.
    entries, table, free, counts : see `PairTable`; there is room for all pairs of the notices
    out, told : what is told, as many as ``counts[TOLD]``; there is room for one more than can be
    """
    counts[TOLD] = 0
    size = notices.slot.size
    i = int(counts[TOLD])
    # Diverted first, then entries; in one loop, so that what both do is compiled once.
    while i < size + counts[USED]:
        place = int(line.time.size)
        stage = int(np.int64(EVENT))  # a variable: for a literal, callees are compiled anew
        slot = int(np.int64(0))
        dwells = False
        known = False
        until = line.never[0]
        entry = i - size
        if i < size:
            slot = int(notices.slot[i])
            place = int(notices.place[i])
            stage = int(np.int64(notices.stage[i]))
            if stage & 1 == 0:  # at a deadline, which others at the same place may come after
                until = notices.time[i]
            if slot < spans.end.size and spans.end[slot] <= notices.time[i]:
                i += 1
                continue
            dwells = slot < spans.dwell.size and spans.dwell[slot] > 0
            entry = int(np.int64(-1))
            if dwells or (slot < spans.throttle.size and spans.throttle[slot] > 0):
                pair = int(np.int64(notices.key[i])) << KEY_SHIFT | slot
                at = find_pair(pair, table, entries.pair)
                known = table[at] != FREE
                if known:
                    entry = int(np.int64(table[at]))
                else:
                    entry = add_pair(pair, at, table, free, counts, entries.pair)
                    entries.crossing[entry] = NOTHING
                    entries.open[entry] = 0
        elif entries.soonest[entry] > top[0]:
            i += 1
            continue
        if i >= size or known:
            catch_up(entry, place, stage, until, spans, line, entries, out, told, counts)
        if i < size:
            # An expiry comes before the event that makes it known, so that one may be due there.
            since = line.ranks[0] + place + (1 if stage == EVENT else 0)
            if dwells:
                cross(entry, i, since, spans, line, notices, entries, counts)
            else:
                key, code = int(np.int64(notices.key[i])), int(np.int64(notices.code[i]))
                draft(
                    slot, key, code, notices.time[i], notices.seq[i], notices.values,
                    notices.figures, i, place, stage, line, out, told, counts[TOLD],
                )  # fmt: skip
                tell_or_hold(entry, since, spans, line, entries, out, counts)
            if entry >= 0:
                set_soonest(entry, line, entries)
        if entry >= 0 and entries.crossing[entry] == NOTHING and entries.open[entry] == 0:
            entries.soonest[entry] = line.never[0]
            if entries.pair[entry] != FREE:
                remove_pair(entry, table, free, counts, entries.pair)
        i += 1


@kernel
def salt_of_times(times: Uint64s, held: Int64s, out: Uint64s) -> None:
    """Write what the moment of a notice, and how many it sums up, add to its id."""
    for i in range(times.size):
        out[i] = scramble(times[i] ^ scramble(np.uint64(held[i] + 1)))
