"""Silence queries by how long they wait, and the loop that finds which deadlines have come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from everquery.core.arrays import Array, Bools, Int32s, Int64s, total_bytes
from everquery.core.jit import kernel, part
from everquery.index.clock import Clock
from everquery.index.rows import NO_KEY, Rows
from everquery.state.rule_walk import later


@part
def first_after(
    after: Array,
    begin: int,
    end: int,
    last: Any,  # noqa: ANN401 - a number of either type
    moment: Any,  # noqa: ANN401
    never: Any,  # noqa: ANN401
) -> int:
    """Return the first of ascending spans with which `last` leads beyond a moment."""
    while begin < end:
        middle = (begin + end) >> 1
        due = later(last, after[middle], never)
        if due <= moment and due < never:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def find_due(
    after: Array,
    begin: Int64s,
    end: Int64s,
    last: Array,
    told: Array,
    until: Array,
    never: Array,
    first: Int64s,
    stop: Int64s,
) -> Any:  # noqa: ANN401 - a time
    """Find the deadlines of keys that lie in a stretch of time; return the soonest beyond it.

    Cost: two binary searches a key.

    Parameters
    ----------
    after : like time
        Spans, ascending within each list.
    begin, end : int64, for each key
        Where its list is.
    last : like time, for each key
        When it was last heard from; a deadline is that plus a span.
    told, until : like time, for each key
        The stretch: behind the one, and up to the other.
    never : like time, shape (1,)
        The end of time, which is what a deadline beyond 64 bits becomes.
    first, stop : int64, for each key
        Get where the deadlines within the stretch are in `after`.
    """
    soonest = never[0]
    for i in range(last.size):
        first[i] = first_after(after, begin[i], end[i], last[i], told[i], never[0])
        stop[i] = first_after(after, first[i], end[i], last[i], until[i], never[0])
        if stop[i] < end[i]:
            soonest = min(soonest, later(last[i], after[stop[i]], never[0]))
    return soonest


@kernel
def long_gaps(
    previous: Array, until: Array, known: Bools, least: Array, never: Array, out: Int64s
) -> int:
    """Write the places of times that lie a span or more behind what they lead to; return how many.

    Only where `known` is true. `least` and `never` have one entry each.
    """
    n = 0
    for i in range(previous.size):
        if known[i]:
            due = later(previous[i], least[0], never[0])
            if due <= until[i] and due < never[0]:
                out[n] = i
                n += 1
    return n


class Pairs(NamedTuple):
    """Queries and keys whose deadlines have come.

    Attributes
    ----------
    item : int64
        Which of the keys, or events, that were asked about.
    slot : int64
    moment : like time
    """

    item: Int64s
    slot: Int64s
    moment: Array


class Lists(NamedTuple):
    """Queries in lists: of one key each, or one of all those without.

    Attributes
    ----------
    key : int32, shape (lists,)
        Ascending; one `NO_KEY` for queries of all keys.
    start : int64, shape (lists + 1,)
    after : like time
        Ascending within each list.
    slot : int64
    """

    key: Int32s
    start: Int64s
    after: Array
    slot: Int64s

    @property
    def least(self) -> Array:
        """The shortest span, as an array of one."""
        shortest: Array = self.after[self.start[:-1]].min(keepdims=True)
        return shortest

    @property
    def named(self) -> bool:
        """Whether the queries name their keys."""
        return self.key.size != 1 or self.key[0] != NO_KEY

    def find(self, keys: Int32s) -> tuple[Int64s, Int64s]:
        """Return which of some keys have a list, and where it begins and ends in a pair of rows."""
        if not self.named:
            ends = np.empty((2, keys.size), np.int64)
            ends[0], ends[1] = 0, self.after.size
            return np.arange(keys.size), ends
        at = np.minimum(np.searchsorted(self.key, keys), self.key.size - 1)
        here = np.flatnonzero(self.key[at] == keys)
        return here, np.stack([self.start[at[here]], self.start[at[here] + 1]])

    def due(
        self, ends: Int64s, last: Array, told: Array, until: Array, never: float
    ) -> tuple[Pairs, Any]:
        """Return which deadlines lie behind `told` and up to `until`, and the soonest beyond."""
        first, stop = np.empty(last.size, np.int64), np.empty(last.size, np.int64)
        limit = np.full(1, never, self.after.dtype)
        begin, end = ends
        soonest = find_due(self.after, begin, end, last, told, until, limit, first, stop)
        item, row = spread(first, stop)
        return Pairs(item, self.slot[row], _later(last[item], self.after[row], never)), soonest


def spread(first: Int64s, stop: Int64s) -> tuple[Int64s, Int64s]:
    """Return all rows from `first` to before `stop`, each with the place of its stretch."""
    count = stop - first
    item = np.repeat(np.arange(count.size), count)
    row = np.arange(item.size) - np.repeat(np.cumsum(count) - count, count) + first[item]
    return item, row


def _later(time: Array, span: Array, never: float) -> Array:
    """Return times so much later; never, if 64 bits can't hold them."""
    fits = time <= never - span
    moved: Array = np.where(fits, np.where(fits, time, 0) + span, never).astype(span.dtype)
    return moved


def taken(column: Array, slots: Array, fill: float) -> Array:
    """Return a column by slot for some slots, of which it may not have all."""
    found = np.full(slots.size, fill, column.dtype)
    known = slots < column.size
    found[known] = column[slots[known]]
    return found


@dataclass(slots=True)
class SilenceSegment:
    """Queries, and how soon one of them may have something to tell.

    Attributes
    ----------
    rows : Rows
    soonest : number or None
        No deadline comes before it that was not told; None where that has to be found out.
    """

    rows: Rows
    soonest: Any = None
    _lists: Lists | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def all_rows(self) -> Rows:
        """Return the rows."""
        return self.rows

    def renumbered(self, slots: Int32s) -> Self:
        """Return the same with other slots, given by the present ones."""
        return type(self)(self.rows.renumbered(slots))

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        lists: tuple[Array, ...] = self._lists or ()
        return total_bytes(*self.rows.arrays(), *lists)

    def lists(self, clock: Clock) -> Lists:
        """Return the queries by key and span; none while the type of times is not known."""
        if self._lists is None:
            slot = self.rows.slot.astype(np.int64)
            key = self.rows.key if clock.keyed else np.zeros_like(self.rows.key)
            after = taken(clock.after, slot, 0)
            order = np.lexsort((slot, after, key))
            order = order[after[order] > 0]  # a query whose span does not fit is never asked
            keys, start = np.unique(key[order], return_index=True)
            start = np.append(start, order.size).astype(np.int64)
            lists = Lists(keys, start, after[order], slot[order])
            if not order.size:  # of no use, or not yet: times are known with the first batch
                return lists
            self._lists = lists
        return self._lists

    def unheard(self, clock: Clock) -> tuple[Int32s, Int64s, Array]:
        """Return keys, slots and deadlines of queries that name a key never heard from."""
        lists = self.lists(clock)
        if not lists.named:
            none = np.empty(0, np.int64)
            return none.astype(np.int32), none, np.empty(0, lists.after.dtype)
        here = np.flatnonzero(~clock.heard[lists.key])
        item, row = spread(lists.start[here], lists.start[here + 1])
        return lists.key[here[item]], lists.slot[row], self.unheard_deadlines(row, clock)

    def unheard_deadlines(self, row: Int64s, clock: Clock) -> Array:
        """Return when queries have not heard for too long from a key that they name."""
        lists = self.lists(clock)
        since = taken(clock.since, lists.slot[row], clock.never)
        return _later(since, lists.after[row], clock.never)
