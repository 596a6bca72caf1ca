"""The threshold kind: at which event the weight seen in a box reaches a total."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Bytes, Int32s, Int64s, move_columns, resized
from everquery.core.invariants import refuse
from everquery.core.parts import Part
from everquery.index.access_paths import BoxSegment
from everquery.index.flags import LIVE, LIVE_MASK, SPANNED, Flags
from everquery.index.kind import NO_SLOTS, Explained, KindIndex
from everquery.index.layers import Layers
from everquery.index.rows import (
    NO_KEY,
    Findings,
    Grouped,
    Matches,
    NoticeColumn,
    Outcome,
    Rows,
    Said,
    Shape,
    Step,
)
from everquery.index.sort_keys import pack_findings
from everquery.index.weighed import (
    HEAVIEST,
    NEVER,
    Fires,
    WeighedEvents,
    in_arrival_order,
    light_parts,
    order_by_position,
    part_of,
    tell_fires,
    weigh_events,
)
from everquery.kinds.threshold.segment import ThresholdSegment
from everquery.kinds.threshold.state import TallyPart, ThresholdPart, check_totals
from everquery.kinds.threshold.tally import OrderedEvents, Tally
from everquery.kinds.threshold.tally_loop import BY_KEY, COUNT, REPEAT, SUBTRACT
from everquery.stream import Stream

_TALLIED = BY_KEY | SUBTRACT | SPANNED


class _BySlot(NamedTuple):
    """What is known of each query, by slot.

    Attributes
    ----------
    total, left : int64
        What it asks for, and what it lacked when its segment was last asked.
    repeats, running : uint8
        Whether it starts again after a fire, and whether it counts: it is neither paused nor done.
    tallied, by_key, subtracts : uint8
        Whether its total is in the tally, one for each key there, and whether refunds lower it.
    """

    total: Int64s
    left: Int64s
    repeats: Bytes
    running: Bytes
    tallied: Bytes
    by_key: Bytes
    subtracts: Bytes

    @classmethod
    def of(cls, size: int) -> _BySlot:
        """Return room for so many queries."""
        return cls(*(np.zeros((2, size), np.int64)), *(np.zeros((5, size), np.uint8)))


class ThresholdIndex(KindIndex):
    """Boxes in layers, each with what its queries still lack; of some, a tally of what they saw."""

    outcomes: ClassVar[tuple[Outcome, ...]] = (Outcome("fire"),)
    columns: ClassVar[tuple[NoticeColumn, ...]] = (
        NoticeColumn("total", pa.int64(), "the weight that the query has seen"),
        NoticeColumn("rounds", pa.int64(), "how many multiples of its threshold that is"),
    )

    def __init__(self) -> None:
        self.layers: Layers[ThresholdSegment | BoxSegment] = Layers(
            _segment_of, adopt=self._adopt, retire=self._retire
        )
        # By slot. Of queries in a segment, the segment knows what they lack.
        self._by_slot = _BySlot.of(0)
        self.tally = Tally()
        self._found: Int32s = np.empty(1 << 10, np.int32)
        self._fired: list[Int32s] = []
        self.may_track = True  # whether segments may count event by event; see ThresholdSegment

    # -- queries ------------------------------------------------------------------------------

    def describe(self, slots: Int32s, numbers: Mapping[str, Array]) -> None:
        """Note the totals of queries."""
        most = int(slots.max(initial=-1)) + 1
        if most > self._by_slot.total.size:
            size = max(most, 2 * self._by_slot.total.size)
            self._by_slot = _BySlot(*(resized(column, size) for column in self._by_slot))
        self._by_slot.total[slots] = self._by_slot.left[slots] = numbers["total"]

    def numbers(self, slots: Int32s) -> dict[str, Array]:
        """Return the totals of queries."""
        return {"total": self._by_slot.total[slots]}

    def add(self, rows: Rows, flags: Flags, *, announce: bool = True) -> None:
        """Add queries; those that are counted in different ways stay apart."""
        options = flags[rows.slot]
        self._by_slot.repeats[rows.slot] = options & REPEAT != 0
        self._by_slot.running[rows.slot] = options & LIVE_MASK == LIVE
        tallied, by_key = options & _TALLIED != 0, options & BY_KEY != 0
        counting = ~tallied & (options & COUNT != 0)
        self._by_slot.tallied[rows.slot] = tallied
        self._by_slot.by_key[rows.slot] = by_key
        self._by_slot.subtracts[rows.slot] = options & SUBTRACT != 0
        ways = np.stack([counting, tallied, by_key])
        for way in np.unique(ways, axis=1).T:
            picked = np.flatnonzero((ways == way[:, None]).all(axis=0))
            part = rows if picked.size == len(rows) else rows.take(picked)
            shape = Shape(rows.shape.attributes, rows.shape.keyed, *way.tolist())
            if shape.tallied:
                self.tally.add(part.slot)
            self.layers.add(replace(part, shape=shape), flags)

    def _counted(self) -> Iterator[ThresholdSegment]:
        """Yield the segments whose queries are not tallied."""
        for segment in self.layers:
            if isinstance(segment, ThresholdSegment):
                yield segment

    def _adopt(self, segment: ThresholdSegment | BoxSegment) -> None:
        """Tell a new segment what its queries lack."""
        if isinstance(segment, BoxSegment):
            return
        segment.stop_tracking()
        segment.may_track = self.may_track
        slot, lefts = segment.all_rows().slot, segment.lefts
        lefts.total[:] = self._by_slot.total[slot]
        lefts.repeats[:] = self._by_slot.repeats[slot]
        lefts.left[:] = np.where(self._by_slot.running[slot], self._by_slot.left[slot], NEVER)
        segment.expect()

    def _retire(self, segment: ThresholdSegment | BoxSegment) -> None:
        """Take back from a segment what its queries lack."""
        if isinstance(segment, BoxSegment):
            return
        segment.add_up()
        left = segment.lefts.left
        known = np.flatnonzero(left != NEVER)
        self._by_slot.left[segment.all_rows().slot[known]] = left[known]

    def pause(self, slots: Int32s) -> None:
        """Let queries count nothing from here on."""
        for segment, rows in self._find(slots):
            left = segment.lefts.left
            rows = rows[left[rows] != NEVER]
            self._by_slot.left[segment.rows.slot[rows]] = left[rows]
            left[rows] = NEVER
        self._by_slot.running[slots] = 0

    def resume(self, slots: Int32s) -> None:
        """Let queries count on from where they were."""
        self._by_slot.running[slots] = 1
        for segment, rows in self._find(slots):
            segment.lefts.left[rows] = self._by_slot.left[segment.rows.slot[rows]]
            segment.expect()

    def _find(self, slots: Int32s) -> Iterator[tuple[ThresholdSegment, Int64s]]:
        """Yield segments, brought up to date, and which of their rows have these slots."""
        if slots.size:
            for segment in self._counted():
                rows = np.flatnonzero(np.isin(segment.rows.slot, slots))
                if rows.size:
                    segment.stop_tracking()
                    segment.add_up()
                    yield segment, rows

    def set_back(self, time: int | float, time_type: pa.DataType, said: Said) -> None:
        """Let totals of later periods begin anew."""
        if len(self.tally):
            self.tally.set_back(time, time_type, said)

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots, by their present ones."""
        self.layers.renumber(slots)
        self.tally.renumber(slots)
        before, self._by_slot = self._by_slot, _BySlot.of(int(slots.max(initial=0)) + 1)
        move_columns(before, self._by_slot, slots)

    # -- events -------------------------------------------------------------------------------

    def process(self, step: Step) -> list[Matches | Findings]:
        """Return which queries fire at which events, and note those that are done."""
        if not step.grouped.position.size or not len(self.layers):
            return []
        found: list[Matches | Findings] = []
        events: dict[tuple[bool, bool], list[WeighedEvents]] = {}
        for segment in self._counted():
            shape = segment.rows.shape
            which = shape.keyed, shape.counting
            if which not in events:
                events[which] = _weighed(step, keyed=shape.keyed, counting=shape.counting)
            self._count(segment, events[which], step.flags, found)
        tallied = [segment for segment in self.layers if isinstance(segment, BoxSegment)]
        if tallied:
            self._tally(tallied, step, found)
        return found

    def _tally(
        self, segments: list[BoxSegment], step: Step, found: list[Matches | Findings]
    ) -> None:
        """Find the events of queries, and add up their weights one by one."""
        days = self.tally.begin_step(step)
        ordered: dict[bool, OrderedEvents] = {}
        for segment in segments:
            for part in segment.parts:
                shape = part.rows.shape
                of_keys = shape.keyed or shape.by_key
                if of_keys not in ordered:
                    ordered[of_keys] = _ordered(step, of_keys)
                events = ordered[of_keys]
                ends, self._found = part.search(events.step, self._found, 0)
                fires = self.tally.count(self._found, ends, events, days, self._by_slot.total)
                if fires.event.size:
                    position = events.step.grouped.position[fires.event]
                    found.append(self._told_of_tally(position, fires, step.flags))

    def _told_of_tally(self, position: Int64s, fires: Fires, flags: Flags) -> Findings:
        slot = fires.row
        over = (flags[slot] & (REPEAT | BY_KEY) == 0) & self.tally.never_starts_again(slot)
        self._fired.append(slot[over].astype(np.int32))
        figures = {"total": fires.seen, "rounds": fires.seen // self._by_slot.total[slot]}
        return Findings(pack_findings(position, slot), figures)

    def _count(
        self,
        segment: ThresholdSegment,
        events: list[WeighedEvents],
        flags: Flags,
        found: list[Matches | Findings],
    ) -> None:
        for part in events:
            fires = segment.count(part, flags)
            if fires.event.size:
                found.append(self._told(segment, part, fires))

    def _told(self, segment: ThresholdSegment, events: WeighedEvents, fires: Fires) -> Findings:
        n, by_slot = fires.row.size, self._by_slot
        packed, rounds, once = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32)
        done = tell_fires(
            (fires.event, fires.row, fires.seen), events.position, segment.rows.slot,
            (by_slot.total, by_slot.repeats, by_slot.running), packed, rounds, once,
        )  # fmt: skip
        self._fired.append(once[:done])
        return Findings(packed, {"total": fires.seen, "rounds": rounds})

    def done(self) -> Int32s:
        """Return the queries that have fired and do not repeat, since the last call."""
        if not self._fired:
            return NO_SLOTS
        fired, self._fired = self._fired, []
        return np.concatenate(fired)

    # -- state --------------------------------------------------------------------------------

    def parts(self, queries: Callable[[], Int32s], keys: Callable[[], int]) -> Sequence[Part]:
        """Return the parts of what queries lack, and of what was tallied."""
        return ThresholdPart(self, queries), TallyPart(self, queries, keys)

    def check_loaded(
        self,
        rows: Rows,
        numbers: Mapping[str, Array],
        options: Mapping[str, Bools],
        stream: Stream,
    ) -> None:
        """Raise if totals can't be, or are by key where there is none."""
        check_totals(numbers["total"])
        if options["by_key"].any() and (stream.key is None or rows.shape.keyed):
            refuse("a threshold is by key, and has one key, or the stream has none")
        if (options["count"] & options["negative_subtract"]).any():
            refuse("a threshold counts events, and subtracts weights")

    def add_up(self) -> None:
        """Count batch by batch from now on: counts are asked for after each."""
        self.may_track = False
        for segment in self._counted():
            segment.stop_tracking()
            segment.may_track = False

    def state(self, slots: Int32s) -> dict[str, Array]:
        """Return what queries lack."""
        for segment in self._counted():
            self._retire(segment)
        return {"left": self._by_slot.left[slots]}

    def asked(self, slots: Int32s) -> dict[str, Array]:
        """Return what queries ask for, and how their totals are kept."""
        return {name: column[slots] for name, column in self._by_slot._asdict().items()}

    def set_state(self, slots: Int32s, left: Int64s) -> None:
        """Set what queries lack."""
        for segment in self.layers:
            self._retire(segment)
        self._by_slot.left[slots] = left
        for segment in self.layers:
            self._adopt(segment)

    def explain(self, slot: int) -> Explained | None:
        """Return how a query's total is found."""
        for segment in self.layers:
            if isinstance(segment, BoxSegment):
                found = segment.explain(slot)
                if found is not None:
                    return replace(found, path=f"{found.path}, then a tally")
                continue
            row = np.flatnonzero(segment.rows.slot == slot)
            if row.size:
                return segment.explain(int(row[0]))
        return None

    def nbytes(self) -> int:
        """Return the bytes of the structures."""
        return self.layers.nbytes() + self.tally.nbytes()


def _segment_of(rows: Rows) -> ThresholdSegment | BoxSegment:
    return BoxSegment.build(rows) if rows.shape.tallied else ThresholdSegment.build(rows)


def _ordered(step: Step, of_keys: bool) -> OrderedEvents:
    """Return a step's events by key, or all of them in the order of the batch."""
    grouped = step.grouped
    if not of_keys:
        n = grouped.position.size
        order = np.empty(n, np.int64)
        order_by_position(grouped.position, int(grouped.position.max() >> 1) + 1, order)
        grouped = Grouped(
            np.full(1, NO_KEY, np.int32),
            np.array([0, n], np.int64),
            grouped.position[order],
            np.ascontiguousarray(grouped.values[:, order]),
        )
    return OrderedEvents.of(replace(step, grouped=grouped))


def _weighed(step: Step, *, keyed: bool, counting: bool) -> list[WeighedEvents]:
    """Return the events that queries see, with or without key, as they weigh for them."""
    grouped = step.grouped
    weight = np.empty(grouped.position.size, np.int64)
    unknown, together = weigh_events(grouped.position, step.weight, counting, weight)
    events = WeighedEvents(grouped.key, grouped.start, grouped.position, grouped.values, weight)
    if unknown:  # or a refund: not for those that add up
        events = part_of(events, np.flatnonzero(weight > 0))
        if not events.position.size:
            return []
    if not keyed:
        events = in_arrival_order(events)
    return [events] if not unknown and together < HEAVIEST / 2 else light_parts(events)
