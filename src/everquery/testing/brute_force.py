"""The brute-force answer of every kind: one event, one query at a time, nothing clever.

These follow the rules of the documentation word by word, and share no code with the engine beyond
the specs. They are the oracle of the conformance suite, and users can test their own set-ups
against them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from everquery.queries import Border, Interval, Query, Range
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
    values: tuple[float, ...]


@dataclass
class _Series:
    """What is known of one key."""

    seq: int = 0
    time: Any = None
    values: tuple[float, ...] = ()
    in_sight: bool = False


@dataclass
class _Standing:
    query: Query
    paused: bool = False
    announce: str | None = "registered"


@dataclass
class BruteForce:
    """An engine that asks every query about every event.

    Times are numbers, and so are `grace` and `expire_after` of the stream.

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

    def register(self, query: Query) -> None:
        """Register a query."""
        self._queries[query.id] = _Standing(query)

    def deregister(self, query_id: str) -> None:
        """End a query."""
        del self._queries[query_id]

    def pause(self, query_id: str) -> None:
        """Let a query emit nothing."""
        self._queries[query_id].paused = True

    def resume(self, query_id: str) -> None:
        """Let a query emit again."""
        standing = self._queries[query_id]
        if standing.paused:
            standing.paused = False
            standing.announce = "resumed"

    def process(self, events: Iterable[Event]) -> list[Notice]:
        """Return the notices of a batch."""
        notices = list(self._announce())
        arrivals = [(event, self._arrive(event)) for event in events if self._is_sound(event)]
        for event, mark in self._release(arrivals):
            notices.extend(self._accept(event, mark))
        notices.extend(self._expire_silent())
        return notices

    def _announce(self) -> Iterator[Notice]:
        for key, series in self._series.items():
            for standing in self._queries.values():
                query = standing.query
                if (
                    standing.announce
                    and not standing.paused
                    and isinstance(query, Border)
                    and not query.silent
                    and "enter" in query.emit
                    and series.in_sight
                    and self._inside(query, key, series.values)
                ):
                    yield self._notice(query, "enter", key, series, standing.announce)
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
        time = event[self.stream.time]
        self._newest = time if self._newest is None else max(self._newest, time)
        return self._newest - (self.stream.grace or 0)

    def _release(self, arrivals: list[tuple[Event, Any]]) -> list[tuple[Event, Any]]:
        column = self.stream.time
        if column is None:
            return arrivals
        waiting = sorted(self._held + arrivals, key=lambda pair: pair[0][column])
        if self.stream.grace is None or self._newest is None:
            return waiting
        limit = self._newest - self.stream.grace
        self._held = [pair for pair in waiting if pair[0][column] > limit]
        return [pair for pair in waiting if pair[0][column] <= limit]

    def _accept(self, event: Event, mark: Any) -> Iterator[Notice]:  # noqa: ANN401 - as in _arrive
        key = None if self.stream.key is None else event[self.stream.key]
        time = None if self.stream.time is None else event[self.stream.time]
        series = self._series.setdefault(key, _Series())
        if time is not None and series.seq and time < series.time:
            self.refused.append((event, "late"))
            return
        limit = self.stream.expire_after
        if limit is not None and series.in_sight and max(time, mark) >= series.time + limit:
            yield from self._expire(key, series)
        values = tuple(float(event[name]) for name in self.stream.attributes)
        before = series.values if series.in_sight else None
        series.seq, series.time, series.values, series.in_sight = series.seq + 1, time, values, True
        for standing in self._queries.values():
            if not standing.paused:
                yield from self._answer(standing.query, key, series, before)

    def _answer(
        self, query: Query, key: object, series: _Series, before: tuple[float, ...] | None
    ) -> Iterator[Notice]:
        inside = self._inside(query, key, series.values)
        if isinstance(query, Range):
            if inside:
                yield self._notice(query, "match", key, series, None)
        elif isinstance(query, Border):
            was_inside = before is not None and self._inside(query, key, before)
            told = "enter" if inside else "leave"
            if inside != was_inside and told in query.emit:
                yield self._notice(query, told, key, series, None)

    def _expire_silent(self) -> Iterator[Notice]:
        limit = self.stream.expire_after
        if limit is None or self._newest is None:
            return
        for key, series in self._series.items():
            if series.in_sight and series.time + limit <= self._newest - (self.stream.grace or 0):
                yield from self._expire(key, series)

    def _expire(self, key: object, series: _Series) -> Iterator[Notice]:
        series.in_sight = False
        ended = _Series(series.seq, series.time + self.stream.expire_after, series.values)
        for standing in self._queries.values():
            query = standing.query
            inside = self._inside(query, key, series.values)
            telling = isinstance(query, Border) and not standing.paused and "leave" in query.emit
            if telling and inside:
                yield self._notice(query, "leave", key, ended, "expired")

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
