"""The groups of a store's queries, how both come and go, and what queries were told of lanes.

Queries on the same events (attribute, box, key or keys) with the same error are a group, and share
what is kept. A group has one lane; a group of each key has one for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from everquery.core.arrays import Array, Bools, Int32s, Int64s, resized
from everquery.index.access_paths import BoxSegment
from everquery.index.flags import LIVE, Flags
from everquery.index.layers import Layers
from everquery.kinds.window.forgetting import outgrow, set_back_marks
from everquery.kinds.window.groups import EACH, Asked, GroupName, StoreName, error_of
from everquery.kinds.window.held_lanes import LEAST, HeldLanes
from everquery.kinds.window.lanes import PLACES, PLACES_END
from everquery.kinds.window.runs import Groups
from everquery.kinds.window.telling import Members, carry_told, find_soonest
from everquery.state.pairs import FREE, KEY_SHIFT, SLOT_MASK


class GroupedQueries(HeldLanes):
    """The lanes of one family, and the queries that look at them.

    Attributes
    ----------
    names : list of GroupName or None
        By group; None for those that have ended.
    """

    def __init__(self, name: StoreName) -> None:
        super().__init__(name)
        self.names: list[GroupName | None] = []
        self.numbers: dict[GroupName, int] = {}
        self.queries: Int64s = np.zeros(0, np.int64)  # how many each group has
        self.flags: Flags = np.zeros(0, np.uint16)  # of groups, as searches want them
        self.plain: Bools = np.zeros(0, np.bool_)
        self.boxes: Layers[BoxSegment] = Layers(BoxSegment.build)
        self.each_plain: list[int] = []
        self.changed = True  # whether there are other queries than `members` has
        self.regrouped = False  # whether groups have come or gone since the state was saved
        # What queries were told, by lane.
        self._loaded: list[tuple[Int64s, Int32s, Array, Array]] = []
        self._fresh: set[int] = set()  # groups with queries that no lane has looked at
        self._stale: set[int] = set()  # groups whose lanes do not know when they next change
        self.groups = Groups(
            np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, self.dtype), np.zeros(0)
        )

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

    def __len__(self) -> int:
        return len(self.numbers)

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
        super()._forget_lanes(gone)
        place = np.cumsum(~gone) - 1
        self._loaded = [
            (place[lane[stays]], slot[stays], value[stays], when[stays])
            for lane, slot, value, when in self._loaded
            for stays in [~gone[lane]]
        ]

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


def _places(old: Array, new: Array) -> Int64s:
    """Return where each number stands among others, or -1."""
    order = np.argsort(old, kind="stable")
    place = np.searchsorted(old, new, sorter=order)
    found = order[np.minimum(place, old.size - 1)] if old.size else np.zeros(new.size, np.int64)
    same = old[found] == new if old.size else np.zeros(new.size, np.bool_)
    places: Int64s = np.where(same, found, -1)
    return places
