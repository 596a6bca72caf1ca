"""The border kind: which boxes each key enters and leaves."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from everquery.core.arrays import Bytes, Floats, Int32s, Int64s
from everquery.index.flags import (
    DIVERTED,
    LIVE,
    LIVE_MASK,
    NEW,
    RESUMED,
    SILENT,
    SKIP_ENTER,
    SKIP_LEAVE,
)
from everquery.index.kind import Explained, KindIndex
from everquery.index.layers import Layers
from everquery.index.rows import (
    CODE_MASK,
    SLOT_MASK,
    SLOT_SHIFT,
    Crossings,
    Matches,
    Outcome,
    Rows,
    Step,
)
from everquery.kinds.border.region_segments import RegionSegments
from everquery.kinds.border.walk import EXPIRED, UNKNOWN

DELTA_NS = 25.0  # a delta query visited and written out, measured (docs/architecture.md)

_REGISTERED = 3
_RESUMED = 4


_OUTCOMES = (
    Outcome("enter"),
    Outcome("leave"),
    Outcome("leave", "expired"),
    Outcome("enter", "registered"),
    Outcome("enter", "resumed"),
)
_ENTERING = np.array([outcome.event == "enter" for outcome in _OUTCOMES])


class BorderIndex(KindIndex):
    """Boxes in layers of region-segment lists."""

    outcomes: ClassVar[tuple[Outcome, ...]] = _OUTCOMES

    def __init__(self) -> None:
        self.layers: Layers[RegionSegments] = Layers(RegionSegments.build)
        self._unannounced: list[RegionSegments] = []
        self._crossings: Int64s = np.empty(1 << 12, np.int64)
        self._skipping = False  # whether some query does not tell of both events
        self.visited = 0  # delta queries, for the paper's search efficiency

    def add(self, rows: Rows, flags: Bytes, *, announce: bool = True) -> None:
        """Add queries; with `announce`, keys inside them are told of before the next batch."""
        segment = self.layers.add(rows, flags)
        self._skipping |= bool((flags[rows.slot] & (SKIP_ENTER | SKIP_LEAVE)).any())
        if announce:
            self._unannounced.append(segment)

    def revive(self, rows: Rows) -> None:
        """Announce the keys inside queries that are in the layers already."""
        self._unannounced.append(RegionSegments.build(rows))

    def forget_announcements(self) -> None:
        """Announce nothing but what is revived from now on."""
        self._unannounced.clear()

    def forget_positions(self) -> None:
        """Search every key anew at its next event."""
        for segment in self.layers:
            segment.positions[0].fill(UNKNOWN)

    def announce(self, keys: Int32s, values: Floats, flags: Bytes) -> Crossings | None:
        """Return an enter for each key inside a new or resumed query that is not silent."""
        segments, self._unannounced = self._unannounced, []
        if not segments or not keys.size:
            return None
        mask = LIVE_MASK | SILENT | NEW
        # A query that was resumed before it was announced stands in two of the segments.
        inside = np.unique(
            np.concatenate(
                [part.inside(keys, values, flags, (mask, LIVE | NEW)) for part in segments]
            )
        )
        slots = inside >> SLOT_SHIFT & SLOT_MASK
        codes: Int64s = np.where(flags[slots] & RESUMED, _RESUMED, _REGISTERED)
        return self._told(inside | codes, flags)

    def expire(self, keys: Int32s, values: Floats, flags: Bytes) -> Crossings | None:
        """Return a leave for each box that an expired key was in."""
        inside = [part.inside(keys, values, flags, (LIVE_MASK, LIVE)) for part in self.layers]
        if not inside:
            return None
        return self._told(np.concatenate(inside) | np.int64(EXPIRED), flags)

    def process(self, step: Step) -> list[Matches | Crossings]:
        """Return what each event entered and left."""
        found: list[Matches | Crossings] = []
        for segment in self.layers:
            self._crossings, n, visited = segment.walk(step, self._crossings)
            self.visited += visited
            if n:
                found.append(self._told(self._crossings[:n].copy(), step.flags))
        return found

    def _told(self, keys: Int64s, flags: Bytes) -> Crossings:
        """Return the crossings that their queries tell of."""
        if self._skipping:
            skips = flags[keys >> SLOT_SHIFT & SLOT_MASK]
            entering = _ENTERING[keys & CODE_MASK]
            skipped = skips & np.where(entering, SKIP_ENTER, SKIP_LEAVE) != 0
            # A crossing that is not told may still undo one that waits to be.
            keys = keys[~skipped | (skips & DIVERTED != 0)]
        return Crossings(keys)

    def explain(self, slot: int) -> Explained | None:
        """Return which lists hold a query's borders."""
        for segment in self.layers:
            row = np.flatnonzero(segment.rows.slot == slot)
            if row.size:
                named = segment.rows.shape.attributes
                borders = 2 * len(named)
                lane = int(np.count_nonzero(segment.rows.key == segment.rows.key[row[0]]))
                share = 1.0 / lane
                return Explained(
                    f"region-segment lists ({borders} borders among {borders * lane:,})",
                    named,
                    share,
                    share * DELTA_NS,
                    lane,
                    len(segment),
                )
        return None
