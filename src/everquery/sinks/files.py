"""Notices as Parquet, JSON lines or lines for people; columns at a time, never a row."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from binascii import hexlify
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from everquery.errors import EverqueryError

ROW_GROUP = 100_000
STYLES = {"enter": "\x1b[32m", "leave": "\x1b[31m", "match": "\x1b[36m", "end": "\x1b[33m"}
PLAIN = "\x1b[0m"


class UnwritableFileError(EverqueryError, ValueError):
    """A file of notices can't be written."""


class NoticeWriter(ABC):
    """Takes tables of notices."""

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


class ParquetWriter(NoticeWriter):
    """Writes Parquet, in row groups that are worth it; nothing is readable before `close`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO = _create(path)
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def write(self, notices: pa.Table) -> None:
        """Take notices; they are written with the next row group."""
        # The dictionaries hold all query ids and keys: too much for each row group.
        plain = decoded(notices)
        if self._writer is None:
            if not plain.num_rows:
                self._empty = plain.schema
                return
            self._writer = pq.ParquetWriter(self._file, plain.schema)
        self._waiting.append(plain)
        self._rows += plain.num_rows
        if self._rows >= ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting and self._writer is not None:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=ROW_GROUP)
        self._waiting, self._rows = [], 0

    def close(self) -> None:
        """Write what waits, and the footer; without a notice the file has columns and no rows."""
        if self._file.closed:
            return
        if self._writer is None:
            schema = getattr(self, "_empty", pa.schema([("query_id", pa.string())]))
            self._writer = pq.ParquetWriter(self._file, schema)
        self._flush()
        self._writer.close()
        self._file.close()


class JsonLinesWriter(NoticeWriter):
    """Writes one JSON object a line, and hands them on at once.

    Parameters
    ----------
    file : Path or binary file
        A file that is given is left open.
    """

    def __init__(self, file: Path | BinaryIO) -> None:
        self._own = isinstance(file, Path)
        self._file: BinaryIO = _create(file) if isinstance(file, Path) else file

    def lines(self, notices: pa.Table) -> pa.Array:
        """Return the notices as lines."""
        return as_json_lines(notices)

    def write(self, notices: pa.Table) -> None:
        """Write notices."""
        if notices.num_rows:
            self._file.write(_bytes_of(self.lines(notices)))
            self._file.flush()

    def close(self) -> None:
        """Close the file, if it is ours."""
        if self._own:
            self._file.close()


class TextWriter(JsonLinesWriter):
    """Writes lines for people: time, event, query, key, values, reason."""

    def __init__(self, file: BinaryIO, *, colour: bool = False) -> None:
        super().__init__(file)
        self._colour = colour

    def lines(self, notices: pa.Table) -> pa.Array:
        """Return the notices as lines."""
        return as_text_lines(notices, colour=self._colour)


def open_writer(path: Path) -> NoticeWriter:
    """Return the writer of a file, by its suffix.

    Raises
    ------
    UnwritableFileError
        If the suffix is none of ours, or the file can't be made.
    """
    if path.suffix.lower() in (".parquet", ".pq"):
        return ParquetWriter(path)
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        return JsonLinesWriter(path)
    raise UnwritableFileError(
        f"{path}: notices are written as .parquet or .jsonl; name the file so"
    )


def _create(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
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
    if not lines.offset:
        return memoryview(lines.buffers()[2])
    return memoryview("".join(lines.to_pylist()).encode())


def as_json_lines(notices: pa.Table) -> pa.Array:
    r"""Return each notice as a JSON object and a line break.

    Infinities are the strings ``"Infinity"`` and ``"-Infinity"``, which JSON has no numbers for.

    Examples
    --------
    >>> as_json_lines(pa.table({"query_id": ["a\n"], "price": [1.5]})).to_pylist()
    ['{"query_id":"a\\n","price":1.5}\n']
    """
    parts: list[pa.Array | str] = []
    for i, name in enumerate(notices.column_names):
        parts.append(("," if i else "{") + json.dumps(name) + ":")
        parts.append(_json_cells(_array(notices.column(name))))
    return pc.binary_join_element_wise(*parts, "}\n", "")


def _array(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _json_cells(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_fixed_size_binary(kind):
        return _quoted(_hex(column))
    if pa.types.is_string(kind):
        return _by_distinct(column, lambda text: json.dumps(text, ensure_ascii=False))
    if pa.types.is_floating(kind):
        text = column.cast(pa.string())
        if not pc.all(pc.is_finite(column)).as_py():
            return _by_distinct(text, _json_float)
        return text.fill_null("null")
    if pa.types.is_temporal(kind):
        return _quoted(_iso(column))
    return column.cast(pa.string()).fill_null("null")


def _json_float(text: str) -> str:
    special = {"inf": '"Infinity"', "-inf": '"-Infinity"', "nan": '"NaN"'}
    return special.get(text, text)


def _by_distinct(column: pa.Array, convert: Callable[[str], str]) -> pa.Array:
    """Convert each distinct text once; nulls are the word null."""
    distinct = column.dictionary_encode()
    words = pa.array([convert(text) for text in distinct.dictionary.to_pylist()], pa.string())
    return words.take(distinct.indices).fill_null("null")


def _quoted(column: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', column, '"', "").fill_null("null")


def _iso(column: pa.Array) -> pa.Array:
    return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)


def _hex(column: pa.Array) -> pa.Array:
    width = column.type.byte_width
    data = memoryview(column.buffers()[1])[column.offset * width :][: len(column) * width]
    digits = pa.py_buffer(hexlify(data))
    hexes = pa.Array.from_buffers(pa.binary(2 * width), len(column), [None, digits])
    return hexes.cast(pa.binary()).cast(pa.string())


def as_text_lines(notices: pa.Table, *, colour: bool = False) -> pa.Array:
    r"""Return each notice as a line for people.

    Examples
    --------
    >>> table = pa.table(
    ...     {
    ...         "query_id": ["band"], "kind": ["border"], "event": ["enter"], "key": ["IBM"],
    ...         "time": [7], "seq": [0], "reason": pa.nulls(1, pa.string()), "price": [45.0],
    ...     }
    ... )
    >>> as_text_lines(table).to_pylist()
    ['7  enter  band  IBM  price=45\n']
    """
    names = [name for name in notices.column_names if name not in NOT_SHOWN]
    parts: list[pa.Array | str] = []
    if not pa.types.is_null(notices.schema.field("time").type):
        time = _array(notices.column("time"))
        parts += [_iso(time) if pa.types.is_temporal(time.type) else time.cast(pa.string()), "  "]
    event = pc.utf8_rpad(_array(notices.column("event")), 5)
    if colour:
        event = _by_distinct(event, lambda word: f"{STYLES.get(word.strip(), '')}{word}{PLAIN}")
    parts += [event, "  ", _by_distinct(_array(notices.column("query_id")), shown)]
    key = _array(notices.column("key")).cast(pa.string())
    if key.null_count < len(key):
        named = pc.if_else(key.is_valid(), _by_distinct(key, shown), None)
        parts.append(pc.binary_join_element_wise("  ", named, ""))
    for name in names:
        parts.append(_named(name, _array(notices.column(name))))
    reason = pc.binary_join_element_wise("  (", _array(notices.column("reason")), ")", "")
    lines = [part if isinstance(part, str) else part.fill_null("") for part in parts]
    return pc.binary_join_element_wise(*lines, reason.fill_null(""), "\n", "")


def _named(name: str, column: pa.Array) -> pa.Array:
    """Return cells with their names; nothing where there is no value."""
    text = column.cast(pa.string())
    if not pa.types.is_floating(column.type):
        text = pc.if_else(column.is_valid(), _by_distinct(text, shown), None)
    return pc.binary_join_element_wise(f"  {name}=", text, "")


NOT_SHOWN = ("query_id", "kind", "event", "key", "time", "seq", "reason", "notice_id")


def shown(text: str) -> str:
    r"""Return a name as a terminal may be given it: quoted, if it holds what is no letter or sign.

    Examples
    --------
    >>> shown("IBM"), shown("a\x1b[2J")
    ('IBM', '"a\\u001b[2J"')
    """
    return text if text.isprintable() and text == text.strip() else json.dumps(text)
