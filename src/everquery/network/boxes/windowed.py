"""What the boxes with windows share: rows that wait, and expressions over windows of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.network.expressions.aggregates import AggregateList, read_aggregates
from everquery.network.expressions.lists import column_of, read_items, scope_of
from everquery.network.expressions.ranges import Ranges
from everquery.network.grouping import Groups, Ints
from everquery.network.operator import Letters, Operator, Saved, arrays_of, evaluate
from everquery.network.rows import RowType, columns_of, joined, whole
from everquery.network.spec import Box, check_columns
from everquery.network.windows import ROWS, TIME, Index, Window, index_values

UNKNOWN_INDEX, LATE = "unknown_index", "late"


def groups_of(by: Sequence[str] | None, rows: RowType) -> tuple[str, ...]:
    """Return the columns that a box groups by: its own, else those of a group-by box before it."""
    names = rows.groups if by is None else tuple(by)
    check_columns(names, rows, "by")
    return names


@dataclass(frozen=True, slots=True)
class WindowColumns:
    """What a windowed box computes.

    Attributes
    ----------
    label : str
        The column that the window itself has: ``window_start`` or ``window_end``.
    """

    list: AggregateList
    groups: tuple[str, ...]
    label: str
    index: str | None
    kind: pa.DataType

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns of rows that have to be kept."""
        index = () if self.index is None else (self.index,)
        return tuple(dict.fromkeys((*self.groups, *index, *sorted(self.list.reads))))

    def table(
        self, rows: pa.Table, windows: Ranges, keys: pa.Table, labels: pa.Array, letters: Letters
    ) -> pa.Table:
        """Return one row for each window; those whose expressions fail are dead letters."""
        values = self.list.values(columns_of(rows), rows.num_rows, windows)
        return self.finished(keys, labels, values, letters)

    def finished(
        self, keys: pa.Table, labels: pa.Array, values: dict[str, Any], letters: Letters
    ) -> pa.Table:
        """Return one row for each window from the values of its aggregates."""
        before = pa.table({**columns_of(keys), self.label: labels, **values})
        names = [name for name, _ in self.list.items]
        kept, arrays = evaluate(before, arrays_of([item for _, item in self.list.items]), letters)
        if self.label not in names:
            names, arrays = [*names, self.label], [*arrays, whole(kept.column(self.label))]
        return pa.table(list(arrays), names=names)


def window_columns(
    text: str, rows: RowType, box: Box, *, by: Sequence[str] | None, window: Window, label: str
) -> WindowColumns:
    """Return what a windowed box computes for rows of a type."""
    index = window.column(rows, box.sources[0])
    kind = pa.int64() if index is None else rows.columns[index]
    groups = groups_of(by, rows)
    scope = scope_of(dict(rows.columns), *box.sources)
    found = read_aggregates(text, scope, groups, {label: kind})
    return WindowColumns(found, groups, label, index, kind)


def window_type(text: str, rows: RowType, columns: WindowColumns, window: Window) -> RowType:
    """Return the type of the rows that a windowed box gives."""
    kinds = {name: item.type for name, item in columns.list.items}
    kinds.setdefault(columns.label, columns.kind)
    scope = scope_of({name: rows.columns[name] for name in columns.groups})
    key = None
    for item in read_items(text, list(columns.groups)):
        plain = not item.tree.args.get("table") and item.tree.name in scope.columns
        if plain and rows.key and column_of(item.tree, scope) == rows.key:
            key = item.name
    return RowType(kinds, key=key, time=columns.label if window.by == TIME else None)


class Waiting:
    """Rows that wait for their windows, in the order in which they came."""

    def __init__(self, row_type: RowType) -> None:
        self._row_type = row_type
        self._pieces: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Take in rows."""
        if rows.num_rows:
            self._pieces.append(rows)

    def rows(self) -> pa.Table:
        """Return all of them."""
        table = joined(self._pieces, self._row_type)
        self._pieces = [table] if table.num_rows else []
        return table

    def keep(self, rows: pa.Table) -> None:
        """Keep these, and no others."""
        self._pieces = [rows] if rows.num_rows else []

    def __len__(self) -> int:
        return sum(piece.num_rows for piece in self._pieces)


class WindowedOperator(Operator):
    """What runs a windowed box: groups, rows that wait, and how far each group's windows are told.

    A subclass says what is told of them. ``_bounds`` has for each group how far it is told, in
    units of the index; ``_counts`` how many rows it has had.
    """

    def __init__(
        self,
        columns: WindowColumns,
        window: Window,
        inputs: Sequence[RowType],
        output: RowType,
    ) -> None:
        super().__init__(inputs, output)
        self.columns, self.window = columns, window
        self.groups = Groups(columns.groups)
        self.waiting = Waiting(self._kept_type())
        self._clock = -np.inf
        self._arrived = 0

    def _kept_type(self) -> RowType:
        kinds = {name: self.inputs[0].columns[name] for name in self.columns.needed}
        return RowType({**kinds, "_arrival": pa.int64()})

    def _kept(self, rows: pa.Table) -> pa.Table:
        """Return the columns that windows need, and when each row came."""
        kept = rows.select(list(self.columns.needed))
        arrival = pa.array(np.arange(self._arrived, self._arrived + rows.num_rows))
        self._arrived += rows.num_rows
        return kept.append_column("_arrival", arrival)

    def _with_index(self, rows: pa.Table) -> tuple[pa.Table, Index | None]:
        """Return the rows whose index is known, and their index values; None by position."""
        if self.columns.index is None:
            return rows, None
        column = rows.column(self.columns.index)
        if column.null_count:
            self.letters.add(rows.filter(pc.is_null(column)), UNKNOWN_INDEX)
            rows = rows.filter(pc.is_valid(column))
            column = rows.column(self.columns.index)
        return rows, index_values(column)

    @property
    def size(self) -> float:
        """The window's size in units of the index."""
        return self.window.size(None if self.window.by == ROWS else self.columns.kind)

    def keys(self, numbers: Ints) -> pa.Table:
        """Return the columns of groups, by their numbers."""
        table = self.groups.keys()
        if table is None:
            return pa.table({})
        return table.take(pa.array(numbers))

    def held(self) -> int:
        """Return how many rows wait."""
        return len(self.waiting)

    def save(self) -> Saved:
        """Return the rows that wait, the groups, and how far time has come."""
        keys = self.groups.keys()
        tables = {"waiting": self.waiting.rows(), **({} if keys is None else {"groups": keys})}
        clock: Any = None if not np.isfinite(self._clock) else self._clock
        return Saved({"clock": plain_number(clock), "arrived": self._arrived}, tables)

    def load(self, saved: Saved) -> None:
        """Take a state that `save` gave."""
        self.groups.load(saved.tables.get("groups"))
        self.waiting.keep(saved.tables["waiting"])
        clock = saved.values["clock"]
        self._clock = -np.inf if clock is None else clock
        self._arrived = saved.values["arrived"]


def plain_number(value: Any) -> Any:  # noqa: ANN401 - of NumPy or Python
    """Return a number as JSON has it."""
    return value.item() if isinstance(value, np.generic) else value
