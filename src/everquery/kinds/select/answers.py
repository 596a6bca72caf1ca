"""What a select query answers, as of now or since a place, whole or page by page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import pyarrow as pa

from everquery.core.arrays import Int64s
from everquery.core.invariants import is_whole
from everquery.errors import AnswerTooLargeError, InvalidQueryError, RowsGoneError
from everquery.index.flags import Flags
from everquery.kinds.answer import PLACE, Asked, AskedQuery
from everquery.kinds.select.differences import told_differences
from everquery.kinds.select.index import SelectIndex
from everquery.kinds.select.joins import grown_pairs, joined_rows
from everquery.kinds.select.plan import IN_TREES, Plan
from everquery.kinds.select.results import Held
from everquery.kinds.select.sides import latest, sides_of
from everquery.kinds.select.tables import aggregates_table, one_row, rows_table
from everquery.kinds.select.windows import Moment, Window, window_of

MOST_ROWS = 10_000_000  # of an answer that is given at once


@dataclass(frozen=True, slots=True)
class Place:
    """Up to where an answer was read.

    Attributes
    ----------
    mark : int
        A print of the query that was read: its id and what it asks for.
    moments : tuple of Moment
        What it was as of, stream by stream.
    read : int
        How many of its rows have been read; all, if it was not read page by page.
    """

    mark: int
    moments: tuple[Moment, ...]
    read: int = 0

    def __str__(self) -> str:
        moments = "".join(
            f", [{each.rows}, {each.now if isinstance(each.now, int) else json.dumps(each.now)}]"
            for each in self.moments
        )
        return f"[{self.mark}, {self.read}{moments}]"

    @classmethod
    def read_text(cls, text: str, now: Place) -> Place:
        """Return what `str` gave, if it is a place of the same query, and not after `now`."""
        place = cls._read(text)
        if place is None or place.mark != now.mark or len(place.moments) != len(now.moments):
            raise InvalidQueryError(
                f"{text!r:.80} is no place of this query as it is now; give what place_of(answer)"
                " returned, or read the whole answer"
            )
        for then, reached in zip(place.moments, now.moments, strict=True):
            if then.rows > reached.rows:
                raise InvalidQueryError(
                    f"the place {text!r:.80} is behind row {then.rows:,}, and the stream has come"
                    f" to row {reached.rows:,}: it is of another engine; read the whole answer"
                )
        return place

    @classmethod
    def _read(cls, text: str) -> Place | None:
        try:
            mark, read, *moments = json.loads(text)
            found = tuple(Moment(rows, now) for rows, now in moments)
        except (TypeError, ValueError):
            return None
        counts = [mark, read, *(each.rows for each in found)]
        times = [each.now for each in found if each.now is not None]
        if not all(is_whole(each) and each >= 0 for each in counts):
            return None
        if not all(isinstance(each, (int, float)) for each in times):
            return None
        return cls(mark, found, read)


class Reader:
    """Reads one query.

    Parameters
    ----------
    sides : asked indexes, stream by stream
    slot : int
    lazy : bool
        Whether rows are matched only now.
    """

    def __init__(self, asked: Sequence[Asked], slot: int, *, lazy: bool, partial: bool) -> None:
        index = cast("SelectIndex", asked[0].index)
        index.read_plans(asked[0].said)
        self._index, self._slot, self._lazy = index, slot, lazy
        self._partial = partial
        self.plan: Plan = index.plans[index.plan[slot]]
        if self.plan.joins and len(asked) == 1:
            both = " and ".join(repr(source.stream) for source in self.plan.sources)
            raise InvalidQueryError(f"the query joins {both}; open an Engine of both streams")
        self.sides = sides_of(asked, self.plan)
        self.held: Held = index.held(slot, lazy=lazy) if index.store else Held()

    def mark(self, query_id: str) -> int:
        """Return a print of the query: another one, or one that replaces it, has another."""
        return self._index.mark_of(self._slot, query_id, self.sides[0].keys)

    def moments(self) -> tuple[Moment, ...]:
        """Return what an answer of now is as of; all streams of a join have the same now."""
        now = latest(side.now for side in self.sides)
        return tuple(Moment(side.store.end, now) for side in self.sides)

    def windows(self, moments: Sequence[Moment]) -> list[Window]:
        """Return the rows of the window, stream by stream."""
        return [
            window_of(
                self.plan,
                side.store,
                moment,
                side.time_type,
                side.stream.time,
                partial=self._partial,
            )
            for side, moment in zip(self.sides, moments, strict=True)
        ]

    def rows(self, moments: Sequence[Moment]) -> list[Int64s]:
        """Return the rows of the answer, or pairs of them, stream by stream."""
        windows = self.windows(moments)
        first = self._own(windows[0])
        if not self.plan.joins:
            return [first]
        if tuple(moments) != self.moments():
            return joined_rows(self.plan, self.sides, first, windows[1])
        pairs = self._index.pairs
        pairs[self._slot] = grown_pairs(
            self.plan, self.sides, first, windows, pairs.get(self._slot)
        )
        return pairs[self._slot].rows

    def _own(self, window: Window) -> Int64s:
        begin, end = self.held.between(window.begin, window.end)
        return window.narrow(self.sides[0].store, self.held.rows[begin:end])

    def table(self, moments: Sequence[Moment]) -> pa.Table:
        """Return the whole answer."""
        if self.plan.aggregates:
            quick = self._from_trees(moments)
            if quick is not None:
                return quick
            return aggregates_table(self.plan, self.sides, self.rows(moments))
        rows = self.rows(moments)
        self._check_size(rows[0].size)
        return rows_table(self.plan, self.sides, rows)

    def page(self, moments: Sequence[Moment], begin: int, limit: int) -> tuple[pa.Table, int]:
        """Return so many rows of the answer from one on, and how many it has."""
        if self.plan.aggregates or self.plan.distinct:
            whole = self.table(moments)
            return whole.slice(begin, limit), whole.num_rows
        rows = self.rows(moments)
        page = [each[begin : begin + limit] for each in rows]
        return rows_table(self.plan, self.sides, page), rows[0].size

    def _check_size(self, rows: int) -> None:
        if rows > MOST_ROWS:
            raise AnswerTooLargeError(
                f"the answer has {rows:,} rows, and at most {MOST_ROWS:,} are given at once; read"
                " it page by page: invoke(id, limit=...), then after=place_of(page)"
            )

    def _from_trees(self, moments: Sequence[Moment]) -> pa.Table | None:
        """Return aggregates of all rows of one piece, in O(log n)."""
        plan = self.plan
        if plan.groups or plan.joins or plan.having:
            return None
        if any(item.function not in IN_TREES for item in plan.items):
            return None
        (window,) = self.windows(moments)
        if not window.is_piece:
            return None
        begin, end = self.held.between(window.begin, window.end)
        side = self.sides[0]
        found: list[tuple[int, float, float, float] | int] = []
        for item in plan.items:
            name = None if item.column is None else item.column.name
            if name is None or name in (side.stream.key, side.stream.time):
                found.append(end - begin)
            else:
                tree = self.held.tree(name, lambda rows, name=name: side.numbers(name, rows))  # type: ignore[misc]
                found.append(tree.between(begin, end))
        return one_row(plan, found)


def invoke(
    asked: Asked,
    query: AskedQuery,
    *,
    other: Asked | None = None,
    limit: int | None = None,
    after: str | None = None,
    since: str | None = None,
    partial: bool = False,
) -> pa.Table:
    """Return the answer to a select query; see `Engine.invoke`."""
    sides = [asked] if other is None else [asked, other]
    wanted = Wanted(limit, after, since)
    try:
        return _answer(sides, query, wanted, partial=False)
    except RowsGoneError:
        # They may be kept, and only be out of the way here.
        indexes = [cast("SelectIndex", each.index) for each in sides]
        older = [index.read_past() for index in indexes]  # of all of them
        if not any(older) and not partial:
            raise
    return _answer(sides, query, wanted, partial=partial)


class Wanted(NamedTuple):
    """Which part of an answer is wanted; see `Engine.invoke`."""

    limit: int | None
    after: str | None
    since: str | None


def _answer(
    sides: Sequence[Asked], query: AskedQuery, wanted: Wanted, *, partial: bool
) -> pa.Table:
    limit, after, since = wanted
    lazy = query.options["upkeep_lazy"]
    reader = Reader(sides, query.slot, lazy=lazy, partial=partial)
    if since is not None and (limit is not None or after is not None):
        raise InvalidQueryError("since gives changes, and limit and after pages; ask for one")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidQueryError(f"limit is {limit!r}; it takes a whole number from 1 on")
    now = Place(reader.mark(query.id), reader.moments())
    if since is not None:
        before = Place.read_text(since, now).moments
        return _marked(told_differences(reader, before, now.moments), now)
    if limit is None and after is None:
        return _marked(reader.table(now.moments), now)
    place = now if after is None else Place.read_text(after, now)
    table, _ = reader.page(place.moments, place.read, MOST_ROWS if limit is None else limit)
    return _marked(table, Place(now.mark, place.moments, place.read + table.num_rows))


def _marked(table: pa.Table, place: Place) -> pa.Table:
    return table.replace_schema_metadata({PLACE: str(place).encode()})


def streams(asked: Asked, query: AskedQuery) -> tuple[str, ...]:
    """Return the streams that a query is about, the one that it is registered on first."""
    index = cast("SelectIndex", asked.index)
    index.read_plans(asked.said)
    plan = index.plans[index.plan[query.slot]]
    return tuple(source.stream for source in plan.sources) or (asked.stream.name,)


def needs(asked: Asked, *, flags: Flags) -> list[tuple[str, Plan]]:
    """Return what joins need of other streams: the stream, and the plan."""
    index = cast("SelectIndex", asked.index)
    index.read_plans(asked.said)
    return [(plan.sources[1].stream, plan) for plan in index.live_plans(flags) if plan.joins]


def keep(asked: Asked, *, plans: list[Plan]) -> None:
    """Keep the rows that joins of other streams need; joins here are told with those streams."""
    index = cast("SelectIndex", asked.index)
    index.others_need = plans
    index.tells_joins = True


def shown_select(record: Any) -> str | None:  # noqa: ANN401 - a record of a listing
    """Return what a query asks for, for people who list queries."""
    found: str | None = record.get("plan")
    return found
