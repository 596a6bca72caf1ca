"""One side of a box with two arrows: the rows that may still be needed, and its clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.network.boxes.windowed import LATE, UNKNOWN_INDEX, plain_number
from everquery.network.grouping import Groups, Ints
from everquery.network.operator import Letters, Saved
from everquery.network.rows import BEGINNING, END, Flow, whole
from everquery.network.windows import ROWS, TIME, Index, Window, index_values

INDEX, GROUP, PLACE = "_index", "_group", "_place"


class Side:
    """The rows of one side, each with its index, its group, and its place in the order they came.

    Attributes
    ----------
    rows : Arrow table or None
        None before the first rows.
    clock : number
        The smallest index that the next row can have.
    count : int
        How many rows have come.
    """

    def __init__(self) -> None:
        self.rows: pa.Table | None = None
        self.clock: float = BEGINNING
        self.count = 0

    def take(
        self,
        flow: Flow,
        window: Window,
        column: str | None,
        number: Callable[[pa.Table], Ints],
        letters: Letters,
    ) -> int:
        """Take in rows, and go on with the clock; return how many there were before.

        Parameters
        ----------
        column : str or None
            The index; None for positions. Rows whose index is unknown, or behind the clock, are
            dead letters.
        number : function
            From rows to the numbers of their groups; a negative one: the row is left out.
        """
        rows, index = self._indexed(flow.rows, window, column, letters)
        places = np.arange(self.count, self.count + rows.num_rows)
        self.count += rows.num_rows
        groups = number(rows)
        kept = rows.append_column(INDEX, pa.array(index)).append_column(PLACE, pa.array(places))
        kept = kept.append_column(GROUP, pa.array(groups))
        if groups.size and groups.min() < 0:
            kept = kept.filter(pa.array(groups >= 0))
        before = 0 if self.rows is None else self.rows.num_rows
        if self.rows is None or not before:
            self.rows = kept.combine_chunks()
        elif kept.num_rows:
            self.rows = pa.concat_tables([self.rows, kept]).combine_chunks()
        self._go_on(flow, window, index)
        return before

    def _indexed(
        self, rows: pa.Table, window: Window, column: str | None, letters: Letters
    ) -> tuple[pa.Table, Index]:
        if column is None:
            return rows, np.arange(self.count, self.count + rows.num_rows)
        if rows.column(column).null_count:
            letters.add(rows.filter(pc.is_null(rows.column(column))), UNKNOWN_INDEX)
            rows = rows.filter(pc.is_valid(rows.column(column)))
        index = index_values(rows.column(column))
        late = index < self.clock
        if window.by != TIME and index.size:  # an index attribute ascends
            late = index < np.maximum.accumulate(np.append(self.clock, index))[:-1]
        if late.any():
            letters.add(rows.filter(pa.array(late)), LATE)
            rows, index = rows.filter(pa.array(~late)), index[~late]
        return rows, index

    def _go_on(self, flow: Flow, window: Window, index: Index) -> None:
        if flow.clock == END:
            self.clock = END
        elif window.by == TIME:
            self.clock = max(self.clock, flow.clock)
        elif window.by == ROWS:
            self.clock = self.count
        elif index.size:
            self.clock = max(self.clock, plain_number(index.max()))

    def part(self, name: str) -> Any:  # noqa: ANN401 - a NumPy array of the index's type
        """Return one of its own columns: index, group or place."""
        if self.rows is None:
            return np.zeros(0, np.int64)
        return whole(self.rows.column(name)).to_numpy(zero_copy_only=False)

    def renumber(self, numbers: Ints) -> None:
        """Give the rows the new numbers of their groups, by the old ones."""
        if self.rows is not None and self.rows.num_rows:
            place = self.rows.column_names.index(GROUP)
            groups = pa.array(numbers[self.part(GROUP)])
            self.rows = self.rows.set_column(place, GROUP, groups)

    def drop_below(self, bound: float) -> None:
        """Forget rows whose index is smaller."""
        if self.rows is not None and self.rows.num_rows and bound > BEGINNING:
            index = self.part(INDEX)
            if index.min() < bound:
                self.rows = self.rows.filter(pa.array(index >= bound)).combine_chunks()

    def save(self, name: str, saved: Saved) -> None:
        """Put its state into that of its box."""
        if self.rows is not None:
            saved.tables[name] = self.rows
        clock = plain_number(self.clock) if np.isfinite(self.clock) else str(self.clock)
        saved.values[name] = [clock, self.count]

    def load(self, name: str, saved: Saved) -> None:
        """Take its state from that of its box."""
        self.rows = saved.tables.get(name)
        clock, self.count = saved.values[name]
        self.clock = float(clock) if isinstance(clock, str) else clock


def forget_groups(groups: Groups, sides: Sequence[Side]) -> None:
    """Forget groups of which neither side keeps a row."""
    numbers = groups.forget(np.concatenate([side.part(GROUP) for side in sides]))
    if numbers is not None:
        for side in sides:
            side.renumber(numbers)
