"""A step's notices through the rules of their queries, and back into one order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from everquery.core.arrays import Array, Bools, Bytes, Int32s, Int64s, Uint64s
from everquery.index.flags import DIVERTED
from everquery.index.rows import ANSWER
from everquery.shard.notices import Ordered, OutcomeTable, Told, answers_of, totals_of
from everquery.state.accepted import Accepted, Events, join_events
from everquery.state.hygiene import Hygiene, Notices, Ranks, salt_of_times
from everquery.state.timeline import (
    BEFORE_EVENTS,
    EVENT,
    EXPIRY,
    Timeline,
    place_ends,
)

_SLOT_BITS = 31
_SLOT_MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What a step found.

    Attributes
    ----------
    announced, answered, silent : lists of at most one `Told`
        What changes before the events, the events themselves, and expiries at the end mean.
    accepted : Accepted
    silent_key, silent_time : the keys that expired at the end, ascending, and when
    limit : number or None
        How far time has come: the newest time seen less the grace.
    keys : int
        How many keys there are.
    done : int32
        The queries that end with what they told of this step.
    tells_all_ends : bool
        Whether the ends of queries for all keys are told here.
    """

    announced: list[Told]
    answered: list[Told]
    silent: list[Told]
    accepted: Accepted
    silent_key: Int32s
    silent_time: Array
    limit: int | float | None
    keys: int
    done: Int32s
    tells_all_ends: bool = True


@dataclass(frozen=True, slots=True)
class _Part:
    """Notices of one part of a step, with their place in it."""

    told: Told
    slot: Int64s
    place: Int64s
    stage: Bytes
    rank: Int64s


def tidied(
    step: StepRecord, hygiene: Hygiene, kind: Bytes, flags: Bytes, outcomes: OutcomeTable
) -> tuple[list[Told], Int32s]:
    """Return what is told of a step after all, and which queries have ended.

    Parameters
    ----------
    kind, flags : uint8, by slot
    """
    line = _timeline(step, hygiene)
    top = line.limit[0]
    for told in step.announced:  # of events that a flush let out
        top = max(top, told.events.time[told.row].max(initial=top))
    ending = hygiene.rules.ending(top)
    flags[ending] |= DIVERTED
    parts = list(_parts(step, line))
    diverted = [flags[part.slot] & DIVERTED != 0 for part in parts]
    notices = _notices(parts, diverted, line, step)
    out, ranks = hygiene.run(line, notices, flags, (outcomes.direction, outcomes.throttled), top)
    # One that told its last before its time was up ends by that, and another by time alone.
    done = step.done
    if ending.size:
        told_last = np.isin(done, out.slot)
        done = done[told_last | ~np.isin(done, ending)]
        ending = np.setdiff1d(ending, done)
    ended = done
    if ending.size:
        codes = outcomes.end[kind[ending]]
        ends, end_ranks = _ends(ending, codes, line, hygiene, step.keys, len(out.values))
        by_time = ends.slot.astype(np.int32)
        _let_live(np.setdiff1d(ending, by_time), hygiene, flags)
        ended = np.concatenate([done, by_time])
        telling = np.flatnonzero((ends.key >= 0) | step.tells_all_ends)
        later: Sequence[Array] = ends
        out = Notices(
            *(np.concatenate([a, b[..., telling]], -1) for a, b in zip(out, later, strict=True))
        )
        ranks = Ranks(
            *(np.concatenate([a, b[telling]]) for a, b in zip(ranks, end_ranks, strict=True))
        )
    if not notices.slot.size and not out.slot.size:
        return [*step.announced, *step.answered, *step.silent], ended
    return [_merged(parts, diverted, out, ranks)], ended


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
    """Yield each part's notices with their ranks, in ascending order."""
    for told in step.announced:
        slot = told.ordered.keys & _SLOT_MASK
        key = told.events.key[told.row].astype(np.int64)
        place, stage = np.full(slot.size, BEFORE_EVENTS), np.full(slot.size, EVENT, np.uint8)
        yield _Part(told, slot, place, stage, 4 * key + EVENT)
    for told in step.answered:
        position = told.ordered.keys >> 32
        row = position >> 1
        stage = np.where(position & 1, EVENT, EXPIRY).astype(np.uint8)
        place = np.empty(len(told.events), np.int64)
        place[line.row] = np.arange(line.row.size)
        rank = line.ranks[1] + 4 * row + stage
        yield _Part(told, told.ordered.keys & _SLOT_MASK, place[row], stage, rank)
    for told in step.silent:
        slot = told.ordered.keys & _SLOT_MASK
        key = told.events.key[told.row].astype(np.int64)
        place, stage = np.full(slot.size, line.time.size), np.full(slot.size, EXPIRY, np.uint8)
        yield _Part(told, slot, place, stage, line.ranks[2] + 4 * key + EXPIRY)


def _notices(
    parts: list[_Part], diverted: list[Bools], line: Timeline, step: StepRecord
) -> Notices:
    """Return the diverted notices, in order; their values are followed by their answers."""
    found = []
    for part, picked in zip(parts, diverted, strict=True):
        row = part.told.row[picked]
        events = part.told.events
        found.append(
            Notices(
                part.slot[picked],
                events.key[row],
                part.told.ordered.codes[picked],
                events.time[row],
                events.seq[row],
                np.concatenate([events.values[:, row], answers_of(part.told)[:, picked]]),
                part.place[picked],
                part.stage[picked],
                totals_of(part.told)[picked],
            )
        )
    if len(found) == 1:
        return found[0]
    none = np.empty(0, np.int64)
    bytes_ = np.empty(0, np.uint8)
    values = np.empty((len(step.accepted.events.values) + len(ANSWER), 0))
    time = np.empty(0, line.time.dtype)
    found.append(
        Notices(none, none.astype(np.int32), bytes_, time, none, values, none, bytes_, none)
    )
    return Notices(*(np.concatenate(columns, axis=-1) for columns in zip(*found, strict=True)))


def _ends(
    slots: Int32s, codes: Bytes, line: Timeline, hygiene: Hygiene, keys: int, attributes: int
) -> tuple[Notices, Ranks]:
    """Return the notices of queries that end, of those that may."""
    end, home = hygiene.rules.end[slots], hygiene.rules.home[slots]
    n = slots.size
    place, stage, rank = np.empty(n, np.int64), np.empty(n, np.uint8), np.empty(n, np.int64)
    place_ends(line, end, home, keys, place, stage, rank)
    done = np.flatnonzero(place <= line.time.size)
    notices = Notices(
        slots[done].astype(np.int64),
        home[done],
        codes[done],
        end[done],
        np.full(done.size, -1),
        np.full((attributes, done.size), np.nan),
        place[done],
        stage[done],
        np.zeros(done.size, np.int64),
    )
    return notices, Ranks(rank[done], end[done], np.zeros(done.size, np.int64))


def _let_live(slots: Int32s, hygiene: Hygiene, flags: Bytes) -> None:
    """Take back what was prepared for queries that might have ended and did not."""
    if slots.size:
        hygiene.rules.still_living()
        flags[slots[~hygiene.rules.diverts(slots)]] &= ~np.uint8(DIVERTED)


def _merged(parts: list[_Part], diverted: list[Bools], out: Notices, ranks: Ranks) -> Told:
    """Return the notices that went no detour and those that did, in one order."""
    events, slots, codes, keys, totals, answers = [], [], [], [], [], []
    for part, gone in zip(parts, diverted, strict=True):
        kept = np.flatnonzero(~gone)
        events.append(part.told.events.take(part.told.row[kept]))
        slots.append(part.slot[kept])
        codes.append(part.told.ordered.codes[kept])
        totals.append(totals_of(part.told)[kept])
        answers.append(answers_of(part.told)[:, kept])
        keys.append(part.rank[kept] << _SLOT_BITS | part.slot[kept])
    plain = sum(slot.size for slot in slots)
    order = np.lexsort((out.slot, ranks.moment, ranks.rank))
    n = order.size
    none = np.zeros(n, np.int64)
    values = out.values[:, order]
    events.append(
        Events(out.key[order], out.time[order], out.seq[order], values[: -len(ANSWER)], none, none)
    )
    answers.append(values[-len(ANSWER) :])
    slots.append(out.slot[order])
    totals.append(out.total[order])
    codes.append(out.code[order])
    rank = ranks.rank[order]
    # Deadlines of one rank are in order already; others go among the rest by their slots.
    keys.append(rank << _SLOT_BITS | np.where(rank & 1, out.slot[order], 0))
    merged = np.argsort(np.concatenate(keys), kind="stable")
    held = np.concatenate([np.zeros(plain, np.int64), ranks.held[order]])
    salt = np.concatenate([np.zeros(plain, np.uint64), _salt(out, ranks)[order]])
    ordered = Ordered(np.concatenate(slots)[merged], np.concatenate(codes)[merged])
    total = np.concatenate(totals)[merged] if any(each.any() for each in totals) else None
    told = np.concatenate(answers, axis=1)[:, merged]
    some = None if np.isnan(told).all() else told
    return Told(ordered, merged, join_events(events), held[merged], salt[merged], total, some)


def _salt(out: Notices, ranks: Ranks) -> Uint64s:
    """Return what the moments of notices that are due then add to their ids."""
    salt = np.zeros(out.slot.size, np.uint64)
    salt_of_times(np.ascontiguousarray(out.time).view(np.uint64), ranks.held, salt)
    salt[out.stage & 1 == 1] = 0  # at an event: the moment is the event's own
    return salt
