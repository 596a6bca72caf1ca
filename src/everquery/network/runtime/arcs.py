"""Arcs: what waits between two boxes, what has passed, and taps that show it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from everquery.network.operator import Saved
from everquery.network.rows import BEGINNING, Flow, RowType, joined

MOST_TAPPED = 100_000  # rows that a tap keeps for who reads it
MOST_UNREAD = 1_000_000  # rows that an output keeps for who reads it


@dataclass(slots=True)
class Arc:
    """The rows that wait in front of a box, on one of its inputs.

    Attributes
    ----------
    source, target : str
    passed : int
        How many rows have come this way.
    """

    source: str
    target: str
    clock: float = BEGINNING
    passed: int = 0
    fresh: bool = False
    pieces: list[pa.Table] = field(default_factory=list)

    def put(self, flow: Flow) -> None:
        """Add rows, and go on with the clock."""
        if flow.rows.num_rows:
            self.pieces.append(flow.rows)
            self.passed += flow.rows.num_rows
            self.fresh = True
        if flow.clock > self.clock:
            self.clock = flow.clock
            self.fresh = True

    def take(self, row_type: RowType) -> Flow:
        """Return all that waits."""
        rows = joined(self.pieces, row_type)
        self.pieces, self.fresh = [], False
        return Flow(rows, self.clock)

    @property
    def queued(self) -> int:
        """How many rows wait."""
        return sum(piece.num_rows for piece in self.pieces)


class Kept:
    """Rows for a reader: the latest, up to a bound; what is dropped unread is counted.

    Attributes
    ----------
    passed, dropped : int
        How many rows came, and how many of them were dropped because nobody read them.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.passed = 0
        self.dropped = 0
        self._pieces: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Take in rows."""
        if rows.num_rows:
            self.passed += rows.num_rows
            self._pieces.append(rows)

    def trim(self) -> None:
        """Drop the oldest rows beyond the bound: nobody has read them."""
        excess = len(self) - self.most
        while excess > 0:
            first = self._pieces[0]
            cut = min(excess, first.num_rows)
            self._pieces[0:1] = [first.slice(cut)] if cut < first.num_rows else []
            self.dropped += cut
            excess -= cut

    def read(self, row_type: RowType) -> pa.Table:
        """Return the rows that have come since the last call."""
        pieces, self._pieces = self._pieces, []
        if not pieces:
            return row_type.empty()
        if len(pieces) == 1:
            return pieces[0]
        return pa.concat_tables(pieces, promote_options="default")

    def __len__(self) -> int:
        return sum(piece.num_rows for piece in self._pieces)

    def save(self, row_type: RowType) -> Saved:
        """Return the rows that nobody has read, and the counts."""
        values = {"passed": self.passed, "dropped": self.dropped}
        return Saved(values, {"rows": joined(self._pieces, row_type)})

    def load(self, saved: Saved) -> None:
        """Take a state that `save` gave."""
        self.passed, self.dropped = saved.values["passed"], saved.values["dropped"]
        rows = saved.tables["rows"]
        self._pieces = [rows] if rows.num_rows else []


class Tap(Kept):
    """What passes an arc: `rows` returns what has passed since the last call.

    Examples
    --------
    >>> tap = Tap("hot", 10)
    >>> tap.source
    'hot'
    """

    def __init__(self, source: str, most: int = MOST_TAPPED) -> None:
        super().__init__(most)
        self.source = source
        self._row_type: RowType | None = None

    def see(self, rows: pa.Table, row_type: RowType) -> None:
        """Take in rows that pass."""
        self._row_type = row_type
        self.add(rows)
        self.trim()

    def rows(self) -> pa.Table:
        """Return the rows that have passed since the last call."""
        return pa.table({}) if self._row_type is None else self.read(self._row_type)
