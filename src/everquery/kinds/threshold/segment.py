"""Boxes with totals, and which of two structures counts for them.

Batch by batch, what all rows gained is added up at once (`interval_totals`, `box_totals`); event by
event, the paper's structure finds the few rows that want to hear of it (`distributed_tracking`).
The first is better for many events at a time, the second where few come at a time and many rows
wait for them. Both give the same answer, so that the choice is one of cost alone: what a batch
costs is counted in rows looked at and signals sent, and the other way is taken once it would have
saved more than it takes to get there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from everquery.core.arrays import Int32s, Int64s
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.index.kind import Explained
from everquery.index.rows import Rows
from everquery.index.weighed import HEAVIEST, NEVER, Fires, Lefts, WeighedEvents
from everquery.kinds.threshold.box_totals import BoxTotals
from everquery.kinds.threshold.distributed_tracking import Tracking
from everquery.kinds.threshold.interval_totals import IntervalTotals

Totals = IntervalTotals | BoxTotals

EVENT_NS, SIGNAL_NS = 1_000.0, 400.0  # of tracking
SIGNALS = 40.0  # that a row gets before it fires
BUILD_NS = 100.0  # an entry: a row at a node of a tree
ENTRY_BYTES = 28
MOST_BYTES = 1 << 30  # that tracking may take; a segment that would need more is only added up


@dataclass(slots=True)
class ThresholdSegment:
    """Rows of one shape, and what each of them still lacks.

    Attributes
    ----------
    totals : IntervalTotals or BoxTotals
    tracking : Tracking, or None while batches are added up
    missed : float
        Nanoseconds that the other way would have saved so far, as far as it was better.
    may_track : bool
    """

    totals: Totals
    tracking: Tracking | None = None
    missed: float = 0.0
    may_track: bool = True
    _carried: int = 0  # weight since tracking began
    _before: Int64s = field(default_factory=lambda: np.empty(0, np.int64), repr=False)

    @classmethod
    def build(cls, rows: Rows) -> ThresholdSegment:
        """Return the structure of rows; they lack nothing yet, see `Lefts`."""
        kind = IntervalTotals if len(rows.shape.attributes) == 1 else BoxTotals
        return cls(kind.build(rows))

    @property
    def rows(self) -> Rows:
        """The rows, in their own order."""
        return self.totals.rows

    @property
    def lefts(self) -> Lefts:
        """What each row lacks, when it was last added up."""
        return self.totals.lefts

    def count(self, events: WeighedEvents, flags: Flags) -> Fires:
        """Count events; return which rows fire at which of them, in no order."""
        n = events.position.size
        if self.tracking is not None:
            self._carried += int(events.weight.sum())
            if self._carried > HEAVIEST:  # of which its counters take no more
                self.stop_tracking()
        if self.tracking is not None:
            before = self.tracking.signals
            fires = self._track(self.tracking, events, flags)
            spent = n * EVENT_NS + SIGNAL_NS * (self.tracking.signals - before)
            self.missed = max(0.0, self.missed + spent - self.totals.expected_ns(n))
            if self.missed > self.totals.expected_ns(n):
                self.stop_tracking()
            return fires
        fires = self.totals.count(events, flags)
        if self.may_track and (self.missed > 0 or self.totals.spent_ns > n * EVENT_NS):
            other = self._tracking_ns(events)
            self.missed = max(0.0, self.missed + self.totals.spent_ns - other)
            if self.missed > BUILD_NS * self._entries() and self._can_track():
                self._start_tracking()
        return fires

    # -- tracking -----------------------------------------------------------------------------

    def _entries(self) -> float:
        """Return about how many entries tracking would have."""
        lane = max(2.0, 2.0 * len(self.rows) / self.totals.lane_key.size)
        return float(len(self.rows) * np.log2(lane) ** len(self.rows.shape.attributes))

    def _can_track(self) -> bool:
        left = self.lefts.left
        heavy = (left != NEVER) & (self.lefts.total > HEAVIEST)
        return self._entries() * ENTRY_BYTES <= MOST_BYTES and not heavy.any()

    def _tracking_ns(self, events: WeighedEvents) -> float:
        """Return what tracking would have taken for events, by the rows that are on their way."""
        n = events.position.size
        weight = float(events.weight[n >> 1]) if n else 0.0  # any of them: the mean takes longer
        rate = self.totals.share * len(self.rows) / self.totals.lane_key.size
        typical = max(1.0, float(self.lefts.total[len(self.rows) // 2]))
        signals = SIGNALS * min(1.0, weight / typical) * rate
        return n * (EVENT_NS + SIGNAL_NS * signals)

    def _start_tracking(self) -> None:
        self.add_up()
        rows, left = self.rows, self.lefts.left
        running = left != NEVER
        lane = np.searchsorted(self.totals.lane_key, rows.key).astype(np.int32)
        need = np.where(running, left, 1)
        tracking = Tracking.build(rows.low, rows.high, lane, self.totals.lane_key.size, need)
        tracking.total[:] = np.where(self.lefts.repeats, self.lefts.total, 0)
        tracking.terminate(np.flatnonzero(~running))
        self._before = np.where(running, self.lefts.total - left, 0)
        self.tracking, self.missed, self._carried = tracking, 0.0, 0

    def stop_tracking(self) -> None:
        """Go back to adding up, with what every row lacks now."""
        if self.tracking is not None:
            self.add_up()
            self.tracking, self.missed = None, 0.0
            self.expect()

    def _track(self, tracking: Tracking, events: WeighedEvents, flags: Flags) -> Fires:
        lanes = np.zeros(1, np.int64)
        if self.rows.shape.keyed:
            key = self.totals.lane_key
            lanes = np.minimum(np.searchsorted(key, events.key), key.size - 1)
            lanes[key[lanes] != events.key] = -1
        lane = np.repeat(lanes, np.diff(events.start)).astype(np.int32)
        values = np.ascontiguousarray(events.values[list(self.rows.shape.attributes)])
        event, row, seen = tracking.run(lane, values, events.weight)
        live = flags[self.rows.slot[row]] & LIVE_MASK == LIVE
        event, row, seen = event[live], row[live].astype(np.int64), seen[live]
        first = np.unique(row, return_index=True)[1]  # of each row since tracking began
        seen[first] += self._before[row[first]]
        self._before[row] = 0
        self.lefts.left[row[self.lefts.repeats[row] == 0]] = NEVER
        return Fires(event, row, seen)

    # -- state --------------------------------------------------------------------------------

    def add_up(self) -> None:
        """Bring what every row lacks up to date."""
        if self.tracking is None:
            self.totals.add_up()
            return
        rows = np.flatnonzero(self.lefts.left != NEVER)
        seen = self._before[rows] + self.tracking.seen(rows)
        self.lefts.left[rows] = self.lefts.total[rows] - seen

    def expect(self) -> None:
        """Take note of what every row lacks, after it was set from outside."""
        self.totals.expect()

    def explain(self, row: int) -> Explained:
        """Return how a row's total is found, and what that costs."""
        found = self.totals.explain(row)
        if self.tracking is None:
            return found
        h = int(np.diff(self.tracking.trees.row_start)[row])
        return replace(
            found,
            path=f"endpoint tree: {h} nodes send signals, event by event",
            nanoseconds=EVENT_NS / len(self.rows),
        )

    def all_rows(self) -> Rows:
        """Return the rows, for a merge."""
        return self.rows

    def renumbered(self, slots: Int32s) -> ThresholdSegment:
        """Return the same with other slots, given by the present ones."""
        return replace(self, totals=self.totals.renumbered(slots))

    def __len__(self) -> int:
        return len(self.rows)

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        tracked = 0 if self.tracking is None else self.tracking.nbytes()
        return self.totals.nbytes() + tracked
