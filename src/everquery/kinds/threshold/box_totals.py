"""Weight seen by boxes of two and more attributes: the kind `threshold` on several axes.

Which of two ways a batch takes follows from what each is expected to cost. By stabbing, every
event finds the boxes around it with the box index, and each counts: best where boxes are narrow.
By sweeping (`plane_sweep`; two attributes), what a box gained costs the same however many events it
holds: best where boxes are wide or batches large.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s, total_bytes
from everquery.core.jit import kernel
from everquery.index.access_paths import (
    LIST_CANDIDATE_NS,
    LIST_NS,
    BoxSegment,
    share_of_lane,
)
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.index.kind import Explained
from everquery.index.rows import Grouped, Rows, Step
from everquery.index.weighed import (
    FIRE_WORDS,
    NEVER,
    Fires,
    Lefts,
    WeighedEvents,
    note_fire,
    saturated,
)
from everquery.kinds.threshold.plane_sweep import Edges, sweep

SWEPT_ROW_NS, SWEPT_EVENT_NS = 50.0, 150.0
COUNTED_NS = 3.0  # a match, beside what finding it costs
SCANNED = 1 << 21  # events looked at to find when rows fire, before halving the batch pays
SMALLEST_HALF = 256  # events


@kernel
def count_matches(
    matches: Int32s, begin: int, ends: Int64s, weight: Int64s, slot: Int32s, flags: Flags,
    lefts: Lefts, out: Int64s, n: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Let each event count for the rows that it matches, in order; write which fire."""
    at = begin
    for i in range(ends.size):
        for k in range(at, ends[i]):
            row = matches[k]
            if lefts.left[row] == NEVER:
                continue
            lefts.left[row] -= weight[i]
            if lefts.left[row] > 0:
                continue
            rest = lefts.left[row]
            lefts.left[row] = lefts.total[row] if lefts.repeats[row] else NEVER
            if flags[slot[row]] & LIVE_MASK != LIVE:
                lefts.left[row] = NEVER
                continue
            seen = saturated(lefts.total[row], rest)
            out = note_fire(i, row, seen, out, n)
            n += 1
        at = ends[i]
    return out, n


@kernel
def spend(
    begin: int, end: int, gain: Int64s, slot: Int32s, flags: Flags, lefts: Lefts, firing: Int64s
) -> int:
    """Take what rows gained off what they lack; list those that fire, as they were before."""
    n = 0
    for row in range(begin, end):
        if lefts.left[row] == NEVER:
            continue
        if lefts.left[row] > gain[row]:
            lefts.left[row] -= gain[row]
        elif flags[slot[row]] & LIVE_MASK != LIVE:
            lefts.left[row] = NEVER
        else:
            firing[n] = row
            n += 1
    return n


@kernel
def walk_rows(
    rows: Int64s, begin: int, end: int, values: Floats, weight: Int64s, low: Floats,
    high: Floats, lefts: Lefts, out: Int64s, n: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Take rows through events in order; write where they fire, set what they lack then."""
    for k in range(rows.size):
        row = rows[k]
        rest = lefts.left[row]
        for i in range(begin, end):
            inside = low[0, row] <= values[0, i] and not high[0, row] <= values[0, i]
            for a in range(1, low.shape[0]):
                inside &= low[a, row] <= values[a, i] and not high[a, row] <= values[a, i]
            if not inside:
                continue
            rest -= weight[i]
            if rest <= 0:
                seen = saturated(lefts.total[row], rest)
                out = note_fire(i, row, seen, out, n)
                n += 1
                if not lefts.repeats[row]:
                    rest = NEVER
                    break
                rest = lefts.total[row]
        lefts.left[row] = rest
    return out, n


@dataclass(slots=True)
class BoxTotals:
    """Boxes of two or more attributes, and what each of them still lacks.

    Attributes
    ----------
    rows : Rows
        In order of lane and lower end on the first attribute.
    lefts : Lefts
    lane_key, row_start : each lane's key and first row
    stabbed : BoxSegment
        Finds rows by their number.
    edges : Edges, or None for more than two attributes
    candidates : float
        How many rows an event looks at, on average, when it stabs.
    share : float
        The part of its lane's ends that a box spans, on average, where it spans the least.
    spent_ns : float
        What the last batch is taken to have cost.
    """

    rows: Rows
    lane_key: Int32s
    row_start: Int64s
    lefts: Lefts
    stabbed: BoxSegment
    edges: Edges | None
    candidates: float
    share: float
    spent_ns: float
    _ranks: Int32s
    _gain: Int64s

    @classmethod
    def build(cls, rows: Rows) -> BoxTotals:
        """Index the rows; they lack nothing yet, see `Lefts`."""
        rows = rows.take(np.lexsort((rows.low[0], rows.key)))
        lane_key, lane_first = np.unique(rows.key, return_index=True)
        n = len(rows)
        share = np.min([share_of_lane(rows, a) for a in range(len(rows.low))], axis=0)
        swept = len(rows.shape.attributes) == 2
        return cls(
            rows=rows,
            lane_key=lane_key,
            row_start=np.append(lane_first, n).astype(np.int64),
            lefts=Lefts.none(n),
            stabbed=BoxSegment.build(replace(rows, slot=np.arange(n, dtype=np.int32))),
            edges=Edges.of(rows) if swept else None,
            candidates=float(share.sum()) / lane_key.size,
            share=float(share.mean()),
            spent_ns=0.0,
            _ranks=np.empty(2 * n if swept else 0, np.int32),
            _gain=np.empty(n if swept else 0, np.int64),
        )

    def count(self, events: WeighedEvents, flags: Flags) -> Fires:
        """Count events; return which rows fire at which of them, in no order."""
        self.spent_ns = self.expected_ns(events.position.size)
        if self.edges is not None and self._sweeps(events.position.size):
            return self._count_by_sweeping(events, flags, self.edges)
        return self._count_by_stabbing(events, flags)

    def _sweeps(self, events: int) -> bool:
        """Tell whether a sweep is expected to take less time than stabbing."""
        return self._stabbing_ns(events) > self._sweeping_ns(events)

    def _stabbing_ns(self, events: int) -> float:
        return events * (LIST_NS + self.candidates * (LIST_CANDIDATE_NS + COUNTED_NS))

    def _sweeping_ns(self, events: int) -> float:
        return len(self.rows) * SWEPT_ROW_NS + events * SWEPT_EVENT_NS

    def expected_ns(self, events: int) -> float:
        """Return what a batch is expected to take."""
        stabbing = self._stabbing_ns(events)
        return stabbing if self.edges is None else min(stabbing, self._sweeping_ns(events))

    def _count_by_stabbing(self, events: WeighedEvents, flags: Flags) -> Fires:
        grouped = Grouped(events.key, events.start, events.position, events.values)
        everything = np.full(len(self.rows), LIVE, np.uint16)
        nothing = np.empty(0, np.uint8)
        step = Step(
            grouped, nothing, nothing, events.values[:, :0], everything, True, events.weight
        )
        out, n = np.empty(FIRE_WORDS * 64, np.int64), 0
        matches: Int32s = np.empty(1 << 12, np.int32)
        for part in self.stabbed.parts:
            ends, matches = part.search(step, matches, 0)
            out, n = count_matches(
                matches, 0, ends, events.weight, self.rows.slot, flags, self.lefts, out, n
            )
        return Fires.of_words(out, n)

    def _count_by_sweeping(self, events: WeighedEvents, flags: Flags, edges: Edges) -> Fires:
        values = np.ascontiguousarray(events.values[list(self.rows.shape.attributes)])
        unknown = np.isnan(values).any(axis=0)
        if unknown.any():  # sorted by value they come last, and count nothing there
            events = replace(events, weight=np.where(unknown, 0, events.weight))
        out, n = np.empty(FIRE_WORDS * 64, np.int64), 0
        lanes = np.searchsorted(self.lane_key, events.key) if self.rows.shape.keyed else [0]
        firing = np.empty(int(np.diff(self.row_start).max()), np.int64)
        for group, lane in enumerate(lanes):
            if lane == self.lane_key.size or (
                self.rows.shape.keyed and self.lane_key[lane] != events.key[group]
            ):
                continue
            span = slice(int(events.start[group]), int(events.start[group + 1]))
            begin, end = int(self.row_start[lane]), int(self.row_start[lane + 1])
            self._gain[begin:end] = 0
            _sweep(edges, 2 * begin, 2 * end, values, events.weight, span, self._ranks, self._gain)
            found = spend(begin, end, self._gain, self.rows.slot, flags, self.lefts, firing)
            if found:
                kept = np.zeros(end - begin, np.bool_)
                kept[firing[:found] - begin] = True
                some = edges.among(begin, end, kept)
                rows = firing[:found].copy()
                out, n = self._fire(rows, some, values, events.weight, span, out, n)
        return Fires.of_words(out, n)

    def _fire(
        self,
        rows: Int64s,
        edges: Edges,
        values: Floats,
        weight: Int64s,
        span: slice,
        out: Int64s,
        n: int,
    ) -> tuple[Int64s, int]:
        """Find when rows fire within some events, by halves where there are many.

        `edges` are those of the rows, which are ascending and are numbered from 0 there.
        """
        size = span.stop - span.start
        if size <= SMALLEST_HALF or rows.size * size <= SCANNED:
            return walk_rows(
                rows, span.start, span.stop, values, weight, self.rows.low, self.rows.high,
                self.lefts, out, n,
            )  # fmt: skip
        middle = span.start + size // 2
        for half in (slice(span.start, middle), slice(middle, span.stop)):
            if not rows.size:
                break
            gain = np.zeros(rows.size, np.int64)
            ranks = np.empty(2 * rows.size, np.int32)
            _sweep(edges, 0, 2 * rows.size, values, weight, half, ranks, gain)
            fires = gain >= self.lefts.left[rows]
            self.lefts.left[rows[~fires]] -= gain[~fires]
            inside = edges.among(0, rows.size, fires)
            out, n = self._fire(rows[fires], inside, values, weight, half, out, n)
            alive = self.lefts.left[rows] != NEVER
            rows, edges = rows[alive], edges.among(0, rows.size, alive)
        return out, n

    def add_up(self) -> None:
        """Nothing is put off here."""

    def expect(self) -> None:
        """Nothing is put off here."""

    def explain(self, row: int) -> Explained:
        """Return how a row is found, and what it costs."""
        lane = int(np.count_nonzero(self.rows.key == self.rows.key[row]))
        share = float(share_of_lane(self.rows, 0)[row])
        narrow = LIST_CANDIDATE_NS + COUNTED_NS
        path = "stabbing with the box index, and counters"
        if self.edges is not None:
            alone = self.candidates * narrow + LIST_NS - SWEPT_EVENT_NS
            path += (
                f" (batches below {int(len(self.rows) * SWEPT_ROW_NS / alone) + 1:,} events),"
                " or one sweep over all edges"
                if alone > 0
                else ""
            )
        return Explained(
            path, self.rows.shape.attributes, share, share * narrow, lane, len(self.rows)
        )

    def renumbered(self, slots: Int32s) -> BoxTotals:
        """Return the same with other slots, given by the present ones."""
        return replace(self, rows=self.rows.renumbered(slots))

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        edges = () if self.edges is None else self.edges
        return self.stabbed.nbytes() + total_bytes(
            *self.rows.arrays(), *self.lefts, *edges, self._ranks, self._gain
        )


def _sweep(
    edges: Edges,
    begin: int,
    end: int,
    values: Floats,
    weight: Int64s,
    span: slice,
    ranks: Int32s,
    gain: Int64s,
) -> None:
    """Add to `gain` what boxes gained from a slice of the events."""
    first, second = values[0, span], values[1, span]
    order = np.argsort(first, kind="stable")
    rank = np.empty(order.size, np.int64)
    by_second = np.argsort(second, kind="stable")
    rank[by_second] = np.arange(order.size)
    sweep(
        edges, begin, end, first[order], second[by_second], rank[order], weight[span][order],
        ranks, gain,
    )  # fmt: skip
