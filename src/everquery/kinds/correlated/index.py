"""The correlated kind: aggregates of events whose x relates to the MIN, MAX or AVG of x.

Queries that ask the same of the same events, but for aggregate and direction, share a group. A
group has a lane for each key, or one for all. What is kept of a lane's events is exact
(`kept_events`) or a few blocks of a histogram (`histograms`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Floats, Int32s, Int64s, resized, total_bytes
from everquery.core.invariants import refuse
from everquery.core.parts import Part
from everquery.index.flags import SPANNED, Flags, option_flags
from everquery.index.kind import Explained, KindIndex
from everquery.index.layers import Layers
from everquery.index.row_segment import RowSegment
from everquery.index.rows import (
    NO_KEY,
    Findings,
    Grouped,
    Matches,
    NoticeColumn,
    Outcome,
    Rows,
    Said,
    Step,
)
from everquery.index.sort_keys import pack_findings
from everquery.index.weighed import order_by_position
from everquery.kinds.correlated.cuts import COUNT, WITHIN
from everquery.kinds.correlated.exact_sums import LIMBS
from everquery.kinds.correlated.lane_table import NOWHERE, Jobs, LaneTable
from everquery.kinds.correlated.records import Asked, columns_of, no_records, with_room
from everquery.kinds.correlated.spec import BUCKETS, EPSILON, FACTOR, Correlated, range_ends
from everquery.kinds.correlated.state import CorrelatedPart
from everquery.kinds.told_values import OUTCOMES
from everquery.stream import Stream

BY_KEY = option_flags(Correlated.options)["by_key"]
NAMES = tuple(number.name for number in Correlated.numbers)

Figures = tuple[float, float, float, float]
"""Value, lower and upper bound, and how many events it is of."""


class _BySlot(NamedTuple):
    """Where each query is: its group, and its place there; `NOWHERE` while it waits."""

    group: Int64s
    member: Int64s


class CorrelatedIndex(KindIndex):
    """Queries by group; see `lane_table`."""

    outcomes: ClassVar[tuple[Outcome, ...]] = OUTCOMES
    must_know_of_drops: ClassVar[bool] = True
    columns: ClassVar[tuple[NoticeColumn, ...]] = (
        NoticeColumn("value", pa.float64(), "the aggregate"),
        NoticeColumn("low", pa.float64(), "lower bound of the aggregate"),
        NoticeColumn("high", pa.float64(), "upper bound of the aggregate"),
        NoticeColumn("n", pa.int64(), "how many events its reference is of"),
    )

    def __init__(self) -> None:
        self.layers: Layers[RowSegment] = Layers(RowSegment)
        self.table = LaneTable()
        self._waiting: list[Rows] = []  # new queries, which get a group with the next events
        self._numbers = {each.name: np.empty(0, each.dtype) for each in Correlated.numbers}
        self._asked, self.by_slot = no_records(Asked), _nowhere()

    # -- queries ------------------------------------------------------------------------------

    def describe(self, slots: Int32s, numbers: Mapping[str, Array]) -> None:
        """Note what queries ask for."""
        most = int(slots.max(initial=-1)) + 1
        if most > self.by_slot.group.size:
            self._resize(max(most, 2 * self.by_slot.group.size))
        for name in NAMES:
            self._numbers[name][slots] = numbers[name]
        asked = columns_of(self._asked, Asked)
        asked.aggregate[slots], asked.compared[slots] = numbers["aggregate"], numbers["compared"]
        asked.low[slots], asked.high[slots] = range_ends(numbers)
        asked.epsilon[slots] = EPSILON.values(numbers["epsilon"])
        self.by_slot.group[slots] = NOWHERE

    def _resize(self, size: int) -> None:
        self._numbers = {name: resized(column, size) for name, column in self._numbers.items()}
        self._asked = with_room(self._asked, size)
        self.by_slot = _BySlot(*(resized(column, size, NOWHERE) for column in self.by_slot))

    def numbers(self, slots: Int32s) -> dict[str, Array]:
        """Return what queries ask for."""
        return {name: column[slots] for name, column in self._numbers.items()}

    def add(self, rows: Rows, flags: Flags, *, announce: bool = True) -> None:
        """Add queries; they see the events from now on."""
        self.layers.add(rows, flags)
        self._waiting.append(rows)

    def drop(self, slots: Int32s) -> None:
        """Take queries out of their groups."""
        placed = slots[self.by_slot.group[slots] != NOWHERE]
        if placed.size:
            self.table.drop(self.by_slot.group[placed], self.by_slot.member[placed])
        group = self.by_slot.group
        group[slots] = NOWHERE
        if self.table.has_many_dead_groups():
            group[:] = np.where(group == NOWHERE, NOWHERE, self.table.keep_live_groups()[group])
        kept = ((rows, np.flatnonzero(~np.isin(rows.slot, slots))) for rows in self._waiting)
        self._waiting = [rows.take(picked) for rows, picked in kept if picked.size]

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots, by their present ones."""
        self.layers.renumber(slots)
        self._waiting = [rows.renumbered(slots) for rows in self._waiting]
        self.table.renumber(slots)
        numbers, asked, by_slot = self._numbers, self._asked, self.by_slot
        kept = np.flatnonzero(slots[: by_slot.group.size])
        self._numbers = {name: column[:0] for name, column in numbers.items()}
        self._asked, self.by_slot = no_records(Asked), _nowhere()
        self._resize(int(slots.max(initial=0)) + 1)
        moved = slots[kept]
        before: tuple[Array, ...] = (*numbers.values(), asked, *by_slot)
        after: tuple[Array, ...] = (*self._numbers.values(), self._asked, *self.by_slot)
        for old, new in zip(before, after, strict=True):
            new[moved] = old[kept]

    def _settle(self, step: Step) -> None:
        """Put new queries into groups."""
        if step.time.dtype != self.table.dtype and step.time_type is not None:
            self.set_time_type(step.time.dtype)
        waiting, self._waiting = self._waiting, []
        for rows in waiting:
            picked = np.flatnonzero(self.by_slot.group[rows.slot] == NOWHERE)
            if picked.size:
                self._group(rows.take(picked), step)

    def set_time_type(self, dtype: Any) -> None:  # noqa: ANN401 - a NumPy type
        """Fix the type of marks, before the first event."""
        if self.table.n_lanes == 0 and self.table.dtype != dtype:
            self.table = LaneTable(dtype)

    def _group(self, rows: Rows, step: Step) -> None:
        """Put queries of one shape into groups, and make the lanes that they name."""
        of_each = step.flags[rows.slot] & BY_KEY != 0
        columns = self._columns(rows, of_each, step)
        key = rows.key if rows.shape.keyed else np.full(len(rows), NO_KEY, np.int32)
        told_apart = np.stack([*(_bits(column) for column in columns.values()), _bits(key)])
        _, first, group, sizes = np.unique(
            told_apart, axis=1, return_index=True, return_inverse=True, return_counts=True
        )
        group = group.reshape(-1)
        order = np.argsort(group, kind="stable")
        numbers = self.table.add_groups(
            {name: column[first] for name, column in columns.items()}, rows.slot[order], sizes
        )
        self.by_slot.group[rows.slot] = numbers[group]
        place = np.empty(len(rows), np.int64)
        place[order] = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        self.by_slot.member[rows.slot] = place
        with_lane = ~of_each[first]
        self.table.add_lanes(numbers[with_lane], key[first][with_lane])

    def _columns(self, rows: Rows, of_each: Bools, step: Step) -> dict[str, Array]:
        """Return what decides which queries share a group."""
        asked = self.numbers(rows.slot)
        timed, window = _windows(asked["last"], rows.slot, step)
        return {
            **self._about(rows.shape.attributes, asked),
            "timed": timed.astype(np.uint8),
            "of_each": of_each.astype(np.uint8),
            "window": window,
        }

    @staticmethod
    def _about(places: tuple[int, ...], asked: Mapping[str, Array]) -> dict[str, Array]:
        """Return what decides which queries share a group, as far as their numbers say it."""
        attributes = np.array([*places, NOWHERE], np.int32)
        exact = EPSILON.values(asked["epsilon"]) == 0
        return {
            "x": attributes[asked["where"] - 1],
            "y": attributes[asked["of"] - 1],
            "to": asked["to"].astype(np.uint8),
            "around": (asked["compared"] == WITHIN).astype(np.uint8),
            "sums": (asked["aggregate"] != COUNT).astype(np.uint8),
            "factor": FACTOR.values(asked["factor"]),
            "edges": np.where(exact, 0, BUCKETS.values(asked["buckets"])).astype(np.int32),
        }

    # -- events -------------------------------------------------------------------------------

    def process(self, step: Step) -> list[Matches | Findings]:
        """Return which queries are told something else from now on."""
        grouped = step.grouped
        if not grouped.position.size or not len(self.layers):
            return []
        self._settle(step)
        found: list[Matches | Findings] = []
        table = self.table
        jobs = table.jobs_by_key(grouped.key, grouped.start)
        if len(jobs):
            self._run(jobs, grouped, step, found)
        wide = table.wide_jobs(grouped.position.size)
        if len(wide):
            self._run(wide, _in_order(grouped), step, found)
        return found

    def _run(
        self, jobs: Int64s, events: Grouped, step: Step, found: list[Matches | Findings]
    ) -> None:
        times = np.zeros(events.position.size, self.table.dtype)
        if step.time_type is not None:
            times = step.time[events.position >> 1]
        given = Jobs(jobs, np.ascontiguousarray(events.values), times)
        told = self.table.run(given, self._asked, step.flags)
        if len(told):
            found.append(_findings(told, events.position))

    def set_back(self, time: int | float, time_type: pa.DataType, said: Said) -> None:
        """Let windows of time have come no further than a time that it is set back to."""
        self.table.set_back(time)

    # -- questions ----------------------------------------------------------------------------

    def answer(self, slot: int, key: int) -> Figures | None:
        """Return a query's answer for a key, or for all with `NO_KEY`; None without events."""
        group = int(self.by_slot.group[slot])
        lane = NOWHERE if group == NOWHERE else self.table.lane_of(group, key)
        if lane == NOWHERE:
            return None
        return self.table.answer(lane, slot, self._asked)

    def explain(self, slot: int) -> Explained | None:
        """Return what is kept for a query, and what an exact one would take."""
        for rows in self.layers.find(np.array([slot], np.int32)):
            where = rows.shape.attributes[int(self._numbers["where"][slot]) - 1]
            group = int(self.by_slot.group[slot])
            shared = 1 if group == NOWHERE else int(self.table.groups.live[group])
            path = self._kept(slot, group)
            return Explained(path, (where,), 1.0, 0.0, shared, sum(map(len, self.layers)))
        return None

    def _kept(self, slot: int, group: int) -> str:
        """Return in words what is kept for a query, with its memory and that of an exact one."""
        table = self.table
        exact = EPSILON.values(self._numbers["epsilon"][slot : slot + 1])[0] == 0
        lanes = np.flatnonzero(table.lanes.group[: table.n_lanes] == group)
        lanes = lanes[table.lanes.seen[lanes] > 0] if group != NOWHERE else lanes[:0]
        taken = 8 * int(table.sizes(lanes).sum()) if lanes.size else 0
        if exact:
            return f"every event that counts, in order ({taken:,} bytes in {lanes.size:,} lanes)"
        buckets = int(BUCKETS.values(self._numbers["buckets"][slot : slot + 1])[0])
        events = int(table.events(lanes).sum()) if lanes.size else 0
        windowed = bool(lanes.size) and bool(table.groups.window[group] > 0)
        whole = 8 * (lanes.size * LIMBS + events * (5 if windowed else 2))
        return (
            f"histogram of {buckets} buckets ({taken:,} bytes in {lanes.size:,} lanes; epsilon=0"
            f" would take {whole:,})"
        )

    # -- state --------------------------------------------------------------------------------

    def parts(self, queries: Callable[[], Int32s], keys: Callable[[], int]) -> Sequence[Part]:
        """Return the part of groups and lanes."""
        return (CorrelatedPart(self, queries, keys),)

    def check_loaded(
        self,
        rows: Rows,
        numbers: Mapping[str, Array],
        options: Mapping[str, Bools],
        stream: Stream,
    ) -> None:
        """Raise if what queries ask for can't be."""
        for each in Correlated.numbers:
            column = numbers[each.name]
            if np.isnan(column).any():
                refuse(f"{each.name} of a correlated query is no number")
            given = (column != 0) | each.required
            for limit in each.limits:
                if (limit.breaks(column) & given).any():
                    refuse(f"{each.name} of a correlated query can't be")
        if (rows.low != -np.inf).any() or not np.isnan(rows.high).all():
            refuse("a correlated query has a range")
        places = len(rows.shape.attributes)
        where, of = numbers["where"], numbers["of"]
        if (where < 1).any() or (where > places).any() or (of < 0).any() or (of > places).any():
            refuse("a correlated query is about an attribute that it does not name")
        if ((numbers["aggregate"] != COUNT) & (of == 0)).any():
            refuse("a correlated query sums nothing")
        if options["by_key"].any() and (stream.key is None or rows.shape.keyed):
            refuse("a correlated query is by key, and has one key, or the stream has none")

    def assign(self, slots: Int32s, group: Int64s, member: Int64s) -> None:
        """Put queries that were saved into their groups."""
        self.by_slot.group[slots], self.by_slot.member[slots] = group, member

    def check_groups(self) -> None:
        """Raise if groups that were saved are not those of their queries."""
        groups = self.table.groups
        for rows in (segment.all_rows() for segment in self.layers):
            picked = rows.take(np.flatnonzero(self.by_slot.group[rows.slot] != NOWHERE))
            asked, group = self.numbers(picked.slot), self.by_slot.group[picked.slot]
            rows_of_window = np.where(groups.timed[group] != 0, 0, groups.window[group])
            wanted = {**self._about(picked.shape.attributes, asked), "last": asked["last"]}
            for name, column in wanted.items():
                found = rows_of_window if name == "last" else getattr(groups, name)[group]
                if (found != column).any():
                    refuse("a group of correlated queries is not what they ask for")

    def nbytes(self) -> int:
        """Return the bytes of the structures."""
        columns: tuple[Array, ...] = (self._asked, *self.by_slot, *self._numbers.values())
        return self.layers.nbytes() + self.table.nbytes() + total_bytes(*columns)


def _nowhere() -> _BySlot:
    return _BySlot(*np.empty((2, 0), np.int64))


def _bits(column: Array) -> Int64s:
    """Return numbers as int64 that are equal just if they are."""
    if column.dtype == np.float64:
        return (column + 0.0).view(np.int64)
    return column.astype(np.int64)


def _windows(last: Int64s, slots: Int32s, step: Step) -> tuple[Bools, Array]:
    """Return which windows are spans of time, and how long windows are; 0 for all events."""
    dtype = np.int64 if step.time_type is None else step.time.dtype
    spanned = step.flags[slots] & SPANNED != 0
    window = last.astype(dtype)
    if spanned.any() and step.said is not None and step.time_type is not None:
        column = step.said.span("span", slots)
        if column is not None:
            units, bad = column.in_units(step.time_type)
            window = np.where(spanned, np.where(bad, 1, units), window).astype(dtype)
    return spanned, window


def _in_order(grouped: Grouped) -> Grouped:
    """Return the events of all keys in order of arrival."""
    n = grouped.position.size
    order = np.empty(n, np.int64)
    order_by_position(grouped.position, int(grouped.position.max() >> 1) + 1, order)
    return replace(
        grouped,
        position=grouped.position[order],
        values=np.ascontiguousarray(grouped.values[:, order]),
    )


def _findings(told: Floats, position: Int64s) -> Findings:
    event, slot, code, n = told[:, :4].T.astype(np.int64)
    packed = pack_findings(position[event], slot) | code
    order = np.argsort(packed, kind="stable")
    return Findings(
        packed[order],
        {
            "value": told[order, 4],
            "low": told[order, 5],
            "high": told[order, 6],
            "n": n[order],
        },
    )
