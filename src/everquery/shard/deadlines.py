"""Deadlines of keys that indexes watch: the clock they look at, and what they tell of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bools, Bytes, Floats, Int32s, Int64s
from everquery.index.clock import Clock, Due, Passage
from everquery.shard.contents import Contents
from everquery.state.accepted import Accepted, Events
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
    """

    slot: Int64s
    key: Int32s
    code: Bytes
    time: Array
    seq: Int64s
    values: Floats
    place: Int64s


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
    return _reached(due, first_code, last, np.full(due.slot.size, place, np.int64))


def about_previous_events(due: Due, first_code: int, accepted: Accepted) -> Reached:
    """Return deadlines that events of a step make known, with the events before those."""
    grouped, before = accepted.grouped, accepted.before
    assert before is not None
    group = np.searchsorted(grouped.start, due.place, "right") - 1
    previous = before.take(group)
    here = np.flatnonzero(due.place > grouped.start[group])
    row = grouped.position[due.place[here] - 1] >> 1
    previous.seq[here] = accepted.events.seq[row]
    previous.values[:, here] = accepted.events.values[:, row]
    return _reached(due, first_code, previous, due.place)


def _reached(due: Due, first_code: int, events: Events, place: Int64s) -> Reached:
    values = np.where(events.seq < 0, np.nan, events.values)
    code = (due.code + first_code).astype(np.uint8)
    return Reached(due.slot, due.key, code, due.moment, events.seq, values, place)


def staged(reached: Reached, line: Timeline, figures: int) -> Diverted:
    """Return deadlines as notices, each before or after the expiry of its key at the same place."""
    place, time = reached.place, reached.time
    stage = np.full(place.size, DUE_LATER, np.uint8)
    stage[_before_expiry(reached, line)] = DUE
    none = np.zeros((figures, place.size), np.int64)
    return Diverted(
        reached.slot, reached.key, reached.code, time, reached.seq, reached.values, place, stage,
        none,
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
