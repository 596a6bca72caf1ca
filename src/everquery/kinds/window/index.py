"""The window kind: statistics of the last rows or of a span of time, for keys and for all.

Exact windows are told at each event, and those of time at each moment at which an event leaves
them: that is a deadline of the key, or of the key whose event came last before it where the window
is one of all keys. Approximate ones are told once a batch, at the last event of their key or of
all; those of time are looked at once more at the end of a step, as of how far time has come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.core.parts import Part
from everquery.index.clock import NO_EVENT, Clock, Due, join_due
from everquery.index.flags import Flags
from everquery.index.kind import Explained
from everquery.index.rows import (
    NO_KEY,
    Findings,
    Grouped,
    Matches,
    NoticeColumn,
    Outcome,
    Said,
    Step,
)
from everquery.kinds.told_values import OUTCOMES
from everquery.kinds.window.groups import EACH
from everquery.kinds.window.memory import held_by, held_otherwise
from everquery.kinds.window.queries import NOWHERE, WindowQueries
from everquery.kinds.window.runs import Runs
from everquery.kinds.window.state import WindowPart
from everquery.kinds.window.steps import (
    due_of,
    findings_of,
    in_order,
    keys_of,
    picked_told,
    runs_of,
)
from everquery.kinds.window.store import Store
from everquery.kinds.window.telling import Told
from everquery.state.pairs import KEY_SHIFT
from everquery.stream import NAMELESS


class WindowIndex(WindowQueries):
    """The stores of all windows; see `everquery.kinds.window.store`."""

    outcomes: ClassVar[tuple[Outcome, ...]] = OUTCOMES
    columns: ClassVar[tuple[NoticeColumn, ...]] = (
        NoticeColumn("value", pa.float64(), "the statistic of the window"),
        NoticeColumn(
            "low",
            pa.float64(),
            "lower bound of the value: see docs/windows.md",
        ),
        NoticeColumn(
            "high",
            pa.float64(),
            "upper bound of the value: see docs/windows.md",
        ),
        NoticeColumn("n", pa.int64(), "of how many events it is; -1 where that is not kept"),
    )

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
        keys = keys_of(step.grouped)
        for name, store in self.stores.items():
            marks = np.zeros(0, store.dtype)
            if store.heads.size > 1 or store.each_plain or len(store.boxes):
                if name.timed and step.passage is not None:
                    marks = step.passage.time.astype(store.dtype, copy=False)
                runs = self._keyed_runs(store, step, keys, begun)
                told = self._take(store, runs, marks, step, found)
                if len(told.numbers):
                    place = ~told.numbers[:, 0]
                    found.append(due_of(told, keys[place], place))
            if store.used and store.heads[0] != NOWHERE:
                if together is None:
                    together = in_order(step)
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
            found.append(findings_of(told, step.grouped.position))
            return Told.room(0, store.dtype)
        if not between.all():
            found.append(findings_of(picked_told(told, ~between), step.grouped.position))
        return picked_told(told, between)

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
        return due_of(told, key, place_at[position[event]])

    def _keyed_runs(self, store: Store, step: Step, keys: Int32s, begun: Any) -> Runs:  # noqa: ANN401
        grouped = step.grouped
        for number in store.each_plain:
            store.lanes_for((grouped.key.astype(np.int64) + 1) << KEY_SHIFT | number, begun)
        lane_of_match, place = self._matches(store, step, keys, begun, wide=False)
        lane, key = store.lanes_of_keys(grouped.key)
        return runs_of(
            store, lane, grouped.start[key], grouped.start[key + 1], lane_of_match, place
        )

    def _wide_runs(self, store: Store, step: Step) -> Runs:
        n = step.grouped.position.size
        keys = np.full(n, NO_KEY, np.int32)
        lane_of_match, place = self._matches(store, step, keys, 0, wide=True)
        lane, _ = store.lanes_of_keys(np.full(1, NO_KEY, np.int32))
        begin = np.zeros(lane.size, np.int64)
        return runs_of(store, lane, begin, begin + n, lane_of_match, place)

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
                    found.append(due_of(told, key, np.full(key.size, NO_EVENT)))
        return join_due(found)

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
        attributes = tuple(each for each in name.attributes if each != NAMELESS)
        rows = sum(map(len, self.layers))
        return Explained(
            held_by(store, group), attributes, 1.0, 0.0, int(store.queries[group]), rows,
            held_otherwise(store, group, int(self._by_slot.statistic[slot])),
        )  # fmt: skip

    def parts(self, queries: Callable[[], Int32s], keys: Callable[[], int]) -> Sequence[Part]:
        """Return the part of what windows hold, and of what queries were told."""
        return (WindowPart(self, queries, keys),)

    def nbytes(self) -> int:
        """Return the bytes of the structures."""
        return self.layers.nbytes() + sum(store.nbytes() for store in self.stores.values())
