"""The range kind: which live queries contain each event."""

from __future__ import annotations

from collections.abc import Sequence
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
        self._out: list[Int32s] = []  # room for matches, one array a thread

    def process(self, step: Step) -> list[Matches | Findings]:
        """Return every event's matches, one part for each structure that has some."""
        if step.grouped.position.size == 0 or not len(self.layers):
            return []
        pieces = step.pieces()
        while len(self._out) < len(pieces):
            self._out.append(np.empty(1 << 16, np.int32))
        found = step.crew.map(
            lambda number: self._search(pieces[number], number), range(len(pieces))
        )
        whole = found[0]
        if len(found) > 1:
            whole = [_joined(pieces, each) for each in zip(*found, strict=True)]
        return [part for part in whole if part.ends[-1] > part.begin]

    def _search(self, step: Step, number: int) -> list[Matches]:
        """Return the matches of each structure, with the room of a thread."""
        out = self._out[number]
        start, stop = int(step.grouped.start[0]), int(step.grouped.start[-1])
        found = []
        used = 0
        for segment in self.layers:
            for part in segment.parts:
                ends, out = part.search(step, out, used)
                found.append((used, ends))
                if stop > start:
                    used = int(ends[stop - 1])
        self._out[number] = out
        return [Matches(out, begin, ends) for begin, ends in found]

    def explain(self, slot: int) -> Explained | None:
        """Return which structure finds a query, by which attributes."""
        for segment in self.layers:
            found = segment.explain(slot)
            if found is not None:
                return found
        return None


def _joined(pieces: Sequence[Step], parts: Sequence[Matches]) -> Matches:
    """Return what was found for the keys of each piece as the matches of all events."""
    ends = np.empty(parts[0].ends.size, np.int64)
    slots = []
    before = 0
    for piece, part in zip(pieces, parts, strict=True):
        first, last = int(piece.grouped.start[0]), int(piece.grouped.start[-1])
        if last > first:
            found = part.slots[part.begin : part.ends[last - 1]]
            ends[first:last] = part.ends[first:last] + (before - part.begin)
            slots.append(found)
            before += found.size
    return Matches(np.concatenate(slots), 0, ends)
