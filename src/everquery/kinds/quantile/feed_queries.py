"""The queries on the lanes of a feed: which cells they are in, and what they were told.

A query is in the lane of its key, or in every lane that has rows. It waits until the error of the
feed's summaries is known, and then joins the cell of its lane that has its ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bools, Bytes, Floats, Int32s, Int64s, resized
from everquery.kinds.quantile.feed_journal import FeedJournal
from everquery.kinds.quantile.rank_answers import NewAnswers
from everquery.kinds.quantile.rank_cells import (
    CELLS,
    FREE,
    NOWHERE,
    PLACES,
    CellTable,
    codes_of,
    freshen,
    join_cells,
    leave_cells,
)
from everquery.kinds.told_values import NOTHING, ValueRules

# If more queries than this join together, those of a cell get neighbouring places: going through
# two million of them then takes a tenth of the time that it takes all over memory.
MANY = 1_000

Queries = tuple[Floats, Floats]
"""Phi and epsilon by slot."""


class FeedName(NamedTuple):
    """Which rows the lanes of a feed have.

    Attributes
    ----------
    attribute : int
    window : int
        How many of the last rows count; 0 for all rows.
    keyed : bool
        Whether there is a lane for each key, or one lane for all rows.
    past : int
        0 for queries that began with their registration. Those that began in the past together
        have rows that the others lack, and so a feed of their own, with a number from 1 on.
    """

    attribute: int
    window: int
    keyed: bool
    past: int = 0


class FeedQueries:
    """The queries of a feed, and the cells of its lanes that they are in.

    Attributes
    ----------
    name : FeedName
    error : float or None
        The largest rank error of the summaries, as a share of the rows: half of the finest epsilon
        that queries get here. None before the first row.
    """

    def __init__(self, name: FeedName) -> None:
        self.name = name
        self.error: float | None = None
        self._cells = CellTable.empty()
        # Queries without a cell yet, and their lanes.
        self._waiting: list[tuple[Int32s, Int32s]] = []
        # Queries that are in every lane, in order of registration, `NOWHERE` for those that ended;
        # and how many of them each lane has taken in.
        self._everywhere: list[int] = []
        self._taken: Int64s = np.zeros(0, np.int64)
        self._journal: FeedJournal | None = None
        # What members were told last whose queries are not told everything; NaN if nothing.
        self._said: Floats | None = None

    def add(self, slot: Int32s, lane: Int32s) -> None:
        """Add queries to their lanes."""
        self._waiting.append((slot, lane))

    def add_everywhere(self, slots: Int32s) -> None:
        """Add queries to all lanes that have rows, now or later."""
        self._everywhere.extend(slots.tolist())

    def cancel(self, slots: Int32s) -> None:
        """Drop queries that wait."""
        self._waiting = [
            (slot[kept], lane[kept])
            for slot, lane in self._waiting
            if (kept := ~np.isin(slot, slots)).any()
        ]

    def withdraw(self, slots: Int32s) -> tuple[Int32s, Int32s, Int32s]:
        """Drop queries that have just been added.

        Returns those that were in every lane; the others; and the lanes of these.
        """
        everywhere = np.isin(self._everywhere, slots)
        every = np.array(self._everywhere, np.int32)[everywhere]
        for place in np.flatnonzero(everywhere):
            self._everywhere[place] = NOWHERE
        waiting = self._waiting_in(slots)
        self.cancel(slots)
        return every, *waiting

    def _waiting_in(self, slots: Int32s) -> tuple[Int32s, Int32s]:
        none = np.empty(0, np.int32)
        slot = np.concatenate([none, *(slot for slot, _ in self._waiting)])
        lane = np.concatenate([none, *(lane for _, lane in self._waiting)])
        picked = np.isin(slot, slots)
        return slot[picked], lane[picked]

    def _leave(self, slots: Int32s, members: Int32s, queries: Queries) -> Int32s:
        """Drop queries, as `Feed.drop` does; return the lanes that have no query any more."""
        everywhere = np.isin(self._everywhere, slots)
        if everywhere.any():
            members = self.members_of(slots)
            for place in np.flatnonzero(everywhere):
                self._everywhere[place] = NOWHERE
            if 2 * len(self.everywhere()) < len(self._everywhere):
                self._forget_ended()
        if not members.size:
            return np.empty(0, np.int32)
        lanes = np.unique(self._lanes_of(members))
        self._take_in(lanes, queries)
        leave_cells(self._cells, members)
        ended: Int32s = lanes[self._cells.lanes.members[lanes] == 0]
        self._taken[ended[ended < self._taken.size]] = 0
        return ended

    def _forget_ended(self) -> None:
        """Forget ended queries in the list of those that are in every lane."""
        live = np.concatenate([[0], np.cumsum(np.array(self._everywhere) != NOWHERE)])
        self._taken = live[self._taken]
        self._everywhere = self.everywhere()

    def is_empty(self) -> bool:
        """Tell whether the feed has no query."""
        return not (self._has_members() or self._waiting or self.everywhere())

    def _has_members(self) -> bool:
        return bool(self._cells.used[PLACES] > self._cells.used[FREE])

    def _lanes_of(self, members: Int32s) -> Int32s:
        lanes: Int32s = self._cells.cells.lane[self._cells.members.cell[members]]
        return lanes

    def members_of(self, slots: Int32s) -> Int32s:
        """Return the members of queries, in all lanes. Cost: a pass over all members."""
        used = int(self._cells.used[PLACES])
        members = self._cells.members
        live = (members.cell[:used] != NOWHERE) & np.isin(members.slot[:used], slots)
        return np.flatnonzero(live).astype(np.int32)

    def renew(self, members: Int32s) -> None:
        """Have the cells of members looked at again, so that queries get what they missed."""
        freshen(self._cells, members)

    def renumber(self, slots: Int32s) -> None:
        """Give all queries new slots; `slots` has them by old slot."""
        used = int(self._cells.used[PLACES])
        members = self._cells.members
        live = np.flatnonzero(members.cell[:used] != NOWHERE)
        members.slot[live] = slots[members.slot[live]]
        self._waiting = [(slots[slot], lane) for slot, lane in self._waiting]
        self._everywhere = [
            NOWHERE if slot == NOWHERE else int(slots[slot]) for slot in self._everywhere
        ]

    def wanted(self, lanes: Int32s) -> Bools:
        """Tell which lanes have a query, or will have one after their first row."""
        if self.everywhere():
            return np.ones(lanes.size, np.bool_)
        known = self._cells.lanes.members
        wanted = np.zeros(lanes.size, np.bool_)
        inside = lanes < known.size
        wanted[inside] = known[lanes[inside]] > 0
        return wanted

    def everywhere(self) -> list[int]:
        """Return the queries that are in every lane."""
        return [slot for slot in self._everywhere if slot != NOWHERE]

    def shared_by(self, member: int) -> tuple[int, int]:
        """Return how many queries are in a member's cell, and in its lane."""
        cell = self._cells.members.cell[member]
        lane = self._cells.cells.lane[cell]
        return int(self._cells.cells.members[cell]), int(self._cells.lanes.members[lane])

    # -- cells --------------------------------------------------------------------------------

    def place(self, queries: Queries) -> Iterator[tuple[Int32s, Int32s]]:
        """Put waiting queries into cells; yield their slots and their members."""
        if self.error is not None:
            waiting, self._waiting = self._waiting, []
            for slot, lane in waiting:
                yield slot, self._join(slot, lane, queries)

    def _join(self, slot: Int32s, lane: Int32s, queries: Queries) -> Int32s:
        self._make_room(int(lane.max(initial=-1)) + 1, slot.size)
        code = np.empty(slot.size, np.int64)
        codes_of(slot, queries, self._error(), code)
        order = np.arange(slot.size)
        if slot.size > MANY:
            order = np.lexsort((code, lane))
        members = np.empty(slot.size, np.int32)
        joined = np.empty(slot.size, np.int32)
        join_cells(self._cells, lane[order], slot[order], code[order], joined)
        members[order] = joined
        if self._said is not None:
            self._said = resized(self._said, self._cells.members.slot.size, np.nan)
            self._said[members] = np.nan
        return members

    def _make_room(self, lanes: int, queries: int) -> None:
        """Make room for `lanes` lanes and `queries` more queries; give up empty cells first."""
        if self._cells.is_wasteful(queries):
            known = int(self._cells.used[CELLS])
            self._cells, kept = self._cells.without_empty()
            if self._journal is not None:
                value = resized(self._journal.value, known, np.nan)[kept]
                self._journal = replace(self._journal, value=value)
        self._cells = self._cells.with_lanes(lanes).with_room(queries)

    def _error(self) -> float:
        assert self.error is not None  # set with the first row, before which nothing is placed
        return self.error

    def _take_in(self, lanes: Int32s, queries: Queries) -> None:
        """Put the queries of every lane into those of these lanes that lack them."""
        if not self._everywhere:
            return
        size = int(lanes.max(initial=-1)) + 1
        if size > self._taken.size:
            self._taken = resized(self._taken, max(size, 2 * self._taken.size))
        every = np.array(self._everywhere, np.int32)
        behind = lanes[self._taken[lanes] < every.size]
        if behind.size:
            lane = np.repeat(behind, every.size)
            place = np.tile(np.arange(every.size), behind.size)
            new = (place >= self._taken[lane]) & (every[place] != NOWHERE)
            self._join(every[place[new]], lane[new], queries)
            self._taken[behind] = every.size

    def _joined(self, slot: Int32s, lane: Int32s, queries: Queries) -> Int32s:
        """Return the members of queries of every lane; those without one join the lane now."""
        absent = np.flatnonzero(self._find(slot, lane) == NOWHERE)
        self._join(slot[absent], lane[absent], queries)
        # Queries join a lane in order, so the last one that has joined tells how many have.
        self._forget_ended()
        order = np.argsort(self._everywhere)
        place = order[np.searchsorted(np.array(self._everywhere)[order], slot)]
        self._taken = resized(self._taken, max(self._taken.size, int(lane.max()) + 1))
        np.maximum.at(self._taken, lane, place + 1)
        return self._find(slot, lane)

    def _find(self, slot: Int32s, lane: Int32s) -> Int32s:
        """Return the members that queries have in lanes, `NOWHERE` where there is none."""
        members = self.members_of(slot)
        lanes = self._lanes_of(members).astype(np.int64)
        codes = self._cells.members.slot[members].astype(np.int64) << 32 | lanes
        wanted = slot.astype(np.int64) << 32 | lane.astype(np.int64)
        found = np.full(slot.size, NOWHERE, np.int32)
        if members.size:
            order = np.argsort(codes)
            place = order[np.minimum(np.searchsorted(codes[order], wanted), members.size - 1)]
            there = codes[place] == wanted
            found[there] = members[place[there]]
        return found

    # -- what was told ------------------------------------------------------------------------

    def choose(self, told: NewAnswers, rules: ValueRules) -> Bytes:
        """Return the codes of what queries are told of their new values, and remember it.

        Parameters
        ----------
        rules : ValueRules
            Those of the queries, by answer; some may have none.
        """
        code = np.zeros(told.slot.size, np.uint8)
        ruled = np.flatnonzero(rules.given())
        if ruled.size:
            member, value = told.member[ruled], told.value[ruled]
            said = self._make_said()
            code[ruled] = rules.take(ruled).told(value, said[member])
            tells = np.flatnonzero(code[ruled] != NOTHING)
            said[member[tells]] = value[tells]
        return code

    def _make_said(self) -> Floats:
        """Return what members were told last, with a place for each."""
        known = np.empty(0) if self._said is None else self._said
        size = self._cells.members.slot.size
        if known.size < size:
            known = resized(known, size, np.nan)
        self._said = known
        return known

    def _load_said(self, arrays: Mapping[str, Array], members: Int32s, rows: Int64s) -> None:
        """Load what members were told last by rows of the arrays that they are in."""
        if "member.said" in arrays:
            self._make_said()[members] = arrays["member.said"][rows]
        elif self._said is not None:
            self._make_said()[members] = np.nan
