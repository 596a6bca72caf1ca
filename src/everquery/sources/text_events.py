"""Events from blocks of lines of CSV or JSON.

A cell that can't be read becomes null, and its text goes into the column `UNREADABLE`: the engine
counts it among its dead letters. A line that can't be read is counted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.python_values import unread_column
from everquery.errors import InvalidBatchError
from everquery.sources.csv_lines import csv_texts, line_of, take_header
from everquery.sources.formats import BOM, HALF_WRITTEN, Format, Unreadable, explained
from everquery.sources.json_lines import JsonLines
from everquery.sources.text_values import (
    TYPES_OF_TIMES,
    cast_texts,
    numbers,
    single_array,
    time_type,
    unread,
)
from everquery.state.events import UNREADABLE
from everquery.stream import Stream

_TIMES = {str(kind): kind for kind in TYPES_OF_TIMES}
_KEYS = {str(kind): kind for kind in (pa.int64(), pa.string())}


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

    def memory(self) -> dict[str, Any]:
        """Return what is known of the lines to come, in values that JSON can hold."""
        key = self._json.key_type
        return {
            "header": self._header,
            "time": None if self._time_type is None else str(self._time_type),
            "key": None if key is None else str(key),
            "line": self._line if self._form == "csv" else self._json.line,
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on behind the lines that a reader of the same input has read."""
        self._first = False
        self._header = memory["header"]
        self._time_type = _TIMES.get(memory["time"])
        self._json.key_type = _KEYS.get(memory["key"])
        self._line = self._json.line = memory["line"]

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
        for name in read:
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
        wanted = columns_here(self._stream, self._header, where)
        first = self._line
        left_out: list[tuple[int, str]] = []
        table = csv_texts(block, self._header, wanted, left_out.append, first, where)
        last = table.num_rows + len(left_out) - 1
        for record, reason in left_out:
            at = first if self._unreadable.count else first + line_of(block, record)
            half = HALF_WRITTEN if record == last and not block.endswith(b"\n") else ""
            self._unreadable.note(at, reason + half)
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


def columns_here(stream: Stream, names: list[str], where: str) -> list[str]:
    """Return the columns of a stream that an input has; raise if it lacks one that it needs."""
    found = []
    for column in stream.columns():
        if names.count(column) == 1:
            found.append(column)
        elif column in names or column in stream.needed_columns():
            how = "twice" if column in names else f"not at all; it has {', '.join(names)}"
            raise InvalidBatchError(
                f"stream {stream.name!r} needs column {column!r}, and {where} has it {how}"
            )
    if not found:
        raise InvalidBatchError(
            f"{where} has no column of stream {stream.name!r}, whose columns are"
            f" {', '.join(stream.columns())}; it has {', '.join(names)}"
        )
    return found
