"""The brute-force answer of every kind: one event, one query at a time, nothing clever.

These follow the rules of the documentation word by word, and share no code with the engine beyond
the specs. They are the oracle of the conformance suite, and users can test their own set-ups
against them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from everquery.queries import Border, Interval, Query, Range, Threshold
from everquery.stream import Stream

Event = Mapping[str, Any]


@dataclass(frozen=True, order=True)
class Notice:
    """What a notice says, without its id.

    Two notices are equal if all of it is; the order within one event is that of registration.
    """

    query_id: str
    event: str
    key: Any
    seq: int
    reason: str | None
    time: Any
    values: tuple[float | None, ...]
    held_back: int | None = None
    total: int | None = None
    rounds: int | None = None


@dataclass
class _Series:
    """What is known of one key."""

    seq: int = 0
    time: Any = None
    values: tuple[float, ...] = ()
    in_sight: bool = False


@dataclass
class _Window:
    """In which notices of one query and key are held back."""

    end: Any
    held: list[Notice] = field(default_factory=list)


@dataclass
class _Standing:
    query: Query
    paused: bool = False
    announce: str | None = "registered"
    end: Any = None
    pending: dict[Any, tuple[Any, Notice]] = field(default_factory=dict)
    windows: dict[Any, _Window] = field(default_factory=dict)
    weight_seen: int = 0

    def sees(self, moment: Any) -> bool:  # noqa: ANN401 - a number, or None without time
        """Tell whether the query still lives then."""
        return self.end is None or moment is None or moment < self.end


@dataclass
class BruteForce:
    """An engine that asks every query about every event.

    Times are numbers, and so are all spans of the stream and of queries.

    Attributes
    ----------
    refused : list of (event, reason)
    """

    stream: Stream
    refused: list[tuple[Event, str]] = field(default_factory=list)
    _queries: dict[str, _Standing] = field(default_factory=dict)
    _series: dict[Any, _Series] = field(default_factory=dict)
    _newest: Any = None
    _held: list[tuple[Event, Any]] = field(default_factory=list)
    _begun: bool = False

    # -- changes ------------------------------------------------------------------------------

    def register(self, query: Query) -> None:
        """Register a query."""
        standing = self._queries[query.id] = _Standing(query)
        if query.ttl is not None and self._newest is not None:
            standing.end = self._now() + query.ttl

    def deregister(self, query_id: str) -> None:
        """End a query."""
        del self._queries[query_id]

    def pause(self, query_id: str) -> None:
        """Let a query emit nothing; what waits of it is forgotten."""
        standing = self._queries[query_id]
        standing.paused = True
        standing.pending.clear()
        for window in standing.windows.values():
            window.held.clear()

    def resume(self, query_id: str) -> None:
        """Let a query emit again."""
        standing = self._queries[query_id]
        if standing.paused:
            standing.paused = False
            standing.announce = "resumed"

    def is_live(self, query_id: str) -> bool:
        """Tell whether a query lives."""
        return query_id in self._queries

    # -- steps --------------------------------------------------------------------------------

    def process(self, events: Iterable[Event]) -> list[Notice]:
        """Return the notices of a batch."""
        self._begun = True
        notices = list(self._announce())
        arrivals = [(event, self._arrive(event)) for event in events if self._is_sound(event)]
        for event, mark in self._release(arrivals):
            notices.extend(self._accept(event, mark))
        notices.extend(self._end_of_step())
        return notices

    def advance(self, time: Any) -> list[Notice]:  # noqa: ANN401 - a number
        """Return the notices of time that has come this far without an event."""
        if self.stream.time is None or not self._begun:
            return []
        self._see(time)
        return self.process([])

    def flush(self) -> list[Notice]:
        """Return the notices of all events that are held back."""
        notices = list(self._announce())
        held, self._held = self._held, []
        for event, mark in held:
            notices.extend(self._accept(event, mark))
        notices.extend(self._end_of_step())
        return notices

    def expire(self, key: object) -> list[Notice]:
        """Return the notices of a key that is forgotten now."""
        notices = list(self._announce())
        series = self._series.get(key)
        if series is not None and series.in_sight:
            notices.extend(self._expire(key, series, series.time))
        notices.extend(self._end_of_step(silent=False))
        return notices

    def _now(self) -> Any:  # noqa: ANN401 - a number
        return self._newest - (self.stream.grace or 0)

    def _see(self, time: Any) -> None:  # noqa: ANN401 - a number
        first = self._newest is None
        self._newest = time if first else max(self._newest, time)
        if first:
            for standing in self._queries.values():
                if standing.query.ttl is not None:
                    standing.end = self._now() + standing.query.ttl

    def _announce(self) -> Iterator[Notice]:
        for key, series in self._series.items():
            for standing in self._queries.values():
                query = standing.query
                if (
                    standing.announce
                    and not standing.paused
                    and isinstance(query, Border)
                    and not query.silent
                    and series.in_sight
                    and self._inside(query, key, series.values)
                    and standing.sees(series.time)
                ):
                    notice = self._notice(query, "enter", key, series, standing.announce)
                    yield from self._happen(standing, notice)
        for standing in self._queries.values():
            standing.announce = None

    def _is_sound(self, event: Event) -> bool:
        reason = unsound(event, self.stream)
        if reason is not None:
            self.refused.append((event, reason))
        return reason is None

    def _arrive(self, event: Event) -> Any:  # noqa: ANN401 - a number, or None without time
        if self.stream.time is None:
            return None
        self._see(event[self.stream.time])
        return self._now()

    def _release(self, arrivals: list[tuple[Event, Any]]) -> list[tuple[Event, Any]]:
        column = self.stream.time
        if column is None:
            return arrivals
        waiting = sorted(self._held + arrivals, key=lambda pair: pair[0][column])
        if self.stream.grace is None or self._newest is None:
            return waiting
        limit = self._now()
        self._held = [pair for pair in waiting if pair[0][column] > limit]
        return [pair for pair in waiting if pair[0][column] <= limit]

    def _accept(self, event: Event, mark: Any) -> Iterator[Notice]:  # noqa: ANN401 - as in _arrive
        key = None if self.stream.key is None else event[self.stream.key]
        time = None if self.stream.time is None else event[self.stream.time]
        series = self._series.setdefault(key, _Series())
        if time is not None and series.seq and time < series.time:
            self.refused.append((event, "late"))
            return
        moment = None
        if time is not None:
            moment = max(time, mark)
            yield from self._let_pass(key, moment)
        values = tuple(float(event[name]) for name in self.stream.attributes)
        before = series.values if series.in_sight else None
        series.seq, series.time, series.values, series.in_sight = series.seq + 1, time, values, True
        weight = 1 if self.stream.weight is None else int(event[self.stream.weight])
        for standing in list(self._queries.values()):
            if not standing.paused and standing.sees(moment):
                yield from self._answer(standing, key, series, before, weight)

    def _answer(
        self,
        standing: _Standing,
        key: object,
        series: _Series,
        before: tuple[float, ...] | None,
        weight: int,
    ) -> Iterator[Notice]:
        query = standing.query
        inside = self._inside(query, key, series.values)
        if isinstance(query, Range):
            if inside:
                notice = self._notice(query, "match", key, series, None)
                yield from self._happen(standing, notice)
        elif isinstance(query, Border):
            was_inside = before is not None and self._inside(query, key, before)
            if inside != was_inside:
                event = "enter" if inside else "leave"
                notice = self._notice(query, event, key, series, None)
                yield from self._happen(standing, notice)
        elif isinstance(query, Threshold) and inside:
            standing.weight_seen += 1 if query.count else weight
            if standing.weight_seen >= query.total:
                yield from self._fire(standing, query, key, series)

    def _fire(
        self, standing: _Standing, query: Threshold, key: object, series: _Series
    ) -> Iterator[Notice]:
        seen, standing.weight_seen = standing.weight_seen, 0
        notice = self._notice(query, "fire", key, series, None)
        notice = replace(notice, total=seen, rounds=seen // query.total)
        yield from self._happen(standing, notice)
        if not query.repeat:
            del self._queries[query.id]

    def progress(self, query_id: str) -> int:
        """Return how much weight a threshold query has seen."""
        return self._queries[query_id].weight_seen

    def _end_of_step(self, *, silent: bool = True) -> Iterator[Notice]:
        if self._newest is None:
            return
        homes = [each.query.key for each in self._queries.values() if each.query.key is not None]
        for key in list(dict.fromkeys([*self._series, *homes])):
            yield from self._let_pass(key, self._now(), expiring=silent)
        if self.stream.key is None:
            yield from self._let_pass(None, self._now(), expiring=silent)
            return
        ending = [
            standing
            for standing in self._queries.values()
            if standing.query.key is None and not standing.sees(self._now())
        ]
        for standing in sorted(ending, key=lambda standing: standing.end):
            yield self._end(standing, None)

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
            if limit is not None and expiring and series is not None and series.in_sight:
                expiry = series.time + limit
                if expiry <= until and (due is None or due[0] > expiry):
                    yield from self._expire(key, series, expiry)
                    continue
            if due is None:
                return
            yield from due[3]()

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
            at_home = self.stream.key is None or standing.query.key is not None
            if standing.end is not None and at_home and standing.query.key == key:
                yield standing.end, number, 2, partial(self._end_at_home, standing, key)

    def _happen(self, standing: _Standing, notice: Notice) -> Iterator[Notice]:
        """Let a crossing dwell, if its query asks for that."""
        query = standing.query
        dwell = query.dwell if isinstance(query, Border) else None
        if dwell is None:
            yield from self._tell(standing, notice)
        elif notice.key in standing.pending:
            # Not told, since its deadline is ahead: so it is the opposite that comes too early.
            assert standing.pending.pop(notice.key)[1].event != notice.event
        else:
            standing.pending[notice.key] = notice.time + dwell, notice

    def _count(self, standing: _Standing, key: object) -> Iterator[Notice]:
        deadline, notice = standing.pending.pop(key)
        yield from self._tell(standing, replace(notice, time=deadline))

    def _tell(self, standing: _Standing, notice: Notice) -> Iterator[Notice]:
        """Tell a notice that counts, or hold it back."""
        query = standing.query
        if isinstance(query, Border) and notice.event not in query.emit:
            return
        if notice.key in standing.windows:
            standing.windows[notice.key].held.append(notice)
            return
        if query.throttle is not None:
            standing.windows[notice.key] = _Window(notice.time + query.throttle)
        yield notice

    def _close(self, standing: _Standing, key: object) -> Iterator[Notice]:
        window = standing.windows.pop(key)
        if window.held:
            standing.windows[key] = _Window(window.end + standing.query.throttle)
            yield replace(
                window.held[-1],
                time=window.end,
                reason="throttled",
                held_back=len(window.held),
            )

    def _end_at_home(self, standing: _Standing, key: object) -> list[Notice]:
        return [self._end(standing, key)]

    def _end(self, standing: _Standing, key: object) -> Notice:
        del self._queries[standing.query.id]
        nothing = (None,) * len(self.stream.attributes)
        return Notice(standing.query.id, "end", key, -1, "ttl", standing.end, nothing)

    def _expire(self, key: object, series: _Series, when: Any) -> Iterator[Notice]:  # noqa: ANN401
        series.in_sight = False
        ended = _Series(series.seq, when, series.values)
        for standing in self._queries.values():
            query = standing.query
            inside = self._inside(query, key, series.values)
            telling = isinstance(query, Border) and not standing.paused and standing.sees(when)
            if telling and inside:
                yield from self._happen(
                    standing, self._notice(query, "leave", key, ended, "expired")
                )

    def _inside(self, query: Query, key: object, values: tuple[float, ...]) -> bool:
        if query.key is not None and query.key != key:
            return False
        point = dict(zip(self.stream.attributes, values, strict=True))
        return all(is_within(interval, point[name]) for name, interval in query.box.items())

    @staticmethod
    def _notice(
        query: Query, event: str, key: object, series: _Series, reason: str | None
    ) -> Notice:
        return Notice(query.id, event, key, series.seq - 1, reason, series.time, series.values)


def is_within(interval: Interval, value: float) -> bool:
    """Tell whether a value is in an interval, by its ends as they were written."""
    above = interval.lo is None or (
        value >= interval.lo if interval.closed in ("left", "both") else value > interval.lo
    )
    below = interval.hi is None or (
        value <= interval.hi if interval.closed in ("right", "both") else value < interval.hi
    )
    return above and below


def unsound(event: Event, stream: Stream) -> str | None:
    """Return why an event is refused whatever came before it, or None."""
    if stream.key is not None and event[stream.key] is None:
        return "null_key"
    if stream.time is not None and event[stream.time] is None:
        return "null_time"
    for name in stream.attributes:
        value = event[name]
        if value is None:
            return "null_attribute"
        if isinstance(value, float) and math.isnan(value):
            return "nan_attribute"
        if float(value) != value:
            return "inexact_attribute"
    if stream.weight is not None:
        weight = event[stream.weight]
        if weight is None:
            return "null_weight"
        if weight < 1 or weight != int(weight):
            return "bad_weight"
    return None
