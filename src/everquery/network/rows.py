"""What goes along an arrow: rows of one type, and how far time has come."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from everquery.network.expressions.types import UNKNOWN, word
from everquery.stream import Stream

BEGINNING, END = -math.inf, math.inf
"""The clock before anything has come, and when nothing more will."""


@dataclass(frozen=True)
class RowType:
    """The columns of an arrow.

    Attributes
    ----------
    columns : mapping of str to Arrow type
        `UNKNOWN` where no batch has shown the type yet.
    key, time : str, optional
        Which column is the key, and which is the time.
    groups : tuple of str
        The columns that a group-by box has divided the rows by.
    stream : Stream, optional
        The stream that the rows come from, if they are its rows, unchanged.
    """

    columns: Mapping[str, pa.DataType]
    key: str | None = None
    time: str | None = None
    groups: tuple[str, ...] = ()
    stream: Stream | None = field(default=None, compare=False)

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        return pa.schema(list(self.columns.items()))

    @property
    def bound(self) -> bool:
        """Whether all types are known."""
        return UNKNOWN not in self.columns.values()

    def empty(self) -> pa.Table:
        """Return no rows of this type."""
        return self.schema.empty_table()

    def but(self, **changes: Any) -> RowType:  # noqa: ANN401 - of any field
        """Return the type with other fields."""
        return replace(self, **changes)

    def __str__(self) -> str:
        return ", ".join(f"{name} {word(kind)}" for name, kind in self.columns.items())


@dataclass(slots=True)
class Flow:
    """Rows that are new, and the clock: no row with an older time will come.

    The clock is a number in the unit of the time column; of rows without time it is `BEGINNING`
    until the stream ends.
    """

    rows: pa.Table
    clock: float = BEGINNING


def columns_of(rows: pa.Table) -> dict[str, Any]:
    """Return the columns of a table, each as one array."""
    return {
        name: whole(column) for name, column in zip(rows.column_names, rows.columns, strict=True)
    }


def whole(column: Any) -> Any:  # noqa: ANN401 - Arrow has no types
    """Return a column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()


def joined(tables: Sequence[pa.Table], row_type: RowType) -> pa.Table:
    """Return rows behind one another, in one piece."""
    some = [table for table in tables if table.num_rows]
    if not some:
        return row_type.empty() if row_type.bound or not tables else tables[-1]
    if len(some) == 1:
        return some[0]
    return pa.concat_tables(some).combine_chunks()


def fitted(rows: pa.Table, row_type: RowType) -> pa.Table:
    """Return rows with exactly the columns and types of a type."""
    if rows.schema.equals(row_type.schema):
        return rows
    arrays = [
        rows.column(name) if pa.types.is_null(kind) else rows.column(name).cast(kind)
        for name, kind in row_type.columns.items()
    ]
    return pa.table(arrays, names=list(row_type.columns))
