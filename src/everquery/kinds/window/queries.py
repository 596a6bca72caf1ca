"""What window queries ask for, by slot, and the stores and groups that they are in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Floats, Int32s, Int64s, move_columns, resized
from everquery.index.flags import Flags, option_flags
from everquery.index.kind import KindIndex
from everquery.index.layers import Layers
from everquery.index.row_segment import RowSegment
from everquery.index.rows import (
    Rows,
    Said,
)
from everquery.kinds.window.families import MEAN, family_of
from everquery.kinds.window.groups import EACH, WIDE, Asked, GroupName, StoreName
from everquery.kinds.window.spec import Window, ends_of_range
from everquery.kinds.window.state import check_asked
from everquery.kinds.window.store import Store
from everquery.stream import NAMELESS, Stream

BY_KEY = option_flags(Window.options)["by_key"]
NOWHERE = -1


class _BySlot(NamedTuple):
    """What is known of each query, by slot.

    Attributes
    ----------
    statistic, attribute, per, last : int64
        As the numbers of a query are: 0 where it has none.
    epsilon, low, high : float64
    low_bits, high_bits : int64
        The ends of the range as numbers of a query.
    window, every : like time
        How long, or how many rows; and how often the value is told, 0 for when it has moved.
    store, group : int32
    """

    statistic: Int64s
    attribute: Int64s
    per: Int64s
    last: Int64s
    low_bits: Int64s
    high_bits: Int64s
    epsilon: Floats
    low: Floats
    high: Floats
    window: Array
    every: Array
    store: Int32s
    group: Int32s

    @classmethod
    def of(cls, size: int, dtype: Any) -> _BySlot:  # noqa: ANN401 - a NumPy type
        """Return room for so many queries."""
        return cls(
            *np.zeros((6, size), np.int64),
            *np.zeros((3, size)),
            *np.zeros((2, size), dtype),
            *np.full((2, size), NOWHERE, np.int32),
        )


class WindowQueries(KindIndex):
    """Queries by store and group; see `everquery.kinds.window.groups`."""

    must_know_of_drops: ClassVar[bool] = True  # those that came before keep a group going
    watches_time: ClassVar[bool] = True

    def __init__(self) -> None:
        self.layers: Layers[RowSegment] = Layers(RowSegment)
        self.stores: dict[StoreName, Store] = {}
        self._names: list[StoreName] = []  # by number
        self._by_slot = _BySlot.of(0, np.int64)
        self._unread: Int32s = np.empty(0, np.int32)  # queries whose spans are not known yet
        self._found: Int32s = np.empty(1 << 10, np.int32)
        self.last_key = NOWHERE  # of the last event of all
        self.now: int | float | None = None  # how far time had come at the end of the last step

    def is_watching(self) -> bool:
        """Tell whether there are windows of time."""
        return any(name.timed and len(store) for name, store in self.stores.items())

    def describe(self, slots: Int32s, numbers: Mapping[str, Array]) -> None:
        """Note what queries ask for."""
        most = int(slots.max(initial=-1)) + 1
        if most > self._by_slot.epsilon.size:
            size = max(most, 2 * self._by_slot.epsilon.size)
            self._by_slot = _BySlot(*(resized(column, size, NOWHERE) for column in self._by_slot))
        by_slot = self._by_slot
        for name in ("statistic", "attribute", "per", "last", "epsilon"):
            getattr(by_slot, name)[slots] = numbers[name]
        by_slot.low_bits[slots], by_slot.high_bits[slots] = numbers["when_lo"], numbers["when_hi"]
        by_slot.low[slots], by_slot.high[slots] = ends_of_range(numbers)
        by_slot.window[slots] = numbers["last"]
        by_slot.every[slots] = 0

    def numbers(self, slots: Int32s) -> dict[str, Array]:
        """Return what queries ask for."""
        by_slot = self._by_slot
        return {
            "statistic": by_slot.statistic[slots],
            "attribute": by_slot.attribute[slots],
            "per": by_slot.per[slots],
            "last": by_slot.last[slots],
            "epsilon": by_slot.epsilon[slots],
            "when_lo": by_slot.low_bits[slots],
            "when_hi": by_slot.high_bits[slots],
        }

    def add(self, rows: Rows, flags: Flags, *, announce: bool = True) -> None:
        """Add queries to their groups."""
        self.layers.add(rows, flags)
        by_slot, slots = self._by_slot, rows.slot
        each = flags[slots] & BY_KEY != 0
        timed = by_slot.last[slots] == 0
        self._unread = np.concatenate([self._unread, slots[timed]])
        key = np.where(each, EACH, rows.key if rows.shape.keyed else WIDE).astype(np.int64)
        alike = np.vstack(
            [
                by_slot.statistic[slots], by_slot.attribute[slots], by_slot.per[slots], timed, key,
                by_slot.epsilon[slots].view(np.int64), rows.low.view(np.int64),
                rows.high.view(np.int64),
            ]
        )  # fmt: skip
        _, first, place = np.unique(alike, axis=1, return_index=True, return_inverse=True)
        numbers = np.array([self._group_of(rows, int(i), int(key[i])) for i in first], np.int32)
        store, group = numbers[place.reshape(-1)].T
        by_slot.store[slots], by_slot.group[slots] = store, group
        for number in np.unique(store).tolist():
            self._store(number).join(group[store == number])

    def _group_of(self, rows: Rows, row: int, key: int) -> tuple[int, int]:
        """Return the store and the group of a row, which begin if there are none."""
        by_slot, slot = self._by_slot, rows.slot[row]
        attributes = rows.shape.attributes
        statistic, epsilon = int(by_slot.statistic[slot]), float(by_slot.epsilon[slot])
        place = int(by_slot.attribute[slot]) - 1
        positive = place >= 0 and bool(rows.low[place, row] >= 0)
        family = family_of(statistic, exact=epsilon == 0, positive=positive)
        name = StoreName(family, epsilon == 0, bool(by_slot.last[slot] == 0))
        if name not in self.stores:
            self.stores[name] = Store(name)
            self.stores[name].set_time_type(self._by_slot.window.dtype)
        if name not in self._names:
            self._names.append(name)
        store = self.stores[name]
        attribute, by = (
            NAMELESS if not column[slot] else attributes[int(column[slot]) - 1]
            for column in (by_slot.attribute, by_slot.per)
        )
        high = [None if np.isnan(each) else float(each) for each in rows.high[:, row]]
        group = GroupName(
            attribute, by, epsilon, key, attributes, tuple(rows.low[:, row].tolist()), tuple(high),
            quotient=epsilon > 0 and statistic == MEAN,
        )  # fmt: skip
        return self._names.index(name), store.number_of(group)

    def _store(self, number: int) -> Store:
        return self.stores[self._names[number]]

    def _by_store(self, slots: Int32s) -> Iterator[tuple[Store, Int32s]]:
        """Yield stores, and which of the queries are theirs."""
        number = self._by_slot.store[slots]
        for each in np.unique(number).tolist():
            if each != NOWHERE:
                yield self._store(each), slots[number == each]

    def drop(self, slots: Int32s) -> None:
        """Take queries out of their groups; a group without any is forgotten."""
        for store, part in self._by_store(slots):
            store.leave(self._by_slot.group[part])
        self._by_slot.store[slots] = NOWHERE
        if self._unread.size:
            self._unread = self._unread[self._by_slot.store[self._unread] != NOWHERE]

    def resume(self, slots: Int32s) -> None:
        """Let queries be told what they missed, as time passes or with their next event."""
        for store, part in self._by_store(slots):
            store.look_anew(self._by_slot.group[part])

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots, by their present ones."""
        self.layers.renumber(slots)
        before = self._by_slot
        self._by_slot = _BySlot.of(int(slots.max(initial=0)) + 1, before.window.dtype)
        move_columns(before, self._by_slot, slots)
        unread = slots[self._unread]
        self._unread = unread[unread > 0]
        for store in self.stores.values():
            store.renumber(slots)

    def move_to_past(self, slots: Int32s, past: int) -> None:
        """Give queries that have just been added groups of their own, which have had no events."""
        for store, part in self._by_store(slots):
            before = self._by_slot.group[part]
            moved = {number: store.names[number] for number in np.unique(before).tolist()}
            store.leave(before)
            for number, name in moved.items():
                assert name is not None
                here = part[before == number]
                self._by_slot.group[here] = store.number_of(name._replace(past=past))
            store.join(self._by_slot.group[part])

    def past_of(self, slots: Int32s) -> Int64s:
        """Return the number of the past that queries began in; 0 for those that did not."""
        found = np.zeros(slots.size, np.int64)
        for number, name in enumerate(self._names):
            pasts = np.array([each.past if each else 0 for each in self.stores[name].names])
            here = self._by_slot.store[slots] == number
            found[here] = pasts[self._by_slot.group[slots[here]]]
        return found

    def settle(
        self,
        time_type: pa.DataType | None,
        said: Said | None,
        begun: Any,  # noqa: ANN401 - a time
    ) -> None:
        """Put new queries in order; `begun` is how far time had come before."""
        if self._unread.size and time_type is not None and said is not None:
            self._read_spans(time_type, said)
        by_slot = self._by_slot
        for number, name in enumerate(self._names):
            store = self.stores[name]
            if store.changed and not (name.timed and time_type is None):
                slots = np.flatnonzero(by_slot.store == number).astype(np.int32)
                asked = Asked(
                    by_slot.group, by_slot.statistic, by_slot.window, by_slot.every, by_slot.low,
                    by_slot.high, by_slot.epsilon,
                )  # fmt: skip
                store.settle(slots, asked, begun)

    def _read_spans(self, time_type: pa.DataType, said: Said) -> None:
        slots, self._unread = self._unread, np.empty(0, np.int32)
        dtype = np.float64 if time_type == pa.float64() else np.int64
        self._set_time_type(dtype)
        for name, column in (("span", self._by_slot.window), ("every", self._by_slot.every)):
            span = said.span(name, slots)
            if span is not None:
                column[slots] = span.in_units(time_type)[0]

    def _set_time_type(self, dtype: Any) -> None:  # noqa: ANN401 - a NumPy type
        if self._by_slot.window.dtype != dtype:
            self._by_slot = self._by_slot._replace(
                window=self._by_slot.window.astype(dtype), every=self._by_slot.every.astype(dtype)
            )
            for store in self.stores.values():
                store.set_time_type(dtype)

    def set_back(self, time: int | float, time_type: pa.DataType, said: Said) -> None:
        """Let no event be later than a time."""
        self.settle(time_type, said, time)
        self.now = None if self.now is None else min(self.now, time)
        for name, store in self.stores.items():
            if name.timed and store.used:
                then = np.full(1, time, store.dtype)
                store.set_back(then)

    def check_loaded(
        self,
        rows: Rows,
        numbers: Mapping[str, Array],
        options: Mapping[str, Bools],
        stream: Stream,
    ) -> None:
        """Raise if what queries ask for can't be."""
        by_key = bool(options["by_key"].any())
        can_be = stream.key is not None and not rows.shape.keyed
        check_asked(numbers, rows.shape.attributes, by_key=by_key, can_be=can_be)

    def stores_of(self, slots: Int32s) -> tuple[Int32s, Int32s]:
        """Return the store and the group of queries."""
        return self._by_slot.store[slots], self._by_slot.group[slots]

    def store_names(self) -> list[StoreName]:
        """Return the names of all stores, by number."""
        return list(self._names)
