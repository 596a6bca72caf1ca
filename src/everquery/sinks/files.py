"""Notices into files: Parquet, JSON lines, or lines for people."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from everquery.errors import UnwritableFileError
from everquery.sinks.lines import as_json_lines, as_text_lines

ROW_GROUP = 100_000


class NoticeWriter(ABC):
    """Takes tables of notices."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns that came too late for the file, in which all notices have the same."""
        return ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def write(self, notices: pa.Table) -> None:
        """Write notices."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file."""

    def sync(self) -> int:
        """See that all notices so far are on the disk; return how long the file is.

        A writer that is opened with this length goes on behind them.
        """
        raise NotImplementedError


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn what the system says of a file into one line of ours."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # the reader of our output has left, which is no error of a file
        raise UnwritableFileError(
            f"{name} can't be written: {error.strerror or error}; what is in it is not whole"
        ) from error
    except pa.ArrowException as error:
        raise UnwritableFileError(f"{name} can't be written: {error}") from error


def _parquet(file: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    """Return a writer that looks for repeated values among texts only.

    Of numbers and ids that takes two thirds of the time, 500 ns a notice, and saves nothing.
    """
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    return pq.ParquetWriter(file, schema, use_dictionary=texts)


class ParquetWriter(NoticeWriter):
    """Writes Parquet, in row groups that are worth it; nothing is readable before `close`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO = _create(path)
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._left_out: dict[str, None] = {}

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns that were not there when the file began."""
        return tuple(self._left_out)

    def write(self, notices: pa.Table) -> None:
        """Take notices; they are written with the next row group."""
        # The dictionaries hold all query ids and keys: too much for each row group.
        plain = decoded(notices)
        if self._writer is None:
            if not plain.num_rows:
                self._empty = plain.schema
                return
            self._writer = _parquet(self._file, plain.schema)
        names = self._writer.schema.names
        if plain.column_names != names:
            late = [name for name in plain.column_names if name not in names]
            self._left_out |= dict.fromkeys(late)
            plain = plain.select(names)
        self._waiting.append(plain)
        self._rows += plain.num_rows
        if self._rows >= ROW_GROUP:
            with self._giving_up():
                self._flush()

    def _flush(self) -> None:
        waiting, self._waiting, self._rows = self._waiting, [], 0
        if waiting and self._writer is not None:
            self._writer.write_table(pa.concat_tables(waiting), row_group_size=ROW_GROUP)

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        """After an error, write nothing more: the file has no footer, and is none."""
        try:
            with _explained(str(self._path)):
                yield
        except BaseException:
            if self._writer is not None:
                self._writer.is_open = False
            with suppress(OSError):
                self._file.close()
            raise

    def close(self) -> None:
        """Write what waits, and the footer; without a notice the file has columns and no rows."""
        if self._file.closed:
            return
        with self._giving_up():
            if self._writer is None:
                schema = getattr(self, "_empty", pa.schema([("query_id", pa.string())]))
                self._writer = _parquet(self._file, schema)
            self._flush()
            self._writer.close()
            self._file.close()


class JsonLinesWriter(NoticeWriter):
    """Writes one JSON object a line, and hands them on at once.

    Parameters
    ----------
    file : Path or binary file
        A file that is given is left open.
    keep : int
        How many bytes of an existing file stay as they are.
    """

    def __init__(self, file: Path | BinaryIO, *, keep: int = 0) -> None:
        self._own = isinstance(file, Path)
        self._file: BinaryIO = _create(file, keep) if isinstance(file, Path) else file
        self._name = str(file) if isinstance(file, Path) else "standard output"

    def lines(self, notices: pa.Table) -> pa.Array:
        """Return the notices as lines."""
        return as_json_lines(notices)

    def write(self, notices: pa.Table) -> None:
        """Write notices."""
        if notices.num_rows:
            lines = _bytes_of(self.lines(notices))
            with _explained(self._name):
                self._file.write(lines)
                self._file.flush()

    def sync(self) -> int:
        """See that all notices so far are on the disk; return how long the file is."""
        with _explained(self._name):
            self._file.flush()
            if not self._own:
                return 0
            os.fsync(self._file.fileno())
            return self._file.tell()

    def close(self) -> None:
        """Close the file, if it is ours."""
        if self._own:
            with _explained(self._name):
                self._file.close()


class TextWriter(JsonLinesWriter):
    """Writes lines for people: time, event, query, key, values, reason."""

    def __init__(self, file: BinaryIO, *, colour: bool = False) -> None:
        super().__init__(file)
        self._colour = colour

    def lines(self, notices: pa.Table) -> pa.Array:
        """Return the notices as lines."""
        return as_text_lines(notices, colour=self._colour)


class CsvWriter(JsonLinesWriter):
    """Writes CSV with a header; whoever reads it needs no types."""

    def __init__(self, path: Path, *, keep: int = 0) -> None:
        super().__init__(path, keep=keep)
        self._headed = keep > 0

    def write(self, notices: pa.Table) -> None:
        """Write rows, and before the first the names of the columns."""
        if not notices.num_rows:
            return
        text = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(include_header=not self._headed)
        pa.csv.write_csv(decoded(notices), text, options)
        self._headed = True
        with _explained(self._name):
            self._file.write(text.getvalue())
            self._file.flush()


def open_letters(path: Path, *, keep: int = 0) -> NoticeWriter:
    """Return the writer of a file of dead letters, by its suffix; as of `open_writer`, or CSV."""
    if path.suffix.lower() == ".csv":
        return CsvWriter(path, keep=keep)
    return open_writer(path, keep=keep, what="dead letters are written as .csv, .parquet or .jsonl")


def open_writer(
    path: Path, *, keep: int = 0, what: str = "notices are written as .parquet or .jsonl"
) -> NoticeWriter:
    """Return the writer of a file, by its suffix.

    Parameters
    ----------
    keep : int
        How many bytes of an existing file stay as they are; Parquet can't go on.

    Raises
    ------
    UnwritableFileError
        If the suffix is none of ours, or the file can't be made.
    """
    if path.suffix.lower() in (".parquet", ".pq"):
        return ParquetWriter(path)
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        return JsonLinesWriter(path, keep=keep)
    raise UnwritableFileError(f"{path}: {what}; name the file so")


def _create(path: Path, keep: int = 0) -> BinaryIO:
    try:
        if not keep:
            return path.open("wb")
        file = path.open("r+b")
        file.truncate(keep)
        file.seek(keep)
        return file
    except OSError as error:
        raise UnwritableFileError(f"{path} can't be written: {error.strerror}") from error


def decoded(notices: pa.Table) -> pa.Table:
    """Return notices without dictionaries."""
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in notices.columns
    ]
    return pa.table(columns, notices.column_names)


def _bytes_of(lines: pa.Array) -> memoryview:
    """Return the text of all lines, without a copy."""
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, np.int32)[[lines.offset, lines.offset + len(lines)]]
    return memoryview(data)[ends[0] : ends[1]]


class BackgroundWriter(NoticeWriter):
    """Hands notices to a writer in another thread, so that the next batch need not wait.

    Parameters
    ----------
    writer : NoticeWriter
        What it can't write is raised by the next call here.
    """

    DEPTH = 4  # tables that wait before a call does

    def __init__(self, writer: NoticeWriter) -> None:
        self._writer = writer
        self._tables: Queue[pa.Table | Event | None] = Queue(self.DEPTH)
        self._error: BaseException | None = None
        self._thread = Thread(target=self._work, name="everquery-writer", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (notices := self._tables.get()) is not None:
            if isinstance(notices, Event):
                notices.set()
            elif self._error is None:  # else the caller is yet to hear of it
                try:
                    self._writer.write(notices)
                except BaseException as error:
                    self._error = error

    @property
    def left_out(self) -> tuple[str, ...]:
        """Those of the writer."""
        return self._writer.left_out

    def write(self, notices: pa.Table) -> None:
        """Take notices; they are written soon."""
        self._raise()
        self._tables.put(notices)

    def sync(self) -> int:
        """Wait until all notices are written and on the disk; return how long the file is."""
        written = Event()
        self._tables.put(written)
        written.wait()
        self._raise()
        return self._writer.sync()

    def close(self) -> None:
        """Write what waits, and finish the file."""
        if self._thread.is_alive():
            self._tables.put(None)
            self._thread.join()
        try:
            self._raise()
        except BaseException:
            with suppress(UnwritableFileError):  # it says the same again
                self._writer.close()
            raise
        self._writer.close()

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
