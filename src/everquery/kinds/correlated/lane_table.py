"""All groups and lanes of the kind in a handful of arrays, and how they come and go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bools, Floats, Int32s, Int64s, resized, total_bytes
from everquery.index.flags import Flags
from everquery.index.rows import NO_KEY
from everquery.kinds.correlated.estimates import PIECES
from everquery.kinds.correlated.exact_sums import LIMBS
from everquery.kinds.correlated.histograms import FIRST_MARK, LAST_MARK, LEAST_MARK, MOST_MARK
from everquery.kinds.correlated.kept_events import ARRIVED, SORTED
from everquery.kinds.correlated.lane_loops import link_lanes, list_jobs, move_sections
from everquery.kinds.correlated.places import block_sizes, spread, starts_of_blocks
from everquery.kinds.correlated.records import (
    Groups,
    Lanes,
    Records,
    columns_of,
    no_records,
    with_room,
)
from everquery.kinds.correlated.taking import FIGURES, answer_one, take_events

NOWHERE = -1
LEAST_ROOM = 8
_TOLD = 64  # notices that there is room for at first
_FEW_GROUPS = 64  # that are not worth to be given up


class Jobs(NamedTuple):
    """Events and the lanes that they are for.

    Attributes
    ----------
    jobs : int64, shape (jobs, 3)
    values : float64, shape (attributes, events)
    times : like marks, for each event
    """

    jobs: Int64s
    values: Array
    times: Array


class LaneTable:
    """Groups of queries, and their lanes.

    Attributes
    ----------
    group_records, lane_records : with room for more than there are
    groups, lanes : the same as columns
    pool : int64
        The numbers of all lanes, seen as int64.
    said : float64
    slot : int32
    heads : int32, by key
        The first lane of each key, or -1.
    touched : bool, by lane
        Those that have changed since they were saved.
    renewed : bool
        Whether there are other groups than those that were saved.
    """

    CACHES: ClassVar[tuple[str, ...]] = ("_group_columns", "_lane_columns")  # views of records
    _group_columns: tuple[Records, Groups] | None = None
    _lane_columns: tuple[Records, Lanes] | None = None

    def __init__(self, dtype: Any = np.int64) -> None:  # noqa: ANN401 - a NumPy type
        self.dtype = np.dtype(dtype)
        self.group_records = no_records(Groups, self.dtype)
        self.lane_records = no_records(Lanes, self.dtype)
        self.n_groups = self.n_lanes = self.n_members = self.n_said = self.top = 0
        self.pool: Int64s = np.empty(0, np.int64)
        self.said: Array = np.empty(0)
        self.slot: Int32s = np.empty(0, np.int32)
        self.heads: Int32s = np.empty(0, np.int32)
        self.touched: Bools = np.empty(0, np.bool_)
        self.renewed = True
        self._each: Int32s = np.empty(0, np.int32)  # groups with a lane for each key
        self._taken: Int64s = np.empty(0, np.int64)  # how many of them each key has lanes of
        self._told: Floats = np.empty(FIGURES * _TOLD)

    @property
    def groups(self) -> Groups:
        """The columns of all groups: the memory of their records."""
        if self._group_columns is None or self._group_columns[0] is not self.group_records:
            self._group_columns = self.group_records, columns_of(self.group_records, Groups)
        return self._group_columns[1]

    @property
    def lanes(self) -> Lanes:
        """The columns of all lanes: the memory of their records."""
        if self._lane_columns is None or self._lane_columns[0] is not self.lane_records:
            self._lane_columns = self.lane_records, columns_of(self.lane_records, Lanes)
        return self._lane_columns[1]

    def _numbers(self) -> tuple[Floats, Array, Int64s]:
        """Return the numbers of all lanes, as loops see them."""
        return self.pool.view(np.float64), self.pool.view(self.dtype), self.pool

    # -- groups -------------------------------------------------------------------------------

    def add_groups(self, columns: Mapping[str, Array], slots: Int32s, sizes: Int64s) -> Int64s:
        """Add groups of queries; return their numbers.

        Parameters
        ----------
        columns : those of `Groups` that say what they are
        slots : the queries, group by group
        sizes : how many each group has
        """
        begin, n = self.n_groups, sizes.size
        self._make_groups(begin + n)
        numbers = np.arange(begin, begin + n)
        for name, column in columns.items():
            getattr(self.groups, name)[numbers] = column
        self.groups.first[numbers] = self.n_members + np.cumsum(sizes) - sizes
        self.groups.members[numbers] = self.groups.live[numbers] = sizes
        end = self.n_members + slots.size
        if end > self.slot.size:
            self.slot = resized(self.slot, max(end, 2 * self.slot.size), NOWHERE)
        self.slot[self.n_members : end] = slots
        self.n_members, self.n_groups = end, begin + n
        each = numbers[self.groups.of_each[numbers] != 0].astype(np.int32)
        self._each = np.concatenate([self._each, each])
        self.renewed = True
        return numbers

    def _make_groups(self, size: int) -> None:
        if size > self.groups.x.size:
            room = max(size, 2 * self.groups.x.size)
            self.group_records = with_room(self.group_records, room)

    def drop(self, group: Int64s, member: Int64s) -> None:
        """Take queries out of their groups; a group without any is over."""
        self.slot[self.groups.first[group] + member] = NOWHERE
        np.subtract.at(self.groups.live, group, 1)
        self.renewed = True
        dead = self.groups.live[self.lanes.group[: self.n_lanes]] == 0
        if 2 * np.count_nonzero(dead) > self.n_lanes + LEAST_ROOM:
            self.keep_lanes(np.flatnonzero(~dead))

    def has_many_dead_groups(self) -> bool:
        """Tell whether most groups have no queries any more."""
        dead = np.count_nonzero(self.groups.live[: self.n_groups] == 0)
        return bool(2 * dead > self.n_groups + _FEW_GROUPS)

    def keep_live_groups(self) -> Int64s:
        """Give up the groups that have no queries; return all groups' new numbers, by the old."""
        live = self.groups.live[: self.n_groups] > 0
        self.keep_lanes(np.flatnonzero(live[self.lanes.group[: self.n_lanes]]))
        self.count_lanes_of_keys()
        numbers = np.where(live, np.cumsum(live) - 1, NOWHERE)
        kept = np.flatnonzero(live)
        members = self.groups.members[kept]
        self.slot = self.slot[spread(self.groups.first[kept], members)]
        self.group_records = self.group_records[kept]
        self.groups.first[:] = np.cumsum(members) - members
        self.n_groups, self.n_members = kept.size, self.slot.size
        self.lanes.group[: self.n_lanes] = numbers[self.lanes.group[: self.n_lanes]]
        self._each = numbers[self._each].astype(np.int32)
        return numbers

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots, by their present ones."""
        used = self.slot[: self.n_members]
        here = used >= 0
        used[here] = slots[used[here]]

    # -- lanes --------------------------------------------------------------------------------

    def add_lanes(self, group: Array, key: Array) -> Int64s:
        """Add lanes without events; return their numbers."""
        begin, end = self.n_lanes, self.n_lanes + group.size
        if end > self.lanes.group.size:
            room = max(end, 2 * self.lanes.group.size)
            self.lane_records = with_room(self.lane_records, room)
            self.touched = resized(self.touched, room)
        numbers = np.arange(begin, end)
        self.lane_records[begin:end] = np.zeros(1, self.lane_records.dtype)
        self.lanes.group[begin:end], self.lanes.key[begin:end] = group, key
        self.lanes.start[begin:end] = self.lanes.next[begin:end] = NOWHERE
        members = self.groups.members[group]
        self.lanes.told[begin:end] = self.n_said + np.cumsum(members) - members
        said = self.n_said + int(members.sum())
        if said > self.said.size:
            self.said = resized(self.said, max(said, 2 * self.said.size), np.nan)
        self.said[self.n_said : said] = np.nan
        self.n_said, self.n_lanes = said, end
        self.make_keys(int(np.max(key, initial=-1)) + 1)
        link_lanes(begin, end, self.lanes.key, self.lanes.next, self.heads)
        return numbers

    def make_keys(self, size: int) -> None:
        """Make room for so many keys."""
        if size > self.heads.size:
            room = max(size, 2 * self.heads.size)
            self.heads = resized(self.heads, room, NOWHERE)
            self._taken = resized(self._taken, room)

    def keep_lanes(self, kept: Int64s) -> None:
        """Give up all lanes but some, and what nobody needs of memory."""
        before, said, pool = self.lanes, self.said, self.pool
        sizes = self.sizes(kept)
        self.n_lanes = self.n_said = 0
        self.said = np.empty(0)  # new lanes write over what they get
        self.heads[:] = NOWHERE
        self.lane_records = no_records(Lanes, self.dtype)
        touched, self.touched = self.touched, np.empty(0, np.bool_)
        self.add_lanes(before.group[kept], before.key[kept])
        for name in ("room", "used", "head", "blocks", "seen", "clock"):
            getattr(self.lanes, name)[: kept.size] = getattr(before, name)[kept]
        self.touched[: kept.size] = touched[kept]
        placed = before.start[kept] >= 0
        sizes = np.where(placed, sizes, 0)
        starts = np.cumsum(sizes) - sizes
        self.lanes.start[: kept.size] = np.where(placed, starts, NOWHERE)
        self.top = int(sizes.sum())
        self.pool = np.empty(self.top, np.int64)
        here = np.flatnonzero(placed)
        none = np.zeros(here.size, np.int64)
        move_sections(
            pool, self.pool, before.start[kept][here], none, starts[here], none, sizes[here], none,
            none,
        )  # fmt: skip
        members = self.groups.members[before.group[kept]]
        from_said = np.repeat(before.told[kept] - np.cumsum(members) + members, members)
        self.said[: self.n_said] = said[from_said + np.arange(self.n_said)]

    def sizes(self, lanes: Int64s) -> Int64s:
        """Return how many numbers lanes take."""
        group = self.lanes.group[lanes]
        windowed = self.groups.window[group] > 0
        blocks = np.where(windowed, PIECES + 1, 1) * block_sizes(self.groups, group)
        exact = LIMBS + self.lanes.room[lanes] * np.where(windowed, SORTED + ARRIVED, SORTED)
        sizes: Int64s = np.where(self.groups.edges[group] > 0, blocks, exact)
        return sizes

    # -- events -------------------------------------------------------------------------------

    def jobs_by_key(self, keys: Int32s, starts: Int64s) -> Int64s:
        """Return which events of which lanes there are; keys get the lanes that they lack."""
        self.add_lacking_lanes(keys[np.diff(starts) > 0] if self._each.size else keys)
        jobs = np.empty((max(2 * keys.size, 16), 3), np.int64)
        while True:
            n = list_jobs(
                keys, starts, self.heads, self.lanes.next, self.lanes.group, self.groups.live, jobs
            )
            if n <= len(jobs):
                return jobs[:n]
            jobs = np.empty((n, 3), np.int64)

    def add_lacking_lanes(self, keys: Int32s) -> None:
        """Give keys the lanes that they lack, of groups that have one for each key."""
        self.make_keys(int(keys.max(initial=-1)) + 1)
        behind = keys[self._taken[keys] < self._each.size]
        if not behind.size:
            return
        lacks = self._each.size - self._taken[behind]
        place = np.arange(int(lacks.sum())) - np.repeat(np.cumsum(lacks) - lacks, lacks)
        group = self._each[place + np.repeat(self._taken[behind], lacks)]
        lives = self.groups.live[group] > 0
        self.add_lanes(group[lives], np.repeat(behind, lacks)[lives])
        self._taken[behind] = self._each.size

    def wide_jobs(self, events: int) -> Int64s:
        """Return the lanes of all keys together, each with all events."""
        lanes = self.lanes
        live = self.groups.live[lanes.group[: self.n_lanes]] > 0
        wide = np.flatnonzero((lanes.key[: self.n_lanes] == NO_KEY) & live)
        return np.stack([wide, np.zeros_like(wide), np.full_like(wide, events)], axis=1)

    def run(self, given: Jobs, asked: Records, flags: Flags) -> Floats:
        """Take events in; return what is told, `FIGURES` of each notice."""
        lanes = given.jobs[:, 0]
        self._make_room(lanes, given.jobs[:, 2] - given.jobs[:, 1])
        self.touched[lanes] = True
        scratch = np.zeros(LIMBS, np.int64)
        n, self._told = take_events(
            given.jobs, given.values, given.times, self.group_records, self.lane_records,
            *self._numbers(), self.said, self.slot, asked, flags, scratch, self._told,
        )  # fmt: skip
        return self._told[: FIGURES * n].reshape(n, FIGURES)

    def answer(self, lane: int, slot: int, asked: Records) -> tuple[float, float, float, float]:
        """Return a query's answer in a lane that has events: value, bounds, and of how many."""
        scratch = np.zeros(LIMBS, np.int64)
        found: tuple[float, float, float, float] = answer_one(
            lane, slot, self.group_records, self.lane_records, *self._numbers(), asked, scratch
        )
        return found

    def _make_room(self, lanes: Int64s, events: Int64s) -> None:
        """Make room for so many more events in lanes."""
        group = self.lanes.group[lanes]
        exact = self.groups.edges[group] == 0
        window, timed = self.groups.window[group], self.groups.timed[group] != 0
        needed = self.lanes.used[lanes] + events
        limited = (window > 0) & ~timed
        needed = np.where(limited, np.minimum(needed, window), needed).astype(np.int64)
        grows = (self.lanes.start[lanes] < 0) | (exact & (needed > self.lanes.room[lanes]))
        if not grows.any():
            return
        self._compact_if_wasteful()
        moved, needed = lanes[grows], needed[grows]
        room = np.where(exact[grows], np.maximum(needed + (needed >> 1), LEAST_ROOM), 0)
        room = np.where(limited[grows], np.minimum(room, np.maximum(window[grows], 1)), room)
        self.place(moved, room.astype(np.int64))

    def place(self, moved: Int64s, room: Int64s) -> None:
        """Give lanes other places, with other room."""
        starts, rooms = self.lanes.start[moved], self.lanes.room[moved]
        self.lanes.room[moved] = room
        sizes = self.sizes(moved)
        begin = self.top + np.cumsum(sizes) - sizes
        self.top += int(sizes.sum())
        if self.top > self.pool.size:
            self.pool = resized(self.pool, max(self.top, self.pool.size + (self.pool.size >> 1)))
        self.lanes.start[moved] = begin
        self.pool[self.top - int(sizes.sum()) : self.top] = 0
        old = np.flatnonzero(starts >= 0)
        if old.size:
            lanes = moved[old]
            windowed = self.groups.window[self.lanes.group[lanes]] > 0
            fixed = np.full(old.size, LIMBS)
            sections = np.where(windowed, SORTED + ARRIVED, SORTED)
            used = self.lanes.used[lanes] + np.where(windowed, self.lanes.head[lanes], 0)
            move_sections(
                self.pool, self.pool, starts[old], rooms[old], begin[old], room[old], fixed,
                sections, used,
            )  # fmt: skip

    def _compact_if_wasteful(self) -> None:
        lanes = np.arange(self.n_lanes)
        placed = self.lanes.start[: self.n_lanes] >= 0
        if self.top > 2 * int(self.sizes(lanes)[placed].sum()) + 4_096:
            self.keep_lanes(lanes)

    def count_lanes_of_keys(self) -> None:
        """Work out of how many groups that have a lane for each key each key has its lane."""
        self._each = self._each[self.groups.live[self._each] > 0]
        group, key = self.lanes.group[: self.n_lanes], self.lanes.key[: self.n_lanes]
        of_each = key[(self.groups.of_each[group] != 0) & (self.groups.live[group] > 0)]
        self._taken = np.bincount(of_each, minlength=self.heads.size)

    def events(self, lanes: Int64s) -> Int64s:
        """Return how many events lanes stand for, at most."""
        group = self.lanes.group[lanes]
        seen, window = self.lanes.seen[lanes], self.groups.window[group]
        limited = (window > 0) & (self.groups.timed[group] == 0)
        counted: Int64s = np.where(limited, np.minimum(seen, window), seen).astype(np.int64)
        return counted

    def set_back(self, time: float) -> None:
        """Let no mark of a window of time be later than a time."""
        lanes = np.flatnonzero(self.groups.timed[self.lanes.group[: self.n_lanes]] != 0)
        lanes = lanes[self.lanes.start[lanes] >= 0]
        if not lanes.size:
            return
        columns, limit = self.lanes, self.dtype.type(time)
        columns.clock[lanes] = np.minimum(columns.clock[lanes], limit)
        exact = self.groups.edges[columns.group[lanes]] == 0
        kept, others = lanes[exact], lanes[~exact]
        arrived = columns.start[kept] + LIMBS + 4 * columns.room[kept] + columns.head[kept]
        block = starts_of_blocks(self.groups, columns, others, columns.blocks[others])
        of_blocks = [block + place for place in (FIRST_MARK, LAST_MARK, LEAST_MARK, MOST_MARK)]
        places = np.concatenate([spread(arrived, columns.used[kept]), *of_blocks])
        marks = self.pool.view(self.dtype)
        marks[places] = np.minimum(marks[places], limit)
        self.touched[lanes] = True

    def lane_of(self, group: int, key: int) -> int:
        """Return the lane of a group and a key that has events; -1 if there is none."""
        lanes = self.lanes
        here = (lanes.group[: self.n_lanes] == group) & (lanes.key[: self.n_lanes] == key)
        found = np.flatnonzero(here & (lanes.seen[: self.n_lanes] > 0))
        return int(found[0]) if found.size else NOWHERE

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(
            self.group_records, self.lane_records, self.pool, self.said, self.slot, self.heads,
            self._taken,
        )  # fmt: skip
