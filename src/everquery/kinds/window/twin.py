"""The brute-force answer of window queries: every event is kept, and every window added up anew."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from everquery.kinds import twin
from everquery.kinds.told_values import one_told
from everquery.kinds.window.spec import Window
from everquery.queries.spec import Query
from everquery.stream import Stream

SUMMED = ("sum", "mean", "variance", "l1", "l2")
LARGEST = 1e140
UNCOUNTED = ("min", "max", "distinct")


@dataclass
class _Lane:
    """The events of a key, or of all, in the box of some queries.

    Attributes
    ----------
    marks, values : of the events that are in the box
    seen : number
        The mark of the last event, in the box or not.
    told : number or None
        Up to when moments are told of in the present step; None before its first event.
    """

    marks: list[Any] = field(default_factory=list)
    values: list[tuple[float, float]] = field(default_factory=list)
    seen: Any = 0
    told: Any = None

    def forget(self, window: Any) -> None:  # noqa: ANN401 - a number
        """Forget the events that a window has left behind."""
        kept = [i for i, mark in enumerate(self.marks) if mark + window > self.seen]
        self.marks = [self.marks[i] for i in kept]
        self.values = [self.values[i] for i in kept]


@dataclass
class _Group:
    """What queries on the same events share."""

    query: Window
    longest: Any = 0
    lanes: dict[Any, _Lane] = field(default_factory=dict)


class Twin(twin.Twin):
    """Values are computed with fractions from the events of the window."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._groups: dict[Any, _Group] = {}
        self._said: dict[str, dict[Any, float]] = {}
        self._said_at: dict[str, dict[Any, Any]] = {}
        self._last_key: Any = None
        self._fresh: list[str] = []

    # -- queries ------------------------------------------------------------------------------

    def begin(self, query: Query) -> None:
        """Let a query be filled from what is held of its events."""
        super().begin(query)
        assert isinstance(query, Window)
        self._said[query.id], self._said_at[query.id] = {}, {}
        self._groups.setdefault(_group_of(query), _Group(query))
        self._fresh.append(query.id)

    def end(self, query: Query) -> None:
        """Forget a query, with the events that no other one wants."""
        super().end(query)
        self._tidy()

    def replace(self, old: Query, new: Query) -> None:
        """Begin with the events of the old query, if the new one wants the same."""
        super().end(old)
        self.begin(new)
        self._tidy()

    def _tidy(self) -> None:
        wanted = {_group_of(query) for query in self.queries.values()}
        self._groups = {name: each for name, each in self._groups.items() if name in wanted}

    def _settle(self) -> None:
        """Let longer windows than before begin with what those before could see."""
        for query_id in self._fresh:
            query = self.queries.get(query_id)
            if query is not None:
                group = self._groups[_group_of(query)]
                longest = max(
                    _extent(each)
                    for each in self.queries.values()
                    if _group_of(each) == _group_of(query)
                )
                if group.longest and longest > group.longest:
                    for lane in group.lanes.values():
                        lane.forget(group.longest)
                group.longest = max(group.longest, longest)
        self._fresh.clear()

    def set_back(self, time: Any) -> None:  # noqa: ANN401 - a number
        """Let no event be later than a time."""
        self._settle()
        for group in self._groups.values():
            if group.query.last is None:
                for lane in group.lanes.values():
                    lane.forget(group.longest)
                    lane.marks = [min(mark, time) for mark in lane.marks]
                    lane.seen = min(lane.seen, time)

    # -- events -------------------------------------------------------------------------------

    def sees(self, query: Query, values: twin.Values) -> bool:
        """Tell that every event passes as a row, and tells the time."""
        return True

    def take_in(self, seen: twin.Seen) -> None:
        """Take an event into the lanes that it belongs to."""
        self._settle()
        self._last_key = seen.key
        for group in self._groups.values():
            query = group.query
            if query.key is not None and query.key != seen.key:
                continue
            apart = query.by_key or query.key is not None
            name = seen.key if apart else None
            lane = group.lanes.get(name)
            taken = self._taken(query, seen)
            if lane is None:
                if taken is None:
                    continue
                lane = group.lanes[name] = _Lane()
            mark = lane.seen + 1
            if query.last is None:
                mark = seen.time
                if not apart and self.passed is not None:
                    mark = max(mark, self.passed)
            lane.seen = lane.told = mark
            if taken is not None:
                lane.marks.append(mark)
                lane.values.append(taken)

    def _taken(self, query: Window, seen: twin.Seen) -> tuple[float, float] | None:
        """Return the value of an event and its place in the vector; None if it is left out."""
        if not self.inside(query, seen.key, seen.values):
            return None
        point = dict(zip(self.stream.attributes, seen.values, strict=True))
        value = 0.0 if query.attribute is None else point[query.attribute]
        by = 0.0 if query.per is None else point[query.per]
        if value is None or by is None:
            return None
        if query.statistic in SUMMED and abs(value) > LARGEST:
            return None
        return value, by

    def answer(self, query: Window, seen: twin.Seen) -> Iterator[twin.Happened]:
        """Yield what is told at an event: at each, or at the last of a step."""
        if query.key is not None and query.key != seen.key:
            return
        apart = query.by_key or query.key is not None
        if query.epsilon is not None and not (seen.last_of_key if apart else seen.last_of_all):
            return
        name = seen.key if apart else None
        lane = self._groups[_group_of(query)].lanes.get(name)
        if lane is not None:
            yield from self._told(query, name, lane, lane.seen)

    def let_pass(self, key: object, time: Any, awake: list[Any]) -> None:  # noqa: ANN401
        """Tell exact windows of time of the moments at which they change before an event."""
        self._settle()
        for query in awake:
            apart = query.by_key or query.key is not None
            if not apart:
                until = time if self.passed is None else max(time, self.passed)
                self._change_until(query, None, self._last_key, until)
            elif query.by_key or query.key == key:
                self._change_until(query, key, key, time)

    def let_end(self, now: Any, awake: list[Any]) -> None:  # noqa: ANN401
        """Tell exact windows of time of the moments at which they change until now."""
        self._settle()
        for query in awake:
            for name in self._groups[_group_of(query)].lanes:
                apart = query.by_key or query.key is not None
                self._change_until(query, name, name if apart else self._last_key, now)
        for group in self._groups.values():
            for lane in group.lanes.values():
                lane.told = None

    def _change_until(self, query: Window, name: object, key: object, until: Any) -> None:  # noqa: ANN401
        lane = self._groups[_group_of(query)].lanes.get(name)
        if lane is None or query.last is not None or query.epsilon is not None:
            return
        told = lane.told
        if told is None:
            told = lane.seen if self.passed is None else max(lane.seen, self.passed)
        extent = _extent(query)
        moments = {mark + extent for mark in lane.marks}
        periods = set()
        every: Any = query.every
        if every is not None and moments:
            begin = (told // every + 1) * every
            while begin <= max(moments):
                periods.add(begin)
                begin += every
        for moment in sorted(moments | periods):
            if told < moment <= until:
                before, value = (_value_of(query, lane, moment, at)[0] for at in (False, True))
                changes = before != value and not (math.isnan(before) and math.isnan(value))
                if changes or moment in periods:
                    for happened in self._told(query, name, lane, moment):
                        waits = self.waiting.setdefault((query.id, key), [])
                        waits.append((moment, happened))

    def pass_time(self, query: Window, key: object, now: Any) -> Iterator[twin.Happened]:  # noqa: ANN401
        """Yield what is told of a window of time at the end of a step, by the key that it tells."""
        self._settle()
        if query.epsilon is None:
            return
        apart = query.by_key or query.key is not None
        if query.last is not None or (not apart and key != self._last_key):
            return
        name = key if apart else None
        lane = self._groups[_group_of(query)].lanes.get(name)
        if lane is not None:
            yield from self._told(query, name, lane, now)

    def _told(self, query: Window, name: Any, lane: _Lane, now: Any) -> Iterator[twin.Happened]:  # noqa: ANN401
        value, n = _value_of(query, lane, now)
        said = self._said[query.id]
        before = said.get(name)
        event = None
        if query.every is not None:
            last = self._said_at[query.id].get(name)
            due = last is None or now // query.every > last // query.every
            event = "change" if due and not math.isnan(value) else None
        elif query.when is not None:
            nothing = math.nan if before is None else before
            inside, was_inside = _inside(query, value), _inside(query, nothing)
            if inside != was_inside:
                event = "enter" if inside else "leave"
        elif math.isnan(value):
            event = None if before is None or math.isnan(before) else "change"
        elif value != before:
            moved = before is None or not math.isfinite(before)
            if moved or abs(value - (before or 0.0)) > (query.epsilon or 0.0) * abs(before or 0.0):
                event = "change"
        if event is not None:
            said[name], self._said_at[query.id][name] = value, now
            shown = None if math.isnan(value) else value
            figures = [("value", shown), ("low", shown), ("high", shown), ("n", n)]
            told = tuple((column, each) for column, each in figures if each is not None)
            yield twin.Happened(event, told)


def _inside(query: Window, value: float) -> bool:
    assert query.when is not None
    assert not isinstance(query.when, (tuple, dict))
    return not math.isnan(value) and one_told(query.when, None, value, None) == "enter"  # type: ignore[arg-type]


def _extent(query: Window) -> Any:  # noqa: ANN401 - a number
    return query.span if query.last is None else query.last


def _group_of(query: Window) -> Any:  # noqa: ANN401 - something to compare
    family = {"mean": "sum", "l2": "l1"}.get(query.statistic, query.statistic)
    box = tuple(sorted((name, each.half_open()) for name, each in query.box.items()))
    scope = query.key, query.by_key, query.epsilon or 0.0, query.last is None
    return repr((family, query.attribute, query.per, box, scope))


def _value_of(
    query: Window,
    lane: _Lane,
    now: Any,  # noqa: ANN401 - a number
    at: bool = True,
) -> tuple[float, int]:
    extent = _extent(query)
    inside = [
        each
        for mark, each in zip(lane.marks, lane.values, strict=True)
        if mark + extent > now or (not at and mark + extent == now)
    ]
    values = [value for value, _ in inside]
    n = len(inside)
    match query.statistic:
        case "count":
            return float(n), n
        case "distinct":
            return float(len(set(values))), -1
        case "min" | "max":
            pick = min if query.statistic == "min" else max
            return (pick(values) if values else math.nan) + 0.0, -1
        case "l1" | "l2":
            return _norm(query.statistic, inside), n
    exact = [Fraction(value) for value in values]
    if query.statistic == "sum":
        return float(sum(exact)), n
    if not n:
        return math.nan, 0
    mean = sum(exact) / n
    if query.statistic == "mean":
        return float(mean), n
    return float(sum((each - mean) ** 2 for each in exact) / n), n


def _norm(statistic: str, inside: list[tuple[float, float]]) -> float:
    sums: dict[float, Fraction] = {}
    for value, by in inside:
        sums[by] = sums.get(by, Fraction(0)) + Fraction(value)
    if statistic == "l1":
        return float(sum(map(abs, sums.values())))
    return math.sqrt(float(sum(each**2 for each in sums.values())))
