"""The lanes of a store: how they begin and are found, and the room that they have."""

from __future__ import annotations

from typing import Any

import numpy as np

from everquery.core.arrays import Array, Bools, Int32s, Int64s, resized, total_bytes
from everquery.kinds.window.families import layout_of
from everquery.kinds.window.groups import StoreName
from everquery.kinds.window.lanes import (
    LANES,
    PLACES,
    PLACES_END,
    Lanes,
    Pools,
    lanes_of,
    link_lanes,
)
from everquery.kinds.window.room import repack, rooms_for
from everquery.kinds.window.taking import find_lanes
from everquery.kinds.window.telling import Members
from everquery.state.pairs import FREE, KEY_SHIFT, SLOT_MASK, end_of_time, refill_pairs

LEAST = 16


class HeldLanes:
    """The lanes of one family.

    Attributes
    ----------
    name : StoreName
    counts : int64
        How many lanes and places of the pools are in use; the others belong to a call.
    members : Members
        The queries that look at lanes, and what they were told.
    """

    def __init__(self, name: StoreName) -> None:
        self.name = name
        self.layout = layout_of(name.family, exact=name.exact)
        self.dtype: Any = np.int64
        self.counts: Int64s = np.zeros(7, np.int64)
        self.lanes = Lanes.of(0, self.dtype)
        self.following: Int32s = np.zeros(0, np.int32)
        self.heads: Int32s = np.full(1, FREE, np.int32)
        self.table: Int32s = np.full(2 * LEAST, FREE, np.int32)
        self.pools = Pools.of(self.layout, self.dtype)
        self.members = _no_members(self.dtype, 0)

    @property
    def never(self) -> Array:
        """The mark that is never reached, as an array of one."""
        return np.full(1, end_of_time(self.dtype), self.dtype)

    @property
    def used(self) -> int:
        """How many lanes there are."""
        return int(self.counts[LANES])

    def group_of_lanes(self) -> Int64s:
        """Return the group of each lane."""
        groups: Int64s = self.lanes.pair[: self.used] & SLOT_MASK
        return groups

    def lanes_for(self, pairs: Int64s, begun: Any) -> Int64s:  # noqa: ANN401 - a mark
        """Return the lane of each pair of a key and a group; new ones begin."""
        found = np.empty(pairs.size, np.int64)
        before = self.used
        if before + pairs.size > self.lanes.pair.size:
            distinct = np.unique(pairs) if pairs.size > LEAST else pairs
            if before + distinct.size > self.lanes.pair.size:
                self._grow_lanes(max(before + distinct.size, 2 * before, LEAST))
        find_lanes(pairs, self.table, self.lanes, self.counts, found)
        if self.used > before:
            self._begin(before, begun)
        return found

    def _begin(self, before: int, begun: Any) -> None:  # noqa: ANN401 - a mark
        new = slice(before, self.used)
        lanes = self.lanes
        lanes.key[new] = (lanes.pair[new] >> KEY_SHIFT) - 1
        for column in (lanes.start, lanes.room, lanes.used, lanes.limit, lanes.seen):
            column[new] = 0
        lanes.dirty[new] = 1
        if not self.name.timed:
            begun = 0
        lanes.begun[new] = -self.never[0] if begun is None else begun
        lanes.soonest[new] = self.never[0]
        for column in self.pools[3:]:
            column[new] = 0
        most = int(lanes.key[new].max()) + 2
        if most > self.heads.size:
            self.heads = resized(self.heads, max(most, 2 * self.heads.size), FREE)
        link_lanes(before, self.used, lanes.key, self.heads, self.following)
        members = self.members
        if members.start.size > 1:
            group = lanes.pair[new] & SLOT_MASK
            known = np.minimum(group, members.start.size - 2)
            sizes = np.where(
                group < members.start.size - 1, members.start[known + 1] - members.start[known], 0
            )
            told = members.told.size
            members.told_start[new] = told + np.cumsum(sizes) - sizes
            more = int(sizes.sum())
            never = np.full(more, -self.never[0], self.dtype)
            self.members = members._replace(
                told=np.concatenate([members.told, np.full(more, np.nan)]),
                told_at=np.concatenate([members.told_at, never]),
            )

    def _grow_lanes(self, room: int) -> None:
        self.lanes = Lanes(*(resized(column, room) for column in self.lanes))
        self.following = resized(self.following, room, FREE)
        self.members = self.members._replace(
            told_start=resized(self.members.told_start, room, FREE)
        )
        wide = [np.ascontiguousarray(resized(column.T, room).T) for column in self.pools[3:]]
        self.pools = Pools(*self.pools[:3], *wide)
        self._fill_tables()

    def make_room(self, more: int = 0) -> None:
        """Make room for more entries; those that were given up go first."""
        lanes, old = self.lanes, self.pools
        used, limit = lanes.used[: self.used], lanes.limit[: self.used]
        lanes.room[: self.used][used == 0] = 0
        order = np.flatnonzero(used)
        order = order[np.argsort(lanes.start[order], kind="stable")]
        rooms = rooms_for(used, limit, self.layout)
        held = int(rooms.sum())
        end = held + max(64, more, held >> 5, 3 * int(rooms.max(initial=0)))
        new = old
        if end > old.mark.size:
            # What is not used yet takes no memory, as long as nothing is written there.
            room = end + (end >> 1)
            new = Pools.like(room, 0, old.total.shape[1], old.rest.shape[1], self.dtype)
            new = Pools(*new[:3], *old[3:])
        self.counts[PLACES], self.counts[PLACES_END] = repack(order, rooms, lanes, old, new), end
        self.pools = new

    def make_room_below_zero(self) -> None:
        """Let buckets have sums of values below 0."""
        pools = self.pools
        total, base = (np.pad(each, ((0, 0), (0, 1))) for each in (pools.total, pools.base))
        self.pools = pools._replace(total=total, base=base)

    def lanes_of_keys(self, keys: Int32s) -> tuple[Int64s, Int64s]:
        """Return all lanes of keys, -1 for those of all together; and the place of each's key."""
        room = max(LEAST, keys.size)
        while True:
            lane, place = np.empty(room, np.int64), np.empty(room, np.int64)
            n = lanes_of(keys, self.heads, self.following, lane, place)
            if n <= room:
                return lane[:n], place[:n]
            room = n

    def _forget_lanes(self, gone: Bools) -> None:
        kept = np.flatnonzero(~gone)
        if kept.size == gone.size:
            return
        for column in (*self.lanes, *self.pools[3:], self.members.told_start):
            column[: kept.size] = column[kept]
        self.counts[LANES] = kept.size
        self._fill_tables()

    def _fill_tables(self) -> None:
        room = self.lanes.pair.size
        self.table = np.full(1 << (2 * max(room, LEAST) - 1).bit_length(), FREE, np.int32)
        refill_pairs(self.table, self.lanes.pair[: self.used], self.used)
        self.heads[:] = FREE
        link_lanes(0, self.used, self.lanes.key, self.heads, self.following)

    def entry_bytes(self) -> int:
        """Return how many bytes an entry takes."""
        return int(8 * (1 + self.pools.total.shape[1] + self.pools.rest.shape[1]))

    def lane_bytes(self) -> int:
        """Return the bytes of all lanes, with their entries."""
        end = self.counts[PLACES_END]
        entries = [column[:end] for column in self.pools[:3]]
        arrays = (*self.lanes, *entries, *self.pools[3:], *self.members)
        return total_bytes(*arrays, self.table, self.heads, self.following)


def _no_members(dtype: Any, lanes: int) -> Members:  # noqa: ANN401 - a NumPy type
    none, ints = np.zeros(0), np.zeros(0, np.int64)
    like = np.zeros(0, dtype)
    told_start = np.full(lanes, FREE, np.int64)
    start = np.zeros(1, np.int64)
    slot = np.zeros(0, np.int32)
    return Members(start, slot, ints, like, like, none, none, none, none, like, told_start)
