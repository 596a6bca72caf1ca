"""Rows without a structure over them: for kinds whose structures are elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from everquery.core.arrays import Int32s, total_bytes
from everquery.index.rows import Rows


@dataclass(frozen=True, slots=True)
class RowSegment:
    """A segment that is only looked through when queries are listed or saved."""

    rows: Rows

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
        return total_bytes(*self.rows.arrays())
