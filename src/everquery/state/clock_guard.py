"""A guard against wrong clocks: which events are too far ahead of their time.

With a clock, an event is ahead if its time is more than `max_ahead` after what the clock says.

Without one, events vouch for each other. The events of a batch and those that wait are put in order
of time, and cut into runs wherever the step from one to the next is more than `max_ahead`. The run
that goes on from the newest time seen is let in. A later run is let in as soon as it has events of
two keys, or two events while the stream has had one key only; all runs before it come with it. The
other runs wait. In the beginning there is no newest time, and the first run has to be confirmed in
the same way. So an event that waits is later than all that were let in, and none becomes late by
waiting; and where events arrive in time order, nothing depends on where a batch ends.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from everquery.core.arrays import Array, Bools, Int32s, Int64s
from everquery.state.accepted import COLUMNS, Events, join_events
from everquery.state.events import AHEAD, FINE, Arrivals
from everquery.state.keys import KeyTable

MOST_WAITING = 100_000  # events: a clock that stays wrong must not fill the memory

Time = int | float


def judged(arrivals: Arrivals, latest: Time | Array) -> Arrivals:
    """Return a batch of which the rows beyond the latest time that a clock allows are refused.

    There may be a latest time for each row.
    """
    refused = arrivals.refused
    if arrivals.time is not None:
        ahead = (refused == FINE) & (arrivals.time > latest)
        if ahead.any():
            refused = np.where(ahead, np.uint8(AHEAD), refused)
    known = float(np.inf) if isinstance(latest, np.ndarray) else latest
    return replace(arrivals, refused=refused, latest=known, fine=False)


class ClockGuard:
    """Lets events in, and keeps those that wait until others vouch for their time.

    Parameters
    ----------
    keys : KeyTable

    Attributes
    ----------
    waiting : Events or None
        In order of arrival.
    given_up : list of Events
        Events that waited and are refused, until somebody takes them.
    """

    def __init__(self, keys: KeyTable) -> None:
        self._keys = keys
        self.waiting: Events | None = None
        self.given_up: list[Events] = []

    def __len__(self) -> int:
        """Return how many events wait."""
        return 0 if self.waiting is None else len(self.waiting)

    def let_in(
        self,
        events: Events,
        newest: Time | None,
        max_ahead: Time,
        held: Events | None,
    ) -> Events:
        """Return the events that are let in without a clock, in order of arrival; keep the others.

        Parameters
        ----------
        events : Events
            New ones, in order of arrival.
        newest : number or None
            The newest time seen.
        held : Events or None
            Those that were let in before, and are held back by the grace.
        """
        if not self._may_change(events, newest, max_ahead):
            return events
        every = events if self.waiting is None else join_events((self.waiting, events))
        seen = self._keys.had_events()
        if held is not None:
            seen[held.key] = True
        fine = _confirmed(every, newest, max_ahead, np.flatnonzero(seen).astype(np.int32))
        self._keep(every, ~fine)
        return every.take(np.flatnonzero(fine))

    def _may_change(self, events: Events, newest: Time | None, max_ahead: Time) -> bool:
        """Tell whether anything is out of reach, or comes within reach."""
        if newest is None:
            return len(events) > 0
        reach = newest + max_ahead
        if len(events):
            last = events.time.max().item()
            if last > reach:
                return True
            reach = max(newest, last) + max_ahead
        return self.waiting is not None and self.waiting.time.min().item() <= reach

    def let_in_by_clock(self, events: Events, latest: Time) -> Events:
        """Return events that a clock has judged, and those that wait if it allows them."""
        if self.waiting is None:
            return events
        ahead = self.waiting.time > latest
        self.given_up.append(self.waiting.take(np.flatnonzero(ahead)))
        fine = self.waiting.take(np.flatnonzero(~ahead))
        self.waiting = None
        return join_events((fine, events))

    def give_up(self) -> None:
        """Refuse all events that wait."""
        if self.waiting is not None:
            self.given_up.append(self.waiting)
            self.waiting = None

    def up_to(self, events: Events | None, time: Time) -> Events | None:
        """Return the events up to a time, None if there are none; refuse the others."""
        if events is None:
            return None
        gone = events.time > time
        self.given_up.append(events.take(np.flatnonzero(gone)))
        return None if gone.all() else events.take(np.flatnonzero(~gone))

    def take_given_up(self) -> list[Events]:
        """Return the events that are refused, once."""
        refused, self.given_up = self.given_up, []
        return [events for events in refused if len(events)]

    def save(self, arrays: dict[str, Array]) -> None:
        """Save what waits, if anything does."""
        if self.waiting is not None:
            for name in COLUMNS:
                arrays[f"ahead.{name}"] = getattr(self.waiting, name)
            arrays["ahead.seq"] = np.zeros(len(self), np.int64)  # they get it when they are let out

    def load(self, arrays: dict[str, Array]) -> None:
        """Take over what waited."""
        self.waiting = None
        if "ahead.key" in arrays:
            self.waiting = Events(*(arrays[f"ahead.{name}"] for name in COLUMNS))

    def _keep(self, events: Events, chosen: Bools) -> None:
        """Let the chosen events wait; the first that came make room where they are too many."""
        rows = np.flatnonzero(chosen)
        if rows.size > MOST_WAITING:
            self.given_up.append(events.take(rows[:-MOST_WAITING]))
            rows = rows[-MOST_WAITING:]
        self.waiting = events.take(rows) if rows.size else None


def _confirmed(events: Events, newest: Time | None, max_ahead: Time, seen: Int32s) -> Bools:
    """Tell which events are let in."""
    order = np.argsort(events.time, kind="stable")
    key = events.key[order]
    run = _runs(events.time[order], newest, max_ahead)
    together = run[1:] == run[:-1]
    two_keys = together & (key[1:] != key[:-1])
    # While there is one key only, the next event of a run vouches for the one before it.
    lone = _lone_rows(key, seen)
    two_events = together & (np.arange(1, key.size) < lone)
    last = run[1:][two_keys | two_events].max(initial=0)
    fine = np.zeros(key.size, np.bool_)
    fine[order[run <= last]] = True
    return fine


def _runs(time: Array, newest: Time | None, max_ahead: Time) -> Int64s:
    """Return the run of each event, by time; 0 is the one that goes on from the newest time."""
    begins = np.ones(time.size, np.bool_)
    if newest is not None:
        time = np.maximum(time, time.dtype.type(newest))
        begins[0] = time[0].item() > newest + max_ahead
    if time.dtype == np.float64:
        with np.errstate(invalid="ignore"):  # a step from infinity to infinity is none
            begins[1:] = np.diff(time) > max_ahead
    else:  # a step may be larger than the largest int64
        begins[1:] = np.diff(time.view(np.uint64)) > np.uint64(max_ahead)
    return np.cumsum(begins)


def _lone_rows(key: Int32s, seen: Int32s) -> int:
    """Return how many of the first events are of one key, which is also the only one seen."""
    if seen.size > 1:
        return 0
    lone = seen[0] if seen.size else key[0]
    others = np.flatnonzero(key != lone)
    return int(others[0]) if others.size else int(key.size)
