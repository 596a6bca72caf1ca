"""Chunks of the past as files: events in Parquet, and beside them what was known before them.

A chunk is two files, ``<first batch>-<batch behind the last>.parquet`` and ``.mark``. The mark has
steps and times, too, so that of a Parquet file that is gone it is known what is lost. Both are
written beside their names and put in their places when they are whole, the Parquet file last: a
chunk is there with both or not at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from everquery.core.arrays import Int32s
from everquery.errors import HistoryError
from everquery.history.chunk import Chunk
from everquery.history.columns import BATCH, description_of, table_of
from everquery.history.marks import read_header, write_mark
from everquery.history.stored_chunk import BROKEN, Gap, StoredChunk, sum_of
from everquery.stream import ALL, Stream

_NAME = re.compile(r"(\d{12,})-(\d{12,})\.(parquet|mark)", re.ASCII)


class HistoryFiles:
    """The folder of a stream's past.

    Parameters
    ----------
    folder : path
        It is made if it is not there.
    stream : Stream
    names : function
        Returns the present names of keys, by their numbers.
    time_type : function
        Returns the type of times; None before the first.
    """

    def __init__(
        self,
        folder: Path,
        stream: Stream,
        names: Callable[[], pa.Array],
        time_type: Callable[[], pa.DataType | None],
    ) -> None:
        self._folder = folder
        self._names = names
        self._time_type = time_type
        self._stream = stream
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HistoryError(
                f"history {str(folder)!r} is no folder to write to: {error}"
            ) from None
        self._lost: list[Gap] = []
        self._writer: ThreadPoolExecutor | None = None
        self._pending: list[Future[None]] = []

    # -- reading ------------------------------------------------------------------------------

    def open(self) -> list[StoredChunk]:
        """Return the chunks that are there, the oldest first.

        Raises
        ------
        HistoryError
            If they are of another stream.
        """
        found = []
        for path in sorted(self._folder.iterdir()):
            named = _NAME.fullmatch(path.name)
            if named is not None and named[3] == "mark":
                chunk = self._opened(path, int(named[1]), int(named[2]))
                if chunk is not None:
                    found.append(chunk)
            elif named is not None and not path.with_suffix(".mark").exists():
                self._lose(path, int(named[1]), int(named[2]), "its .mark is gone")
        found.sort(key=lambda chunk: (chunk.first, -chunk.end))
        return _without_overlaps(found)

    def _opened(self, path: Path, first: int, end: int) -> StoredChunk | None:
        try:
            header = read_header(path)
            if (header["first"], header["end"]) != (first, end):
                raise ValueError("it has the name of another")
        except BROKEN as error:
            self._lose(path, first, end, str(error).splitlines()[0][:200])
            return None
        if header["stream"] != description_of(self._stream):
            raise HistoryError(
                f"history {str(self._folder)!r} is of another stream: {header['stream']}; here it"
                f" is {description_of(self._stream)}. Give another folder"
            )
        chunk = StoredChunk(path.with_suffix(".parquet"), header, self._stream)
        if not chunk.path.exists():
            since, until = chunk.span() or (None, None)
            reason = f"{chunk.path.name} is gone"
            removed = self._stream.keep != ALL
            self._lost.append(Gap(first, end, since, until, reason, removed))
            return None
        return chunk

    def _lose(self, path: Path, first: int, end: int, reason: str) -> None:
        self._lost.append(Gap(first, end, None, None, f"{path.name} can't be read ({reason})"))

    def gaps(self, chunks: Sequence[Any]) -> list[Gap]:
        """Return what is lost between chunks, and with those that were found to be damaged."""
        oldest = min((chunk.first for chunk in chunks), default=0)
        # Of an old chunk that was being removed, the mark may be left.
        found = [gap for gap in self._lost if gap.end > oldest or not gap.removed]
        found += [
            chunk.gap()
            for chunk in chunks
            if isinstance(chunk, StoredChunk) and chunk.damage is not None
        ]
        for before, after in pairwise(chunks):
            covered = [gap for gap in found if before.end <= gap.first and gap.end <= after.first]
            if before.end < after.first and not covered:
                found.append(Gap(before.end, after.first, None, None, "no file has them"))
        return sorted(found, key=lambda gap: gap.first)

    # -- writing ------------------------------------------------------------------------------

    def write(self, chunk: Chunk) -> StoredChunk:
        """Write a chunk in another thread; return it as it will be there."""
        path = self._folder / f"{chunk.first:012d}-{chunk.end:012d}.parquet"
        span = chunk.span()
        header = {
            "first": chunk.first,
            "end": chunk.end,
            "events": len(chunk),
            "span": None if span is None else list(span),
            "newest_before": chunk.newest_before,
            "stream": description_of(self._stream),
        }
        stored = StoredChunk(path, header, self._stream)
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, "everquery-history")
        self._raise_failures()
        written = self._writer.submit(
            self._write, path, header, chunk, self._names(), self._time_type() or pa.null()
        )
        self._pending.append(written)
        stored.hold(chunk, written)
        return stored

    def _write(
        self,
        path: Path,
        header: dict[str, Any],
        chunk: Chunk,
        names: pa.Array,
        time_type: pa.DataType,
    ) -> None:
        part = path.with_suffix(".parquet.part")
        table = table_of(chunk, names, time_type, self._stream)
        encoded = [BATCH, *([] if self._stream.key is None else [self._stream.key])]
        pq.write_table(table, part, use_dictionary=encoded, compression="none")
        with part.open("rb") as file:
            os.fsync(file.fileno())
        mark = path.with_suffix(".mark")
        beside = mark.with_suffix(".mark.part")
        write_mark(beside, {**header, "sum": sum_of(part)}, chunk, names, time_type)
        beside.replace(mark)
        part.replace(path)

    def _raise_failures(self) -> None:
        """Raise what an earlier write raised."""
        for written in [written for written in self._pending if written.done()]:
            self._pending.remove(written)
            _result(written, self._folder)

    def wait(self) -> None:
        """Wait until everything is written."""
        pending, self._pending = self._pending, []
        for written in pending:
            _result(written, self._folder)

    def remove(self, chunk: StoredChunk) -> None:
        """Remove the files of a chunk."""
        if chunk.written is not None:
            chunk.written.result()
        for path in (chunk.path, chunk.path.with_suffix(".mark")):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Wait until everything is written, and end the thread."""
        self.wait()
        if self._writer is not None:
            self._writer.shutdown()
            self._writer = None

    # -- upkeep -------------------------------------------------------------------------------

    def compact(
        self, chunks: list[Any], numbers_of: Callable[[pa.Array], Int32s], rows: int
    ) -> list[Any]:
        """Join neighbouring small chunks; return the chunks that there are then.

        Files that a run left behind when it ended while it wrote are removed.
        """
        for path in self._folder.glob("*.part"):
            path.unlink(missing_ok=True)
        compacted: list[Any] = []
        run: list[StoredChunk] = []
        for chunk in [*chunks, None]:
            fits = (
                isinstance(chunk, StoredChunk)
                and chunk.damage is None
                and sum(map(len, run)) + len(chunk) <= rows
                and (not run or run[-1].end == chunk.first)
            )
            if not fits:
                compacted += self._joined(run, numbers_of)
                run = []
            if isinstance(chunk, StoredChunk) and chunk.damage is None and len(chunk) < rows:
                run.append(chunk)
            elif chunk is not None:
                compacted.append(chunk)
        return compacted

    def _joined(
        self, run: list[StoredChunk], numbers_of: Callable[[pa.Array], Int32s]
    ) -> list[StoredChunk]:
        if len(run) < 2:
            return run
        try:
            loaded = [chunk.load(numbers_of) for chunk in run]
        except HistoryError:
            return run  # which of them is damaged is known now
        steps = [step for chunk in loaded for step in chunk.steps()]
        stored = self.write(Chunk.of(loaded[0].mark, steps))
        self.wait()
        for chunk in run:
            self.remove(chunk)
        return [stored]


def _result(written: Future[None], folder: Path) -> None:
    try:
        written.result()
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(
            f"the past can't be written to {str(folder)!r}: {error}. What was written before is"
            " there; make room, or open an engine without this folder"
        ) from None


def _without_overlaps(chunks: list[StoredChunk]) -> list[StoredChunk]:
    """Return chunks without those whose steps a larger one has: a join was cut short."""
    kept: list[StoredChunk] = []
    for chunk in chunks:
        if kept and chunk.end <= kept[-1].end:
            for path in (chunk.path, chunk.path.with_suffix(".mark")):
                path.unlink(missing_ok=True)
        else:
            kept.append(chunk)
    return kept
