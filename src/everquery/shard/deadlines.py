"""Deadlines of keys that indexes watch: the clock they look at, and what they tell of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bools, Bytes, Floats, Int32s, Int64s
from everquery.index.clock import Clock, Due, Passage
from everquery.shard.contents import Contents
from everquery.state.accepted import Accepted
from everquery.state.pairs import end_of_time
from everquery.state.rule_walk import Diverted
from everquery.state.timeline import BEFORE_EVENTS, DUE, DUE_LATER, Timeline


class Reached(NamedTuple):
    """Deadlines that have come, each with the event that it is about.

    Attributes
    ----------
    slot : int64
    key : int32
    code : uint8
        Of all kinds' outcomes.
    time : like time
        The deadline.
    seq, values : those of the key's last event before it; -1 and NaN where there was none
    place : int64
        As in `Diverted`.
    figures : mapping from column to int64 or float64
        As in `Due`.
    """

    slot: Int64s
    key: Int32s
    code: Bytes
    time: Array
    seq: Int64s
    values: Floats
    place: Int64s
    figures: Mapping[str, Array]


def clock_of(contents: Contents) -> Clock:
    """Return how far time has come, and when keys were heard from."""
    keys, admission, rules = contents.keys, contents.admission, contents.hygiene.rules
    n = len(keys)
    never = end_of_time(admission.dtype())
    passed = -never if admission.passed is None else admission.passed
    now = passed if admission.now is None else max(passed, admission.now)
    heard = keys.had_events()
    in_sight = keys.seen[:n] != 0
    return Clock(
        contents.stream.key is not None, keys.last_time[:n], heard, in_sight, passed, now, never,
        rules.after, rules.since,
    )  # fmt: skip


def passage_of(contents: Contents, accepted: Accepted) -> Passage:
    """Return when the events of a step came, and when their keys had been heard from before."""
    assert accepted.before is not None
    return Passage(
        clock_of(contents),
        accepted.events.time[accepted.grouped.position >> 1],
        accepted.before.time,
        accepted.before.seq >= 0,
    )


def about_last_events(due: Due, first_code: int, contents: Contents, place: int) -> Reached:
    """Return deadlines with the last events of their keys."""
    last = contents.admission.last_events(due.key)
    where = np.full(due.slot.size, place, np.int64)
    return _reached(due, first_code, last.seq, last.values, where)


def about_previous_events(
    due: Due, first_code: int, contents: Contents, accepted: Accepted
) -> Reached:
    """Return deadlines that events of a step make known, with their keys' events before those."""
    grouped, before = accepted.grouped, accepted.before
    assert before is not None
    # The event of the deadline's own key that comes next: mostly it is the one that makes it known.
    group = np.minimum(np.searchsorted(grouped.key, due.key), grouped.key.size - 1)
    known = grouped.key[group] == due.key
    width = int(grouped.position.max()) + 1
    sizes = np.diff(grouped.start)
    line = np.repeat(np.arange(sizes.size) * width, sizes) + grouped.position
    own = np.searchsorted(line, group * width + grouped.position[due.place])
    previous = before.take(group)
    here = np.flatnonzero(known & (own > grouped.start[group]))
    row = grouped.position[own[here] - 1] >> 1
    previous.seq[here] = accepted.events.seq[row]
    previous.values[:, here] = accepted.events.values[:, row]
    others = np.flatnonzero(~known)
    last = contents.admission.last_events(due.key[others])
    previous.seq[others], previous.values[:, others] = last.seq, last.values
    # Rules of time follow a key from event to event.
    ruled = contents.hygiene.rules.diverts(due.slot.astype(np.int32))
    end = np.where(known & (own < grouped.start[group + 1]), own, grouped.position.size)
    place = np.where(ruled, end, due.place)
    return _reached(due, first_code, previous.seq, previous.values, place)


def _reached(due: Due, first_code: int, seq: Int64s, values: Floats, place: Int64s) -> Reached:
    code = (due.code + first_code).astype(np.uint8)
    values = np.where(seq < 0, np.nan, values)
    return Reached(due.slot, due.key, code, due.moment, seq, values, place, due.figures)


def staged(reached: Reached, line: Timeline, columns: Iterable[str]) -> Diverted:
    """Return deadlines as notices, each before or after the expiry of its key at the same place.

    `columns` are those that the figures of all kinds have.
    """
    place, time = reached.place, reached.time
    stage = np.full(place.size, DUE_LATER, np.uint8)
    stage[_before_expiry(reached, line)] = DUE
    none = np.zeros(place.size, np.int64)
    figures = [reached.figures.get(name, none).view(np.int64) for name in columns]
    return Diverted(
        reached.slot, reached.key, reached.code, time, reached.seq, reached.values, place, stage,
        np.array(figures, np.int64).reshape(-1, place.size),
    )  # fmt: skip


def _before_expiry(reached: Reached, line: Timeline) -> Bools:
    place, time = reached.place, reached.time
    early = np.zeros(place.size, np.bool_)
    if line.expiry.size:
        at = np.flatnonzero((place > BEFORE_EVENTS) & (place < line.time.size))
        here = place[at]
        early[at] = (line.fresh[here] != 0) & (time[at] <= line.expiry[here])
    if line.silent_key.size:
        at = np.flatnonzero(place == line.time.size)
        found = np.minimum(
            np.searchsorted(line.silent_key, reached.key[at]), line.silent_key.size - 1
        )
        same = line.silent_key[found] == reached.key[at]
        early[at] = same & (time[at] <= line.silent_time[found])
    return early
