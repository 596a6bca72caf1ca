"""The spans of queries by slot: how long each lives, dwells, holds back and waits for a key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Bytes, Int32s, Int64s, resized, total_bytes
from everquery.queries.spans import SpanColumn, misfit
from everquery.state.pairs import end_of_time

SPANS = ("ttl", "dwell", "throttle", "after")
"""The spans of rules. Kinds may have others, of which only the units are looked after here."""
BASED = ("ttl", "after")  # counted from when the query begins to live
_NONE: Int32s = np.empty(0, np.int32)


class Rules:
    """The spans of queries, by slot. Columns end with the last slot that needs them.

    Attributes
    ----------
    dwell, throttle : like time
        In units of the time column; 0 where there is none.
    end : like time
        When the query ends; the end of time where it does not, or where that is not known yet.
    after : like time
        How long a key may be silent; 0 where that does not matter.
    since : like time
        When a query with `after` began to live; the end of time where that is not known yet.
    home : int32
        The key whose notices a query's end stands among, or -1.
    users : int
        How many live queries have rules.
    spanned : int
        How many live queries have a span at all.
    """

    def __init__(self) -> None:
        self._amount: dict[str, Int64s] = {}
        self._unit: dict[str, Bytes] = {}
        self.dwell: Array = np.empty(0, np.int64)
        self.throttle: Array = np.empty(0, np.int64)
        self.after: Array = np.empty(0, np.int64)
        self.end: Array = np.empty(0, np.int64)
        self.since: Array = np.empty(0, np.int64)
        self.home: Int32s = _NONE
        self.users = 0
        self.spanned = 0
        self.next_end: int | float | None = None
        self.adopted = False  # whether lives began elsewhere, which is not saved yet
        self._unread: Int32s = _NONE  # in units that are not known yet, or that do not fit
        self._unbased: Int32s = _NONE  # live from the first event on, which has not come

    # -- queries ------------------------------------------------------------------------------

    def add(self, slots: Int32s, spans: Mapping[str, SpanColumn], home: Int32s) -> Int32s:
        """Note the spans of new queries; return the slots of those that have some."""
        given = np.zeros(slots.size, np.bool_)
        ruled = np.zeros(slots.size, np.bool_)
        for name, column in spans.items():
            rows = column.given()
            given |= rows
            if name in SPANS:
                ruled |= rows
            self._put(name, slots[rows], column.take(rows))
            if name == "ttl":
                self.home = _with_room(self.home, slots, -1)
                self.home[slots[rows]] = home[rows]
        found: Int32s = slots[given]
        self.users += int(np.count_nonzero(ruled))
        self.spanned += found.size
        self._unread = np.concatenate([self._unread, found])
        return found

    def _put(self, name: str, slots: Int32s, column: SpanColumn) -> None:
        amount = self._amount.get(name, np.empty(0, np.int64))
        unit = self._unit.get(name, np.empty(0, np.uint8))
        self._amount[name] = amount = _with_room(amount, slots)
        self._unit[name] = unit = _with_room(unit, slots)
        amount[slots] = column.amount
        unit[slots] = column.unit

    def column(self, name: str, slots: Array) -> SpanColumn | None:
        """Return a span of queries; None if no query has it."""
        if name not in self._unit:
            return None
        short = self._unit[name].size
        known = np.where(slots < short, slots, 0)
        column = SpanColumn(self._amount[name][known], self._unit[name][known])
        column.unit[slots >= short] = 0
        return column

    def spans(self, slots: Array, names: tuple[str, ...]) -> dict[str, SpanColumn]:
        """Return those spans that some of the queries have."""
        columns = {name: self.column(name, slots) for name in names}
        return {
            name: column
            for name, column in columns.items()
            if column is not None and column.given().any()
        }

    def drop(self, slots: Int32s) -> Bools:
        """Forget queries that end; return which of them had spans."""
        had = self._has_any(slots)
        self.users -= int(np.count_nonzero(self._has_any(slots, SPANS)))
        self.spanned -= int(np.count_nonzero(had))
        for unit in self._unit.values():
            unit[slots[slots < unit.size]] = 0
        for name, fill in self._by_slot().items():
            column = getattr(self, name)
            column[slots[slots < column.size]] = fill
        self._unread = self._unread[self._has_any(self._unread)]
        self._unbased = self._unbased[self._has_any(self._unbased)]
        return had

    def _by_slot(self) -> dict[str, float]:
        """Return what stands in each column of times where a query has nothing there."""
        never = end_of_time(self.end.dtype)
        return {"dwell": 0, "throttle": 0, "after": 0, "end": never, "since": never}

    def _has_any(self, slots: Int32s, names: Iterable[str] | None = None) -> Bools:
        any_span = np.zeros(slots.size, np.bool_)
        for name in self._unit if names is None else names:
            column = self.column(name, slots)
            if column is not None:
                any_span |= column.given()
        return any_span

    def diverts(self, slots: Int32s) -> Bools:
        """Tell which queries have more than a life that ends."""
        kept: Bools = (_taken(self.dwell, slots, 0) > 0) | (_taken(self.throttle, slots, 0) > 0)
        return kept

    # -- units of time ------------------------------------------------------------------------

    def misfit(self, kind: pa.DataType) -> tuple[int, str] | None:
        """Return a query whose spans times of this type can't tell, and why; None if all fit."""
        for name in self._unit:
            column = self.column(name, self._unread)
            if column is not None:
                bad = column.in_units(kind)[1]
                if bad.any():
                    row = int(np.argmax(bad))
                    return int(self._unread[row]), misfit(name, column.span(row), kind)
        return None

    def set_time_type(self, kind: pa.DataType, dtype: type[np.int64] | type[np.float64]) -> None:
        """Fix the type of times; nothing has been read yet."""
        for name in ("dwell", "throttle", "after"):
            setattr(self, name, getattr(self, name).astype(dtype))
        for name in ("end", "since"):
            setattr(self, name, np.full(getattr(self, name).size, end_of_time(dtype), dtype))
        self.read(kind, None)

    def read(self, kind: pa.DataType, now: int | float | None) -> None:
        """Turn the spans of new queries into units of time, except those that do not fit.

        Parameters
        ----------
        now : number or None
            The newest time seen, where lives begin; None lets them wait for the first event.
        """
        slots = self._unread
        bad = np.zeros(slots.size, np.bool_)
        units = {}
        for name in self._unit:
            column = self.column(name, slots)
            if column is not None:
                units[name], misfits = column.in_units(kind)
                bad |= misfits
        self._unread = slots[bad]
        based = np.zeros(slots.size, np.bool_)
        for name, values in units.items():
            rows = ~bad & (values > 0)
            if name in BASED:
                based |= rows
            if name in SPANS and name != "ttl" and rows.any():
                numbers = _with_room(getattr(self, name), slots)
                numbers[slots[rows]] = values[rows]
                setattr(self, name, numbers)
        if now is None:
            self._unbased = np.concatenate([self._unbased, slots[based]])
        else:
            self._let_live(slots[based], kind, now)

    def begin(self, kind: pa.DataType, now: int | float) -> None:
        """Let the lives of queries begin that waited for the first event."""
        slots, self._unbased = self._unbased, _NONE
        self._let_live(slots, kind, now)

    def _let_live(self, slots: Int32s, kind: pa.DataType, now: int | float) -> None:
        """Note when queries end whose lives begin now, and from when on keys may be silent."""
        waiting = slots[_taken(self.after, slots, 0) > 0]
        if waiting.size:
            self.since = _with_room(self.since, waiting, end_of_time(self.since.dtype))
            self.since[waiting] = now
        column = self.column("ttl", slots)
        if column is None or not column.given().any():
            return
        slots, column = slots[column.given()], column.take(column.given())
        never = end_of_time(self.end.dtype)
        self.end = _with_room(self.end, slots, never)
        lives = column.in_units(kind)[0]
        fits = lives <= never - max(now, 0)  # within 64 bits
        self.end[slots] = np.where(fits, lives + self.end.dtype.type(now), never)
        self.next_end = min(self.end.min().item(), never)

    def ends(self) -> tuple[Int32s, Array]:
        """Return the queries of which it is known when they end, and when."""
        slots = np.flatnonzero(self.end < end_of_time(self.end.dtype)).astype(np.int32)
        return slots, self.end[slots]

    def set_ends(self, slots: Int32s, ends: Array) -> None:
        """Say when queries end, whenever their lives began."""
        self.end = _with_room(self.end, slots, end_of_time(self.end.dtype))
        self.end[slots] = ends
        self._unbased = self._unbased[~np.isin(self._unbased, slots)]
        self.still_living()

    def reset_time(self, kind: pa.DataType, time: int | float) -> None:
        """Let no query live longer than its span from a time that was set back."""
        since = self.since.copy()
        slots, ends = self.ends()
        if slots.size:
            self._let_live(slots, kind, time)
            self.set_ends(slots, np.minimum(ends, self.end[slots]))
        unknown = since == end_of_time(since.dtype)
        self.since = np.where(unknown, since, np.minimum(since, time)).astype(since.dtype)

    @property
    def waits_for_first_event(self) -> bool:
        """Whether lives are to begin with the first event."""
        return self._unbased.size > 0

    def ending(self, limit: int | float) -> Int32s:
        """Return the queries that end at or before a time."""
        if self.next_end is None or limit < self.next_end:
            return _NONE
        ending = np.flatnonzero(self.end <= limit).astype(np.int32)
        later = self.end[self.end > limit]
        self.next_end = later.min().item() if later.size else None
        return ending

    def still_living(self) -> None:
        """Look at all ends again: some queries that might have ended did not."""
        self.next_end = self.end.min().item() if self.end.size else None

    # -- upkeep -------------------------------------------------------------------------------

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots, by their present ones; those dropped have 0."""
        kept = np.flatnonzero(slots)
        for name in self._unit:
            self._amount[name] = _moved(self._amount[name], kept, slots, 0)
            self._unit[name] = _moved(self._unit[name], kept, slots, 0)
        for name, fill in self._by_slot().items():
            setattr(self, name, _moved(getattr(self, name), kept, slots, fill))
        self.home = _moved(self.home, kept, slots, -1)
        self._unread = slots[self._unread]
        self._unbased = slots[self._unbased]

    def save(self, arrays: dict[str, Array], kept: Int64s) -> None:
        """Save the spans of the kept queries, by their places among those."""
        for name in self._unit:
            column = self.column(name, kept)
            assert column is not None
            arrays[f"{name}.amount"] = column.amount
            arrays[f"{name}.unit"] = column.unit
        never = end_of_time(self.end.dtype)
        arrays["end"] = _taken(self.end, kept, never)
        if "after" in self._unit:
            arrays["since"] = _taken(self.since, kept, never)
        arrays["home"] = _taken(self.home, kept, -1)
        arrays["unbased"] = np.flatnonzero(np.isin(kept, self._unbased)).astype(np.int32)

    def load(self, arrays: dict[str, Array], kept: Int64s, kind: pa.DataType | None) -> None:
        """Take over the spans of the kept queries, and forget all others."""
        vars(self).update(vars(Rules()))
        for name in [label.removesuffix(".unit") for label in arrays if label.endswith(".unit")]:
            self._amount[name] = _spread(arrays[f"{name}.amount"], kept, 0)
            self._unit[name] = _spread(arrays[f"{name}.unit"], kept, 0)
        self.end = _spread(arrays["end"], kept, end_of_time(arrays["end"].dtype))
        if "since" in arrays:
            self.since = _spread(arrays["since"], kept, end_of_time(arrays["since"].dtype))
        self.home = _spread(arrays["home"], kept, -1)
        every = kept.astype(np.int32)
        self._unread = every[self._has_any(every)]
        self.users = int(np.count_nonzero(self._has_any(every, SPANS)))
        self.spanned = self._unread.size
        for name in ("dwell", "throttle", "after", "since"):
            setattr(self, name, getattr(self, name).astype(self.end.dtype))
        if kind is not None:
            self.read(kind, None)
        self._unbased = every[arrays["unbased"]]
        self.still_living()

    def adopt(self, arrays: Mapping[str, Array], slots: Int32s) -> None:
        """Take over when lives of queries began and end, which `save` saved elsewhere."""
        self.adopted = True
        self.set_ends(slots, arrays["end"])
        if "since" in arrays:
            self.since = _with_room(self.since, slots, end_of_time(self.since.dtype))
            self.since[slots] = arrays["since"]
        self._unbased = np.concatenate([self._unbased, slots[arrays["unbased"]]])

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        read = total_bytes(*(getattr(self, name) for name in self._by_slot()), self.home)
        return read + total_bytes(*self._amount.values()) + total_bytes(*self._unit.values())


def _with_room(column: Array, slots: Int32s, fill: float = 0) -> Array:
    needed = int(slots.max(initial=-1)) + 1
    if needed <= column.size:
        return column
    return resized(column, max(needed, column.size * 3 // 2), fill)


def _taken(column: Array, slots: Array, fill: float) -> Array:
    taken = np.full(slots.size, fill, column.dtype)
    known = slots < column.size
    taken[known] = column[slots[known]]
    return taken


def _spread(column: Array, slots: Array, fill: float) -> Array:
    """Return a column by slot of one that is by place in the slots."""
    spread = np.full(int(slots.max(initial=-1)) + 1, fill, column.dtype)
    spread[slots] = column
    return spread


def _moved(column: Array, kept: Int64s, slots: Int32s, fill: float) -> Array:
    """Return a column in which each kept slot stands at its new place."""
    if not column.size:
        return column
    moved = np.full(kept.size + 1, fill, column.dtype)
    moved[slots[kept]] = _taken(column, kept, fill)
    return moved
