"""Events and queries from files and pipes, as Arrow batches.

A file is what its content says. Text is read in blocks of whole lines; a cell that can't be read
becomes null, which the engine counts among its dead letters, and a line that can't is counted here.
"""

from __future__ import annotations

import io
import json
import os
import re
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from everquery.errors import EverqueryError, InvalidBatchError
from everquery.stream import Stream

Format = Literal["parquet", "arrow", "csv", "jsonl"]

BATCH_ROWS = 100_000
BLOCK_BYTES = 8 << 20
LONGEST_NUMBER = 1_000  # characters; float64 ends after 309 digits
LOOK_SECONDS = 0.1  # how often a reader that waits for input looks whether it is to stop
TITLES: dict[str, str] = {
    "parquet": "Parquet",
    "arrow": "Arrow IPC",
    "csv": "CSV",
    "jsonl": "JSON lines",
}
SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_BOM = b"\xef\xbb\xbf"
_PACKED = {b"\x1f\x8b": "gzip", b"PK": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2"}
_TIMES = (
    pa.int64(),
    pa.float64(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
    pa.timestamp("ns", "UTC"),
)
_LONG_INTEGER = r"^\s*[+-]?\d{16,}\s*$"


class UnreadableFileError(EverqueryError, ValueError):
    """A file is not what its name says, is damaged, or lacks a column."""


@dataclass(slots=True)
class Unreadable:
    """Lines that could not be read.

    Attributes
    ----------
    count : int
    first : str
        Where the first one is and what is wrong with it.
    rows : list of (line number from 1, reason)
        The first hundred thousand.
    """

    count: int = 0
    first: str = ""
    rows: list[tuple[int, str]] = field(default_factory=list)

    def note(self, line: int, reason: str) -> None:
        """Count a line."""
        if not self.count:
            self.first = f"line {line:,}: {reason}"
        self.count += 1
        if len(self.rows) < BATCH_ROWS:
            self.rows.append((line, reason))


@dataclass(frozen=True, slots=True)
class Piece:
    """A batch of events, and how much of the input has been read with it, in its unit."""

    batch: pa.RecordBatch | pa.Table
    done: int


# -- what a file is ---------------------------------------------------------------------------


def format_of(path: Path) -> Format:
    """Return what a file holds, by its content.

    Raises
    ------
    UnreadableFileError
        If it is empty, of no known format, or its name says something else.
    """
    with _explained(path), path.open("rb") as file:
        head = file.read(4_096)
    if not head:
        raise UnreadableFileError(f"{path} is empty")
    found = _sniff(head)
    named = SUFFIXES.get(path.suffix.lower())
    if found is None:
        packed = next((name for magic, name in _PACKED.items() if head.startswith(magic)), None)
        what = f"it is packed with {packed}; unpack it first" if packed else "it is binary data"
        wanted = TITLES[named] if named else "Parquet, Arrow, CSV or JSON lines"
        raise UnreadableFileError(f"{path} is not {wanted}: {what}")
    if named is not None and named != found and not (named == "csv" and found == "jsonl"):
        raise UnreadableFileError(
            f"{path} is not {TITLES[named]}, as its name says: its content looks like"
            f" {TITLES[found]}. Rename it if that is right"
        )
    return found if named is None else named


def _sniff(head: bytes) -> Format | None:
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if b"\0" in head or any(head.startswith(magic) for magic in _PACKED if magic != b"PK"):
        return None
    if head.startswith(b"PK\x03\x04"):
        return None
    return "jsonl" if head.removeprefix(_BOM).lstrip().startswith(b"{") else "csv"


@contextmanager
def _explained(path: Path | str) -> Iterator[None]:
    """Turn what Arrow and the system say of a file into one line of ours."""
    try:
        yield
    except pa.ArrowException as error:
        raise UnreadableFileError(f"{path} can't be read: {_first_line(error)}") from error
    except OSError as error:
        raise UnreadableFileError(
            f"{path} can't be read: {error.strerror or _first_line(error)}"
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# -- events -----------------------------------------------------------------------------------


class EventFile:
    """The events of a file.

    Parameters
    ----------
    path : Path
    stream : Stream
    integer_keys : bool
        Whether the keys in CSV are integers; else they are strings. Other formats have types.

    Attributes
    ----------
    total : int or None
        The size of the input, if it is known.
    unit : str
        Of `total`: ``rows`` or ``bytes``.
    unreadable : Unreadable
    """

    def __init__(self, path: Path, stream: Stream, *, integer_keys: bool = False) -> None:
        self.name = str(path)
        self.unreadable = Unreadable()
        self._path = path
        self._stream = stream
        self._integer_keys = integer_keys
        self.format = format_of(path)
        self.unit = "rows" if self.format == "parquet" else "bytes"
        with _explained(path):
            self.total: int | None = (
                pq.ParquetFile(path).metadata.num_rows
                if self.format == "parquet"
                else path.stat().st_size
            )

    def pieces(self) -> Iterator[Piece]:
        """Yield the events in batches."""
        if self.format == "parquet":
            return self._parquet()
        return self._arrow() if self.format == "arrow" else self._text()

    def _parquet(self) -> Iterator[Piece]:
        with _explained(self._path):
            schema = pq.read_schema(self._path)
        _need_columns(self._stream, schema.names, self.name)
        key = self._stream.key
        # The engine numbers each distinct key once a batch, so keys stay encoded as they are.
        encoded = [key] if key is not None and pa.types.is_string(schema.field(key).type) else None
        done = 0
        with (
            _explained(self._path),
            pq.ParquetFile(self._path, read_dictionary=encoded, memory_map=True) as file,
        ):
            wanted = list(self._stream.columns())
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=wanted):
                done += batch.num_rows
                yield Piece(batch, done)

    def _arrow(self) -> Iterator[Piece]:
        with _explained(self._path), pa.memory_map(str(self._path)) as file:
            for batch in _arrow_batches(file):
                _need_columns(self._stream, batch.schema.names, self.name)
                for first in range(0, batch.num_rows, BATCH_ROWS):
                    yield Piece(batch.slice(first, BATCH_ROWS), file.tell())

    def _text(self) -> Iterator[Piece]:
        with _explained(self._path), self._path.open("rb", buffering=0) as file:
            reader = TextEvents(
                self.format, self._stream, self.unreadable, integer_keys=self._integer_keys
            )
            for block, done in _blocks(file.fileno(), self.format, stop=lambda: False):
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
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = "standard input"
        self.unreadable = Unreadable()
        self.format = form
        self._file = file
        self._stop = stop
        self._reader = TextEvents(form, stream, self.unreadable, integer_keys=integer_keys)

    def pieces(self) -> Iterator[Piece]:
        """Yield the events that have arrived, until the end or until told to stop."""
        for block, done in _blocks(self._file.fileno(), self.format, stop=self._stop):
            yield Piece(self._reader.read(block, self.name), done)


def _arrow_batches(file: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - a pyarrow file
    magic = file.read(6)
    file.seek(0)
    if magic == b"ARROW1":
        reader = pa.ipc.open_file(file)
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i)
    else:
        yield from pa.ipc.open_stream(file)


def _need_columns(stream: Stream, names: list[str], where: str) -> None:
    for column in stream.columns():
        if names.count(column) != 1:
            how = "twice" if column in names else f"not at all; it has {', '.join(names)}"
            raise InvalidBatchError(
                f"stream {stream.name!r} needs column {column!r}, and {where} has it {how}"
            )


# -- text -------------------------------------------------------------------------------------


def _blocks(
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
    integer_keys : bool
    """

    def __init__(
        self, form: Format, stream: Stream, unreadable: Unreadable, *, integer_keys: bool
    ) -> None:
        self._form = form
        self._stream = stream
        self._unreadable = unreadable
        self._key_type = pa.int64() if integer_keys else None
        self._time_type: pa.DataType | None = None
        self._header: list[str] | None = None
        self._line = 1

    def read(self, block: bytes, where: str) -> pa.Table:
        """Return the events of whole lines."""
        if self._line == 1:
            block = block.removeprefix(_BOM)
        with _explained(where):
            columns = self._csv(block, where) if self._form == "csv" else self._json(block, where)
        table = {}
        for name in self._stream.columns():
            column = columns[name]
            if name == self._stream.key:
                table[name] = cast_cells(column, self._key_type or pa.string())
            elif name == self._stream.time:
                table[name] = self._times(column)
            else:
                table[name] = numbers(column) if pa.types.is_string(column.type) else column
        return pa.table(table)

    def _csv(self, block: bytes, where: str) -> dict[str, pa.Array]:
        if self._header is None:
            self._header, block = _take_header(block)
            _need_columns(self._stream, self._header, where)
            self._line = 2
        wanted = list(self._stream.columns())
        table = _cells(block, self._header, wanted, self._unreadable, self._line)
        self._line += block.count(b"\n")
        return {name: _single(table.column(name)) for name in wanted}

    def _json(self, block: bytes, where: str) -> dict[str, pa.Array]:
        wanted = self._stream.columns()
        rows: dict[str, list[Any]] = {name: [] for name in wanted}
        for line in block.split(b"\n"):
            if line.strip():
                event = self._event(line, where)
                if event is not None:
                    for name in wanted:
                        rows[name].append(event.get(name))
            self._line += 1
        self._line -= 1  # behind the last line break there is no line yet
        return {name: self._typed(name, values) for name, values in rows.items()}

    def _event(self, line: bytes, where: str) -> dict[str, Any] | None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            event, reason = None, f"not JSON ({_first_line(error)})"
        else:
            reason = "not a JSON object"
        if isinstance(event, dict):
            return event
        if self._line == 1:
            raise UnreadableFileError(
                f"{where}: line 1 is {reason}; JSON lines have one object a line"
                " (--format csv reads CSV)"
            )
        self._unreadable.note(self._line, reason)
        return None

    def _typed(self, name: str, values: list[Any]) -> pa.Array:
        """Return values of JSON as a column: what does not fit is null."""
        if name == self._stream.key:
            if self._key_type is None:
                first = next((v for v in values if type(v) in (str, int)), "")
                self._key_type = pa.int64() if type(first) is int else pa.string()
            kind = int if self._key_type == pa.int64() else str
            fine = [v if type(v) is kind and _fits(v) else None for v in values]
            return pa.array(fine, self._key_type)
        if name == self._stream.time:
            return self._json_times(values)
        if all(type(v) is int and _fits(v) for v in values):
            return pa.array(values, pa.int64())
        return pa.array([_number(v) for v in values], pa.float64())

    def _json_times(self, values: list[Any]) -> pa.Array:
        kinds = {type(v) for v in values} - {type(None)}
        if kinds == {int} and all(v is None or _fits(v) for v in values):
            return pa.array(values, pa.int64())
        if kinds and kinds <= {int, float}:
            return pa.array([_number(v) for v in values], pa.float64())
        texts = [None if v is None else str(v) for v in values]
        return pa.array([text if text and _fits(text) else None for text in texts], pa.string())

    def _times(self, column: pa.Array) -> pa.Array:
        if self._time_type is None and column.null_count < len(column):
            self._time_type = _time_type(column) if pa.types.is_string(column.type) else column.type
        if self._time_type is None:
            return pa.nulls(len(column))
        return cast_cells(column, self._time_type)


def _fits(value: str | int) -> bool:
    """Tell whether Arrow can hold it: 64 bits, or text without half a surrogate pair."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def _number(value: object) -> float | None:
    """Return a number of JSON as a float; None where it is none, or would be rounded."""
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value) if float(value) == value else None
        except OverflowError:
            return None
    return None


def _single(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _take_header(block: bytes) -> tuple[list[str], bytes]:
    """Return the names of the columns, and what is behind them."""
    _check_text(block, 1)
    found = re.search(rb"\r\n|\n|\r", block)
    end = found.end() if found else len(block)
    options = pa.csv.ReadOptions(use_threads=False)
    names = pa.csv.read_csv(io.BytesIO(block[:end]), read_options=options).column_names
    return [name.strip() for name in names], block[end:]


def _cells(
    block: bytes, header: list[str], wanted: list[str], unreadable: Unreadable, line: int
) -> pa.Table:
    """Return the wanted columns of lines of CSV as strings, null where empty."""
    _check_text(block, line)
    kinds = dict.fromkeys(wanted, pa.string())
    if not block.strip():
        return pa.schema(list(kinds.items())).empty_table()

    def skip(row: Any) -> str:  # noqa: ANN401 - pyarrow's InvalidRow
        reason = f"it has {row.actual_columns} columns, not {row.expected_columns}"
        unreadable.note(line + row.number - 1, reason)
        return "skip"

    return pa.csv.read_csv(
        io.BytesIO(block),
        read_options=pa.csv.ReadOptions(
            column_names=header, use_threads=False, block_size=max(len(block) + 1, 1 << 16)
        ),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
        convert_options=pa.csv.ConvertOptions(
            column_types=kinds,
            include_columns=wanted,
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


def _check_text(block: bytes, line: int) -> None:
    try:
        block.decode()
    except UnicodeDecodeError as error:
        at = line + block.count(b"\n", 0, error.start)
        raise UnreadableFileError(f"line {at:,} is not text in UTF-8: {error.reason}") from None


def cast_cells(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in another type; null where a value can't be read."""
    if column.type == kind:
        return column
    if pa.types.is_string(column.type):
        column = pc.utf8_trim_whitespace(column)
    try:
        return column.cast(kind)
    except pa.ArrowException:
        distinct = column.dictionary_encode()
        values = [_cast(value, kind) for value in distinct.dictionary]
        return pa.array(values, kind).take(distinct.indices)


def _cast(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    try:
        return value.cast(kind)
    except pa.ArrowException:
        return None


def _time_type(column: pa.Array) -> pa.DataType:
    """Return the type that times look like: the first that reads all, or else the most of them."""
    best, left = _TIMES[0], len(column) + 1
    for kind in _TIMES:
        null = cast_cells(column, kind).null_count
        if null < left:
            best, left = kind, null
        if null == column.null_count:
            break
    return best


def numbers(column: pa.Array) -> pa.Array:
    """Return cells as numbers: integers where all are, so that none is rounded; else floats."""
    try:
        return pc.utf8_trim_whitespace(column).cast(pa.int64())
    except pa.ArrowException:
        floats = cast_cells(column, pa.float64())
    long = pc.match_substring_regex(column, _LONG_INTEGER)
    if not pc.any(long).as_py():
        return floats
    rounded = [cell is not None and _is_rounded(cell) for cell in column.to_pylist()]
    return pc.if_else(pa.array(rounded), pa.scalar(None, pa.float64()), floats)


def _is_rounded(cell: str) -> bool:
    if re.match(_LONG_INTEGER, cell) is None:
        return False
    return len(cell) > LONGEST_NUMBER or _number(int(cell)) is None


# -- tables of queries ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryRows:
    """A file of queries.

    Attributes
    ----------
    table : pyarrow.Table
        The rows that could be read.
    rows : pyarrow.Array of int64, or None
        Which row of the file (from 0) each of them is; None where all could be read.
    errors : pyarrow.Table
        ``row``, ``id`` and ``reason`` of the others.
    """

    table: pa.Table
    rows: pa.Array | None
    errors: pa.Table


def read_queries(path: Path, *, progress: Callable[[int, int], None]) -> QueryRows:
    """Read a table of queries; `progress` hears how much is read, of how much.

    Raises
    ------
    UnreadableFileError
        If the file can't be read at all.
    """
    form = format_of(path)
    if form == "jsonl":
        raise UnreadableFileError(f"{path} holds JSON lines; queries load from Parquet, CSV, Arrow")
    with _explained(path):
        if form == "csv":
            return _read_csv_queries(path, progress)
        parts = []
        if form == "parquet":
            with pq.ParquetFile(path, memory_map=True) as file:
                schema, total, done = file.schema_arrow, file.metadata.num_rows, 0
                for batch in file.iter_batches(batch_size=BATCH_ROWS):
                    parts.append(batch)
                    done += batch.num_rows
                    progress(done, total)
        else:
            with pa.memory_map(str(path)) as file:
                parts = list(_arrow_batches(file))
                schema = parts[0].schema if parts else pa.schema([])
        table = pa.Table.from_batches(parts, schema=schema)
    return QueryRows(table, None, _error_table([], [], []))


def _error_table(rows: list[int], ids: list[str | None], reasons: list[str]) -> pa.Table:
    columns = [pa.array(rows, pa.int64()), pa.array(ids, pa.string()), pa.array(reasons)]
    return pa.table([columns[0], columns[1], columns[2].cast(pa.string())], ["row", "id", "reason"])


def _read_csv_queries(path: Path, progress: Callable[[int, int], None]) -> QueryRows:
    total = path.stat().st_size
    header: list[str] | None = None
    unreadable = Unreadable()
    parts, line = [], 2
    with path.open("rb", buffering=0) as file:
        for number, (block, done) in enumerate(_blocks(file.fileno(), "csv", stop=lambda: False)):
            if number == 0:
                header, block = _take_header(block.removeprefix(_BOM))
                if len(set(header)) < len(header):
                    raise UnreadableFileError(f"{path} names a column twice: {', '.join(header)}")
            assert header is not None
            parts.append(_cells(block, header, header, unreadable, line))
            line += block.count(b"\n")
            progress(done, total)
    if not parts:
        raise UnreadableFileError(f"{path} has no header and no rows")
    cells = pa.concat_tables(parts)
    skipped = [at - 2 for at, _ in unreadable.rows]
    return _typed_queries(cells, skipped, [reason for _, reason in unreadable.rows])


def _typed_queries(cells: pa.Table, skipped: list[int], reasons: list[str]) -> QueryRows:
    """Give the columns of a CSV their types; rows with a cell that has another go to the errors."""
    at = _rows_without(cells.num_rows, skipped)
    bad: dict[int, str] = {}
    columns = {}
    for name in cells.column_names:
        column = _single(cells.column(name))
        typed = column
        if name.endswith(("_lo", "_hi")):
            typed = numbers(column)
        elif name == "silent":
            typed = cast_cells(column, pa.bool_())
        if typed.null_count > column.null_count:
            wrong = pc.and_(pc.is_valid(column), pc.is_null(typed))
            for row in pc.indices_nonzero(wrong).to_pylist():
                what = (
                    "true or false" if name == "silent" else "a number that float64 holds exactly"
                )
                bad.setdefault(row, f"{name} is {column[row].as_py()!r}, which is not {what}")
        columns[name] = typed
    table = pa.table(columns)
    ids = cells.column("id") if "id" in cells.column_names else None
    rows = [*skipped, *(at[row].as_py() for row in bad)]
    names = [None] * len(skipped) + [None if ids is None else ids[row].as_py() for row in bad]
    errors = _error_table(rows, names, [*reasons, *bad.values()]).sort_by("row")
    if bad:
        keep = pa.array([row not in bad for row in range(table.num_rows)], pa.bool_())
        table, at = table.filter(keep), at.filter(keep)
    return QueryRows(table, at, errors)


def _rows_without(count: int, skipped: list[int]) -> pa.Array:
    """Return the numbers of so many rows, counted past the skipped ones."""
    if not skipped:
        return pa.array(range(count), pa.int64())
    gone = set(skipped)
    rows = [row for row in range(count + len(gone)) if row not in gone]
    return pa.array(rows[:count], pa.int64())
