"""All lanes of one family of statistics: their groups, their queries, and how both come and go.

Queries on the same events (attribute, box, key or keys) with the same error are a group, and share
what is kept. A group has one lane; a group of each key has one for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bools, Int32s, Int64s, resized, total_bytes
from everquery.index.access_paths import BoxSegment
from everquery.index.flags import LIVE, Flags
from everquery.index.layers import Layers
from everquery.index.rows import NO_KEY, Rows, Shape
from everquery.kinds.window.bucket_taking import DONE, NEGATIVE, take_buckets
from everquery.kinds.window.bucket_telling import ask_buckets, look_at_buckets
from everquery.kinds.window.families import (
    COUNT_BUCKETS,
    SQUARES,
    layout_of,
)
from everquery.kinds.window.lanes import (
    LANES,
    PLACES,
    PLACES_END,
    Lanes,
    Pools,
    lanes_of,
    link_lanes,
    outgrow,
    repack,
    rooms_for,
    set_back_marks,
)
from everquery.kinds.window.runs import RUN, TOLD, Groups, Runs
from everquery.kinds.window.taking import find_lanes, take_runs
from everquery.kinds.window.telling import (
    Members,
    Told,
    ask_lane,
    carry_told,
    find_soonest,
    look_again,
)
from everquery.state.pairs import FREE, KEY_SHIFT, SLOT_MASK, end_of_time, refill_pairs

EACH, WIDE = -2, -1  # the key of a group that has a lane for each key, or one for all together
LEAST = 16


class StoreName(NamedTuple):
    """What lanes of a store have in common.

    Attributes
    ----------
    family : int
    exact : bool
        Whether queries are told at each event, what exactly is; else once a batch.
    timed : bool
        Whether marks are times, and not row numbers.
    """

    family: int
    exact: bool
    timed: bool


class GroupName(NamedTuple):
    """What queries that share lanes have in common.

    Attributes
    ----------
    attribute, by : int
        As in `Groups`.
    epsilon : float
    key : int
        Or `EACH` or `WIDE`.
    attributes, low, high : tuples
        The box; None where there is no upper limit.
    quotient : bool
        Whether it is about approximate means, which need buckets of half the size.
    past : int
        0, or the number of those that began in the past together: they know of other events.
    """

    attribute: int
    by: int
    epsilon: float
    key: int
    attributes: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float | None, ...]
    quotient: bool = False
    past: int = 0

    def plain(self) -> bool:
        """Tell whether all events are inside that know the one value that is needed."""
        needed = {self.attribute, self.by} - {-1}
        return needed.issuperset(set(self.attributes) - {-1}) and all(
            low == -math.inf and high is None for low, high in zip(self.low, self.high, strict=True)
        )

    def box(self, number: int) -> Rows:
        """Return the box as a row whose slot is the group's number."""
        return Rows(
            Shape(self.attributes, self.key >= 0, tallied=True, by_key=self.key == EACH),
            np.full(1, number, np.int32),
            np.full(1, max(self.key, int(NO_KEY)), np.int32),
            np.array([self.low], np.float64).T.copy(),
            np.array([self.high], np.float64).T.copy(),  # None becomes NaN
        )


class Asked(NamedTuple):
    """What queries ask for, by slot; see `Members`."""

    group: Int32s
    statistic: Int64s
    window: Array
    every: Array
    low: Array
    high: Array
    epsilon: Array


def error_of(family: int, epsilon: float, *, quotient: bool) -> float:
    """Return how far off a lane's totals may be so that what is told is off by at most epsilon.

    A mean and a variance are quotients of two totals.
    """
    if family == SQUARES or quotient:
        return (math.sqrt(1 + 2 * epsilon) - 1) / 2
    return epsilon


class Store:
    """The lanes of one family.

    Attributes
    ----------
    name : StoreName
    names : list of GroupName or None
        By group; None for those that have ended.
    counts : int64
        How many lanes and places of the pools are in use; the others belong to a call.
    """

    def __init__(self, name: StoreName) -> None:
        self.name = name
        self.layout = layout_of(name.family, exact=name.exact)
        self.names: list[GroupName | None] = []
        self.numbers: dict[GroupName, int] = {}
        self.queries: Int64s = np.zeros(0, np.int64)  # how many each group has
        self.flags: Flags = np.zeros(0, np.uint16)  # of groups, as searches want them
        self.plain: Bools = np.zeros(0, np.bool_)
        self.boxes: Layers[BoxSegment] = Layers(BoxSegment.build)
        self.each_plain: list[int] = []
        self.dtype: Any = np.int64
        self.counts: Int64s = np.zeros(7, np.int64)
        self.changed = True  # whether there are other queries than `members` has
        self.regrouped = False  # whether groups have come or gone since the state was saved
        self._loaded: list[
            tuple[Int64s, Int32s, Array, Array]
        ] = []  # what queries were told, by lane
        self._fresh: set[int] = set()  # groups with queries that no lane has looked at
        self._stale: set[int] = set()  # groups whose lanes do not know when they next change
        dtype = self.dtype
        self.groups = Groups(
            np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, dtype), np.zeros(0)
        )
        self.lanes = Lanes.of(0, dtype)
        self.following: Int32s = np.zeros(0, np.int32)
        self.heads: Int32s = np.full(1, FREE, np.int32)
        self.table: Int32s = np.full(2 * LEAST, FREE, np.int32)
        self.pools = Pools.of(self.layout, dtype)
        self.members = _no_members(dtype, 0)

    def set_time_type(self, dtype: Any) -> None:  # noqa: ANN401 - a NumPy type
        """Fix the type of marks; no event has come yet."""
        if self.name.timed and self.dtype != dtype:
            self.dtype = dtype
            self.groups = self.groups._replace(longest=self.groups.longest.astype(dtype))
            names = ("seen", "begun", "soonest")
            self.lanes = self.lanes._replace(
                **{name: getattr(self.lanes, name).astype(dtype) for name in names}
            )
            self.pools = self.pools._replace(mark=self.pools.mark.astype(dtype))
            self.changed = True

    @property
    def never(self) -> Array:
        """The mark that is never reached, as an array of one."""
        return np.full(1, end_of_time(self.dtype), self.dtype)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def used(self) -> int:
        """How many lanes there are."""
        return int(self.counts[LANES])

    def group_of_lanes(self) -> Int64s:
        """Return the group of each lane."""
        groups: Int64s = self.lanes.pair[: self.used] & SLOT_MASK
        return groups

    # -- queries ------------------------------------------------------------------------------

    def number_of(self, name: GroupName) -> int:
        """Return the number of a group, which begins if there is none."""
        number = self.numbers.get(name)
        if number is None:
            number = self.numbers[name] = len(self.names)
            self.names.append(name)
            self._add_group(number, name)
        return number

    def _add_group(self, number: int, name: GroupName) -> None:
        if number >= self.queries.size:
            room = max(LEAST, 2 * number)
            self.queries, self.flags, self.plain = (
                resized(column, room) for column in (self.queries, self.flags, self.plain)
            )
            self.groups = Groups(*(resized(column, room) for column in self.groups))
        self.flags[number], self.plain[number] = LIVE, name.plain()
        self.groups.attribute[number], self.groups.by[number] = name.attribute, name.by
        self.groups.error[number] = error_of(self.name.family, name.epsilon, quotient=name.quotient)
        if not self.plain[number]:
            self.boxes.add(name.box(number), self.flags)

    def join(self, groups: Int32s) -> None:
        """Take note of queries by their groups."""
        np.add.at(self.queries, groups, 1)
        self._fresh.update(np.unique(groups).tolist())
        self.changed = self.regrouped = True

    def leave(self, groups: Int32s) -> None:
        """Take note that queries have ended; groups without any are forgotten, with their lanes."""
        np.subtract.at(self.queries, groups, 1)
        self.changed = self.regrouped = True
        over = [each for each in np.unique(groups).tolist() if self.queries[each] == 0]
        for number in over:
            name = self.names[number]
            assert name is not None
            del self.numbers[name]
            self.names[number] = None
            self.flags[number] = 0
            self._fresh.discard(number)
            self._stale.discard(number)
        if over:
            self.each_plain = [each for each in self.each_plain if self.flags[each]]
            self._forget_lanes(np.isin(self.group_of_lanes(), over))

    def _forget_lanes(self, gone: Bools) -> None:
        kept = np.flatnonzero(~gone)
        if kept.size == gone.size:
            return
        for column in (*self.lanes, *self.pools[3:], self.members.told_start):
            column[: kept.size] = column[kept]
        self.counts[LANES] = kept.size
        place = np.cumsum(~gone) - 1
        self._loaded = [
            (place[lane[stays]], slot[stays], value[stays], when[stays])
            for lane, slot, value, when in self._loaded
            for stays in [~gone[lane]]
        ]
        self._fill_tables()

    def _fill_tables(self) -> None:
        room = self.lanes.pair.size
        self.table = np.full(1 << (2 * max(room, LEAST) - 1).bit_length(), FREE, np.int32)
        refill_pairs(self.table, self.lanes.pair[: self.used], self.used)
        self.heads[:] = FREE
        link_lanes(0, self.used, self.lanes.key, self.heads, self.following)

    def settle(self, slots: Int32s, asked: Asked, begun: Any) -> None:  # noqa: ANN401 - a mark
        """Put all queries, given by slot, in order, before the next events.

        Lanes of longer windows than before forget what these would have seen in part.
        """
        if not self.changed:
            return
        self.changed = False
        statistic, window = asked.statistic[slots], asked.window[slots]
        slots = slots[np.lexsort((slots, statistic, window, asked.group[slots]))]
        group, old = asked.group[slots], self.members
        start = np.searchsorted(group, np.arange(len(self.names) + 1))
        self._begin_lanes(begun)
        self._lengthen(group, asked.window[slots])
        told_start = np.full(self.lanes.pair.size, FREE, np.int64)
        sizes = np.diff(start)[self.group_of_lanes()] if len(self.names) else np.zeros(0, np.int64)
        told_start[: self.used] = np.cumsum(sizes) - sizes
        self.members = Members(
            start,
            slots,
            asked.statistic[slots],
            asked.window[slots].astype(self.dtype),
            asked.every[slots].astype(self.dtype),
            asked.low[slots],
            asked.high[slots],
            asked.epsilon[slots],
            np.full(int(sizes.sum()), np.nan),
            np.full(int(sizes.sum()), -self.never[0], self.dtype),
            told_start,
        )
        place = _places(old.slot, slots)
        carry_told(self.lanes, self.used, place, old, self.members)
        for loaded in self._loaded:
            self._tell(*loaded)
        self._loaded.clear()
        if self.name.exact:
            self._stale |= self._fresh
        else:
            fresh = np.isin(self.group_of_lanes(), sorted(self._fresh))
            self.lanes.soonest[: self.used][fresh] = -self.never[0]
        self._fresh.clear()
        if len(self.names) > LEAST + 2 * len(self.numbers):
            self._forget_groups(slots, asked.group)

    def _forget_groups(self, slots: Int32s, group_of: Int32s) -> None:
        """Give groups other numbers, without those that have ended, which have no queries."""
        kept = np.array(sorted(self.numbers.values()), np.int64)
        number = np.full(len(self.names), FREE, np.int64)
        number[kept] = np.arange(kept.size)
        group_of[slots] = number[group_of[slots]]
        names = [self.names[each] for each in kept.tolist()]
        self.names, self.numbers = [], {}
        self.queries, self.flags = self.queries[kept], self.flags[kept]
        self.plain = self.plain[kept]
        groups: tuple[Array, ...] = self.groups
        self.groups = Groups(*(column[kept] for column in groups))
        self.boxes = Layers(BoxSegment.build)
        for name in names:
            assert name is not None
            self.number_of(name)
        self.each_plain = number[self.each_plain].tolist()
        self._stale = set(number[sorted(self._stale)].tolist())
        start = self.members.start
        self.members = self.members._replace(start=np.append(start[kept], start[-1]))
        pair = self.lanes.pair[: self.used]
        pair[:] = (pair >> KEY_SHIFT << KEY_SHIFT) | number[pair & SLOT_MASK]
        self._fill_tables()

    def find_soonest(self, passed: Any) -> None:  # noqa: ANN401 - a mark
        """Let exact lanes know when they next change, where that is not known.

        Time had come as far as `passed` before the step: all that was to be told by then is told.
        """
        if self._stale and not self.changed:
            picked = np.flatnonzero(np.isin(self.group_of_lanes(), sorted(self._stale)))
            now = np.full(1, passed, self.dtype)
            find_soonest(picked, now, self.members, self.lanes, self.pools.mark, self.never)
            self._stale.clear()

    def _begin_lanes(self, begun: Any) -> None:  # noqa: ANN401 - a mark
        """Give the groups of one key, or of all together, their lane."""
        pairs = []
        for number in sorted(self._fresh):
            name = self.names[number]
            if name is not None and name.key == EACH:
                if self.plain[number] and number not in self.each_plain:
                    self.each_plain.append(number)
            elif name is not None:
                pairs.append((name.key + 1) << KEY_SHIFT | number)
        if pairs:
            self.lanes_for(np.array(pairs, np.int64), begun)

    def _lengthen(self, group: Int32s, window: Array) -> None:
        longest = np.zeros(len(self.names), self.dtype)
        np.maximum.at(longest, group, window.astype(self.dtype))
        before = self.groups.longest[: len(self.names)]
        for number in np.flatnonzero((longest > before) & (before > 0)).tolist():
            here = np.flatnonzero(self.group_of_lanes() == number)
            outgrow(self.layout, here, before[number : number + 1].copy(), self.lanes, self.pools)
        before[:] = np.maximum(before, longest)

    def _tell(self, lane: Int64s, slot: Int32s, value: Array, when: Array) -> None:
        """Note what queries were told of lanes; those that have ended since are left out."""
        members = self.members
        place = _places(members.slot, slot)
        group = self.lanes.pair[lane] & SLOT_MASK
        here = (place >= members.start[group]) & (place < members.start[group + 1])
        at = members.told_start[lane] - members.start[group] + place
        members.told[at[here]], members.told_at[at[here]] = value[here], when[here]

    def set_back(self, time: Array) -> None:
        """Let nothing be later than a time."""
        longest = self.groups.longest
        set_back_marks(self.layout, time, longest, self.used, self.lanes, self.pools)
        if self.name.exact:
            self._stale.update(self.numbers.values())

    def look_anew(self, groups: Int32s) -> None:
        """Look at all lanes of groups at the end of the next step."""
        self._fresh.update(np.unique(groups).tolist())
        self.changed = True

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots, by their present ones; 0 for those that have ended."""
        slot = slots[self.members.slot]
        slot[slot == 0] = FREE
        self.members = self.members._replace(slot=slot)
        self._loaded = [
            (lane, slots[slot], value, when) for lane, slot, value, when in self._loaded
        ]
        self.changed = True

    # -- lanes --------------------------------------------------------------------------------

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

    # -- state --------------------------------------------------------------------------------

    def forget_all(self) -> None:
        """Forget all lanes; the queries stay."""
        self._forget_lanes(np.ones(self.used, np.bool_))
        self._fresh.update(self.numbers.values())
        self._loaded.clear()
        self.changed = True

    def load_lanes(self, lane: Int64s, arrays: Mapping[str, Array], totals: Array) -> None:
        """Set what lanes hold, as it was saved; `totals` are those of entries."""
        if totals.shape[1] > self.pools.total.shape[1] and totals[:, -1].any():
            self.make_room_below_zero()
        lanes, used = self.lanes, arrays["lane.used"]
        while self.counts[PLACES] + int(used.sum()) > self.counts[PLACES_END]:
            self.make_room(int(used.sum()))
        for name in ("limit", "used", "seen", "begun", "shift"):
            getattr(lanes, name)[lane] = arrays[f"lane.{name}"]
        lanes.room[lane] = used
        lanes.start[lane] = self.counts[PLACES] + np.cumsum(used) - used
        lanes.soonest[lane] = self.never[0] if self.name.exact else -self.never[0]
        self._stale.update(self.numbers.values() if self.name.exact else ())
        entry = slice(int(self.counts[PLACES]), int(self.counts[PLACES] + used.sum()))
        self.counts[PLACES] = entry.stop
        pools = self.pools
        columns = pools.total.shape[1]
        pools.mark[entry], pools.total[entry] = arrays["entry.mark"], totals[:, :columns]
        pools.rest[entry] = arrays["entry.rest"]
        pools.base[lane] = arrays["lane.base"][:, :columns]
        pools.base_rest[lane] = arrays["lane.base_rest"]

    def load_told(self, lane: Int64s, slot: Int32s, value: Array, when: Array) -> None:
        """Note what queries were told of lanes, until they are in order."""
        self._loaded.append((lane, slot, value, when))
        self.changed = True

    def all_told(self, lane: Int64s) -> tuple[Int64s, Int32s, Array, Array]:
        """Return what queries were told of lanes: the place of the lane, slot, value and when."""
        members = self.members
        group = self.lanes.pair[lane] & SLOT_MASK
        settled = np.flatnonzero((group < members.start.size - 1) & (members.told_start[lane] >= 0))
        begin = members.start[group[settled]]
        sizes = members.start[group[settled] + 1] - begin
        steps = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        slot = members.slot[np.repeat(begin, sizes) + steps]
        at = np.repeat(members.told_start[lane[settled]], sizes) + steps
        # What was told may have been that there is no value.
        kept = np.flatnonzero((members.told_at[at] != -self.never) & (slot >= 0))
        at = at[kept]
        place = np.repeat(settled, sizes)[kept]
        found: list[tuple[Array, ...]] = [
            (place, slot[kept], members.told[at], members.told_at[at])
        ]
        for loaded in self._loaded:  # later ones replace earlier ones
            place = _places(lane, loaded[0])
            here = np.flatnonzero(place >= 0)
            slots, values, times = (column[here] for column in loaded[1:])
            found.append((place[here], slots, values, times))
        places, slots, values, times = (np.concatenate(each) for each in zip(*found, strict=True))
        if len(found) > 1:
            pair = places[::-1] << KEY_SHIFT | slots[::-1]
            last = places.size - 1 - np.unique(pair, return_index=True)[1]
            return places[last], slots[last], values[last], times[last]
        return places, slots, values, times

    def entry_bytes(self) -> int:
        """Return how many bytes an entry takes."""
        return int(8 * (1 + self.pools.total.shape[1] + self.pools.rest.shape[1]))

    # -- telling ------------------------------------------------------------------------------

    def take(self, runs: Runs, marks: Array, values: Array, flags: Flags) -> Told:
        """Take events in; return what is told."""
        self.counts[RUN:] = 0, -1, 0, 0
        if self.layout >= COUNT_BUCKETS:
            self._take_buckets(runs, marks, values)
            return self._look_at_buckets(runs.lane, runs.end - 1, self.never, flags)
        told = Told.room(64, self.dtype)
        while True:
            done, told = take_runs(
                self.layout, self.name.timed, self.name.exact, runs, marks, values, flags,
                self.groups, self.members, self.lanes, self.pools, self.never, self.counts, told,
            )  # fmt: skip
            if done:
                return first_told(told, int(self.counts[TOLD]))
            self.make_room()

    def _take_buckets(self, runs: Runs, marks: Array, values: Array) -> None:
        while True:
            ending = take_buckets(
                self.layout, self.name.timed, runs, marks, values, self.groups, self.lanes,
                self.pools, self.counts,
            )  # fmt: skip
            if ending == DONE:
                return
            if ending == NEGATIVE:
                self.make_room_below_zero()
            else:
                self.make_room()

    def ask(self, lane: int, statistic: int, window: Any, now: Any) -> tuple[Any, ...]:  # noqa: ANN401
        """Return what a window of a lane is now, and from when on it will be whole."""
        lanes = self.lanes
        seen, begun = lanes.seen[lane], lanes.begun[lane]
        if self.name.timed and now is not None:
            seen = max(seen, now) if lanes.limit[lane] else now
        extent = np.array([window, seen], self.dtype)
        if self.layout >= COUNT_BUCKETS:
            found = ask_buckets(self.layout, statistic, lane, extent, lanes, self.pools)
        else:
            found = ask_lane(
                self.layout, statistic, self.name.exact, lane, extent, lanes, self.pools
            )
        missing = None
        if not self.name.timed:
            missing = int(window - (seen - begun)) if seen - begun < window else None
        elif begun > -self.never[0] and 0 <= seen - begun < window:
            missing = (begun + window).item()
        return *found, missing

    def close(self, now: Any, flags: Flags) -> Told:  # noqa: ANN401 - a mark
        """Return what is told of windows of time that have changed since time has come this far."""
        lanes, used = self.lanes, self.used
        picked = np.flatnonzero((lanes.soonest[:used] <= now) & (lanes.limit[:used] > 0))
        if not picked.size:
            return Told.room(0, self.dtype)
        until = np.full(1, now, self.dtype)
        if self.layout >= COUNT_BUCKETS:
            return self._look_at_buckets(picked, np.zeros(0, np.int64), until, flags)
        n, told = look_again(
            self.layout, self.name.exact, picked, until, flags, self.members, lanes, self.pools,
            self.never, Told.room(64, self.dtype),
        )  # fmt: skip
        return first_told(told, n)

    def _look_at_buckets(self, lanes: Int64s, places: Int64s, now: Array, flags: Flags) -> Told:
        group, start = self.lanes.pair[lanes] & SLOT_MASK, self.members.start
        most = int((start[group + 1] - start[group]).sum())
        told = Told.room(most, self.dtype)
        n = look_at_buckets(
            self.layout, self.name.timed, lanes, places, now, flags, self.members, self.lanes,
            self.pools, self.never, told,
        )  # fmt: skip
        return first_told(told, n)

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        end = self.counts[PLACES_END]
        entries = [column[:end] for column in self.pools[:3]]
        arrays = (*self.lanes, *entries, *self.pools[3:], *self.members, *self.groups)
        return total_bytes(*arrays, self.table, self.heads, self.following) + self.boxes.nbytes()

    def searched(self) -> Iterator[BoxSegment]:
        """Yield the segments that find events for groups."""
        yield from self.boxes


def first_told(told: Told, n: int) -> Told:
    """Return the first `n` of what was told, as rows."""
    numbers, figures = told.numbers[: 5 * n].reshape(n, 5), told.figures[: 3 * n].reshape(n, 3)
    return Told(numbers, figures, told.moment[:n])


def _no_members(dtype: Any, lanes: int) -> Members:  # noqa: ANN401 - a NumPy type
    none, ints = np.zeros(0), np.zeros(0, np.int64)
    like = np.zeros(0, dtype)
    told_start = np.full(lanes, FREE, np.int64)
    start = np.zeros(1, np.int64)
    slot = np.zeros(0, np.int32)
    return Members(start, slot, ints, like, like, none, none, none, none, like, told_start)


def _places(old: Array, new: Array) -> Int64s:
    """Return where each number stands among others, or -1."""
    order = np.argsort(old, kind="stable")
    place = np.searchsorted(old, new, sorter=order)
    found = order[np.minimum(place, old.size - 1)] if old.size else np.zeros(new.size, np.int64)
    same = old[found] == new if old.size else np.zeros(new.size, np.bool_)
    places: Int64s = np.where(same, found, -1)
    return places
