"""Events from files and pipes, as Arrow batches.

Text is read in blocks of whole lines. A cell that can't be read becomes null, and its text goes
into the column `UNREADABLE`: the engine counts it among its dead letters. A line that can't be read
is counted here.
"""

from __future__ import annotations

import io
import os
import re
import select
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from everquery.core.python_values import unread_column
from everquery.errors import InvalidBatchError, UnreadableFileError
from everquery.sources.formats import (
    BATCH_ROWS,
    BLOCK_BYTES,
    BOM,
    LOOK_SECONDS,
    Format,
    Unreadable,
    explained,
    format_of,
)
from everquery.sources.json_array import array_as_lines
from everquery.sources.json_lines import JsonLines
from everquery.sources.text_values import (
    cast_texts,
    numbers,
    single_array,
    time_type,
    unread,
)
from everquery.state.events import UNREADABLE
from everquery.stream import Stream


@dataclass(frozen=True, slots=True)
class Piece:
    """A batch of events, and how much of the input has been read with it, in its unit."""

    batch: pa.RecordBatch | pa.Table
    done: int


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
        self.unreadable = Unreadable()
        self._path = path
        self._stream = stream
        self._keys = {"integer_keys": integer_keys, "text_keys": text_keys}
        self.format = format_of(path)
        self.unit = "rows" if self.format == "parquet" else "bytes"
        with explained(path):
            self.total: int | None = (
                pq.ParquetFile(path).metadata.num_rows
                if self.format == "parquet"
                else path.stat().st_size
            )

    def pieces(self) -> Iterator[Piece]:
        """Yield the events in batches."""
        if self.format == "parquet":
            return self._parquet()
        if self.format == "json":
            return self._array()
        return self._arrow() if self.format == "arrow" else self._text()

    def _parquet(self) -> Iterator[Piece]:
        with explained(self._path):
            schema = pq.read_schema(self._path)
        _need_columns(self._stream, schema.names, self.name)
        key = self._stream.key
        # The engine numbers each distinct key once a batch, so keys stay encoded as they are.
        encoded = [key] if key is not None and pa.types.is_string(schema.field(key).type) else None
        done = 0
        with (
            explained(self._path),
            pq.ParquetFile(self._path, read_dictionary=encoded, memory_map=True) as file,
        ):
            wanted = list(self._stream.columns())
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=wanted):
                batch.validate(full=True)
                done += batch.num_rows
                yield Piece(batch, done)

    def _arrow(self) -> Iterator[Piece]:
        with explained(self._path), pa.memory_map(str(self._path)) as file:
            for batch in arrow_batches(file):
                _need_columns(self._stream, batch.schema.names, self.name)
                batch = batch.select(list(self._stream.columns()))
                for first in range(0, batch.num_rows, BATCH_ROWS):
                    yield Piece(batch.slice(first, BATCH_ROWS), file.tell())

    def _array(self) -> Iterator[Piece]:
        reader = TextEvents("jsonl", self._stream, self.unreadable, **self._keys)
        with explained(self._path):
            for block, share in array_as_lines(self._path):
                yield Piece(reader.read(block, self.name), round(share * (self.total or 0)))

    def _text(self) -> Iterator[Piece]:
        with explained(self._path), self._path.open("rb", buffering=0) as file:
            reader = TextEvents(self.format, self._stream, self.unreadable, **self._keys)
            for block, done in blocks_of_lines(file.fileno(), self.format, stop=lambda: False):
                yield Piece(reader.read(block, self.name), done)


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
        for block, done in blocks_of_lines(self._file.fileno(), self.format, stop=self._stop):
            yield Piece(self._reader.read(block, self.name), done)


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


def _need_columns(stream: Stream, names: list[str], where: str) -> None:
    for column in stream.columns():
        if names.count(column) != 1:
            how = "twice" if column in names else f"not at all; it has {', '.join(names)}"
            raise InvalidBatchError(
                f"stream {stream.name!r} needs column {column!r}, and {where} has it {how}"
            )


def blocks_of_lines(
    descriptor: int, form: Format, *, stop: Callable[[], bool]
) -> Iterator[tuple[bytes, int]]:
    """Yield whole lines as they come, and how many bytes have been read with them."""
    rest, done = b"", 0
    ended = False
    while not ended:
        data = bytearray(rest)
        room = len(rest) + BLOCK_BYTES
        while len(data) < room:
            # Wait for the first bytes only: what is there is a batch.
            if len(data) == len(rest):
                while not select.select([descriptor], [], [], LOOK_SECONDS)[0]:
                    if stop():
                        return
            elif not select.select([descriptor], [], [], 0)[0]:
                break
            chunk = os.read(descriptor, room - len(data))
            ended = not chunk
            if ended:
                break
            data += chunk
        whole = bytes(data)
        cut = len(whole) if ended else _end_of_lines(whole, form)
        block, rest = whole[:cut], whole[cut:]
        done += len(block)
        if block.strip():
            yield block, done


def _end_of_lines(data: bytes, form: Format) -> int:
    """Return where the last whole line ends; in CSV a line break may be inside quotes."""
    cut = data.rfind(b"\n") + 1
    while form == "csv" and cut and data.count(b'"', 0, cut) % 2:
        cut = data.rfind(b"\n", 0, cut - 1) + 1
    return cut


class TextEvents:
    """Turns blocks of lines into batches; remembers the header and the types it has decided on.

    Parameters
    ----------
    form : {"csv", "jsonl"}
    stream : Stream
    unreadable : Unreadable
        Where lines are counted that can't be read.
    integer_keys, text_keys : bool
        As of `EventFile`.
    """

    def __init__(
        self,
        form: Format,
        stream: Stream,
        unreadable: Unreadable,
        *,
        integer_keys: bool,
        text_keys: bool = False,
    ) -> None:
        self._form = form
        self._stream = stream
        self._unreadable = unreadable
        self._key_type = pa.int64() if integer_keys else pa.string()
        self._time_type: pa.DataType | None = None
        self._header: list[str] | None = None
        known = self._key_type if integer_keys or text_keys else None
        self._json = JsonLines(stream, unreadable, key_type=known)
        self._first = True
        self._line = 2  # of CSV: behind the header

    def read(self, block: bytes, where: str) -> pa.Table:
        """Return the events of whole lines."""
        if self._first:
            block = block.removeprefix(BOM)
            self._first = False
        csv = self._form == "csv"
        with explained(where):
            read = self._csv(block, where) if csv else self._json.read(block, where)
        texts = {} if csv else dict(self._json.unread)
        columns = {}
        for name in self._stream.columns():
            columns[name] = self._typed(name, read[name])
            found = unread(read[name], columns[name])
            if found is not None:
                texts[name] = pc.coalesce(found, texts[name]) if name in texts else found
        if texts:
            columns[UNREADABLE] = unread_column(len(read[name]), texts)
        return pa.table(columns)

    def _typed(self, name: str, texts: pa.Array) -> pa.Array:
        """Return the texts of a column in its type; null where one can't be read."""
        if name == self._stream.key:
            return cast_texts(texts, self._key_type) if self._form == "csv" else texts
        if name == self._stream.time:
            return self._times(texts)
        return numbers(texts) if pa.types.is_string(texts.type) else texts

    def _csv(self, block: bytes, where: str) -> dict[str, pa.Array]:
        if self._header is None:
            self._header, block = take_header(block, where)
            _need_columns(self._stream, self._header, where)
        wanted = list(self._stream.columns())
        first = self._line

        def skip(left_out: tuple[int, str]) -> None:
            record, reason = left_out
            at = first if self._unreadable.count else first + _line_of(block, record)
            self._unreadable.note(at, reason)

        table = csv_texts(block, self._header, wanted, skip, first, where)
        self._line += block.count(b"\n")
        return {name: single_array(table.column(name)) for name in wanted}

    def _times(self, column: pa.Array) -> pa.Array:
        text = pa.types.is_string(column.type)
        if self._time_type is None and column.null_count < len(column):
            self._time_type = time_type(column) if text else column.type
        if self._time_type is None:
            return pa.nulls(len(column))
        if pa.types.is_temporal(self._time_type) and not text:
            return pa.nulls(len(column), self._time_type)  # a number is no date
        return cast_texts(column, self._time_type)


def take_header(block: bytes, where: str) -> tuple[list[str], bytes]:
    """Return the names of the columns, and what is behind them."""
    _check_text(block, 1, where)
    found = re.search(rb"\r\n|\n|\r", block)
    end = found.end() if found else len(block)
    options = pa.csv.ReadOptions(use_threads=False)
    names = pa.csv.read_csv(io.BytesIO(block[:end]), read_options=options).column_names
    return [name.strip() for name in names], block[end:]


def csv_texts(
    block: bytes,
    header: list[str],
    wanted: list[str],
    skip: Callable[[tuple[int, str]], None],
    line: int,
    where: str,
) -> pa.Table:
    """Return the wanted columns of lines of CSV as strings, null where empty.

    Parameters
    ----------
    skip : function
        Hears of each record that is left out, because it has too few or too many columns: its
        number in this block, from 0, and the reason. Empty lines are no records.
    line : int
        The number of the block's first line.
    """
    _check_text(block, line, where)
    kinds = dict.fromkeys(wanted, pa.string())
    if not block.strip():
        return pa.schema(list(kinds.items())).empty_table()

    def left_out(row: Any) -> str:  # noqa: ANN401 - pyarrow's InvalidRow
        skip((row.number - 1, f"it has {row.actual_columns} columns, not {row.expected_columns}"))
        return "skip"

    return pa.csv.read_csv(
        io.BytesIO(block),
        read_options=pa.csv.ReadOptions(
            column_names=header, use_threads=False, block_size=max(len(block) + 1, 1 << 16)
        ),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=left_out),
        convert_options=pa.csv.ConvertOptions(
            column_types=kinds,
            include_columns=wanted,
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


def _line_of(block: bytes, record: int) -> int:
    """Return the line, from 0, on which a record of CSV begins; values may hold line breaks."""
    records, quoted = -1, False
    for number, line in enumerate(block.split(b"\n")):
        if not quoted and line.strip(b"\r"):
            records += 1
            if records == record:
                return number
        quoted ^= bool(line.count(b'"') % 2)
    return 0


def _check_text(block: bytes, line: int, where: str) -> None:
    try:
        block.decode()
    except UnicodeDecodeError as error:
        at = line + block.count(b"\n", 0, error.start)
        raise UnreadableFileError(
            f"{where}: line {at:,} is not text in UTF-8 ({error.reason})"
        ) from None
