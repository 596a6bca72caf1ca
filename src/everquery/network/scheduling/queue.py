"""Queues: arcs that know since when their rows wait, give them in trains, and spill to disk."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any
from weakref import finalize

import pyarrow as pa

from everquery.network.rows import BEGINNING, Flow, RowType, joined
from everquery.network.runtime.arcs import Arc
from everquery.network.shedding.droppers import Dropper
from everquery.network.shedding.gates import Gate


@dataclass(eq=False)
class Desk:
    """What all queues of a run share.

    Attributes
    ----------
    stamp : float
        When the rows that are on their way now came to their source.
    tick : int
        The number of the present interval of time.
    most : int
        The rows that a queue keeps in memory.
    """

    most: int
    stamp: float = 0.0
    tick: int = 0
    spilled: int = 0
    _folder: Path | None = field(default=None, repr=False)

    def path(self) -> Path:
        """Return the name of a new file for rows; the folder goes with the run."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="everquery-queues-"))
            finalize(self, rmtree, self._folder, ignore_errors=True)
        self.spilled += 1
        return self._folder / f"{self.spilled}.arrow"


@dataclass(slots=True)
class Piece:
    """Rows that wait, in memory or in a file, with the clock behind them and their stamp."""

    rows: pa.Table | Path
    size: int
    clock: float
    stamp: float

    def table(self) -> pa.Table:
        """Return the rows; a file is gone then."""
        if not isinstance(self.rows, Path):
            return self.rows
        with pa.OSFile(str(self.rows)) as file:
            found = pa.ipc.open_file(file).read_all()
        self.rows.unlink()
        self.rows = found
        return found


class Queue(Arc):
    """An arc whose rows may wait.

    Attributes
    ----------
    limit : int, optional
        How many rows `take` gives at most.
    gate : Gate, optional
        What rows are shed at, before they wait.
    """

    def __init__(self, arc: Arc, desk: Desk) -> None:
        self.waiting: deque[Piece] = deque()
        self.desk = desk
        self.limit: int | None = None
        self.gate: Gate | None = None
        self.given = BEGINNING  # the clock behind all rows that were given
        self.last_stamp = desk.stamp
        self.in_memory = 0
        super().__init__(arc.source, arc.target, arc.clock, arc.passed, arc.fresh, arc.pieces)

    def put(self, flow: Flow) -> None:
        """Add rows that the gate lets through, and go on with the clock."""
        rows = flow.rows if self.gate is None else self.gate.keep(flow.rows, self.desk.tick)
        clock = max(self.clock, flow.clock)
        if rows.num_rows:
            self._append(rows, clock, self.desk.stamp)
            self.passed += rows.num_rows
            self.fresh = True
        if clock > self.clock:
            self.clock = clock
            self.fresh = True
            if self.waiting:
                self.waiting[-1].clock = clock
        self.last_stamp = self.desk.stamp

    def _append(self, rows: pa.Table, clock: float, stamp: float) -> None:
        piece = Piece(rows, rows.num_rows, clock, stamp)
        if self.waiting and self.in_memory + piece.size > self.desk.most:
            path = self.desk.path()
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
            piece.rows = path
        else:
            self.in_memory += piece.size
        self.waiting.append(piece)

    def take(self, row_type: RowType) -> Flow:
        """Return what waits, up to the limit; the desk learns since when it has been waiting."""
        tables: list[pa.Table] = []
        stamps = [self.last_stamp] if self.fresh and not self.waiting else []
        room = self.limit
        while self.waiting and (room is None or room > 0):
            piece = self._first(room)
            tables.append(piece.table())
            stamps.append(piece.stamp)
            self.given = max(self.given, piece.clock)
            room = None if room is None else room - piece.size
        if not self.waiting:
            self.given = max(self.given, self.clock)
        self.fresh = bool(self.waiting)
        self.desk.stamp = min([self.desk.stamp, *stamps])
        return Flow(joined(tables, row_type), self.given)

    def _first(self, room: int | None) -> Piece:
        """Return the first piece, or as much of it as there is room for."""
        piece = self.waiting[0]
        if not isinstance(piece.rows, Path):
            self.in_memory -= piece.size if room is None else min(piece.size, room)
        if room is None or piece.size <= room:
            return self.waiting.popleft()
        was_spilled = isinstance(piece.rows, Path)
        rows = piece.table()
        if was_spilled:
            self.in_memory += piece.size - room
        piece.rows, piece.size = rows.slice(room), piece.size - room
        return Piece(rows.slice(0, room), room, self.given, piece.stamp)

    def shed(self, dropper: Dropper) -> None:
        """Send the rows that wait through a dropper."""
        waiting, self.waiting, self.in_memory = self.waiting, deque(), 0
        for piece in waiting:
            rows = dropper.keep(piece.table(), self.desk.tick)
            self.passed -= piece.size - rows.num_rows
            if rows.num_rows:
                self._append(rows, piece.clock, piece.stamp)

    @property
    def queued(self) -> int:
        """How many rows wait."""
        return sum(piece.size for piece in self.waiting)

    @property
    def oldest(self) -> float | None:
        """The stamp of the row that has waited longest; None if none waits."""
        return min((piece.stamp for piece in self.waiting), default=None)

    def save(self) -> dict[str, Any]:
        """Return how the rows that wait are divided, with clocks and stamps; rows go elsewhere."""
        return {
            "pieces": [[one.size, repr(float(one.clock)), one.stamp] for one in self.waiting],
            "given": repr(float(self.given)),
            "last_stamp": self.last_stamp,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Divide the rows that wait as `save` says."""
        tables, self.waiting, self.in_memory = self.pieces, deque(), 0
        rows = pa.concat_tables(tables) if tables else None
        at = 0
        for size, clock, stamp in saved["pieces"]:
            assert rows is not None
            self._append(rows.slice(at, size), float(clock), stamp)
            at += size
        self.given, self.last_stamp = float(saved["given"]), saved["last_stamp"]

    @property
    def pieces(self) -> list[pa.Table]:
        """The rows that wait, all in memory."""
        return [piece.table() for piece in self.waiting]

    @pieces.setter
    def pieces(self, given: Iterable[pa.Table]) -> None:
        self.waiting, self.in_memory = deque(), 0
        for rows in given:
            if rows.num_rows:
                self._append(rows, self.clock, self.last_stamp)
