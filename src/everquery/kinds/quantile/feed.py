"""The values of one attribute, lane by lane: a summary each, and the queries that it answers.

A lane is all rows of the stream, or those of one key. It begins with the first query that needs it,
and ends with the last. The error of a feed's summaries is fixed with the first row: half of the
finest epsilon that a query asks for by then, or half of `COARSEST` if that is less. So later
queries usually find what they need. One with a finer epsilon gets the finest that there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bools, Bytes, Floats, Int32s, Int64s, resized
from everquery.index.flags import Flags
from everquery.kinds.quantile.feed_journal import FeedJournal
from everquery.kinds.quantile.gk_summary import Summaries
from everquery.kinds.quantile.rank_answers import NewAnswers, Views, answer_one, look_at_lanes
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
    set_cells,
)
from everquery.kinds.quantile.ranked_tuples import RankedTuples
from everquery.kinds.quantile.window_summary import WindowSummaries
from everquery.kinds.told_values import NOTHING, ValueRules

# The epsilon that summaries are made for if no query asks for a finer one. That of windows is
# larger, because their memory grows with its inverse square.
COARSEST = 0.005
COARSEST_WINDOW = 0.02
# If more queries than this join together, those of a cell get neighbouring places: going through
# two million of them then takes a tenth of the time that it takes all over memory.
MANY = 1_000
TUPLE = 3  # the size of a tuple, in rows
FINEST = 0.0001  # the finest epsilon: a summary for it takes about a megabyte a lane

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


@dataclass(frozen=True, slots=True)
class Answers:
    """The new answers that a batch of rows makes necessary.

    Attributes
    ----------
    told : NewAnswers
    views : Views
    """

    told: NewAnswers
    views: Views


class Feed:
    """Lanes, their summaries, and the queries on them.

    Attributes
    ----------
    name : FeedName
    error : float or None
        The largest rank error of the summaries, as a share of the rows: half of the finest epsilon
        that queries get here. None before the first row.
    looks : int64, shape (1,)
        How often cells have been looked at.
    """

    def __init__(self, name: FeedName) -> None:
        self.name = name
        self.error: float | None = None
        self.looks: Int64s = np.zeros(1, np.int64)
        self._summaries: RankedTuples | None = None
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

    # -- queries ------------------------------------------------------------------------------

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

    def drop(self, slots: Int32s, members: Int32s, queries: Queries) -> None:
        """Drop queries; a lane without queries ends. No query of the feed waits for its cell.

        Parameters
        ----------
        members : int32
            The members of those queries that have just one.
        """
        everywhere = np.isin(self._everywhere, slots)
        if everywhere.any():
            members = self.members_of(slots)
            for place in np.flatnonzero(everywhere):
                self._everywhere[place] = NOWHERE
            if 2 * len(self.everywhere()) < len(self._everywhere):
                self._forget_ended()
        if members.size:
            lanes = np.unique(self._lanes_of(members))
            self._take_in(lanes, queries)
            leave_cells(self._cells, members)
            ended = lanes[self._cells.lanes.members[lanes] == 0]
            if self._summaries is not None:
                self._summaries.forget(ended)
            self._taken[ended[ended < self._taken.size]] = 0
            if self._journal is not None:
                self._journal = replace(
                    self._journal, ended=np.concatenate([self._journal.ended, ended])
                )

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

    def _choose_error(self, queries: Queries) -> None:
        """Make the summaries, for the finest epsilon that a query asks for."""
        slots = [slot for slot, _ in self._waiting]
        slots.append(np.array(self.everywhere(), np.int32))
        coarsest = COARSEST_WINDOW if self.name.window else COARSEST
        finest = float(queries[1][np.concatenate(slots)].min(initial=coarsest))
        self._make(max(finest, FINEST) / 2)

    def _make(self, error: float) -> None:
        self.error = error
        window = self.name.window
        self._summaries = WindowSummaries(error, window) if window else Summaries(error)

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

    # -- rows ---------------------------------------------------------------------------------

    def begin(self, queries: Queries) -> None:
        """Get ready for the first rows."""
        if self.error is None:
            self._choose_error(queries)

    def wanted(self, lanes: Int32s) -> Bools:
        """Tell which lanes have a query, or will have one after their first row."""
        if self.everywhere():
            return np.ones(lanes.size, np.bool_)
        known = self._cells.lanes.members
        wanted = np.zeros(lanes.size, np.bool_)
        inside = lanes < known.size
        wanted[inside] = known[lanes[inside]] > 0
        return wanted

    def take(
        self, lanes: Int32s, starts: Int64s, values: Floats, queries: Queries, flags: Flags
    ) -> Answers | None:
        """Take in rows by lane; return new answers for queries whose value may be wrong by now."""
        assert self._summaries is not None
        self._take_in(lanes, queries)
        self._summaries.update(lanes, starts, values)
        if self._journal is not None:
            self._journal.rows.append((lanes, starts, values))
        seen = self._summaries.seen(lanes)
        due = np.flatnonzero(self._cells.lanes.due[lanes] <= seen)
        if not due.size:
            return None
        views = self.views(lanes[due])
        room = NewAnswers.room(int(self._cells.lanes.members[views.lane].sum()))
        told = look_at_lanes(
            self._cells, views, queries, flags, self._error(), self.name.window, room, self.looks
        )
        return Answers(room.take(slice(told)), views) if told else None

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

    def views(self, lanes: Int32s) -> Views:
        """Return the summaries of lanes."""
        assert self._summaries is not None
        begin, end, tuples = self._summaries.all_tuples(lanes)
        return Views(
            lanes, self._summaries.counts(lanes), self._summaries.seen(lanes), begin, end, *tuples
        )

    def rows(self, lane: int) -> int:
        """Return how many rows the summary of a lane stands for."""
        return 0 if self._summaries is None else self._summaries.count(lane)

    def answer(self, lane: int, phi: float, epsilon: float, told: float) -> tuple[float, int, int]:
        """Return the current answer for a query that was last told `told` (NaN if nothing yet).

        With it come the lower and the upper bound of its rank.
        """
        return answer_one(self.views(np.array([lane], np.int32)), phi, epsilon, told)

    def told_to(self, slot: int, lane: int, member: int) -> float:
        """Return the value of a lane that a query was told last; NaN if none."""
        members = np.array([member], np.int32)
        if member == NOWHERE:
            members = self.members_of(np.array([slot], np.int32))
            members = members[self._lanes_of(members) == lane]
        return float(self._cells.members.told[members[0]]) if members.size else np.nan

    def finest(self) -> float:
        """Return the finest epsilon that a query can get here."""
        return 2 * self._error()

    def everywhere(self) -> list[int]:
        """Return the queries that are in every lane."""
        return [slot for slot in self._everywhere if slot != NOWHERE]

    def shared_by(self, member: int) -> tuple[int, int]:
        """Return how many queries are in a member's cell, and in its lane."""
        cell = self._cells.members.cell[member]
        lane = self._cells.cells.lane[cell]
        return int(self._cells.cells.members[cell]), int(self._cells.lanes.members[lane])

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        cells, used = self._cells, self._summaries
        parts: list[Array] = [*cells.lanes, *cells.cells, *cells.members, cells.table, cells.free]
        parts += [] if self._said is None else [self._said]
        return sum(part.nbytes for part in parts) + (0 if used is None else used.nbytes())

    # -- state --------------------------------------------------------------------------------

    def track_changes(self) -> None:
        """Note from now on what changes, for `changes`."""
        self._journal = FeedJournal().after(self._cells)

    def leave_untracked(self) -> None:
        """Note no changes, until `track_changes`."""
        self._journal = None

    def tracks_changes(self) -> bool:
        """Tell whether what changes is noted."""
        return self._journal is not None

    def whole(self) -> dict[str, Array]:
        """Return all state: summaries, what members were told, and the values of cells.

        Other arrays name a lane by its index in ``lanes``. When cells are due is not saved: a cell
        that is looked at too early keeps its value.
        """
        cells, members = self._cells.cells, self._cells.members
        used = np.flatnonzero(cells.members[: self._cells.used[CELLS]] > 0)
        live = np.flatnonzero(members.cell[: self._cells.used[PLACES]] != NOWHERE)
        arrays = self._named(used, live)
        heard_of = 0 if self._summaries is None else len(self._summaries)
        self._save_summaries(arrays, arrays["lanes"][arrays["lanes"] < heard_of])
        if self._journal is not None:
            self._journal = self._journal.after(self._cells)
        return arrays

    def changes(self) -> dict[str, Array]:
        """Return what has changed since the last call of this or of `whole`, in the same form.

        ``ended`` has the lanes that ended before the new rows came. Each changed lane has its new
        rows or, if that takes fewer bytes, its summary.
        """
        assert self._journal is not None
        journal = self._journal
        cells, members = journal.changed(self._cells)
        groups = [group for group, _, _ in journal.rows]
        arrays = self._named(cells, members, journal.ended, *groups)
        lanes = arrays["lanes"]
        arrays["ended"] = np.searchsorted(lanes, journal.ended)
        heavy = self._heavy(journal)
        self._save_summaries(arrays, heavy)
        light = journal.without(heavy)
        arrays["steps"] = np.array([group.size for group, _, _ in light], np.int64)
        none = np.empty(0, np.int64)
        groups, lengths = [group for group, _, _ in light], [np.diff(each) for _, each, _ in light]
        arrays["rows.lane"] = np.searchsorted(lanes, np.concatenate([none, *groups]))
        arrays["rows.length"] = np.concatenate([none, *lengths])
        arrays["rows.value"] = np.concatenate([np.empty(0), *(rows for _, _, rows in light)])
        self._journal = journal.after(self._cells)
        return arrays

    def _heavy(self, journal: FeedJournal) -> Int32s:
        """Return the lanes whose new rows take more bytes than their summaries."""
        lanes, rows = journal.rows_by_lane()
        if self._summaries is None or not lanes.size:
            return lanes
        return lanes[rows > TUPLE * self._summaries.sizes()[lanes]]

    def _save_summaries(self, arrays: dict[str, Array], lanes: Int32s) -> None:
        arrays["summary"] = np.searchsorted(arrays["lanes"], lanes)
        if self._summaries is not None and lanes.size:
            self._summaries.picked(lanes).save(arrays, "summary")

    def _named(self, cells: Int64s, members: Int64s, *lanes: Array) -> dict[str, Array]:
        """Return cells and members as arrays; ``lanes`` has their lanes and the given ones."""
        table = self._cells
        of_members = table.cells.lane[table.members.cell[members]]
        said = np.full(members.size, np.nan) if self._said is None else self._make_said()[members]
        named = np.unique(np.concatenate([table.cells.lane[cells], of_members, *lanes]))
        return {
            "error": np.array([np.nan if self.error is None else self.error]),
            "lanes": named.astype(np.int32),
            "cell.lane": np.searchsorted(named, table.cells.lane[cells]),
            "cell.code": table.cells.code[cells],
            "cell.value": table.cells.value[cells],
            "member.lane": np.searchsorted(named, of_members),
            "member.slot": table.members.slot[members],
            "member.told": table.members.told[members],
            **({} if np.isnan(said).all() else {"member.said": said}),
        }

    def load_rows(self, arrays: Mapping[str, Array]) -> None:
        """Load summaries, or the rows that lead to them; lanes have their present numbers."""
        error = float(arrays["error"][0])
        if np.isnan(error):
            return
        is_whole = "ended" not in arrays
        if self.error is None or is_whole:
            self._make(error)
        assert self._summaries is not None
        if not is_whole:
            self._replay(arrays)
        if arrays["summary"].size:
            saved = self._summaries.alike()
            saved.load(dict(arrays), "summary")
            self._summaries.put(arrays["lanes"][arrays["summary"]], saved)

    def load_told(self, arrays: Mapping[str, Array], member: Int32s, queries: Queries) -> None:
        """Load what queries were told, and the values of cells.

        Parameters
        ----------
        arrays : mapping
            With present slots and lanes; ``member.slot`` is `NOWHERE` for queries that are gone.
        member : int32
            The present members, `NOWHERE` for queries that are gone or in every lane.
        """
        lanes, told = arrays["lanes"], arrays["member.told"]
        known = np.flatnonzero(member != NOWHERE)
        self._cells.members.told[member[known]] = told[known]
        self._load_said(arrays, member[known], known)
        everywhere = np.flatnonzero(np.isin(arrays["member.slot"], self.everywhere()))
        if everywhere.size:
            slot, lane = arrays["member.slot"][everywhere], lanes[arrays["member.lane"][everywhere]]
            joined = self._joined(slot, lane, queries)
            self._cells.members.told[joined] = told[everywhere]
            self._load_said(arrays, joined, everywhere)
        self._cells = self._cells.with_lanes(int(lanes.max(initial=-1)) + 1)
        self._cells = self._cells.with_room(arrays["cell.code"].size)
        set_cells(
            self._cells, lanes[arrays["cell.lane"]], arrays["cell.code"], arrays["cell.value"]
        )

    def _load_said(self, arrays: Mapping[str, Array], members: Int32s, rows: Int64s) -> None:
        """Load what members were told last by rows of the arrays that they are in."""
        if "member.said" in arrays:
            self._make_said()[members] = arrays["member.said"][rows]
        elif self._said is not None:
            self._make_said()[members] = np.nan

    def has_loaded(self) -> None:
        """Forget the values of cells without queries: all queries have been loaded."""
        cells = self._cells.cells
        cells.value[cells.members == 0] = np.nan

    def _replay(self, arrays: Mapping[str, Array]) -> None:
        """End lanes and take in rows as they were saved."""
        assert self._summaries is not None
        lanes = arrays["lanes"]
        self._summaries.forget(lanes[arrays["ended"]])
        group = lanes[arrays["rows.lane"]]
        ends = np.cumsum(arrays["rows.length"])
        first = 0
        for size in arrays["steps"].tolist():
            here = slice(first, first + size)
            first += size
            begin = int(ends[here.start - 1]) if here.start else 0
            starts = np.concatenate([[begin], ends[here]])
            rows = arrays["rows.value"][begin : starts[-1]]
            self._summaries.update(group[here], starts - begin, rows)

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
