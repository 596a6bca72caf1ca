"""Quantile queries in cells of ranks: which query is answered by which cell, and what it is told.

The paper continuous-quantiles groups queries into clusters that one value answers (section 3.1): a
query (phi, epsilon) allows an interval of ranks, and any value with such a rank is a right answer.
The paper's clusters depend on the order in which queries were registered; cells do not. The range
of ranks, as fractions of all rows, is halved again and again. A query belongs to the widest such
cell that lies within its interval; the cell is at least a quarter as wide. So the answer to a query
does not depend on other queries, and joining or leaving a cell costs O(1).

Until a lane has ``1 / error`` rows, its summary knows all ranks exactly, and each query is answered
by itself: a cell then stands for a few ranks, and one value could not answer all of its queries.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bools, Bytes, Floats, Int32s, Int64s, resized
from everquery.core.jit import kernel, part

NOWHERE = -1
LOOK_NOW = 0  # as the row count at which a lane or cell is due


class Lanes(NamedTuple):
    """Series of values that have a summary each, by number.

    Attributes
    ----------
    first : int32
        The first cell; the others follow by `Cells.after`.
    members : int64
        How many queries there are.
    due : int64
        When a cell is to be looked at next, counted in rows of the lane.
    """

    first: Int32s
    members: Int64s
    due: Int64s


class Cells(NamedTuple):
    """Cells of ranks.

    Attributes
    ----------
    lane : int32
    code : int64
        ``2 ** level + place``: places of a level are numbered from rank 0 on.
    value : float64
        The value that its queries are told; NaN while they are answered one by one, or not at all.
    due : int64
        The rows of the lane at which the value may be wrong.
    fresh : uint8
        Whether a query may not have been told the value.
    apart : uint8
        Whether a query keeps another value, whose rank is allowed too.
    members : int32
    after : int32
        The next cell of the lane.
    first : int32
        The first member; the others follow by `Members.after`.
    """

    lane: Int32s
    code: Int64s
    value: Floats
    due: Int64s
    fresh: Bytes
    apart: Bytes
    members: Int32s
    after: Int32s
    first: Int32s


class Members(NamedTuple):
    """Queries in cells.

    Attributes
    ----------
    slot : int32
    cell : int32
        `NOWHERE` where a place is free.
    before, after : int32
        Neighbours in the cell's list.
    told : float64
        What the query was told last; NaN if nothing.
    """

    slot: Int32s
    cell: Int32s
    before: Int32s
    after: Int32s
    told: Floats


class CellTable(NamedTuple):
    """All lanes, cells and members of one summary.

    Attributes
    ----------
    table : int32, a power of 2
        Cells by hash of lane and code, `NOWHERE` where there is none.
    free : int32
        Free places of members, a stack.
    used : int64, shape (3,)
        How many cells and member places were ever given out, and how many of the latter are free.
    """

    lanes: Lanes
    cells: Cells
    members: Members
    table: Int32s
    free: Int32s
    used: Int64s

    @classmethod
    def empty(cls) -> CellTable:
        """Return a table without anything."""
        ints, longs = np.empty(0, np.int32), np.empty(0, np.int64)
        floats, flags = np.empty(0), np.empty(0, np.uint8)
        return cls(
            Lanes(ints, longs, longs),
            Cells(ints, longs, floats, longs, flags, flags, ints, ints, ints),
            Members(ints, ints, ints, ints, floats),
            np.full(8, NOWHERE, np.int32),
            ints,
            np.zeros(3, np.int64),
        )

    def with_lanes(self, lanes: int) -> CellTable:
        """Return the same table with room for at least `lanes` lanes."""
        known = self.lanes.first.size
        if lanes <= known:
            return self
        size = max(lanes, 2 * known)
        first, members, due = self.lanes
        grown = Lanes(resized(first, size, NOWHERE), resized(members, size), resized(due, size))
        return self._replace(lanes=grown)

    def is_wasteful(self, queries: int) -> bool:
        """Tell whether `queries` more find no room, and half of the cells or more are empty."""
        used = int(self.used[CELLS])
        if used + queries <= self.cells.lane.size:
            return False
        return 2 * int(np.count_nonzero(self._needed())) <= used

    def _needed(self) -> Bools:
        """Tell which cells have queries, or a value for queries that are still to join."""
        used = int(self.used[CELLS])
        needed: Bools = (self.cells.members[:used] > 0) | ~np.isnan(self.cells.value[:used])
        return needed

    def without_empty(self) -> tuple[CellTable, Int64s]:
        """Return the same without empty cells, and which of the cells have stayed, in order."""
        kept = np.flatnonzero(self._needed())
        number = np.full(int(self.used[CELLS]), NOWHERE, np.int32)
        number[kept] = np.arange(kept.size)
        columns: tuple[Array, ...] = self.cells
        cells = Cells(*(column[kept] for column in columns))
        lanes = self.lanes._replace(first=self.lanes.first.copy())
        relink(lanes.first, self.cells.after, number, cells.after)
        members = self.members._replace(cell=self.members.cell.copy())
        placed = np.flatnonzero(members.cell[: int(self.used[PLACES])] != NOWHERE)
        members.cell[placed] = number[members.cell[placed]]
        table = np.full(1 << (2 * kept.size + 7).bit_length(), NOWHERE, np.int32)
        hash_again(cells, kept.size, table)
        used = self.used.copy()
        used[CELLS] = kept.size
        return CellTable(lanes, cells, members, table, self.free, used), kept

    def with_room(self, queries: int) -> CellTable:
        """Return the same table with room for `queries` more, each in a cell of its own."""
        found = self
        cells = int(self.used[CELLS]) + queries
        if cells > self.cells.lane.size:
            size = max(cells, 2 * self.cells.lane.size)
            found = found._replace(cells=Cells(*(resized(column, size) for column in self.cells)))
            table = np.full(1 << (2 * size - 1).bit_length(), NOWHERE, np.int32)
            hash_again(found.cells, int(self.used[CELLS]), table)
            found = found._replace(table=table)
        places = int(self.used[PLACES]) + queries
        if places > self.members.slot.size:
            size = max(places, 2 * self.members.slot.size)
            members = Members(*(resized(column, size) for column in self.members))
            found = found._replace(members=members, free=resized(self.free, size))
        return found


CELLS, PLACES, FREE = range(3)  # of `CellTable.used`


# -- which cell -----------------------------------------------------------------------------------


@part
def code_of(phi: float, epsilon: float, error: float) -> int:
    """Return the code of the widest cell within a query's allowed ranks; of several, the nearest.

    Parameters
    ----------
    phi, epsilon : the query's; epsilon above `error`
    error : the largest rank error of the summary, as a share of the rows
    """
    low = max(phi - (epsilon - error), 0.0)
    high = min(phi + (epsilon - error), 1.0)
    count = 1.0  # cells of the level; products with it are exact
    while True:
        first = math.ceil(low * count)
        last = math.floor(high * count) - 1
        if first <= last:
            place = min(max(math.floor(phi * count), first), last)
            return int(count) + int(place)
        count *= 2.0


@part
def ends_of(code: int) -> tuple[float, float]:
    """Return both ends of a cell."""
    count = 1
    while 2 * count <= code:
        count *= 2
    return (code - count) / count, (code - count + 1) / count


@part
def hash_of(lane: int, code: int, size: int) -> int:
    """Return where to look for a cell first."""
    mixed = np.uint64(lane) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(code)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    return int(np.int64(mixed & np.uint64(size - 1)))


@kernel
def hash_again(cells: Cells, used: int, table: Int32s) -> None:
    """Put all cells into a new table."""
    for cell in range(used):
        at = hash_of(cells.lane[cell], cells.code[cell], table.size)
        while table[at] != NOWHERE:
            at = (at + 1) & (table.size - 1)
        table[at] = cell


@kernel
def relink(first: Int32s, after: Int32s, number: Int32s, out: Int32s) -> None:
    """Leave cells out of the lists of their lanes.

    Parameters
    ----------
    first : int32, by lane, changed
    after : int32, by cell
    number : int32, by cell
        The new number of each cell, `NOWHERE` for one that is left out.
    out : int32, by new number
        The next cell of the lane.
    """
    for lane in range(first.size):
        cell, last = first[lane], NOWHERE
        first[lane] = NOWHERE
        while cell != NOWHERE:
            new = number[cell]
            if new != NOWHERE:
                if last == NOWHERE:
                    first[lane] = new
                else:
                    out[last] = new
                out[new] = NOWHERE
                last = new
            cell = after[cell]


@part
def cell_of(found: CellTable, lane: int, code: int) -> int:
    """Return a cell by lane and code; it is made if it is not there."""
    cells, table = found.cells, found.table
    at = hash_of(lane, code, table.size)
    while table[at] != NOWHERE:
        if cells.lane[table[at]] == lane and cells.code[table[at]] == code:
            return int(table[at])
        at = (at + 1) & (table.size - 1)
    cell = int(found.used[CELLS])
    found.used[CELLS] += 1
    table[at] = cell
    cells.lane[cell] = lane
    cells.code[cell] = code
    cells.value[cell] = np.nan
    cells.due[cell] = LOOK_NOW
    cells.fresh[cell] = 0
    cells.apart[cell] = 0
    cells.members[cell] = 0
    cells.first[cell] = NOWHERE
    cells.after[cell] = found.lanes.first[lane]
    found.lanes.first[lane] = cell
    return cell


@kernel
def codes_of(slot: Int32s, queries: tuple[Floats, Floats], error: float, out: Int64s) -> None:
    """Write the code of the cell that each query belongs to."""
    phi, epsilon = queries
    for i in range(slot.size):
        q = slot[i]
        out[i] = code_of(phi[q], max(epsilon[q], 2 * error), error)


@kernel
def join_cells(found: CellTable, lane: Int32s, slot: Int32s, code: Int64s, member: Int32s) -> None:
    """Put queries into their cells; they are looked at with the next rows.

    Parameters
    ----------
    found : with room for them
    lane, slot : int32, shape (n,)
    code : int64, shape (n,)
        See `codes_of`.
    member : int32, shape (n,), out
    """
    members, cells = found.members, found.cells
    for i in range(slot.size):
        q = slot[i]
        cell = cell_of(found, lane[i], code[i])
        if found.used[FREE]:
            found.used[FREE] -= 1
            m = found.free[found.used[FREE]]
        else:
            m = found.used[PLACES]
            found.used[PLACES] += 1
        member[i] = m
        members.slot[m] = q
        members.cell[m] = cell
        members.told[m] = np.nan
        members.before[m] = NOWHERE
        members.after[m] = cells.first[cell]
        if cells.first[cell] != NOWHERE:
            members.before[cells.first[cell]] = m
        cells.first[cell] = m
        cells.members[cell] += 1
        cells.fresh[cell] = 1
        found.lanes.members[lane[i]] += 1
        found.lanes.due[lane[i]] = LOOK_NOW


@kernel
def leave_cells(found: CellTable, member: Int32s) -> None:
    """Take members out of their cells; a cell without any forgets its value."""
    members, cells = found.members, found.cells
    for m in member:
        cell, before, after = members.cell[m], members.before[m], members.after[m]
        if before == NOWHERE:
            cells.first[cell] = after
        else:
            members.after[before] = after
        if after != NOWHERE:
            members.before[after] = before
        members.cell[m] = NOWHERE
        found.free[found.used[FREE]] = m
        found.used[FREE] += 1
        cells.members[cell] -= 1
        if cells.members[cell] == 0:
            cells.value[cell] = np.nan
            cells.fresh[cell] = 0
            cells.apart[cell] = 0
        found.lanes.members[cells.lane[cell]] -= 1


@kernel
def freshen(found: CellTable, member: Int32s) -> None:
    """Have members told what they may have missed, with the next rows of their lanes."""
    for m in member:
        cell = found.members.cell[m]
        found.cells.fresh[cell] = 1
        found.lanes.due[found.cells.lane[cell]] = LOOK_NOW


@kernel
def set_cells(found: CellTable, lane: Int32s, code: Int64s, value: Floats) -> None:
    """Set the values of cells, also of those whose members are still to join."""
    for i in range(lane.size):
        found.cells.value[cell_of(found, lane[i], code[i])] = value[i]
