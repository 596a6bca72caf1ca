"""The range kind: which live queries contain each event."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from everquery.core.arrays import Int32s
from everquery.index.access_paths import (
    LIST_CANDIDATE_NS,
    TILE_CANDIDATE_NS,
    BoxSegment,
    share_of_lane,
)
from everquery.index.cei import CeiSegment
from everquery.index.kind import Explained, KindIndex
from everquery.index.layers import Layers
from everquery.index.rows import Findings, Matches, Outcome, Step
from everquery.index.tiles import TileSegment

MATCH_NS = 2.0  # a match of one attribute, written out without a check


class RangeIndex(KindIndex):
    """Boxes in layers of containment-encoded intervals and tiles."""

    outcomes: ClassVar[tuple[Outcome, ...]] = (Outcome("match"),)

    def __init__(self) -> None:
        self.layers: Layers[BoxSegment] = Layers(BoxSegment.build)
        self._out: Int32s = np.empty(1 << 16, np.int32)

    def process(self, step: Step) -> list[Matches | Findings]:
        """Return every event's matches, one part for each structure that has some."""
        if step.grouped.position.size == 0:
            return []
        out = self._out
        found = []
        used = 0
        for segment in self.layers:
            for part in segment.parts:
                ends, out = part.search(step, out, used)
                if ends[-1] > used:
                    found.append((used, ends))
                used = int(ends[-1])
        self._out = out
        return [Matches(out, begin, ends) for begin, ends in found]

    def explain(self, slot: int) -> Explained | None:
        """Return which structure finds a query, by which attributes."""
        for segment in self.layers:
            for part in segment.parts:
                row = np.flatnonzero(part.rows.slot == slot)
                if row.size:
                    return _explain(part, int(row[0]))
        return None


def _explain(part: CeiSegment | TileSegment, row: int) -> Explained:
    named = part.rows.shape.attributes
    lane = int(np.count_nonzero(part.rows.key == part.rows.key[row]))
    if isinstance(part, TileSegment):
        share = float(part.hit_rate[row])
        path = f"tiles of two attributes ({len(part.layers)} layers), then a check"
        axes = tuple(named[axis] for axis in part.tiling_axes)
        return Explained(path, axes, share, share * TILE_CANDIDATE_NS, lane, len(part.rows))
    share = float(share_of_lane(part.rows, part.primary)[row])
    path = f"containment-encoded intervals (L = {1 << part.levels})"
    cost = MATCH_NS
    if len(named) > 1:
        path += ", then a check"
        cost = LIST_CANDIDATE_NS
    return Explained(path, (named[part.primary],), share, share * cost, lane, len(part.rows))
