"""What each box of a network gives, from its page and the report's appendix 1, in plain Python.

A box is a function from whole streams to a whole stream: there are no batches, clocks or states
here. It is written from the page alone, and shares nothing with the code that it judges.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

Row = dict[str, Any]


class FailedError(Exception):
    """An expression fails on a row, which is then a dead letter."""


@dataclass(frozen=True)
class Arrow:
    """All rows of an arrow, and what is known of its columns.

    `kinds` has `number`, `whole`, `text` or `time` for each column. `ordered` says whether the rows
    come in the same order in every run, and `placed` whether they stand in that order here.
    """

    rows: list[Row]
    kinds: dict[str, str]
    time: str | None = None
    key: str | None = None
    ordered: bool = True
    placed: bool = True

    def of_kind(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.kinds.items() if kind in kinds]


@dataclass(frozen=True)
class Term:
    """An expression: its SQL, its function of a row or of the rows of a window, and its kind."""

    sql: str
    function: Callable[[Any], Any]
    kind: str = "number"


def known(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not None]


AGGREGATES: dict[str, tuple[str, Callable[[list[Any]], Any], str]] = {
    "count": ("count({})", lambda v: len(known(v)), "whole"),
    "sum": ("sum({})", lambda v: sum(known(v)) if known(v) else None, "number"),
    "avg": ("avg({})", lambda v: statistics.fmean(known(v)) if known(v) else None, "number"),
    "min": ("min({})", lambda v: min(known(v), default=None), "number"),
    "max": ("max({})", lambda v: max(known(v), default=None), "number"),
    "stddev": (
        "stddev({})",
        lambda v: statistics.stdev(known(v)) if len(known(v)) > 1 else None,
        "number",
    ),
    "first": ("first({})", lambda v: v[0], "number"),
    "last": ("last({})", lambda v: v[-1], "number"),
    "median": (
        "median({})",
        lambda v: statistics.median(known(v)) if known(v) else None,
        "number",
    ),
    "distinct": ("count(DISTINCT {})", lambda v: len(set(known(v))), "whole"),
    "spread": (
        "max({0}) - min({0})",
        lambda v: max(known(v)) - min(known(v)) if known(v) else None,
        "number",
    ),
}
NOT_LATCHED = {"median", "distinct"}
BY_ORDER = {"first", "last"}


def aggregate(name: str, column: str, kind: str) -> Term:
    """Return an aggregate of a column."""
    sql, function, gives = AGGREGATES[name]
    same = name in ("min", "max", "first", "last", "sum", "spread")
    return Term(
        sql.format(column),
        lambda rows: function([row[column] for row in rows]),
        kind if same else gives,
    )


def filtered(arrow: Arrow, condition: Term) -> Arrow:
    kept = []
    for row in arrow.rows:
        try:
            if condition.function(row) is True:
                kept.append(row)
        except FailedError:
            continue
    return replace(arrow, rows=kept)


def mapped(arrow: Arrow, items: dict[str, Term]) -> Arrow:
    rows = []
    for row in arrow.rows:
        try:
            rows.append({name: term.function(row) for name, term in items.items()})
        except FailedError:
            continue
    kinds = {name: term.kind for name, term in items.items()}
    return Arrow(
        rows,
        kinds,
        time=arrow.time if arrow.time in kinds else None,
        key=arrow.key if arrow.key in kinds else None,
        ordered=arrow.ordered,
        placed=arrow.placed,
    )


def united(arrows: Sequence[Arrow]) -> Arrow:
    first = arrows[0]
    times, keys = {one.time for one in arrows}, {one.key for one in arrows}
    return Arrow(
        [row for one in arrows for row in one.rows],
        first.kinds,
        time=first.time if len(times) == 1 else None,
        key=first.key if len(keys) == 1 else None,
        ordered=False,
        placed=False,
    )


@dataclass(frozen=True)
class Near:
    """How two arrows are joined: how far apart, by which equal columns, with what condition."""

    within: float
    equal: list[tuple[str, str]]
    rest: Term | None
    items: dict[str, tuple[int, str]]
    by: str = "time"


def joined(left: Arrow, right: Arrow, near: Near) -> Arrow:
    rows = []
    for at, one in enumerate(left.rows):
        for place, other in enumerate(right.rows):
            apart = at - place if near.by == "rows" else one[left.time] - other[right.time]
            if abs(apart) > near.within or any(
                one[a] is None or one[a] != other[b] for a, b in near.equal
            ):
                continue
            if near.rest is not None and near.rest.function((one, other)) is not True:
                continue
            rows.append({name: (one, other)[side][own] for name, (side, own) in near.items.items()})
    kinds = {name: (left, right)[side].kinds[own] for name, (side, own) in near.items.items()}
    came = {place: name for name, place in near.items.items()}
    time = came.get((0, left.time)) if near.by == "time" else None
    return Arrow(rows, kinds, time=time, key=came.get((0, left.key)), ordered=False, placed=False)


def resampled(
    values: Arrow, moments: Arrow, within: float, by: tuple[str, ...], predict: dict[str, Any]
) -> Arrow:
    """`predict` has an aggregate for each column, or the word previous or nearest and a column."""
    asked = {(tuple(row[c] for c in by), row[moments.time]): None for row in moments.rows}
    rows = []
    for group, at in asked:
        near = [
            row
            for row in values.rows
            if tuple(row[c] for c in by) == group and abs(row[values.time] - at) <= within
        ]
        told = dict(zip(by, group, strict=True)) | {moments.time: at}
        for name, how in predict.items():
            told[name] = (
                how.function(near) if isinstance(how, Term) else _looked(near, at, values, *how)
            )
        rows.append(told)
    kinds = {name: moments.kinds[name] for name in (*by, moments.time)}
    kinds |= {n: how.kind if isinstance(how, Term) else "number" for n, how in predict.items()}
    rows.sort(key=lambda row: row[moments.time])
    key = moments.key if moments.key in by else None
    return Arrow(
        rows, kinds, time=moments.time, key=key, ordered=moments.ordered, placed=moments.placed
    )


def _looked(near: list[Row], at: float, values: Arrow, word: str, column: str) -> Any:
    has = [row for row in near if row[column] is not None]
    if word == "previous":
        has = [row for row in has if row[values.time] <= at]
        return has[-1][column] if has else None
    # Rows of one time come in their order, the wanted moment behind them.
    before = [row for row in has if row[values.time] <= at][-1:]
    near = before + [row for row in has if row[values.time] > at][:1]
    return min(near, key=lambda row: abs(row[values.time] - at))[column] if near else None


def dropped(arrow: Arrow, *, rows: int = 0, time: float = 0, rate: float = 0) -> Arrow:
    if rows:
        kept = [row for at, row in enumerate(arrow.rows, 1) if at % rows]
    elif time:
        kept = [row for row in arrow.rows if row[arrow.time] % time]
    else:
        share = Fraction(rate)
        kept = [
            row
            for at, row in enumerate(arrow.rows)
            if math.floor((at + 1) * share) == math.floor(at * share)
        ]
    return replace(arrow, rows=kept)


@dataclass(frozen=True)
class Windows:
    """Windows by an index: their size, how far they move on, the groups, and what is told."""

    by: str
    size: float
    groups: tuple[str, ...]
    items: dict[str, Term]
    step: float | None = None
    on: str | None = None
    latch: bool = False


def windowed(arrow: Arrow, how: Windows, *, slide: bool) -> Arrow:
    """Tumble, latch and slide boxes: windows over the rows of each group."""
    label = "window_start" if not slide or (how.step and how.by != "rows") else "window_end"
    parts: dict[tuple[Any, ...], list[tuple[float, Row]]] = {}
    for row in arrow.rows:
        group = parts.setdefault(tuple(row[name] for name in how.groups), [])
        index = len(group) if how.by == "rows" else row[arrow.time if how.by == "time" else how.on]
        if index is not None:
            group.append((index, row))
    found, places = [], {id(row): place for place, row in enumerate(arrow.rows)}
    for group, rows in parts.items():
        for name, inside in _cut(rows, how, slide=slide):
            told = dict(zip(how.groups, group, strict=True))
            told |= {column: term.function(inside) for column, term in how.items.items()}
            found.append((name, places[id(inside[0])], {**told, label: name}))
    found.sort(key=lambda one: one[:2])
    index = "whole" if how.by == "rows" else arrow.kinds[arrow.time if how.by == "time" else how.on]
    kinds = {name: arrow.kinds[name] for name in how.groups}
    kinds |= {name: term.kind for name, term in how.items.items()} | {label: index}
    return Arrow(
        [row for *_, row in found],
        kinds,
        time=label if how.by == "time" else None,
        key=arrow.key if arrow.key in how.groups else None,
        ordered=arrow.ordered,
        placed=arrow.placed and (not how.groups or (how.by == "time" and not how.latch)),
    )


def _cut(rows: list[tuple[float, Row]], how: Windows, *, slide: bool) -> list[tuple[Any, list]]:
    """Return the windows of a group: the label and the rows of each."""
    if not slide:
        starts = sorted({index // how.size * how.size for index, _ in rows})
        return [
            (start, [row for i, row in rows if i < start + how.size and (how.latch or i >= start)])
            for start in starts
        ]
    if how.step is None or how.by == "rows":
        ends = sorted({index for index, _ in rows})
        if how.step is not None:
            ends = [end for end in ends if (end + 1) % how.step == 0]
        return [(end, [row for i, row in rows if end - how.size < i <= end]) for end in ends]
    starts = set()
    for index, _ in rows:
        start = index // how.step * how.step
        while start + how.size > index:
            starts.add(start)
            start -= how.step
    return [(at, [row for i, row in rows if at <= i < at + how.size]) for at in sorted(starts)]


def watched(arrow: Arrow, column: str, low: float, high: float, *, border: bool) -> list[Row]:
    """Return the notices of a range, or of a border, over one column."""
    found, inside = [], set()
    for row in arrow.rows:
        value = row[column]
        if value is None:
            continue
        key = row[arrow.key] if arrow.key else None
        now = low <= value < high
        event = "match" if now and not border else None
        if border and now != (key in inside):
            event = "enter" if now else "leave"
            (inside.add if now else inside.discard)(key)
        if event is not None:
            time = row[arrow.time] if arrow.time else None
            found.append({"event": event, "key": key, "time": time, column: value})
    return found


def told_so_far(
    batches: Sequence[list[Row]], how: Windows, *, slide: bool, grace: float | None
) -> tuple[list[list[Row]], int]:
    """Return what windows by time have told after each batch, and how many rows were late.

    Rows have a time `t` and may be out of order. A row of a window that has been told is late; with
    a grace, so is one that is further behind the newest than that.
    """
    clock, accepted, found, late = -math.inf, [], [], 0
    for batch in batches:
        for row in batch:
            behind = (
                row["t"] < clock if grace is not None else _is_over(row["t"], clock, how, slide)
            )
            late += behind
            accepted += [] if behind else [row]
        newest = max((row["t"] for row in batch), default=-math.inf)
        clock = max(clock, newest - (grace or 0))
        arrow = Arrow(sorted(accepted, key=lambda row: row["t"]), {"k": "text", "t": "time"}, "t")
        told = windowed(arrow, how, slide=slide).rows
        found.append([row for row in told if _ended(row, how) <= clock])
    return found, late


def _ended(row: Row, how: Windows) -> float:
    """Return from when on a window is over: a window that ends at a value has it inside."""
    return row["window_start"] + how.size if "window_start" in row else row["window_end"] + 0.01


def _is_over(time: float, clock: float, how: Windows, slide: bool) -> bool:
    if slide and how.step is None:
        return time < clock
    step = how.step or how.size
    first = (math.floor((time - how.size) / step) + 1) * step  # the first window that has it
    return first + how.size <= clock if first <= time else False
