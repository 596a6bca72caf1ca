"""Region-segment lists: which boxes does a moving value enter and leave (paper: bmq-index).

For each attribute a lane's queries stand in two sorted lists: the plus list by lower end, the minus
list by upper end. They are the paper's delta sets, +DQSet and -DQSet, laid out flat: the entries
between two positions are exactly the delta queries of the region segments between them. A lane is
one key's queries, or all queries of a segment without keys.

The stream table holds each key's last position in both lists, and the ends of its region segment. A
move that crosses no border costs one comparison of the value with these, whether its key has one
event in a batch or many, and no look at the lists. The paper takes set differences to drop queries
that a move jumps over; comparing the other end of each delta query gives the same sets without
building any.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from everquery.core.arrays import Bytes, Floats, Int32s, Int64s, resized, total_bytes
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.index.lanes import order_in_lanes, sort_into_lanes
from everquery.index.rows import Rows, Step, Whereabouts
from everquery.kinds.border.border_lists import MINUS, PLUS, UNKNOWN
from everquery.kinds.border.containing import FANOUT_BITS, fill_maxima, find_near, write_inside
from everquery.kinds.border.few_rows import FEW, sort_few
from everquery.kinds.border.walk import walk_borders


@dataclass(slots=True)  # frozen, it would take three times as long to make
class RegionSegments:
    """An immutable set of boxes with their plus and minus lists, and the keys' positions in them.

    Positions and regions follow from the last values, so they are no part of a snapshot.
    """

    rows: Rows
    attributes: Int64s
    lane_key: Int32s
    lane_start: Int64s
    ends: Floats
    order: Int32s
    maxima: Floats
    level_start: Int64s
    positions: list[Int32s]
    regions: list[Floats]

    @classmethod
    def build(cls, rows: Rows) -> RegionSegments:
        """Sort the rows into lists; every key's position is unknown until its next event."""
        if len(rows) <= FEW:
            return cls._of_few(rows)
        lanes = sort_into_lanes(rows.key, rows.low[0])
        rows = lanes.taken_from(rows)
        n = len(rows)
        ends = np.stack([rows.low, rows.high])
        order = np.empty(ends.shape, np.int32)
        order[PLUS, 0] = np.arange(n, dtype=np.int32)  # in order already
        for side, a in np.ndindex(ends.shape[:2]):
            if (side, a) != (PLUS, 0):
                order[side, a] = order_in_lanes(ends[side, a], lanes.start)
        level_start = pyramid_levels(n)
        maxima = np.empty(level_start[-1], np.float64)
        fill_maxima(ends[MINUS, 0], maxima, level_start)
        entries = lanes.key.size if rows.shape.keyed else 0
        return cls(
            rows=replace(rows, low=ends[PLUS], high=ends[MINUS]),  # views: no second copy
            attributes=np.array(rows.shape.attributes, np.int64),
            lane_key=lanes.key,
            lane_start=lanes.start,
            ends=ends,
            order=order,
            maxima=maxima,
            level_start=level_start,
            positions=[np.full((*ends.shape[:2], entries), UNKNOWN, np.int32)],
            regions=[np.full((*ends.shape[:2], entries), np.nan)],
        )

    @classmethod
    def _of_few(cls, rows: Rows) -> RegionSegments:
        """Do what `build` does in one call, for queries that come one by one."""
        d, n = rows.low.shape
        ends = np.empty((2, d, n))
        order = np.empty((2, d, n), np.int32)
        slot, key = np.empty(n, np.int32), np.empty(n, np.int32)
        lane_key, lane_start = np.empty(n, np.int32), np.empty(n + 1, np.int64)
        level_start = pyramid_levels(n)
        maxima = np.empty(level_start[-1])
        lanes = sort_few(
            (rows.slot, rows.key, rows.low, rows.high),
            slot, key, ends, order, lane_key, lane_start, maxima, level_start,
        )  # fmt: skip
        entries = lanes if rows.shape.keyed else 0
        positions, regions = np.empty((2, d, entries), np.int32), np.empty((2, d, entries))
        positions.fill(UNKNOWN)
        regions.fill(np.nan)
        return cls(
            Rows(rows.shape, slot, key, ends[PLUS], ends[MINUS]),
            np.array(rows.shape.attributes, np.int64),
            lane_key[:lanes],
            lane_start[: lanes + 1],
            ends,
            order,
            maxima,
            level_start,
            [positions],
            [regions],
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the rows' ends, which are views."""
        rows = replace(self.rows, low=self.ends[PLUS, :, :0], high=self.ends[MINUS, :, :0])
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return _with_views, ({**values, "rows": rows},)

    def __len__(self) -> int:
        return len(self.rows)

    def all_rows(self) -> Rows:
        """Return the rows."""
        return self.rows

    def renumbered(self, slots: Int32s) -> RegionSegments:
        """Return the same with other slots, given by the present ones."""
        return replace(self, rows=self.rows.renumbered(slots))

    def make_room(self, keys: int) -> None:
        """Make room for the positions of so many keys, if each may have some."""
        if not self.rows.shape.keyed and self.positions[0].shape[-1] < keys:
            self.positions[0] = resized(self.positions[0], keys, UNKNOWN)
            self.regions[0] = resized(self.regions[0], keys, np.nan)

    def forget_positions(self) -> None:
        """Search every key anew at its next event."""
        self.positions[0].fill(UNKNOWN)
        self.regions[0].fill(np.nan)

    def walk(self, step: Step, crossings: Int64s) -> tuple[Int64s, int, int]:
        """Return what `walk_borders` writes for a batch, for whose keys there is room."""
        events = step.grouped
        return walk_borders(
            (events.key, events.start, events.position, events.values),
            step.fresh,
            step.seen,
            step.last,
            # A plain tuple: of a named one Numba looks up the class at every call.
            (step.earlier.first, step.earlier.older, step.earlier.values),
            *self._lists(),
            self.positions[0],
            self.regions[0],
            step.flags,
            (LIVE_MASK, LIVE),
            step.all_live,
            crossings,
            0,
        )

    def near(self, seen: Bytes, last: Floats) -> Int32s:
        """Return the keys of lanes that `find_near` finds."""
        found = np.empty(self.lane_key.size, np.int32)
        lists = self.attributes, self.lane_key, self.lane_start, self.ends
        return found[: find_near(seen, last, *lists, found)]

    def inside(self, where: Whereabouts, flags: Flags, wanted: tuple[int, int]) -> Int64s:
        """Return the crossings that `write_inside` writes."""
        values = where.values(self.rows.shape.attributes)
        crossings, n = write_inside(
            where.keys, values, *self._lists(), flags, wanted, np.empty(64, np.int64), 0
        )
        return crossings[:n]

    def _lists(self) -> tuple[Int64s, Int32s, Int64s, Floats, Int32s, Int32s, Floats, Int64s]:
        return (
            self.attributes,
            self.lane_key,
            self.lane_start,
            self.ends,
            self.order,
            self.rows.slot,
            self.maxima,
            self.level_start,
        )

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(self.rows.key, *self._lists(), *self.positions, *self.regions)


def _with_views(values: dict[str, Any]) -> RegionSegments:
    ends = values["ends"]
    rows = replace(values["rows"], low=ends[PLUS], high=ends[MINUS])
    return RegionSegments(**{**values, "rows": rows})


@lru_cache(FEW)  # nobody writes into them
def pyramid_levels(n: int) -> Int64s:
    """Return where each level of the pyramid over `n` rows begins, and where the last ends."""
    start = [0]
    while n > 1:
        n = -(-n >> FANOUT_BITS)
        start.append(start[-1] + n)
    return np.array(start, np.int64)
