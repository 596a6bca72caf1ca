"""The rules of alerts (ttl, dwell, throttle) applied to a step's notices, and the final order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from everquery.core.arrays import Array, Bools, Bytes, Int32s, Int64s, Uint64s
from everquery.index.flags import DIVERTED, Flags
from everquery.index.sort_keys import pack_ranks
from everquery.shard.deadlines import Reached, staged
from everquery.shard.outcomes import OutcomeTable
from everquery.shard.record import Notices, join_figures
from everquery.state.accepted import Accepted, Events, join_events
from everquery.state.hygiene import Hygiene
from everquery.state.rule_walk import Diverted, Ranks, salt_of_times
from everquery.state.timeline import (
    BEFORE_EVENTS,
    EVENT,
    EXPIRY,
    Timeline,
    place_ends,
)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What a step found, before any rule was applied.

    Attributes
    ----------
    announced, answered, silent : lists of at most one `Notices`
        The announcements before the events, the notices of the events, and those of keys that
        expired at the end of the step.
    accepted : Accepted
    silent_key, silent_time : arrays
        The keys that expired at the end of the step, ascending, and when.
    limit : number or None
        How far time has come: the newest time seen less the grace.
    keys : int
        How many keys there are.
    done : int32
        The slots of queries that end by what they told in this step: once thresholds that fired.
    tells_all_ends : bool
        Whether this shard tells the ends of queries without key, which other shards have too.
    reached : list of Reached
        The deadlines of keys that have come, which are told like those of the rules themselves.
    """

    announced: list[Notices]
    answered: list[Notices]
    silent: list[Notices]
    accepted: Accepted
    silent_key: Int32s
    silent_time: Array
    limit: int | float | None
    keys: int
    done: Int32s
    tells_all_ends: bool = True
    reached: Sequence[Reached] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """The notices of one part of a step, with their places on the timeline and their ranks."""

    notices: Notices
    place: Int64s
    stage: Bytes
    rank: Int64s


def apply_rules(
    step: StepRecord, hygiene: Hygiene, kind: Bytes, flags: Flags, outcomes: OutcomeTable
) -> tuple[list[Notices], Int32s]:
    """Return the notices of a step after the rules were applied, and the queries that ended.

    Parameters
    ----------
    kind, flags : uint8 and uint16, by slot
        The number of a query's kind, and its flags. Queries that may end in this step become
        `DIVERTED`.
    """
    line = _timeline(step, hygiene)
    top = line.limit[0]
    for told in step.announced:  # of events that a flush let out
        top = max(top, told.events.time[told.row].max(initial=top))
    ending = hygiene.rules.ending(top)
    flags[ending] |= DIVERTED
    parts = list(_parts(step, line))
    diverted = [
        (flags[part.notices.slot] & DIVERTED != 0) & ~outcomes.at_once[part.notices.code]
        for part in parts
    ]
    going_in = _diverted(parts, diverted, line, step, outcomes)
    by_code = outcomes.direction, outcomes.throttled, outcomes.skip
    out, ranks = hygiene.run(line, going_in, flags, by_code, top)
    # A query may be done and also reach its ttl in this step. If what it told came before its end,
    # it ends by that, without a notice of its end; otherwise it ends by its ttl.
    done = step.done
    if ending.size:
        told_last = np.isin(done, out.slot)
        done = done[told_last | ~np.isin(done, ending)]
        ending = np.setdiff1d(ending, done)
    ended = done
    if ending.size:
        ends, end_ranks = _ends(ending, outcomes.end[kind[ending]], line, hygiene, step.keys, out)
        by_time = ends.slot.astype(np.int32)
        _let_live(np.setdiff1d(ending, by_time), hygiene, flags)
        ended = np.concatenate([done, by_time])
        telling = np.flatnonzero((ends.key >= 0) | step.tells_all_ends)
        later: Sequence[Array] = ends
        out = Diverted(
            *(np.concatenate([a, b[..., telling]], -1) for a, b in zip(out, later, strict=True))
        )
        ranks = Ranks(
            *(np.concatenate([a, b[telling]]) for a, b in zip(ranks, end_ranks, strict=True))
        )
    if not going_in.slot.size and not out.slot.size:
        return [*step.announced, *step.answered, *step.silent], ended
    return [_merged(parts, diverted, out, ranks, outcomes)], ended


def _timeline(step: StepRecord, hygiene: Hygiene) -> Timeline:
    accepted, grouped = step.accepted, step.accepted.grouped
    row = grouped.position >> 1
    events = accepted.events
    time = events.time[row]
    expiry = np.empty(0, time.dtype)
    if accepted.expired_row.size:
        rows = len(events) - accepted.expired_row.size
        expired = np.zeros(rows, time.dtype)
        expired[accepted.expired_row] = events.time[rows:]
        expiry = expired[row]
    never = hygiene.pairs.never
    limit = np.full(1, -never[0] if step.limit is None else step.limit, time.dtype)
    first = 4 * (step.keys + 1)
    ranks = np.array([hygiene.steps_before, first, first + 4 * len(events)])
    return Timeline(
        grouped.key, grouped.start, row, time, expiry, accepted.fresh, step.silent_key,
        step.silent_time, limit, never, ranks,
    )  # fmt: skip


def _parts(step: StepRecord, line: Timeline) -> Iterator[_Part]:
    """Yield the notices of announcements, events and expiries, with their ranks, ascending."""
    for told in step.announced:
        key = told.events.key[told.row].astype(np.int64)
        place, stage = np.full(len(told), BEFORE_EVENTS), np.full(len(told), EVENT, np.uint8)
        yield _Part(told, place, stage, 4 * key + EVENT)
    for told in step.answered:
        row = told.position >> 1
        stage = np.where(told.position & 1, EVENT, EXPIRY).astype(np.uint8)
        place = np.empty(len(told.events), np.int64)
        place[line.row] = np.arange(line.row.size)
        yield _Part(told, place[row], stage, line.ranks[1] + 4 * row + stage)
    for told in step.silent:
        key = told.events.key[told.row].astype(np.int64)
        place, stage = np.full(len(told), line.time.size), np.full(len(told), EXPIRY, np.uint8)
        yield _Part(told, place, stage, line.ranks[2] + 4 * key + EXPIRY)


def _diverted(
    parts: list[_Part],
    diverted: list[Bools],
    line: Timeline,
    step: StepRecord,
    outcomes: OutcomeTable,
) -> Diverted:
    """Return the notices that are diverted, in order."""
    none = np.empty(0, np.int64)
    found = [
        Diverted(
            none,
            none.astype(np.int32),
            none.astype(np.uint8),
            np.empty(0, line.time.dtype),
            none,
            np.empty((len(step.accepted.events.values), 0)),
            none,
            none.astype(np.uint8),
            np.empty((len(outcomes.columns), 0), np.int64),
        )
    ]
    for part, picked in zip(parts, diverted, strict=True):
        told = part.notices
        row = told.row[picked]
        found.append(
            Diverted(
                told.slot[picked],
                told.events.key[row],
                told.code[picked],
                told.events.time[row],
                told.events.seq[row],
                told.events.values[:, row],
                part.place[picked],
                part.stage[picked],
                _as_bits(told, picked, outcomes),
            )
        )
    if len(found) == 2 and not step.reached:
        return found[1]
    found += [staged(reached, line, outcomes.columns) for reached in step.reached]
    together = Diverted(*(np.concatenate(columns, axis=-1) for columns in zip(*found, strict=True)))
    if not step.reached:
        return together
    order = np.lexsort((together.stage, together.place))  # what a pair tells is told in order
    columns: Sequence[Array] = together
    return Diverted(*(np.ascontiguousarray(column[..., order]) for column in columns))


def _as_bits(told: Notices, picked: Bools, outcomes: OutcomeTable) -> Int64s:
    """Return the figures of all kinds as rows of 64-bit numbers; floats as their bits."""
    bits = np.zeros((len(outcomes.columns), np.count_nonzero(picked)), np.int64)
    for row, name in zip(bits, outcomes.columns, strict=True):
        if name in told.figures:
            row[:] = told.figures[name][picked].view(np.int64)
    return bits


def _of_bits(bits: Int64s, outcomes: OutcomeTable) -> dict[str, Array]:
    """Return the figures that `_as_bits` packed."""
    return {
        name: row.view(column.type.to_pandas_dtype())
        for row, (name, column) in zip(bits, outcomes.columns.items(), strict=True)
    }


def _ends(
    slots: Int32s, codes: Bytes, line: Timeline, hygiene: Hygiene, keys: int, like: Diverted
) -> tuple[Diverted, Ranks]:
    """Return the end notices of those queries that do end in this step.

    Parameters
    ----------
    slots, codes : the queries that may end, and the code of the end notice of each
    keys : int
        How many keys there are.
    like : Diverted
        Says how many attributes and figures the notices have.
    """
    end, home = hygiene.rules.end[slots], hygiene.rules.home[slots]
    n = slots.size
    place, stage, rank = np.empty(n, np.int64), np.empty(n, np.uint8), np.empty(n, np.int64)
    place_ends(line, end, home, keys, place, stage, rank)
    done = np.flatnonzero(place <= line.time.size)
    notices = Diverted(
        slots[done].astype(np.int64),
        home[done],
        codes[done],
        end[done],
        np.full(done.size, -1),
        np.full((len(like.values), done.size), np.nan),
        place[done],
        stage[done],
        np.zeros((len(like.figures), done.size), np.int64),
    )
    return notices, Ranks(rank[done], end[done], np.zeros(done.size, np.int64))


def _let_live(slots: Int32s, hygiene: Hygiene, flags: Flags) -> None:
    """Stop diverting queries that might have ended in this step and did not."""
    if slots.size:
        hygiene.rules.still_living()
        flags[slots[~hygiene.rules.diverts(slots)]] &= ~np.uint16(DIVERTED)


def _merged(
    parts: list[_Part], diverted: list[Bools], out: Diverted, ranks: Ranks, outcomes: OutcomeTable
) -> Notices:
    """Return the notices that were not diverted, and those that the rules let out, in one order."""
    events, slots, codes, packed, figures = [], [], [], [], []
    for part, gone in zip(parts, diverted, strict=True):
        kept = np.flatnonzero(~gone)
        told = part.notices
        events.append(told.events.take(told.row[kept]))
        slots.append(told.slot[kept])
        codes.append(told.code[kept])
        figures.append(({name: each[kept] for name, each in told.figures.items()}, kept.size))
        packed.append(pack_ranks(part.rank[kept], told.slot[kept]))
    straight = sum(slot.size for slot in slots)
    order = np.lexsort((out.slot, ranks.moment, ranks.rank))
    none = np.zeros(order.size, np.int64)
    events.append(
        Events(out.key[order], out.time[order], out.seq[order], out.values[:, order], none, none)
    )
    slots.append(out.slot[order])
    codes.append(out.code[order])
    figures.append((_of_bits(np.ascontiguousarray(out.figures[:, order]), outcomes), order.size))
    rank = ranks.rank[order]
    # Notices at a deadline (even ranks) are in order already. All others are ordered by slot.
    packed.append(pack_ranks(rank, np.where(rank & 1, out.slot[order], 0)))
    merged = np.argsort(np.concatenate(packed), kind="stable")
    held = np.concatenate([np.zeros(straight, np.int64), ranks.held[order]])
    salt = np.concatenate([np.zeros(straight, np.uint64), _salt(out, ranks)[order]])
    return Notices(
        slot=np.concatenate(slots)[merged],
        code=np.concatenate(codes)[merged],
        row=merged,
        events=join_events(events),
        position=np.zeros(merged.size, np.int64),
        figures={name: each[merged] for name, each in join_figures(figures).items()},
        held=held[merged],
        salt=salt[merged],
    )


def _salt(out: Diverted, ranks: Ranks) -> Uint64s:
    """Return what goes into the ids of notices at a deadline: its moment; 0 for other notices."""
    salt = np.zeros(out.slot.size, np.uint64)
    salt_of_times(np.ascontiguousarray(out.time).view(np.uint64), ranks.held, salt)
    salt[out.stage & 1 == 1] = 0  # at an event: the moment is the event's own
    return salt
