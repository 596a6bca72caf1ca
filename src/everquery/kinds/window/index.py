"""The window kind: statistics of the last rows or of a span of time, for keys and for all.

Exact windows are told at each event, and those of time at each moment at which an event leaves
them: that is a deadline of the key, or of the key whose event came last before it where the window
is one of all keys. Approximate ones are told once a batch, at the last event of their key or of
all; those of time are looked at once more at the end of a step, as of how far time has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Floats, Int32s, Int64s, move_columns, resized
from everquery.core.parts import Part
from everquery.index.clock import NO_EVENT, Clock, Due, join_due
from everquery.index.flags import Flags, option_flags
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
from everquery.kinds.told_values import OUTCOMES
from everquery.kinds.window.families import FAMILY, MEAN
from everquery.kinds.window.runs import ALL, Runs
from everquery.kinds.window.spec import Window, ends_of_range
from everquery.kinds.window.state import WindowPart, check_asked
from everquery.kinds.window.store import EACH, WIDE, Asked, GroupName, Store, StoreName
from everquery.kinds.window.telling import Told
from everquery.state.pairs import KEY_SHIFT, SLOT_MASK
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


class WindowIndex(KindIndex):
    """Queries by store and group; see `everquery.kinds.window.store`."""

    outcomes: ClassVar[tuple[Outcome, ...]] = OUTCOMES
    must_know_of_drops: ClassVar[bool] = True  # those that came before keep a group going
    watches_time: ClassVar[bool] = True
    columns: ClassVar[tuple[NoticeColumn, ...]] = (
        NoticeColumn("value", pa.float64(), "the statistic of the window"),
        NoticeColumn("low", pa.float64(), "lower bound of the value, which holds"),
        NoticeColumn("high", pa.float64(), "upper bound of the value, which holds"),
        NoticeColumn("n", pa.int64(), "of how many events it is; -1 where that is not kept"),
    )

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

    # -- queries ------------------------------------------------------------------------------

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
        family = FAMILY[int(by_slot.statistic[slot])]
        epsilon = float(by_slot.epsilon[slot])
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
            quotient=epsilon > 0 and int(by_slot.statistic[slot]) == MEAN,
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

    # -- time ---------------------------------------------------------------------------------

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

    # -- events -------------------------------------------------------------------------------

    def process(self, step: Step) -> Sequence[Matches | Findings | Due]:
        """Return what queries are told at events."""
        clock = None if step.passage is None else step.passage.clock
        begun = 0 if clock is None else clock.passed
        self.settle(step.time_type, step.said, begun)
        for name, store in self.stores.items():
            if name.timed and name.exact:
                store.find_soonest(begun)
        if not step.grouped.position.size or not len(self.layers):
            return []
        together: Step | None = None
        found: list[Matches | Findings | Due] = []
        keys = _keys_of(step.grouped)
        for name, store in self.stores.items():
            marks = np.zeros(0, store.dtype)
            if store.heads.size > 1 or store.each_plain or len(store.boxes):
                if name.timed and step.passage is not None:
                    marks = step.passage.time.astype(store.dtype, copy=False)
                runs = self._keyed_runs(store, step, keys, begun)
                told = self._take(store, runs, marks, step, found)
                if len(told.numbers):
                    place = ~told.numbers[:, 0]
                    found.append(_due(told, keys[place], place))
            if store.used and store.heads[0] != NOWHERE:
                if together is None:
                    together = _together(step)
                if name.timed and clock is not None:
                    marks = np.maximum(step.time[together.grouped.position >> 1], clock.passed)
                    marks = marks.astype(store.dtype, copy=False)
                runs = self._wide_runs(store, together)
                told = self._take(store, runs, marks, together, found)
                if len(told.numbers):
                    found.append(self._wide_due(told, step.grouped, together.grouped.position))
        self.last_key = int(keys[np.argmax(step.grouped.position)])
        return found

    def _take(
        self,
        store: Store,
        runs: Runs,
        marks: Array,
        step: Step,
        found: list[Matches | Findings | Due],
    ) -> Told:
        """Take events in; return what is told of moments without any."""
        if not runs.lane.size:
            return Told.room(0, store.dtype)
        told = store.take(runs, marks, step.grouped.values, step.flags)
        between = told.numbers[:, 0] < 0
        if not between.any():
            found.append(_findings(told, step.grouped.position))
            return Told.room(0, store.dtype)
        if not between.all():
            found.append(_findings(_picked(told, ~between), step.grouped.position))
        return _picked(told, between)

    def _wide_due(self, told: Told, grouped: Grouped, position: Int64s) -> Due:
        """Return deadlines of windows of all keys as those of the key whose event came before.

        Parameters
        ----------
        position : int64
            Those of all events in order.
        """
        event = ~told.numbers[:, 0]
        place_at = np.empty(int(position[-1]) + 1, np.int64)
        place_at[grouped.position] = np.arange(grouped.position.size)
        key = np.full(event.size, self.last_key, np.int32)
        later = np.flatnonzero(event)
        before = place_at[position[event[later] - 1]]
        key[later] = grouped.key[np.searchsorted(grouped.start, before, "right") - 1]
        return _due(told, key, place_at[position[event]])

    def _keyed_runs(self, store: Store, step: Step, keys: Int32s, begun: Any) -> Runs:  # noqa: ANN401
        grouped = step.grouped
        for number in store.each_plain:
            store.lanes_for((grouped.key.astype(np.int64) + 1) << KEY_SHIFT | number, begun)
        lane_of_match, place = self._matches(store, step, keys, begun, wide=False)
        lane, key = store.lanes_of_keys(grouped.key)
        return _runs(store, lane, grouped.start[key], grouped.start[key + 1], lane_of_match, place)

    def _wide_runs(self, store: Store, step: Step) -> Runs:
        n = step.grouped.position.size
        keys = np.full(n, NO_KEY, np.int32)
        lane_of_match, place = self._matches(store, step, keys, 0, wide=True)
        lane, _ = store.lanes_of_keys(np.full(1, NO_KEY, np.int32))
        begin = np.zeros(lane.size, np.int64)
        return _runs(store, lane, begin, begin + n, lane_of_match, place)

    def _matches(
        self,
        store: Store,
        step: Step,
        keys: Int32s,
        begun: Any,  # noqa: ANN401 - a mark
        *,
        wide: bool,
    ) -> tuple[Int64s, Int64s]:
        """Return the lanes that events match, and the events."""
        step = replace(step, flags=store.flags, all_live=False)
        lanes, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for segment in store.searched():
            for part in segment.parts:
                shape = part.rows.shape
                if wide == (shape.keyed or shape.by_key):
                    continue
                ends, self._found = part.search(step, self._found, 0)
                n = int(ends[-1]) if ends.size else 0
                if n:
                    place = np.repeat(np.arange(ends.size), np.diff(ends, prepend=0))
                    pairs = (keys[place].astype(np.int64) + 1) << KEY_SHIFT | self._found[:n]
                    lanes.append(store.lanes_for(pairs, begun))
                    places.append(place)
        return np.concatenate(lanes), np.concatenate(places)

    # -- at the end of a step -----------------------------------------------------------------

    def pass_time(self, clock: Clock, heard_now: Int32s, flags: Flags) -> Due | None:
        """Return what queries are told of windows that have changed as time passed."""
        found: list[Due] = []
        if clock.now > -clock.never:
            self.now = np.asarray(clock.now).item()
        for name, store in self.stores.items():
            if name.timed and store.used and not store.changed and self.now is not None:
                told = store.close(clock.now, flags)
                if len(told.numbers):
                    of = store.lanes.key[told.numbers[:, 4]]
                    key = np.where(of < 0, self.last_key, of).astype(np.int32)
                    found.append(_due(told, key, np.full(key.size, NO_EVENT)))
        return join_due(found)

    # -- questions ----------------------------------------------------------------------------

    def lane_of(self, slot: int, key: int) -> tuple[Store, int]:
        """Return the store of a query, and its lane for a key; -1 if there is none."""
        store = self._store(int(self._by_slot.store[slot]))
        group = int(self._by_slot.group[slot])
        name = store.names[group]
        assert name is not None
        pair = ((key if name.key == EACH else name.key) + 1) << KEY_SHIFT | group
        found = np.flatnonzero(store.lanes.pair[: store.used] == pair)
        return store, int(found[0]) if found.size else NOWHERE

    def current(
        self,
        slot: int,
        key: int,
        time_type: pa.DataType | None,
        said: Said,
        now: Any,  # noqa: ANN401 - a time
    ) -> tuple[float, float, float, int, Any] | None:
        """Return what a query's window is now: value, bounds, how many events; None before any.

        Last comes from when on the window will be whole, None if it is.
        """
        if now is not None and self.now is not None:
            now = max(now, self.now)  # after a flush, time stays as far as it has come
        self.settle(time_type, said, now)
        store, lane = self.lane_of(slot, key)
        if store.changed or lane == NOWHERE:
            return None
        window = self._by_slot.window[slot]
        return store.ask(lane, int(self._by_slot.statistic[slot]), window, now)

    def asked(self, slot: int) -> tuple[int, Any, float]:
        """Return the statistic, the window and the error of a query."""
        by_slot = self._by_slot
        return int(by_slot.statistic[slot]), by_slot.window[slot], float(by_slot.epsilon[slot])

    def explain(self, slot: int) -> Explained | None:
        """Return how a query is answered."""
        if self._by_slot.store[slot] == NOWHERE:
            return None
        store = self._store(int(self._by_slot.store[slot]))
        group = int(self._by_slot.group[slot])
        name = store.names[group]
        assert name is not None
        here = store.group_of_lanes() == group
        entries = int(store.lanes.used[: store.used][here].sum())
        size = store.entry_bytes()
        what = "every event of its window" if store.name.exact else "buckets of events"
        held = f"{entries:,} entries of {size} bytes in {np.count_nonzero(here):,} lanes"
        path = f"{what}, {held}, shared by {int(store.queries[group]):,} queries"
        attributes = tuple(each for each in name.attributes if each != NAMELESS)
        rows = sum(map(len, self.layers))
        return Explained(path, attributes, 1.0, 0.0, int(store.queries[group]), rows)

    # -- state --------------------------------------------------------------------------------

    def parts(self, queries: Callable[[], Int32s], keys: Callable[[], int]) -> Sequence[Part]:
        """Return the part of what windows hold, and of what queries were told."""
        return (WindowPart(self, queries, keys),)

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

    def nbytes(self) -> int:
        """Return the bytes of the structures."""
        return self.layers.nbytes() + sum(store.nbytes() for store in self.stores.values())


def _keys_of(grouped: Grouped) -> Int32s:
    keys: Int32s = np.repeat(grouped.key, np.diff(grouped.start))
    return keys


def _together(step: Step) -> Step:
    """Return a step's events of all keys in the order of the batch."""
    grouped = step.grouped
    n = grouped.position.size
    order = np.empty(n, np.int64)
    order_by_position(grouped.position, int(grouped.position.max() >> 1) + 1, order)
    return replace(
        step,
        grouped=Grouped(
            np.full(1, NO_KEY, np.int32),
            np.array([0, n], np.int64),
            grouped.position[order],
            np.ascontiguousarray(grouped.values[:, order]),
        ),
    )


def _runs(
    store: Store, lane: Int64s, begin: Int64s, end: Int64s, lane_of_match: Int64s, place: Int64s
) -> Runs:
    """Return lanes with their events, and those that match, lane by lane."""
    order = np.lexsort((place, lane_of_match))
    lanes = lane_of_match[order]
    first, stop = np.searchsorted(lanes, lane), np.searchsorted(lanes, lane, "right")
    plain = store.plain[store.lanes.pair[lane] & SLOT_MASK]
    return Runs(lane, begin, end, np.where(plain, ALL, first), stop, place[order])


def _picked(told: Told, picked: Bools) -> Told:
    return Told(told.numbers[picked], told.figures[picked], told.moment[picked])


def _due(told: Told, key: Int32s, place: Int64s) -> Due:
    _, slot, code, count, _ = told.numbers.T
    return Due(slot.copy(), code.astype(np.uint8), key, told.moment, place, _figures(told, count))


def _figures(told: Told, count: Int64s) -> dict[str, Array]:
    value, low, high = (np.ascontiguousarray(column) for column in told.figures.T)
    return {"value": value, "low": low, "high": high, "n": count.copy()}


def _findings(told: Told, position: Int64s) -> Findings:
    place, slot, code, count, _ = told.numbers.T
    return Findings(pack_findings(position[place], slot) | code, _figures(told, count))
