"""The values of one attribute, lane by lane: a summary each, and the queries that it answers.

A lane is all rows of the stream, or those of one key. It begins with the first query that needs it,
and ends with the last. The error of a feed's summaries is fixed with the first row: half of the
finest epsilon that a query asks for by then, or half of `COARSEST` if that is less. So later
queries usually find what they need. One with a finer epsilon gets the finest that there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from everquery.core.arrays import Array, Floats, Int32s, Int64s
from everquery.index.flags import Flags
from everquery.kinds.quantile.feed_journal import FeedJournal
from everquery.kinds.quantile.feed_queries import FeedName, FeedQueries, Queries
from everquery.kinds.quantile.gk_summary import Summaries
from everquery.kinds.quantile.rank_answers import NewAnswers, Views, answer_one
from everquery.kinds.quantile.rank_cells import (
    CELLS,
    NOWHERE,
    PLACES,
    set_cells,
)
from everquery.kinds.quantile.ranked_tuples import RankedTuples
from everquery.kinds.quantile.telling import look_at_lanes
from everquery.kinds.quantile.window_summary import WindowSummaries

# The epsilon that summaries are made for if no query asks for a finer one. That of windows is
# larger, because their memory grows with its inverse square.
COARSEST = 0.005
COARSEST_WINDOW = 0.02
TUPLE = 3  # the size of a tuple, in rows
FINEST = 0.0001  # the finest epsilon: a summary for it takes about a megabyte a lane


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


class Feed(FeedQueries):
    """Lanes, their summaries, and the queries on them.

    Attributes
    ----------
    name, error : as in `FeedQueries`
    looks : int64, shape (1,)
        How often cells have been looked at.
    """

    def __init__(self, name: FeedName) -> None:
        super().__init__(name)
        self.looks: Int64s = np.zeros(1, np.int64)
        self._summaries: RankedTuples | None = None

    def drop(self, slots: Int32s, members: Int32s, queries: Queries) -> None:
        """Drop queries; a lane without queries ends. No query of the feed waits for its cell.

        Parameters
        ----------
        members : int32
            The members of those queries that have just one.
        """
        ended = self._leave(slots, members, queries)
        if self._summaries is not None:
            self._summaries.forget(ended)
        if self._journal is not None:
            self._journal = replace(
                self._journal, ended=np.concatenate([self._journal.ended, ended])
            )

    # -- rows ---------------------------------------------------------------------------------

    def begin(self, queries: Queries) -> None:
        """Get ready for the first rows."""
        if self.error is None:
            self._choose_error(queries)

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
