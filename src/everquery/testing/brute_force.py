"""The brute-force answer of every kind: one event, one query at a time, nothing clever.

Order, grace, lateness and announcements are here, changes of queries in ``brute_queries``, and
expiry and the rules of notices in ``brute_time``; what an event means for a query is asked of the
twin of its kind. They are the oracle of the conformance suite, and users can test their own set-ups
against them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from everquery.errors import InvalidBatchError
from everquery.kinds.twin import Seen, Values
from everquery.testing.brute_state import Series, Sight, Standing
from everquery.testing.brute_time import BruteTime
from everquery.testing.clock_twin import vouched_for
from everquery.testing.notice import Event, Notice, known, unsound


class BruteForce(BruteTime):
    """An engine that asks every query about every event.

    Times are numbers, and so are all spans of the stream and of queries.

    Attributes
    ----------
    stream : Stream
    refused : list of (event, reason)
    partial : int
        How many events were accepted that lack a value.
    partial_by_column : dict from column to number
    """

    def process(
        self,
        events: Iterable[Event],
        *,
        now: Any = None,  # noqa: ANN401 - a number
    ) -> list[Notice]:
        """Return the notices of a batch; `now` is what the clock says."""
        self._begun = True
        notices = list(self._announce())
        arrivals = [event for event in events if self._is_sound(event)]
        if self.stream.max_ahead is not None:
            arrivals = self._let_in(arrivals, now)
        for event in arrivals:
            self._arrive(event)
        notices.extend(self._accept_all(self._release(arrivals)))
        notices.extend(self._end_of_step(self._now()))
        return notices

    def advance(self, time: Any) -> list[Notice]:  # noqa: ANN401 - a number
        """Return the notices of time that has come this far without an event."""
        if self.stream.time is None or not self._begun:
            return []
        self._see(time)
        return self.process([])

    def flush(self) -> list[Notice]:
        """Return the notices of all events that are held back; what waits is refused."""
        self._refuse_ahead(self._ahead)
        notices = list(self._announce())
        held, self._held = self._held, []
        if held:
            self._begin_time(held[0][str(self.stream.time)])
        notices.extend(self._accept_all(held))
        notices.extend(self._end_of_step(self._newest))
        return notices

    def reset_time(self, time: Any) -> None:  # noqa: ANN401 - a number
        """Set the newest time seen back; nothing waits longer than its span from there."""
        if self._newest is None:
            return
        if time > self._newest:
            raise InvalidBatchError(f"{time} is after the newest time seen")
        self._newest = time
        column = str(self.stream.time)
        self._refuse_ahead([event for event in self._ahead + self._held if event[column] > time])
        for series in self._series.values():
            series.set_back(time)
        if self._passed is not None:
            self._passed = min(self._passed, self._now())
        for standing in self._queries.values():
            standing.set_back(time)
            self._judge_anew(standing)
        for twin in self._twins.values():
            twin.set_back(time)
            twin.passed = self._passed

    def expire(self, key: object) -> list[Notice]:
        """Return the notices of a key that is forgotten now."""
        notices = list(self._announce())
        series = self._series.get(key)
        if series is not None and series.sights:
            notices.extend(self._expire(key, series, series.time))
        notices.extend(self._end_of_step(self._now(), silent=False))
        return notices

    def _now(self) -> Any:  # noqa: ANN401 - a number, or None where time is not known yet
        return None if self._newest is None else self._newest - (self.stream.grace or 0)

    def _see(self, time: Any) -> None:  # noqa: ANN401 - a number
        self._newest = time if self._newest is None else max(self._newest, time)

    def _begin_time(self, time: Any) -> None:  # noqa: ANN401 - a number
        """Let the queries that waited for the first event live from a time on."""
        if not self._time_began:
            self._time_began = True
            for standing in self._queries.values():
                if standing.since is None:
                    standing.since = time
                if standing.query.ttl is not None and standing.end is None:
                    standing.end = time + standing.query.ttl

    def _announce(self) -> Iterator[Notice]:
        yield from self._announce_deadlines()
        for key, series in self._series.items():
            for standing in self._queries.values():
                query = standing.query
                if not standing.announce or standing.paused:
                    continue
                event, sight = self._announced(standing, key, series.sights)
                if event is None or sight is None or not standing.sees(sight.time):
                    continue
                notice = self._notice(query, event, key, sight, standing.announce)
                if standing.announce == "replaced" and event == "leave":  # at once
                    yield from [notice] if standing.twin.tells(query, event) else []
                else:
                    yield from self._happen(standing, notice)
        for standing in self._queries.values():
            standing.announce = standing.replaces = None

    @staticmethod
    def _announced(
        standing: Standing, key: object, sights: list[Sight]
    ) -> tuple[str | None, Sight | None]:
        """Return what a query tells of a key in sight, and of which of its events."""
        query, twin = standing.query, standing.twin
        sight = standing.last_seen(sights)
        if standing.replaces is None:
            return None if sight is None else twin.announce(query, key, sight.values), sight
        old, undecided = standing.replaces
        before = standing.last_seen(sights, old)
        values = [None if each is None else each.values for each in (sight, before)]
        event = twin.differ(query, old, key, *values, undecided=key in undecided)
        return event, before if event == "leave" else sight

    def _announce_deadlines(self) -> Iterator[Notice]:
        """Yield the deadlines of new and resumed queries that came before, in order of time."""
        found = []
        for number, standing in enumerate(self._queries.values()):
            if not standing.announce or standing.paused or self._passed is None:
                continue
            for key in self._watched():
                moment = self._deadline(standing, key)
                if moment is None or moment > self._passed:
                    continue
                standing.overdue.add(key)
                series = self._series.get(key, Series())
                named = standing.query.key is not None or self.stream.key is None
                if (series.sights or named) and standing.sees(moment):
                    found.append((moment, number, standing, self._missed(standing, key, moment)))
        for _, _, standing, notice in sorted(found, key=lambda each: each[:2]):
            yield from self._happen(standing, replace(notice, reason=standing.announce))

    def _is_sound(self, event: Event) -> bool:
        reason = unsound(event, self.stream)
        if reason is not None:
            self.refused.append((event, reason))
        return reason is None

    def _let_in(self, arrivals: list[Event], now: Any) -> list[Event]:  # noqa: ANN401 - a number
        """Return the events that are not ahead of their time; refuse the others, or let them wait.

        The last are in `_ahead`.
        """
        every = self._ahead + arrivals
        if now is None:
            keys = {key for key, series in self._series.items() if series.seq}
            keys |= {self._key(event) for event in self._held}
            fine, self._ahead = vouched_for(self.stream, every, self._newest, keys)
            return [event for event in every if any(event is each for each in fine)]
        limit = now + self.stream.max_ahead
        late = [event for event in every if event[str(self.stream.time)] > limit]
        self._refuse_ahead(late)
        self._ahead = []
        return [event for event in every if event[str(self.stream.time)] <= limit]

    def _refuse_ahead(self, events: list[Event]) -> None:
        self.refused.extend((event, "ahead") for event in events)
        for kept in (self._ahead, self._held):
            kept[:] = [event for event in kept if not any(event is each for each in events)]

    def _key(self, event: Event) -> Any:  # noqa: ANN401 - whatever keys are
        return None if self.stream.key is None else event[self.stream.key]

    def _arrive(self, event: Event) -> None:
        if self.stream.time is not None:
            self._see(event[self.stream.time])

    def _release(self, arrivals: list[Event]) -> list[Event]:
        """Return what is due, in time order; hold the rest back."""
        column = self.stream.time
        if column is None or self._newest is None:
            return arrivals
        waiting = sorted(self._held + arrivals, key=lambda event: event[column])
        limit = self._now()
        self._held = [event for event in waiting if event[column] > limit]
        due = [event for event in waiting if event[column] <= limit]
        if due or not self._held:
            self._begin_time(due[0][column] if due else self._newest)
        return due

    def _accept_all(self, events: list[Event]) -> Iterator[Notice]:
        """Accept the events of a step."""
        kept = self._in_time(events)
        for place, event in enumerate(events):
            later = [each for i, each in enumerate(events) if i > place and kept[i]]
            yield from self._accept(event, later)

    def _in_time(self, events: list[Event]) -> list[bool]:
        """Tell which events are not late."""
        if self.stream.time is None:
            return [True] * len(events)
        newest = {key: series.time for key, series in self._series.items() if series.seq}
        kept = []
        for event in events:
            key = self._key(event)
            time = event[self.stream.time]
            kept.append(key not in newest or time >= newest[key])
            if kept[-1]:
                newest[key] = time
        return kept

    def _accept(self, event: Event, later: list[Event]) -> Iterator[Notice]:
        """Accept an event, which the `later` ones of its step will follow."""
        key = self._key(event)
        time = None if self.stream.time is None else event[self.stream.time]
        series = self._series.setdefault(key, Series())
        if time is not None and series.seq and time < series.time:
            self.refused.append((event, "late"))
            return
        if time is not None:
            for kind, twin in self._twins.items():
                twin.passed = self._passed
                twin.let_pass(key, time, self._awake(kind))
            yield from self._let_pass(key, time)
        values = self._values(event)
        self._count_partial(event)
        earlier = list(series.sights)
        sight = Sight(series.seq, time, values)
        series.seq, series.time, series.values = series.seq + 1, time, values
        series.sights.append(sight)
        weight = 1 if self.stream.weight is None else int(known(event, self.stream.weight) or 0)
        seen = Seen(key, values, None, weight, time, last_of_key=False, last_of_all=False)
        for twin in self._twins.values():
            twin.passed = self._passed
            twin.take_in(seen)
        for standing in list(self._queries.values()):
            query, twin = standing.query, standing.twin
            overdue = key in standing.overdue
            standing.overdue.discard(key)
            if standing.paused or not standing.sees(time) or not twin.sees(query, values):
                continue
            before = standing.last_seen(earlier)
            others = [each for each in later if twin.sees(query, self._values(each))]
            of_key = [each for each in others if self._key(each) == key]
            here = replace(
                seen,
                before=None if before is None else before.values,
                last_of_key=not of_key,
                last_of_all=not others,
                overdue=overdue,
            )
            yield from self._answer(standing, here, sight)

    def _values(self, event: Event) -> Values:
        found = (known(event, name) for name in self.stream.attributes)
        return tuple(None if value is None else float(value) for value in found)

    def _count_partial(self, event: Event) -> None:
        weight = self.stream.weight
        lacking = [name for name in self.stream.attributes if known(event, name) is None]
        if weight is not None and (known(event, weight) or 0) <= 0:
            lacking.append(weight)
        self.partial += bool(lacking)
        for name in set(lacking):
            self.partial_by_column[name] = self.partial_by_column.get(name, 0) + 1

    def _answer(self, standing: Standing, seen: Seen, sight: Sight) -> Iterator[Notice]:
        for told in list(standing.twin.answer(standing.query, seen)):
            notice = self._notice(standing.query, told.event, seen.key, sight, None)
            yield from self._happen(standing, replace(notice, further=told.further))
            if told.ends:
                self.deregister(standing.query.id)

    def _end_of_step(
        self,
        now: Any,  # noqa: ANN401 - a number, or None where time is not known yet
        *,
        silent: bool = True,
    ) -> Iterator[Notice]:
        if now is None:
            return
        # After a flush, the newest time less the grace may be behind how far time has come.
        if self._time_began:
            self._passed = now if self._passed is None else max(self._passed, now)
        if silent and self._passed is not None:
            for kind, twin in self._twins.items():
                twin.let_end(self._passed, self._awake(kind))
        for key in self._watched():
            yield from self._let_pass(key, now, expiring=silent)
            yield from self._let_pass_deadlines_of_kinds(key)
            yield from self._let_pass_what_waits(key)
            if silent and self._passed is not None:
                yield from self._pass_time(key)
        for twin in self._twins.values():
            twin.passed = self._passed
        if self.stream.key is None:
            return
        ending = [
            standing
            for standing in self._queries.values()
            if standing.query.key is None and not standing.sees(now)
        ]
        for standing in sorted(ending, key=lambda standing: standing.end):
            yield self._end(standing, None)
