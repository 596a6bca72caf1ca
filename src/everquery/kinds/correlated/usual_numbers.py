"""Numbers of a query that have a usual value, which is what a query without one has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.queries.numbers import NO_NUMBER, Note, NumberColumn, NumberField

ZERO = -1.0  # in a column, where a query has 0: 0 itself stands for the usual value there


@dataclass(frozen=True, slots=True)
class UsualNumber(NumberField):
    """A number with a usual value; in columns 0 stands for that.

    Attributes
    ----------
    usual : number
    takes_zero : bool
        Whether it may be 0; then it may not be -1, which stands for 0 in columns.

    Examples
    --------
    >>> share = UsualNumber("share", usual=0.5, takes_zero=True, whole=False, limits=())
    >>> column = share.column_of([0.5, 0.0, 2.0, None])
    >>> column.tolist(), share.values(column).tolist()
    ([0.0, -1.0, 2.0, 0.0], [0.5, 0.0, 2.0, 0.5])
    """

    usual: float = field(kw_only=True)
    takes_zero: bool = field(default=False, kw_only=True)
    required: bool = field(default=False, kw_only=True)

    def column_of(self, values: Sequence[Any], attributes: Sequence[str] = ()) -> NumberColumn:
        """Return what specs have in this field as a column."""
        given = [self.usual if value is None else value for value in values]
        return self._encoded(np.array(given, self.dtype))

    def _encoded(self, values: NumberColumn) -> NumberColumn:
        column = np.where(values == self.usual, NO_NUMBER, values)
        if self.takes_zero:
            column = np.where(values == 0, ZERO, column)
        return column.astype(self.dtype)

    def values(self, numbers: NumberColumn) -> NumberColumn:
        """Return the numbers that a column stands for."""
        found = np.where(numbers == NO_NUMBER, self.usual, numbers)
        if self.takes_zero:
            found = np.where(numbers == ZERO, 0, found)
        return found.astype(self.dtype)

    def shown(self, numbers: NumberColumn, attributes: Sequence[str]) -> pa.Array:
        """Return the numbers as people know them."""
        return pa.array(self.values(numbers))

    def read_column(self, column: pa.Array, note: Note) -> NumberColumn:
        """Return a column of a table; see `NumberField.read_column`."""
        null = np.asarray(column.is_null())
        given = NumberField.read_column(self, column, note)
        values = np.where(null, self.usual, given).astype(self.dtype)
        return self._encoded(values)
