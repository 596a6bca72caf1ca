"""The range kind: which live queries contain each event."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from everquery.core.arrays import Int32s
from everquery.index.access_paths import BoxSegment
from everquery.index.kind import Explained, KindIndex
from everquery.index.layers import Layers
from everquery.index.rows import Findings, Matches, Outcome, Step


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
            found = segment.explain(slot)
            if found is not None:
                return found
        return None
