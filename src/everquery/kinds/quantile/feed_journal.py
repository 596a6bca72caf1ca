"""What has changed of a quantile feed since it was last saved."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from everquery.core.arrays import Bools, Floats, Int32s, Int64s, resized
from everquery.kinds.quantile.rank_cells import CELLS, NOWHERE, PLACES, CellTable


@dataclass(frozen=True, slots=True)
class FeedJournal:
    """What has changed of a feed since it was last saved.

    Attributes
    ----------
    ended : int32
        Lanes that ended before the rows.
    rows : list of lanes, where the rows of each begin, and values
    slot, told, value : of members and cells, as they were last saved
    """

    ended: Int32s = field(default_factory=lambda: np.empty(0, np.int32))
    rows: list[tuple[Int32s, Int64s, Floats]] = field(default_factory=list)
    slot: Int32s = field(default_factory=lambda: np.empty(0, np.int32))
    told: Floats = field(default_factory=lambda: np.empty(0))
    value: Floats = field(default_factory=lambda: np.empty(0))

    def rows_by_lane(self) -> tuple[Int32s, Int64s]:
        """Return the lanes that have new rows, and how many."""
        if not self.rows:
            return np.empty(0, np.int32), np.empty(0, np.int64)
        lanes, place = np.unique(
            np.concatenate([group for group, _, _ in self.rows]), return_inverse=True
        )
        rows = np.zeros(lanes.size, np.int64)
        np.add.at(rows, place, np.concatenate([np.diff(starts) for _, starts, _ in self.rows]))
        return lanes, rows

    def without(self, lanes: Int32s) -> list[tuple[Int32s, Int64s, Floats]]:
        """Return the rows of other lanes."""
        if not lanes.size:
            return self.rows
        kept = []
        for group, starts, values in self.rows:
            others = ~np.isin(group, lanes)
            lengths = np.diff(starts)
            ends = np.cumsum(lengths[others])
            kept.append(
                (
                    group[others],
                    np.concatenate([np.zeros(1, np.int64), ends]),
                    values[np.repeat(others, lengths)],
                )
            )
        return kept

    def after(self, table: CellTable) -> FeedJournal:
        """Return the journal of what changes from now on."""
        places, cells = int(table.used[PLACES]), int(table.used[CELLS])
        members = table.members
        slot = np.where(members.cell[:places] == NOWHERE, NOWHERE, members.slot[:places])
        return FeedJournal(
            slot=slot, told=members.told[:places].copy(), value=table.cells.value[:cells].copy()
        )

    def changed(self, table: CellTable) -> tuple[Int64s, Int64s]:
        """Return the cells that have another value, and the members that are new or know more."""
        places, cells = int(table.used[PLACES]), int(table.used[CELLS])
        value = resized(self.value, cells, np.nan)
        other = ~_equal(value, table.cells.value[:cells]) & (table.cells.members[:cells] > 0)
        slot, told = resized(self.slot, places, NOWHERE), resized(self.told, places, np.nan)
        members = table.members
        new = (slot != members.slot[:places]) | ~_equal(told, members.told[:places])
        return np.flatnonzero(other), np.flatnonzero(new & (members.cell[:places] != NOWHERE))


def _equal(first: Floats, second: Floats) -> Bools:
    """Tell which are equal, or both NaN."""
    equal: Bools = (first == second) | (np.isnan(first) & np.isnan(second))
    return equal
