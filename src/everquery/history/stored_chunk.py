"""A chunk of the past in its two files, read when it is asked for, and what is lost with it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from everquery.core.arrays import Int32s
from everquery.errors import HistoryError, SnapshotError
from everquery.history.chunk import Chunk
from everquery.history.columns import chunk_of
from everquery.history.marks import read_header, read_mark
from everquery.stream import Stream

# What reading a file raises that is damaged or gone.
BROKEN = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, SnapshotError)


@dataclass(frozen=True, slots=True)
class Gap:
    """A span of the past that is lost.

    Attributes
    ----------
    first, end : int
        The first batch that is lost, and the one behind the last.
    since, until : number or None
        The least and the largest time in it, where that is known.
    reason : str
    removed : bool
        Whether it may have been removed because the stream keeps no more.
    """

    first: int
    end: int
    since: int | float | None
    until: int | float | None
    reason: str
    removed: bool = False

    def __str__(self) -> str:
        times = "" if self.since is None else f", times {self.since} to {self.until}"
        return f"batches {self.first} to {self.end - 1}{times}: {self.reason}"


class StoredChunk:
    """A chunk that is in a file, and perhaps still in memory.

    Attributes
    ----------
    first, end : int
    file_bytes : int
    """

    def __init__(self, path: Path, header: dict[str, Any], stream: Stream) -> None:
        self.path = path
        self._stream = stream
        self.first: int = header["first"]
        self.end: int = header["end"]
        self._events: int = header["events"]
        self._span: list[int | float] | None = header["span"]
        self.newest_before: int | float | None = header["newest_before"]
        self._chunk: Chunk | None = None
        self.written: Future[None] | None = None
        self.damage: str | None = None

    def __len__(self) -> int:
        return self._events

    def span(self) -> tuple[int | float, int | float] | None:
        """Return the least and the largest time; None without events."""
        return None if self._span is None else (self._span[0], self._span[1])

    @property
    def file_bytes(self) -> int:
        """How large the files are."""
        files = (self.path, self.path.with_suffix(".mark"))
        return sum(file.stat().st_size for file in files if file.exists())

    def memory_bytes(self) -> int:
        """Return the bytes of what is in memory."""
        return 0 if self._chunk is None else self._chunk.nbytes()

    def hold(self, chunk: Chunk, written: Future[None]) -> None:
        """Keep the chunk in memory, too; it is being written."""
        self._chunk, self.written = chunk, written

    def let_go(self) -> None:
        """Keep the chunk in its file alone."""
        if self.written is not None:
            self.written.result()
        self._chunk = None

    def load(self, numbers_of: Callable[[pa.Array], Int32s]) -> Chunk:
        """Return the chunk; keys have the numbers that a function tells of names.

        Raises
        ------
        HistoryError
            If a file is damaged or gone; it says what is lost.
        """
        if self._chunk is not None:
            return self._chunk
        try:
            mark, names, header = read_mark(self.path.with_suffix(".mark"))
            if sum_of(self.path) != header["sum"]:
                raise ValueError("its checksum is wrong")
            table = pq.read_table(self.path)
            if table.num_rows != self._events:
                raise ValueError(f"it has {table.num_rows:,} events, and should have {len(self):,}")
            numbers = numbers_of(names)
            header["special"] = {
                at: (did, numbers[keys]) for at, (did, keys) in header["special"].items()
            }
            return chunk_of(table, header, mark.renumbered(numbers), numbers_of, self._stream)
        except BROKEN as error:
            self.damage = f"{self.path.name} can't be read ({str(error).splitlines()[0]:.200})"
            raise HistoryError(f"a part of the past is lost: {self.gap()}") from None

    def check(self) -> None:
        """Note whether the events can't be read any more."""
        if self._chunk is None and self.damage is None:
            try:
                if sum_of(self.path) != read_header(self.path.with_suffix(".mark"))["sum"]:
                    raise ValueError("its checksum is wrong")
            except BROKEN as error:
                self.damage = f"{self.path.name} can't be read ({str(error).splitlines()[0]:.200})"

    def types(self) -> tuple[pa.Array, pa.DataType | None]:
        """Return the names of keys, and the type of times.

        Raises
        ------
        HistoryError
            If they can't be read.
        """
        try:
            _, names, header = read_mark(self.path.with_suffix(".mark"))
            return names, header["time_type"]
        except BROKEN as error:
            self.damage = f"its .mark can't be read ({str(error).splitlines()[0]:.200})"
            raise HistoryError(f"a part of the past is lost: {self.gap()}") from None

    def gap(self) -> Gap:
        """Return what is lost with this chunk."""
        since, until = self.span() or (None, None)
        return Gap(self.first, self.end, since, until, self.damage or "its file is gone")


def sum_of(path: Path) -> int:
    """Return the checksum of a file."""
    found = 0
    with path.open("rb") as file:
        while content := file.read(1 << 22):
            found = crc32(content, found)
    return found
