"""What answers the queries: a count for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Int32s
from everquery.index.flags import LIVE, LIVE_MASK, option_flags
from everquery.index.kind import Explained, KindIndex
from everquery.index.layers import Layers
from everquery.index.row_segment import RowSegment
from everquery.index.rows import Findings, Grouped, Matches, NoticeColumn, Outcome, Rows, Step
from everquery.index.sort_keys import pack_findings
from tests.conformance.toy.spec import Nth

AT_ONCE = option_flags(Nth.options)["at_once"]


class NthIndex(KindIndex):
    """Counts by slot; every row is looked at with every batch."""

    outcomes: ClassVar[tuple[Outcome, ...]] = (Outcome("tick"),)
    columns: ClassVar[tuple[NoticeColumn, ...]] = (
        NoticeColumn("ticks", pa.int64(), "how many events the query has told of"),
    )

    def __init__(self) -> None:
        self.layers: Layers[RowSegment] = Layers(RowSegment)
        self._nth: dict[int, int] = {}
        self._seen: dict[int, int] = {}

    def describe(self, slots: Int32s, numbers: Mapping[str, Array]) -> None:
        """Note the numbers of queries."""
        for slot, nth in zip(slots.tolist(), numbers["nth"].tolist(), strict=True):
            self._nth[slot], self._seen[slot] = nth, 0

    def numbers(self, slots: Int32s) -> dict[str, Array]:
        """Return the numbers of queries."""
        return {"nth": np.array([self._nth[slot] for slot in slots.tolist()], np.int64)}

    def state(self, slots: Int32s) -> dict[str, Array]:
        """Return the counts of queries."""
        return {"seen": np.array([self._seen[slot] for slot in slots.tolist()], np.int64)}

    def set_state(self, slots: Int32s, state: Mapping[str, Array]) -> None:
        """Set the counts of queries."""
        self._seen.update(zip(slots.tolist(), state["seen"].tolist(), strict=True))

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots."""
        super().renumber(slots)
        self._nth = {int(slots[slot]): nth for slot, nth in self._nth.items() if slots[slot]}
        self._seen = {int(slots[slot]): seen for slot, seen in self._seen.items() if slots[slot]}

    def process(self, step: Step) -> list[Matches | Findings]:
        """Return the events whose turn it is."""
        packed, ticks = [], []
        for segment in self.layers:
            for row, slot in enumerate(segment.rows.slot.tolist()):
                if step.flags[slot] & LIVE_MASK != LIVE:
                    continue
                positions = np.sort(step.grouped.position[_inside(segment.rows, row, step.grouped)])
                first = 1 if step.flags[slot] & AT_ONCE else self._nth[slot]
                count = self._seen[slot] + 1 + np.arange(positions.size)
                told = np.flatnonzero((count >= first) & ((count - first) % self._nth[slot] == 0))
                self._seen[slot] += positions.size
                packed.append(pack_findings(positions[told], np.full(told.size, slot)))
                ticks.append((count[told] - first) // self._nth[slot] + 1)
        if not packed:
            return []
        return [Findings(np.concatenate(packed), {"ticks": np.concatenate(ticks)})]

    def explain(self, slot: int) -> Explained | None:
        """Return that it is looked at with every event."""
        for segment in self.layers:
            if slot in segment.rows.slot:
                rows = len(segment)
                return Explained("a count", segment.rows.shape.attributes, 1.0, 1.0, rows, rows)
        return None


def _inside(rows: Rows, row: int, grouped: Grouped) -> Bools:
    """Tell which events of a batch a query sees."""
    inside = np.ones(grouped.position.size, np.bool_)
    if rows.shape.keyed:
        inside &= np.repeat(grouped.key, np.diff(grouped.start)) == rows.key[row]
    for i, attribute in enumerate(rows.shape.attributes):
        values = grouped.values[attribute]
        inside &= (rows.low[i, row] <= values) & ~(rows.high[i, row] <= values)
    return inside
