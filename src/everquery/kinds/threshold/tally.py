"""Totals that are added up event by event: by key, by period, or with weights below 0.

What other thresholds lack only ever falls until they fire, so that many events can be counted at
once. These can't: whose total it is, or how far it is, depends on each event. So the events in a
query's box are found as those of a range query are, and their weights added up in a table of pairs
of query and key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Int32s, Int64s, move_columns, resized, total_bytes
from everquery.core.times import nanoseconds_of
from everquery.index.flags import Flags
from everquery.index.rows import Said, Step
from everquery.index.weighed import Fires
from everquery.kinds.threshold.periods import (
    DAY,
    MONDAY,
    NO_ZONE,
    WEEK,
    Days,
    Periods,
    days_of,
)
from everquery.kinds.threshold.set_back import set_back_totals
from everquery.kinds.threshold.tally_loop import EVENT, FIRED, USED, Entries, tally
from everquery.state.pairs import FREE, KEY_SHIFT, SLOT_MASK, refill_pairs

OF_ALL = -1  # the key of a total that is not by key
LEAST_ROOM = 64
SECOND = 10**9  # nanoseconds


@dataclass(frozen=True, slots=True)
class OrderedEvents:
    """Events in the order in which they count.

    Attributes
    ----------
    step : Step
        With its events in that order.
    key : int32, shape (n,)
    row : int64, shape (n,)
        Half of the position, rounded down.
    """

    step: Step
    key: Int32s
    row: Int64s

    @classmethod
    def of(cls, step: Step) -> OrderedEvents:
        """Return the events of a step as they are grouped."""
        key = np.repeat(step.grouped.key, np.diff(step.grouped.start))
        return cls(step, key, step.grouped.position >> 1)


class Tally:
    """The totals of queries that are added up event by event.

    Attributes
    ----------
    entries : Entries
    used : int
        How many entries are in use.
    """

    def __init__(self) -> None:
        self._periods = Periods.of(0, np.int64)
        self._zones: list[str] = []
        self._unread: Int32s = np.empty(0, np.int32)  # queries whose periods are not known yet
        self.clear()

    def clear(self) -> None:
        """Forget all totals."""
        self.entries = Entries.of(LEAST_ROOM)
        self.used = 0
        self._fill_table()

    def __len__(self) -> int:
        return self.used

    # -- queries ------------------------------------------------------------------------------

    def add(self, slots: Int32s) -> None:
        """Take note of queries; they have seen nothing."""
        self._unread = np.concatenate([self._unread, slots])

    def never_starts_again(self, slots: Int64s) -> Array:
        """Tell which queries have no periods."""
        never: Array = self._periods.every[slots] == 0
        return never

    def begin_step(self, step: Step) -> Days:
        """Learn how new queries divide time; return the days that the step's events are in."""
        return self._days_of(step.time, step.time_type, step.said)

    def _days_of(self, times: Array, time_type: pa.DataType | None, said: Said | None) -> Days:
        if self._unread.size:
            self._read(times.dtype, time_type, said)
        ticks = None if time_type is None else _ticks(time_type, 1)
        return days_of(self._zones if ticks else (), times, ticks or 1)

    def _read(self, dtype: np.dtype[Any], time_type: pa.DataType | None, said: Said | None) -> None:
        slots, self._unread = self._unread, np.empty(0, np.int32)
        self._make_room_for(int(slots.max()) + 1, dtype)
        span = None if said is None else said.span("every", slots)
        if span is None or said is None or time_type is None:
            return
        periods = self._periods
        every = span.in_units(time_type)[0]
        periods.every[slots] = every
        day = _ticks(time_type, DAY)
        if day is None:
            return  # numbers have neither weeks nor zones
        whole = every % day == 0
        periods.origin[slots] = np.where((every % (WEEK * day) == 0) & (every > 0), MONDAY * day, 0)
        zones = said.text("zone", slots)
        if zones is not None and pa.types.is_timestamp(time_type):
            periods.zone[slots] = self._numbers_of(zones)
            periods.days[slots] = np.where(whole, every // day, 0)

    def _numbers_of(self, zones: pa.Array) -> Int32s:
        distinct = zones.dictionary_encode()
        names = distinct.dictionary.to_pylist()
        self._zones += [name for name in names if name not in self._zones]
        numbers = np.array([*map(self._zones.index, names), NO_ZONE], np.int32)
        found: Int32s = numbers[np.asarray(distinct.indices.fill_null(len(names)))]
        return found

    def _make_room_for(self, slots: int, dtype: np.dtype[Any]) -> None:
        size = self._periods.every.size
        if slots > size or dtype != self._periods.every.dtype:
            larger = Periods.of(max(slots, 2 * size if slots > size else size), dtype.type)
            columns: zip[tuple[Array, Array]] = zip(self._periods, larger, strict=True)
            for old, new in columns:
                new[: old.size] = old
            self._periods = larger

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots, by their present ones; totals of dropped ones are lost."""
        before = self._periods
        self._periods = Periods.of(int(slots.max(initial=0)) + 1, before.every.dtype.type)
        move_columns(before, self._periods, slots)
        unread = slots[self._unread]
        self._unread = unread[unread > 0]
        self._keep(np.flatnonzero(slots[self.entries.pair[: self.used] & SLOT_MASK]))
        pairs = self.entries.pair[: self.used]
        pairs[:] = pairs & ~SLOT_MASK | slots[pairs & SLOT_MASK]
        self._fill_table()

    # -- events -------------------------------------------------------------------------------

    def count(
        self, found: Int32s, ends: Int64s, events: OrderedEvents, days: Days, totals: Int64s
    ) -> Fires:
        """Count events for the queries that they match; return which fire, with slots as rows."""
        step = events.step
        counts = np.array([self.used, 0, 0, 0], np.int64)
        out = np.empty(3 * LEAST_ROOM, np.int64)
        while True:
            out = tally(
                found, ends, (events.key, events.row), step.weight, step.time, step.flags, totals,
                self._periods, days, self.entries, self._table, counts, out,
            )  # fmt: skip
            self.used = int(counts[USED])
            if counts[EVENT] == ends.size:
                return Fires.of_words(out, int(counts[FIRED]))
            self._make_room(step.flags)
            counts[USED] = self.used

    def set_back(self, time: int | float, time_type: pa.DataType, said: Said) -> None:
        """Let totals begin anew that have come further than a time that is set back to."""
        then = np.full(1, time, np.float64 if time_type == pa.float64() else np.int64)
        days = self._days_of(then, time_type, said)
        entries, used = self.entries, self.used
        set_back_totals(
            then,
            entries.pair[:used] & SLOT_MASK,
            self._periods,
            days,
            entries.seen[:used],
            entries.period[:used],
            entries.fired[:used],
            entries.changed[:used],
        )

    # -- the table ----------------------------------------------------------------------------

    def _make_room(self, flags: Flags) -> None:
        """Make room for more pairs: that of dropped queries, or new one."""
        self._keep(np.flatnonzero(flags[self.entries.pair[: self.used] & SLOT_MASK]))
        if 2 * self.used > self.entries.pair.size:
            self._grow(2 * self.entries.pair.size)
        self._fill_table()

    def _grow(self, room: int) -> None:
        fills = {"pair": FREE}
        columns = self.entries._asdict().items()
        self.entries = Entries(*(resized(each, room, fills.get(name, 0)) for name, each in columns))

    def _keep(self, picked: Int64s) -> None:
        """Keep only the picked entries; the table is to be filled anew."""
        for column in self.entries:
            column[: picked.size] = column[picked]
        self.entries.pair[picked.size :] = FREE
        self.used = picked.size

    def _fill_table(self) -> None:
        size = 1 << (2 * self.entries.pair.size - 1).bit_length()
        self._table: Int32s = np.full(size, FREE, np.int32)
        refill_pairs(self._table, self.entries.pair, self.used)

    def progress(self, slot: int, key: int = OF_ALL) -> int:
        """Return what a query has seen of a key, or of all."""
        pair = (key + 1) << KEY_SHIFT | slot
        found = np.flatnonzero(self.entries.pair[: self.used] == pair)
        return int(self.entries.seen[found[0]]) if found.size else 0

    # -- state --------------------------------------------------------------------------------

    def saved(self, slots: Int32s, *, changed: bool) -> dict[str, Array]:
        """Return the totals of live queries, by their places among these; perhaps only some.

        What is returned counts as saved.
        """
        pairs = self.entries.pair[: self.used]
        slot = (pairs & SLOT_MASK).astype(np.int32)
        place = np.searchsorted(slots, slot)
        picked = slots[np.minimum(place, slots.size - 1)] == slot if slots.size else pairs < 0
        if changed:
            picked &= self.entries.changed[: self.used] != 0
        self.mark_saved()
        return {
            "query": place[picked].astype(np.int32),
            "key": (pairs[picked] >> KEY_SHIFT).astype(np.int32) - 1,
            "seen": self.entries.seen[: self.used][picked],
            "period": self.entries.period[: self.used][picked],
            "fired": self.entries.fired[: self.used][picked],
        }

    def mark_saved(self) -> None:
        """Take what is there as saved."""
        self.entries.changed[:] = 0

    def mark_changed(self) -> None:
        """Let all that is there have to be saved."""
        self.entries.changed[: self.used] = 1

    def changed(self) -> int:
        """Return how many totals have changed since they were saved."""
        return int(np.count_nonzero(self.entries.changed[: self.used]))

    def load(self, slots: Int32s, arrays: Mapping[str, Array]) -> None:
        """Set totals of queries, given by slot; each pair is there once."""
        pairs = (arrays["key"].astype(np.int64) + 1) << KEY_SHIFT | slots
        here = self.entries.pair[: self.used]
        order = np.argsort(here)
        place = np.searchsorted(here, pairs, sorter=order)
        entry = order[np.minimum(place, here.size - 1)] if here.size else np.zeros_like(pairs)
        fresh = here[entry] != pairs if here.size else np.ones(pairs.size, np.bool_)
        entry[fresh] = self.used + np.arange(np.count_nonzero(fresh))
        self.used += int(np.count_nonzero(fresh))
        if self.used > self.entries.pair.size:
            self._grow(max(self.used, 2 * self.entries.pair.size))
        self.entries.pair[entry] = pairs
        for name in ("seen", "period", "fired"):
            getattr(self.entries, name)[entry] = arrays[name]
        self._fill_table()

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(*self.entries, *self._periods, self._table)


def _ticks(kind: pa.DataType, seconds: int) -> int | None:
    """Return how many units of a time column make so many seconds; None if it has no such units."""
    unit = nanoseconds_of(kind)
    return None if unit is None else seconds * SECOND // unit
