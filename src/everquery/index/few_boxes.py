"""A few boxes, looked at one by one: what a query that was just registered is found by.

Nothing is built, so that a query is live with the next event.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s, grow, total_bytes
from everquery.core.jit import kernel
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.index.rows import Rows, Step


@kernel
def search_few(
    group_key: Int32s,
    group_start: Int64s,
    values: Floats,
    attributes: Int64s,
    slot: Int32s,
    key: Int32s,
    low: Floats,
    high: Floats,
    flags: Flags,
    out: Int32s,
    n: int,
    ends: Int64s,
) -> Int32s:
    """Write the live queries that contain each event; see `search_cei`."""
    few = np.empty(slot.size, np.int64)
    for group in range(group_key.size):
        here = 0
        for row in range(slot.size):
            of_key = key[row] < 0 or key[row] == group_key[group]
            if of_key and flags[slot[row]] & LIVE_MASK == LIVE:
                few[here] = row
                here += 1
        for event in range(group_start[group], group_start[group + 1]):
            while n + here > out.size:
                out = grow(out)
            for i in range(here):
                inside = True
                for a in range(attributes.size):
                    value = values[attributes[a], event]
                    inside &= low[a, few[i]] <= value
                    inside &= not high[a, few[i]] <= value
                out[n] = slot[few[i]]
                n += inside
            ends[event] = n
    return out


@dataclass(frozen=True, slots=True)
class FewBoxes:
    """An immutable set of boxes without a structure."""

    rows: Rows
    attributes: Int64s

    @classmethod
    def build(cls, rows: Rows) -> FewBoxes:
        """Take the rows as they are."""
        return cls(rows, np.array(rows.shape.attributes, np.int64))

    def renumbered(self, slots: Int32s) -> FewBoxes:
        """Return the same with other slots, given by the present ones."""
        return FewBoxes(self.rows.renumbered(slots), self.attributes)

    def search(self, step: Step, out: Int32s, used: int) -> tuple[Int64s, Int32s]:
        """Write the live queries that contain each event; see `CeiSegment.search`."""
        rows, grouped = self.rows, step.grouped
        ends = np.empty(grouped.position.size, np.int64)
        out = search_few(
            grouped.key, grouped.start, grouped.values, self.attributes, rows.slot, rows.key,
            rows.low, rows.high, step.flags, out, used, ends,
        )  # fmt: skip
        return ends, out

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(*self.rows.arrays(), self.attributes)
