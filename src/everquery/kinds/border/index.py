"""The border kind: which boxes each key enters and leaves."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s
from everquery.index.flags import (
    DIVERTED,
    LIVE,
    LIVE_MASK,
    NEW,
    REPLACED,
    RESUMED,
    Flags,
    option_flags,
)
from everquery.index.kind import Explained, KindIndex
from everquery.index.layers import Layers
from everquery.index.predecessors import Predecessors
from everquery.index.rows import Findings, Matches, Outcome, Rows, Step
from everquery.index.sort_keys import codes_of, slots_of
from everquery.kinds.border.region_segments import RegionSegments
from everquery.kinds.border.spec import Border
from everquery.kinds.border.walk import EXPIRED, UNKNOWN

DELTA_NS = 25.0  # a delta query visited and written out, measured (docs/architecture.md)

_REGISTERED = 3
_RESUMED = 4
_REPLACED = 5
_LEFT_BEHIND = 6

_OUTCOMES = (
    Outcome("enter", None, "skip_enter"),
    Outcome("leave", None, "skip_leave"),
    Outcome("leave", "expired", "skip_leave"),
    Outcome("enter", "registered", "skip_enter"),
    Outcome("enter", "resumed", "skip_enter"),
    Outcome("enter", "replaced", "skip_enter"),
    # Nothing can undo it, and where the query is now may not be where its rules are kept.
    Outcome("leave", "replaced", "skip_leave", at_once=True),
)
_OPTIONS = option_flags(Border.options)
_SILENT = _OPTIONS["silent"]
_ANNOUNCED = LIVE_MASK | _SILENT | NEW  # of which LIVE and NEW are announced
_NOTHING = np.empty(0, np.int64)
_SKIPS = np.array([_OPTIONS[str(outcome.skipped_by)] for outcome in _OUTCOMES], np.uint16)


class BorderIndex(KindIndex):
    """Boxes in layers of region-segment lists."""

    outcomes: ClassVar[tuple[Outcome, ...]] = _OUTCOMES

    def __init__(self) -> None:
        self.layers: Layers[RegionSegments] = Layers(RegionSegments.build)
        self.predecessors: Predecessors = Predecessors()
        self._unannounced: list[RegionSegments] = []
        self._crossings: Int64s = np.empty(1 << 12, np.int64)
        self._skipping = False  # whether some query does not tell of both events
        self.visited = 0  # delta queries, for the paper's search efficiency

    def add(self, rows: Rows, flags: Flags, *, announce: bool = True) -> None:
        """Add queries; with `announce`, keys inside them are told of before the next batch."""
        segment = self.layers.add(rows, flags)
        self._skipping |= bool((flags[rows.slot] & np.bitwise_or.reduce(_SKIPS)).any())
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

    def announce(self, keys: Int32s, values: Floats, flags: Flags) -> Findings | None:
        """Return what keys in sight mean for new and resumed queries that are not silent.

        A query that has taken the place of another one tells only what differs.
        """
        segments, self._unannounced = self._unannounced, []
        before = self._inside_before(keys, values, flags)
        if not keys.size or not (segments or before.size):
            return None
        # A query that was resumed before it was announced stands in two of the segments.
        inside = np.unique(np.concatenate([_NOTHING, *_inside_new(segments, keys, values, flags)]))
        enters = np.setdiff1d(inside, before, assume_unique=True)
        leaves = np.setdiff1d(before, inside, assume_unique=True)
        state = flags[slots_of(enters)]
        codes: Int64s = np.where(state & REPLACED, _REPLACED, _REGISTERED)
        codes[state & RESUMED != 0] = _RESUMED
        told = self._told(enters | codes, flags).packed
        leaves = leaves[flags[slots_of(leaves)] & _SKIPS[_LEFT_BEHIND] == 0] | _LEFT_BEHIND
        return Findings(np.concatenate([told, leaves]))

    def _inside_before(self, keys: Int32s, values: Floats, flags: Flags) -> Int64s:
        """Return the keys that were inside what new queries have replaced, and forget that."""
        before = self.predecessors
        if not len(before) or not keys.size:
            before.clear()
            return _NOTHING
        built = [RegionSegments.build(rows) for rows in before.rows]
        inside = np.unique(np.concatenate([_NOTHING, *_inside_new(built, keys, values, flags)]))
        found = before.toggle(inside, keys)
        before.clear()
        announced: Int64s = found[flags[slots_of(found)] & _ANNOUNCED == LIVE | NEW]
        return announced

    def expire(self, keys: Int32s, values: Floats, flags: Flags) -> Findings | None:
        """Return a leave for each box that an expired key was in."""
        inside = [part.inside(keys, values, flags, (LIVE_MASK, LIVE)) for part in self.layers]
        if not inside:
            return None
        return self._told(np.concatenate(inside) | np.int64(EXPIRED), flags)

    def process(self, step: Step) -> list[Matches | Findings]:
        """Return what each event entered and left."""
        found: list[Matches | Findings] = []
        for segment in self.layers:
            self._crossings, n, visited = segment.walk(step, self._crossings)
            self.visited += visited
            if n:
                found.append(self._told(self._crossings[:n].copy(), step.flags))
        return found

    def _told(self, packed: Int64s, flags: Flags) -> Findings:
        """Return the crossings that their queries tell of."""
        if self._skipping:
            options = flags[slots_of(packed)]
            skipped = options & _SKIPS[codes_of(packed)] != 0
            # A crossing that is not told may still undo one that waits to be.
            packed = packed[~skipped | (options & DIVERTED != 0)]
        return Findings(packed)

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


def _inside_new(
    segments: list[RegionSegments], keys: Int32s, values: Floats, flags: Flags
) -> list[Int64s]:
    """Return which keys are inside queries that are to be announced."""
    return [part.inside(keys, values, flags, (_ANNOUNCED, LIVE | NEW)) for part in segments]
