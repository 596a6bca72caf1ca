"""The border kind: which boxes each key enters and leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from everquery.core.arrays import Bytes, Floats, Int32s, Int64s
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
from everquery.index.kind import NO_SLOTS, Explained, KindIndex
from everquery.index.layers import Layers
from everquery.index.predecessors import Predecessors
from everquery.index.rows import Findings, Matches, Outcome, Rows, Step, Whereabouts
from everquery.index.sort_keys import codes_of, slots_of
from everquery.kinds.border.border_lists import EXPIRED
from everquery.kinds.border.region_segments import RegionSegments
from everquery.kinds.border.spec import Border

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
_TO_ANNOUNCE = LIVE_MASK | _SILENT | NEW, LIVE | NEW  # a mask, and what flags are under it
_SKIPS = np.array([_OPTIONS[str(outcome.skipped_by)] for outcome in _OUTCOMES], np.uint16)
_ANY_SKIP = int(np.bitwise_or.reduce(_SKIPS))

_Crossings = tuple[tuple[int, ...], Int64s]
"""Crossings of boxes, and the attributes that the boxes restrict."""


class BorderIndex(KindIndex):
    """Boxes in layers of region-segment lists."""

    outcomes: ClassVar[tuple[Outcome, ...]] = _OUTCOMES

    def __init__(self) -> None:
        self.layers: Layers[RegionSegments] = Layers(RegionSegments.build)
        self.predecessors: Predecessors = Predecessors()
        self._unannounced: list[RegionSegments] = []
        self._crossings: list[Int64s] = []  # room for them, one array a thread
        self._skipping = False  # whether some query does not tell of both events
        self.visited = 0  # delta queries, for the paper's search efficiency

    def add(self, rows: Rows, flags: Flags, *, announce: bool = True) -> None:
        """Add queries; with `announce`, keys inside them are told of before the next batch."""
        segment = self.layers.add(rows, flags)
        if not self._skipping:
            self._skipping = bool(np.bitwise_or.reduce(flags[rows.slot]) & _ANY_SKIP)
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
            segment.forget_positions()

    def announced_keys(self, seen: Bytes, last: Floats) -> Int32s | None:
        """Return the keys that may be in new and resumed queries; None if one of them has none."""
        if len(self.predecessors) or not all(
            segment.rows.shape.keyed for segment in self._unannounced
        ):
            return None
        near = [segment.near(seen, last) for segment in self._unannounced]
        return near[0] if len(near) == 1 else np.concatenate([NO_SLOTS, *near])

    def announce(self, where: Whereabouts, flags: Flags) -> Sequence[Findings]:
        """Return what keys in sight mean for new and resumed queries that are not silent.

        A query that has taken the place of another one tells only what differs.
        """
        before = self._inside_before(where, flags)
        # A query that was resumed before it was announced stands in two of the segments.
        inside = [
            (attributes, np.unique(crossings))
            for attributes, crossings in _inside(self._unannounced, where, flags, _TO_ANNOUNCE)
        ]
        found = []
        for attributes, now in inside:
            enters = np.setdiff1d(now, _all(before), assume_unique=True)
            state = flags[slots_of(enters)]
            codes: Int64s = np.where(state & REPLACED, _REPLACED, _REGISTERED)
            codes[state & RESUMED != 0] = _RESUMED
            found.append(self._told(enters | codes, flags, attributes))
        for attributes, then in before:
            leaves = np.setdiff1d(then, _all(inside), assume_unique=True)
            leaves = leaves[flags[slots_of(leaves)] & _SKIPS[_LEFT_BEHIND] == 0] | _LEFT_BEHIND
            found.append(Findings(leaves, attributes=attributes))
        return found

    def _inside_before(self, where: Whereabouts, flags: Flags) -> list[_Crossings]:
        """Return the keys that were inside what new queries have replaced."""
        before = self.predecessors
        if not len(before):
            return []
        built = [RegionSegments.build(rows) for rows in before.rows]
        inside = _all(_inside(built, where, flags, _TO_ANNOUNCE))
        found = before.toggle(np.unique(inside), where.keys)
        found = found[flags[slots_of(found)] & _TO_ANNOUNCE[0] == _TO_ANNOUNCE[1]]
        slots = slots_of(found)
        return [(rows.shape.attributes, found[np.isin(slots, rows.slot)]) for rows in before.rows]

    def expire(self, where: Whereabouts, flags: Flags) -> Sequence[Findings]:
        """Return a leave for each box that an expired key was in."""
        return [
            self._told(crossings | np.int64(EXPIRED), flags, attributes)
            for attributes, crossings in _inside(self.layers, where, flags, (LIVE_MASK, LIVE))
        ]

    def process(self, step: Step) -> list[Matches | Findings]:
        """Return what each event entered and left."""
        found: list[Matches | Findings] = []
        pieces = step.pieces()
        while len(self._crossings) < len(pieces):
            self._crossings.append(np.empty(1 << 12, np.int64))
        for segment in self.layers:
            segment.make_room(step.seen.size)
            walk = partial(self._walk, segment, pieces)
            crossed = []
            for crossings, visited in step.crew.map(walk, range(len(pieces))):
                self.visited += visited
                if crossings.size:
                    crossed.append(crossings)
            if crossed:
                # A copy: the rooms are used again.
                crossings = crossed[0].copy() if len(crossed) == 1 else np.concatenate(crossed)
                found.append(self._told(crossings, step.flags, segment.rows.shape.attributes))
        return found

    def _walk(
        self, segment: RegionSegments, pieces: Sequence[Step], number: int
    ) -> tuple[Int64s, int]:
        """Return what the events of a piece crossed, until the next walk of this number.

        And how many delta queries they visited.
        """
        room, n, visited = segment.walk(pieces[number], self._crossings[number])
        self._crossings[number] = room
        return room[:n], visited

    def _told(self, packed: Int64s, flags: Flags, attributes: tuple[int, ...]) -> Findings:
        """Return the crossings that their queries tell of."""
        if self._skipping:
            options = flags[slots_of(packed)]
            skipped = options & _SKIPS[codes_of(packed)] != 0
            # A crossing that is not told may still undo one that waits to be.
            packed = packed[~skipped | (options & DIVERTED != 0)]
        return Findings(packed, attributes=attributes)

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


def _inside(
    segments: Iterable[RegionSegments], where: Whereabouts, flags: Flags, wanted: tuple[int, int]
) -> list[_Crossings]:
    """Return the crossings of all boxes that keys are inside of, by the boxes' attributes."""
    found: defaultdict[tuple[int, ...], list[Int64s]] = defaultdict(list)
    for segment in segments:
        crossings = segment.inside(where, flags, wanted)
        if crossings.size:
            found[segment.rows.shape.attributes].append(crossings)
    return [(attributes, np.concatenate(parts)) for attributes, parts in found.items()]


def _all(parts: list[_Crossings]) -> Int64s:
    """Return the crossings of all parts."""
    return np.concatenate([np.empty(0, np.int64), *(crossings for _, crossings in parts)])
