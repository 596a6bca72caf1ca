"""The brute-force answer of every kind: one event, one query at a time, nothing clever.

Order, time, grace, expiry and the rules of notices are here; what an event means for a query is
asked of the twin of its kind. They are the oracle of the conformance suite, and users can test
their own set-ups against them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from everquery.errors import InvalidBatchError
from everquery.kinds import KINDS
from everquery.kinds.twin import Seen, Twin, Values
from everquery.queries import Query
from everquery.stream import Stream
from everquery.testing.brute_state import Series, Sight, Standing, Throttled
from everquery.testing.clock_twin import vouched_for
from everquery.testing.notice import Event, Notice, known, unsound


@dataclass
class BruteForce:
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

    stream: Stream
    refused: list[tuple[Event, str]] = field(default_factory=list)
    partial: int = 0
    partial_by_column: dict[str, int] = field(default_factory=dict)
    _queries: dict[str, Standing] = field(default_factory=dict)
    _series: dict[Any, Series] = field(default_factory=dict)
    _newest: Any = None
    _passed: Any = None
    _time_began: bool = False
    _held: list[Event] = field(default_factory=list)
    _ahead: list[Event] = field(default_factory=list)
    _twins: dict[str, Twin] = field(default_factory=dict)
    _begun: bool = False

    # -- changes ------------------------------------------------------------------------------

    def register(self, query: Query) -> None:
        """Register a query."""
        if query.kind not in self._twins:
            self._twins[query.kind] = KINDS[query.kind].twin(self.stream)
        twin = self._twins[query.kind]
        twin.begin(query)
        self._stand(query, twin)

    def _stand(self, query: Query, twin: Twin) -> Standing:
        standing = self._queries[query.id] = Standing(query, twin, since=self._newest)
        if query.ttl is not None and self._newest is not None:
            standing.end = self._newest + query.ttl
        return standing

    def replace(self, query: Query) -> None:
        """Let a query take the place of the live one with its id, if there is one."""
        standing = self._queries.get(query.id)
        if standing is None:
            self.register(query)
            return
        if _meaning(query) == _meaning(standing.query):
            standing.query = standing.twin.queries[query.id] = query
            return
        before = standing.replaces
        if standing.announce is None:
            before = standing.query, frozenset(standing.pending)
        if standing.paused or standing.announce == "resumed":
            before = None
        standing.twin.replace(self._queries.pop(query.id).query, query)
        new = self._stand(query, standing.twin)
        new.announce, new.replaces = "replaced", before

    def deregister(self, query_id: str) -> None:
        """End a query."""
        standing = self._queries.pop(query_id)
        standing.twin.end(standing.query)

    def pause(self, query_id: str) -> None:
        """Let a query emit nothing; what waits of it is forgotten."""
        standing = self._queries[query_id]
        standing.paused = True
        standing.replaces = None
        standing.pending.clear()
        for window in standing.windows.values():
            window.held.clear()

    def resume(self, query_id: str) -> None:
        """Let a query emit again."""
        standing = self._queries[query_id]
        if standing.paused:
            standing.paused = False
            standing.announce = "resumed"
            standing.overdue.clear()

    def is_live(self, query_id: str) -> bool:
        """Tell whether a query lives."""
        return query_id in self._queries

    def ask(self, question: str, query_id: str, **said: Any) -> Any:  # noqa: ANN401 - as the kind answers
        """Return the answer of a live query to a question of its kind, such as ``progress``."""
        standing = self._queries[query_id]
        return getattr(standing.twin, question)(standing.query, **said)

    # -- steps --------------------------------------------------------------------------------

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

    def _watched(self) -> list[Any]:
        """Return the keys that there are, and those that queries name."""
        if self.stream.key is None:
            return [None]
        homes = [each.query.key for each in self._queries.values() if each.query.key is not None]
        return list(dict.fromkeys([*self._series, *homes]))

    def _judge_anew(self, standing: Standing) -> None:
        """Note of which keys the deadlines have come, by how far time is now."""
        standing.overdue.clear()
        if standing.announce:  # the next step tells them
            return
        for key in self._watched():
            moment = self._deadline(standing, key)
            if moment is not None and self._passed is not None and moment <= self._passed:
                standing.overdue.add(key)

    def _deadline(self, standing: Standing, key: object) -> Any:  # noqa: ANN401 - a number or None
        """Return by when a query wants to hear from a key, if that has not come yet."""
        if standing.paused or key in standing.overdue:
            return None
        series = self._series.get(key)
        last = series.time if series is not None and series.seq else None
        return standing.twin.deadline(standing.query, key, last, standing.since)

    def _missed(self, standing: Standing, key: object, moment: Any) -> Notice:  # noqa: ANN401
        series = self._series.get(key, Series())
        event, reason = standing.twin.miss(standing.query, heard=series.seq > 0)
        values = series.values if series.seq else (None,) * len(self.stream.attributes)
        return Notice(standing.query.id, event, key, series.seq - 1, reason, moment, values)

    def _miss(self, standing: Standing, key: object, moment: Any) -> Iterator[Notice]:  # noqa: ANN401
        standing.overdue.add(key)
        yield from self._happen(standing, self._missed(standing, key, moment))

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

    def _awake(self, kind: str) -> list[Query]:
        """Return the queries of a kind that are not paused."""
        every = self._queries.values()
        return [each.query for each in every if each.query.kind == kind and not each.paused]

    def _tell_waiting(self, standing: Standing, key: object) -> Iterator[Notice]:
        """Tell what a query has to tell of a moment without an event."""
        series = self._series.get(key, Series())
        moment, told = standing.twin.waiting[standing.query.id, key].pop(0)
        sight = Sight(series.seq - 1, moment, series.values)
        notice = self._notice(standing.query, told.event, key, sight, None)
        yield from self._happen(standing, replace(notice, further=told.further))

    def _pass_time(self, key: object) -> Iterator[Notice]:
        """Yield what queries tell of a key's past now that time has come this far."""
        series = self._series.get(key, Series())
        for standing in list(self._queries.values()):
            if standing.paused or not standing.sees(self._passed):
                continue
            for told in list(standing.twin.pass_time(standing.query, key, self._passed)):
                sight = Sight(series.seq - 1, self._passed, series.values)
                notice = self._notice(standing.query, told.event, key, sight, None)
                yield from self._happen(standing, replace(notice, further=told.further))

    # -- the time of a key ----------------------------------------------------------------------

    def _let_pass(
        self,
        key: object,
        until: Any,  # noqa: ANN401 - a number
        *,
        expiring: bool = True,
    ) -> Iterator[Notice]:
        """Let a key's time come to `until`: deadlines and expiry, one after the other."""
        while True:
            deadlines = sorted(self._deadlines(key), key=lambda deadline: deadline[:3])
            due = deadlines[0] if deadlines and deadlines[0][0] <= until else None
            series = self._series.get(key)
            limit = self.stream.expire_after
            if limit is not None and expiring and series is not None and series.sights:
                expiry = series.time + limit
                if expiry <= until and (due is None or due[0] > expiry):
                    yield from self._expire(key, series, expiry)
                    continue
            if due is None:
                return
            yield from due[3]()

    def _let_pass_deadlines_of_kinds(self, key: object) -> Iterator[Notice]:
        while self._passed is not None:
            found = [
                (moment, number, standing)
                for number, standing in enumerate(self._queries.values())
                if (moment := self._deadline(standing, key)) is not None
                and moment <= self._passed
                and standing.sees(moment)
            ]
            if not found:
                return
            moment, _, standing = min(found, key=lambda each: each[:2])
            yield from self._miss(standing, key, moment)

    def _let_pass_what_waits(self, key: object) -> Iterator[Notice]:
        """Tell of moments behind the newest time less the grace: a flush has come further."""
        while True:
            found = [
                (standing.twin.waiting[standing.query.id, key][0][0], number, standing)
                for number, standing in enumerate(self._queries.values())
                if standing.twin.waiting.get((standing.query.id, key))
            ]
            found = [each for each in found if each[2].sees(each[0])]
            if not found:
                return
            yield from self._tell_waiting(min(found, key=lambda each: each[:2])[2], key)

    def _deadlines(
        self, key: object
    ) -> Iterator[tuple[Any, int, int, Callable[[], Iterable[Notice]]]]:
        """Yield a key's deadlines: when, the query's number, what comes first, what it does."""
        for number, standing in enumerate(self._queries.values()):
            if key in standing.windows and standing.sees(standing.windows[key].end):
                close = partial(self._close, standing, key)
                yield standing.windows[key].end, number, 0, close
            if key in standing.pending and standing.sees(standing.pending[key][0]):
                count = partial(self._count, standing, key)
                yield standing.pending[key][0], number, 1, count
            moment = self._deadline(standing, key)
            if moment is not None and standing.sees(moment):
                yield moment, number, 1, partial(self._miss, standing, key, moment)
            waits = standing.twin.waiting.get((standing.query.id, key))
            if waits and standing.sees(waits[0][0]):
                yield waits[0][0], number, 1, partial(self._tell_waiting, standing, key)
            at_home = self.stream.key is None or standing.query.key is not None
            if standing.end is not None and at_home and standing.query.key == key:
                yield standing.end, number, 2, partial(self._end_at_home, standing, key)

    def _happen(self, standing: Standing, notice: Notice) -> Iterator[Notice]:
        """Let a crossing dwell, if its query asks for that."""
        query = standing.query
        dwell = getattr(query, "dwell", None)
        if dwell is None:
            yield from self._tell(standing, notice)
        elif notice.key in standing.pending:
            # Not told, since its deadline is ahead: so it is the opposite that comes too early.
            assert standing.pending.pop(notice.key)[1].event != notice.event
        else:
            standing.pending[notice.key] = notice.time + dwell, notice

    def _count(self, standing: Standing, key: object) -> Iterator[Notice]:
        deadline, notice = standing.pending.pop(key)
        yield from self._tell(standing, replace(notice, time=deadline))

    def _tell(self, standing: Standing, notice: Notice) -> Iterator[Notice]:
        """Tell a notice that counts, or hold it back."""
        query = standing.query
        if not standing.twin.tells(query, notice.event):
            return
        if notice.key in standing.windows:
            standing.windows[notice.key].held.append(notice)
            return
        if query.throttle is not None:
            standing.windows[notice.key] = Throttled(notice.time + query.throttle)
        yield notice

    def _close(self, standing: Standing, key: object) -> Iterator[Notice]:
        window = standing.windows.pop(key)
        if window.held:
            standing.windows[key] = Throttled(window.end + standing.query.throttle)
            yield replace(
                window.held[-1],
                time=window.end,
                reason="throttled",
                held_back=len(window.held),
            )

    def _end_at_home(self, standing: Standing, key: object) -> list[Notice]:
        return [self._end(standing, key)]

    def _end(self, standing: Standing, key: object) -> Notice:
        self.deregister(standing.query.id)
        nothing = (None,) * len(self.stream.attributes)
        return Notice(standing.query.id, "end", key, -1, "ttl", standing.end, nothing)

    def _expire(self, key: object, series: Series, when: Any) -> Iterator[Notice]:  # noqa: ANN401
        sights, series.sights = series.sights, []
        for standing in self._queries.values():
            sight = standing.last_seen(sights)
            if standing.paused or not standing.sees(when) or sight is None:
                continue
            event = standing.twin.expire(standing.query, key, sight.values)
            if event is not None:
                ended = replace(sight, time=when)
                notice = self._notice(standing.query, event, key, ended, "expired")
                yield from self._happen(standing, notice)

    @staticmethod
    def _notice(query: Query, event: str, key: object, sight: Sight, reason: str | None) -> Notice:
        return Notice(query.id, event, key, sight.seq, reason, sight.time, sight.values)


def _meaning(query: Query) -> tuple[Any, ...]:
    """Return all of a query that answers depend on."""
    box = {name: query.box[name].half_open() for name in sorted(query.box)}
    plain = {
        each.name: getattr(query, each.name)
        for each in fields(query)
        if each.name not in ("box", "owner", "labels")
    }
    return query.kind, repr(list(box.items())), plain
