"""What is wrong with the rows of a table of queries, and what is left of it without them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everquery.errors import InvalidTableError
from everquery.queries.block import QueryBlock
from everquery.queries.table_columns import no_errors

Bools = npt.NDArray[np.bool_]

SHOWN = 5  # bad rows in an error's text; the rest is in its table


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A table of queries that has been read.

    Attributes
    ----------
    blocks : the good rows
    rows : how many rows the table has
    errors : a table with row, id and reason of each bad one
    """

    blocks: tuple[QueryBlock, ...]
    rows: int
    errors: pa.Table

    def raise_errors(self) -> None:
        """Raise if a row is bad."""
        if self.errors.num_rows == 0:
            return
        shown = "; ".join(
            f"row {line['row']} ({line['id']!r}): {line['reason']}"
            for line in self.errors.slice(0, SHOWN).to_pylist()
        )
        more = f"; and {self.errors.num_rows - SHOWN:,} more" * (self.errors.num_rows > SHOWN)
        raise InvalidTableError(
            f"{self.errors.num_rows:,} of {self.rows:,} rows are bad, so none is registered"
            f" (on_error='skip' registers the good ones): {shown}{more}",
            self.errors,
        )


class Problems:
    """The first reason against each row."""

    def __init__(self, rows: int) -> None:
        self._which = np.zeros(rows, np.int64)
        self._texts = [""]

    def note(self, rows: Bools, reason: str) -> None:
        """Note a reason against some rows that have none yet."""
        if rows.any():
            self._which[rows & (self._which == 0)] = len(self._texts)
            self._texts.append(reason)

    def good(self) -> Bools:
        """Tell which rows have nothing against them."""
        good: Bools = self._which == 0
        return good

    def table(self, ids: pa.Array) -> pa.Table:
        """Return row, id and reason of each bad row."""
        bad = np.flatnonzero(self._which)
        reasons = pa.array(self._texts).take(pa.array(self._which[bad]))
        shown = pc.utf8_slice_codeunits(ids.take(pa.array(bad)), 0, 80)
        return pa.table({"row": bad, "id": shown, "reason": reasons}, schema=no_errors().schema)
