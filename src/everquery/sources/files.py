"""Events from files and pipes, as Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from everquery.sources.blocks import blocks_of_lines, of_file, of_pipe
from everquery.sources.formats import (
    BATCH_ROWS,
    BLOCK_BYTES,
    Format,
    Unreadable,
    explained,
    format_of,
    opened,
    packing_of,
)
from everquery.sources.json_array import array_as_lines
from everquery.sources.text_events import TextEvents, columns_here
from everquery.stream import Stream


@dataclass(frozen=True, slots=True)
class Piece:
    """A batch of events.

    Attributes
    ----------
    batch : Arrow table
    done : int
        How much of the input has been read with it, in the input's unit.
    place : dict
        Where the input goes on behind it, in values that JSON can hold: ``at``, a number of rows
        or of bytes, and what the reader of a text remembers.
    """

    batch: pa.RecordBatch | pa.Table
    done: int
    place: Mapping[str, Any] = field(default_factory=dict)


class EventFile:
    """The events of a file.

    Parameters
    ----------
    path : Path
    stream : Stream
    integer_keys : bool
        Whether the keys in CSV are integers; else they are strings. Other formats have types.
    text_keys : bool
        Whether the keys in JSON are known to be strings; else the first tells what they are.

    Attributes
    ----------
    total : int or None
        The size of the input, if it is known.
    unit : str
        Of `total`: ``rows`` or ``bytes``.
    size : int
        Of the file, in bytes.
    unreadable : Unreadable
    """

    def __init__(
        self,
        path: Path,
        stream: Stream,
        *,
        integer_keys: bool = False,
        text_keys: bool = False,
    ) -> None:
        self.name = str(path)
        self.path = path
        self.unreadable = Unreadable()
        self._stream = stream
        self._keys = {"integer_keys": integer_keys, "text_keys": text_keys}
        self.format = format_of(path)
        self.unit = "rows" if self.format == "parquet" else "bytes"
        self._packed = packing_of(path) is not None
        with explained(path):
            self.size = path.stat().st_size
            self.total: int | None = self.size
            if self.format == "parquet":
                self.total = pq.ParquetFile(path).metadata.num_rows
            elif self._packed:
                self.total = None  # how much text there is nobody knows before its end

    def pieces(self, place: Mapping[str, Any] | None = None) -> Iterator[Piece]:
        """Yield the events in batches; with the place of a piece, those behind it."""
        place = place or {"at": 0}
        if self.format == "parquet":
            return self._behind(place["at"], self._parquet())
        if self.format == "json":
            return self._array(place)
        if self.format == "arrow":
            return self._behind(place["at"], self._arrow())
        return self._text(place)

    def _behind(self, rows: int, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield the pieces behind so many rows."""
        read = 0
        for piece in pieces:
            read += piece.batch.num_rows
            if read > rows:
                fresh = piece.batch.slice(max(0, piece.batch.num_rows - (read - rows)))
                yield Piece(fresh, piece.done, {"at": read})

    def _parquet(self) -> Iterator[Piece]:
        with explained(self.path):
            schema = pq.read_schema(self.path)
        wanted = columns_here(self._stream, schema.names, self.name)
        key = self._stream.key
        # The engine numbers each distinct key once a batch, so keys stay encoded as they are.
        encoded = [key] if key is not None and pa.types.is_string(schema.field(key).type) else None
        done = 0
        with (
            explained(self.path),
            pq.ParquetFile(self.path, read_dictionary=encoded, memory_map=True) as file,
        ):
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=wanted):
                batch.validate(full=True)
                done += batch.num_rows
                yield Piece(batch, done)

    def _arrow(self) -> Iterator[Piece]:
        with explained(self.path), pa.memory_map(str(self.path)) as file:
            for batch in arrow_batches(file):
                batch = batch.select(columns_here(self._stream, batch.schema.names, self.name))
                for first in range(0, batch.num_rows, BATCH_ROWS):
                    yield Piece(batch.slice(first, BATCH_ROWS), file.tell())

    def _array(self, place: Mapping[str, Any]) -> Iterator[Piece]:
        reader = self._reader("jsonl", place)
        with explained(self.path):
            for block, out, of in array_as_lines(self.path, place["at"]):
                events = reader.read(block, self.name)
                done = (self.total or 0) * out // of
                yield Piece(events, done, {"at": out, **reader.memory()})

    def _text(self, place: Mapping[str, Any]) -> Iterator[Piece]:
        with explained(self.path), opened(self.path) as file:
            reader = self._reader(self.format, place)
            _skip(file, place["at"], packed=self._packed)
            for block, at in blocks_of_lines(of_file(file), self.format, done=place["at"]):
                events = reader.read(block, self.name)
                yield Piece(events, at, {"at": at, **reader.memory()})

    def _reader(self, form: Format, place: Mapping[str, Any]) -> TextEvents:
        reader = TextEvents(form, self._stream, self.unreadable, **self._keys)
        if place["at"]:
            reader.recall(place)
        return reader


class EventPipe:
    """The events of a pipe, in batches of what has arrived; attributes as of `EventFile`."""

    unit = "bytes"
    total: int | None = None

    def __init__(
        self,
        file: BinaryIO,
        stream: Stream,
        *,
        form: Format = "jsonl",
        integer_keys: bool = False,
        text_keys: bool = False,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = "standard input"
        self.unreadable = Unreadable()
        self.format = form
        self._file = file
        self._stop = stop
        self._reader = TextEvents(
            form, stream, self.unreadable, integer_keys=integer_keys, text_keys=text_keys
        )

    def pieces(self) -> Generator[Piece, None, None]:
        """Yield the events that have arrived, until the end or until told to stop."""
        more = of_pipe(self._file.fileno(), self._stop)
        for block, done in blocks_of_lines(more, self.format):
            yield Piece(self._reader.read(block, self.name), done)


def _skip(file: BinaryIO, count: int, *, packed: bool) -> None:
    """Leave out the first bytes of a text."""
    if not packed:
        file.seek(count)
        return
    while count and (data := file.read(min(count, BLOCK_BYTES))):
        count -= len(data)


def arrow_batches(file: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - a pyarrow file
    """Yield the batches of an Arrow file or stream; a damaged one is an error, never a crash."""
    magic = file.read(6)
    file.seek(0)
    if magic == b"ARROW1":
        reader = pa.ipc.open_file(file)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
    else:
        batches = iter(pa.ipc.open_stream(file))
    for batch in batches:
        batch.validate(full=True)  # Arrow trusts offsets and lengths as they are written
        yield batch
