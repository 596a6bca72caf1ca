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

from everquery.queries import Border, Interval, Quantile, Query, Range, Threshold
from everquery.stream import Stream
from everquery.testing.exact_ranks import (
    COARSEST,
    COARSEST_WINDOW,
    FINEST,
    Answer,
    Feed,
    FeedName,
    allowed_ranks,
    feed_of,
    ranks_of,
)

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
    answer: Answer | None = None


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
    told: dict[Any, float] = field(default_factory=dict)

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
    _time_began: bool = False
    _held: list[Event] = field(default_factory=list)
    _feeds: dict[FeedName, Feed] = field(default_factory=dict)
    _begun: bool = False

    # -- changes ------------------------------------------------------------------------------

    def register(self, query: Query) -> None:
        """Register a query."""
        standing = self._queries[query.id] = _Standing(query)
        if query.ttl is not None and self._newest is not None:
            standing.end = self._newest + query.ttl

    def deregister(self, query_id: str) -> None:
        """End a query."""
        del self._queries[query_id]
        self._forget_feeds()

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
        arrivals = [event for event in events if self._is_sound(event)]
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
        """Return the notices of all events that are held back."""
        notices = list(self._announce())
        held, self._held = self._held, []
        if held:
            self._begin_time(held[0][str(self.stream.time)])
        notices.extend(self._accept_all(held))
        notices.extend(self._end_of_step(self._newest))
        return notices

    def expire(self, key: object) -> list[Notice]:
        """Return the notices of a key that is forgotten now."""
        notices = list(self._announce())
        series = self._series.get(key)
        if series is not None and series.in_sight:
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
                if standing.query.ttl is not None and standing.end is None:
                    standing.end = time + standing.query.ttl

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
        """Accept the events of a step, of which some are the last of their lanes."""
        kept = self._in_time(events)
        last_of = {}
        for place, event in enumerate(events):
            if kept[place]:
                last_of[None if self.stream.key is None else event[self.stream.key]] = place
        last_of_all = max(last_of.values(), default=-1)
        for place, event in enumerate(events):
            ends = {True: place in last_of.values(), False: place == last_of_all}
            yield from self._accept(event, ends)

    def _in_time(self, events: list[Event]) -> list[bool]:
        """Tell which events are not late."""
        if self.stream.time is None:
            return [True] * len(events)
        newest = {key: series.time for key, series in self._series.items() if series.seq}
        kept = []
        for event in events:
            key = None if self.stream.key is None else event[self.stream.key]
            time = event[self.stream.time]
            kept.append(key not in newest or time >= newest[key])
            if kept[-1]:
                newest[key] = time
        return kept

    def _accept(self, event: Event, ends: dict[bool, bool]) -> Iterator[Notice]:
        """Accept an event; `ends` says if it is its key's last of the step, and the last of all."""
        key = None if self.stream.key is None else event[self.stream.key]
        time = None if self.stream.time is None else event[self.stream.time]
        series = self._series.setdefault(key, _Series())
        if time is not None and series.seq and time < series.time:
            self.refused.append((event, "late"))
            return
        if time is not None:
            yield from self._let_pass(key, time)
        values = tuple(float(event[name]) for name in self.stream.attributes)
        before = series.values if series.in_sight else None
        series.seq, series.time, series.values, series.in_sight = series.seq + 1, time, values, True
        weight = 1 if self.stream.weight is None else int(event[self.stream.weight])
        self._take_in(key, values)
        for standing in list(self._queries.values()):
            if not standing.paused and standing.sees(time):
                yield from self._answer(standing, key, series, before, weight)
                query = standing.query
                if isinstance(query, Quantile) and ends[feed_of(query).keyed]:
                    yield from self._rank(standing, query, key, series)

    def _take_in(self, key: object, values: tuple[float, ...]) -> None:
        """Take a row into the lanes that a query wants."""
        asked = [each.query for each in self._queries.values() if isinstance(each.query, Quantile)]
        for query in asked:
            self._feeds.setdefault(feed_of(query), Feed())
        for name, feed in self._feeds.items():
            here = [query for query in asked if feed_of(query) == name]
            if feed.finest is None:
                coarsest = COARSEST if name.last is None else COARSEST_WINDOW
                feed.finest = max(FINEST, min([coarsest, *(query.epsilon for query in here)]))
            if not name.keyed or any(query.by_key or query.key == key for query in here):
                lane = feed.lanes.setdefault(key if name.keyed else None, [])
                lane.append(values[self.stream.attributes.index(name.attribute)])

    def _forget_feeds(self) -> None:
        """Forget lanes and feeds that no query wants any more."""
        asked = [each.query for each in self._queries.values() if isinstance(each.query, Quantile)]
        for name in list(self._feeds):
            here = [query for query in asked if feed_of(query) == name]
            if not here:
                del self._feeds[name]
            elif name.keyed and not any(query.by_key for query in here):
                lanes = self._feeds[name].lanes
                for key in lanes.keys() - {query.key for query in here}:
                    del lanes[key]

    def _rank(
        self, standing: _Standing, query: Quantile, key: object, series: _Series
    ) -> Iterator[Notice]:
        """Answer a quantile query after the last row of its lane, if what it was told won't do."""
        name = feed_of(query)
        lane = key if name.keyed else None
        if query.key is not None and query.key != key:
            return
        feed = self._feeds[name]
        rows = sorted(feed.lanes[lane][-(query.last or len(feed.lanes[lane])) :])
        epsilon = max(query.epsilon, feed.finest or 0.0)
        assert isinstance(query.phi, float)
        ranks, best = allowed_ranks(query.phi, epsilon, len(rows))
        if lane in standing.told and not ranks.isdisjoint(ranks_of(standing.told[lane], rows)):
            return
        value = standing.told[lane] = rows[best - 1]
        notice = self._notice(query, "change", key, series, None)
        answer = value, best, best, len(rows), epsilon
        yield from self._happen(standing, replace(notice, answer=answer))

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
            del self._queries[query.id]  # a threshold: no lane ends with it

    def progress(self, query_id: str) -> int:
        """Return how much weight a threshold query has seen."""
        return self._queries[query_id].weight_seen

    def _end_of_step(
        self,
        now: Any,  # noqa: ANN401 - a number, or None where time is not known yet
        *,
        silent: bool = True,
    ) -> Iterator[Notice]:
        if now is None:
            return
        homes = [each.query.key for each in self._queries.values() if each.query.key is not None]
        for key in list(dict.fromkeys([*self._series, *homes])):
            yield from self._let_pass(key, now, expiring=silent)
        if self.stream.key is None:
            yield from self._let_pass(None, now, expiring=silent)
            return
        ending = [
            standing
            for standing in self._queries.values()
            if standing.query.key is None and not standing.sees(now)
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
        self._forget_feeds()
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
