"""The rows that select queries refer to, as a part of a shard's state.

Matches are not saved: they follow from rows and queries, and are found again when a query is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from everquery.core.arrays import Array, Int32s
from everquery.core.invariants import MOST, Column, Contents, is_whole, refuse
from everquery.core.parts import Saved
from everquery.kinds.index_part import IndexPart
from everquery.kinds.select.joins import ToldPairs
from everquery.kinds.select.store import RowStore
from everquery.kinds.select.windows import Moment

if TYPE_CHECKING:
    from everquery.kinds.select.index import SelectIndex


class SelectPart(IndexPart["SelectIndex"]):
    """The rows that are kept, and how far answers were told."""

    name = "select"

    def whole(self) -> Saved:
        """Return all rows."""
        if self._queries().size:
            self._index.have_rows()  # what is loaded later goes on without that past
        store = self._index.store
        if store is None:
            return Saved()
        known, arrays = store.save()
        rank = {slot: place for place, slot in enumerate(self._queries().tolist())}
        told = self._index.told.items()
        known["told"] = [[rank[slot], *each] for slot, each in told if slot in rank]
        pairs = self._index.told_joins.items()
        known["told_joins"] = [
            [rank[slot], *(moment.rows for moment in each.moments), each.moments[0].now]
            for slot, each in pairs
            if slot in rank
        ]
        return Saved(known, arrays)

    def load(self, saved: Saved) -> None:
        """Check and take over rows; the queries are here already."""
        if not saved.arrays:
            return
        _check(saved, self._keys())
        store = RowStore(len(saved.arrays["values"]))
        store.load(saved.values, saved.arrays)
        self._index.take_over(store)
        slots = self._queries().tolist()
        for place, rows, now in _checked_told(saved.values.get("told"), len(slots)):
            self._index.told[slots[place]] = Moment(rows, now)
        joins = saved.values.get("told_joins", [])  # none before joins could tell
        for place, rows, others, now in _checked_told(joins, len(slots), streams=2):
            moments = Moment(rows, now), Moment(others, now)
            self._index.told_joins[slots[place]] = ToldPairs(moments, None)

    def adopt(self, saved: Saved, slots: Int32s) -> None:
        """Let queries go on that were told of the past elsewhere: rows are kept here already."""
        index = self._index
        told = saved.values.get("told", [])
        if not told:
            return
        index.have_rows()
        if index.store is not None:
            for place, _, _ in told:
                index.told[int(slots[place])] = Moment(index.end, index.store.reach)

    def changes(self) -> Saved | None:
        """Return all rows, if there are some."""
        saved = self.whole()
        return saved if saved.arrays else None

    def move_keys(self, saved: Saved, numbers: Array) -> None:
        """Give keys other numbers in what `whole` gave."""
        if "key" in saved.arrays:
            saved.arrays["key"] = numbers[saved.arrays["key"]].astype(np.int32)


def _checked_told(told: object, queries: int, *, streams: int = 1) -> list[tuple[Any, ...]]:
    """Return as of when answers were told: the query, rows of each stream, and time.

    Raises
    ------
    DamagedError
        If that can't be.
    """
    found: list[tuple[Any, ...]] = []
    if not isinstance(told, list):
        refuse("it is not said as of when answers were told")
    for each in told:
        size = 2 + streams
        if not isinstance(each, list) or len(each) != size or not all(map(is_whole, each[:-1])):
            refuse("it is not said as of when answers were told")
        if not isinstance(each[-1], (int, float, type(None))):
            refuse(f"an answer was told as of {each[-1]!r}")
        if not 0 <= each[0] < queries or not all(0 <= rows < MOST for rows in each[1:-1]):
            refuse("an answer was told of a query that is not there")
        found.append(tuple(each))
    return found


def _check(saved: Saved, keys: int) -> None:
    """Raise if rows can't be."""
    values, arrays = saved.values, saved.arrays
    time = arrays.get("time")
    if time is None or time.dtype not in (np.dtype(np.int64), np.dtype(np.float64)):
        refuse("rows have no times")
    contents = Contents(arrays, {"keys": keys})
    contents.check(
        {
            "key": Column("int32", ("rows",), least=0, below="keys"),
            "time": Column(str(time.dtype), ("rows",), with_nan=True),
            "seq": Column("int64", ("rows",), least=0),
            "weight": Column("int64", ("rows",)),
            "values": Column("float64", ("attributes", "rows"), with_nan=True),
        }
    )
    for name in ("first", "whole"):
        row = values.get(name)
        if isinstance(row, bool) or not isinstance(row, int) or not 0 <= row < 2**62:
            refuse(f"the {name} row has number {row!r}")
    for name in ("lost", "reach", "latest"):
        if not isinstance(values.get(name), (int, float, type(None))):
            refuse(f"{name} is {values.get(name)!r}, which is no time")
    if not isinstance(values.get("ordered"), bool):
        refuse("it is not said whether rows are in order")
