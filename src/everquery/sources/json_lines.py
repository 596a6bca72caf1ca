"""Events from JSON lines: in bulk by Arrow where that is exact, else one by one by Python."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from everquery.core.python_values import exact_number, fits_arrow
from everquery.errors import UnreadableFileError
from everquery.sources.formats import HALF_WRITTEN, Unreadable, first_line
from everquery.sources.text_values import single_array
from everquery.stream import Stream

EXACT = 2.0**53  # below it float64 holds every integer


class JsonLines:
    """Turns blocks of lines into columns; remembers whether keys are integers.

    Parameters
    ----------
    stream : Stream
    unreadable : Unreadable
        Where lines are counted that can't be read.
    key_type : pyarrow.DataType, optional
        Of keys, if it is known; else the first tells it.

    Attributes
    ----------
    key_type : pyarrow.DataType or None
        None before the first key.
    line : int
        The number of the next line.
    unread : dict from column to Arrow array of strings
        Of the last block: the text of what did not fit its column, null for what did.
    """

    def __init__(
        self, stream: Stream, unreadable: Unreadable, *, key_type: pa.DataType | None = None
    ) -> None:
        self.key_type = key_type
        self.unread: dict[str, pa.Array] = {}
        self._stream = stream
        self._unreadable = unreadable
        self.line = 1

    def read(self, block: bytes, where: str) -> dict[str, pa.Array]:
        """Return the columns of whole lines; what does not fit its column is null.

        Times may be text: what they are is not decided here.
        """
        self.unread = {}
        found = self._in_bulk(block)
        if found is None:
            return self._one_by_one(block, where)
        self.line += block.count(b"\n")
        return found

    # -- in bulk ------------------------------------------------------------------------------

    def _in_bulk(self, block: bytes) -> dict[str, pa.Array] | None:
        """Return the columns by Arrow's reader; None where it could read other than Python does."""
        lines = count_objects(block)
        schema = self._schema(block) if lines else None
        columns = None if schema is None else objects_in_bulk(block, lines, schema)
        if schema is None or columns is None:
            return None
        if any(may_be_rounded(column) for column in columns.values()):
            return None
        if self._stream.key is not None:
            self.key_type = schema.field(self._stream.key).type
        return columns

    def _schema(self, block: bytes) -> pa.Schema | None:
        """Return the columns' types as the first line has them."""
        try:
            event = json.loads(block.split(b"\n", 1)[0])
        except (ValueError, RecursionError):
            return None
        fields = []
        for name in self._stream.columns():
            value = event.get(name)
            if name == self._stream.key:
                kind = self.key_type or _TYPES.get(type(value))
                kind = None if kind == pa.float64() else kind
            elif name == self._stream.time:
                kind = _TYPES.get(type(value))
            else:
                kind = pa.float64()
            if kind is None:
                return None
            fields.append((name, kind))
        return pa.schema(fields)

    # -- one by one ---------------------------------------------------------------------------

    def _one_by_one(self, block: bytes, where: str) -> dict[str, pa.Array]:
        wanted = self._stream.columns()
        rows: dict[str, list[Any]] = {name: [] for name in wanted}
        lines = block.split(b"\n")  # the last is empty, unless a line without end is behind it
        for number, line in enumerate(lines, 1):
            if line.strip():
                event = self._event(line, where, half=number == len(lines))
                if event is not None:
                    for name in wanted:
                        rows[name].append(event.get(name))
            self.line += 1
        self.line -= 1  # behind the last line break there is no line yet
        columns = {}
        for name, values in rows.items():
            columns[name] = self._typed(name, values)
            if columns[name].null_count > values.count(None):
                fits = columns[name].is_valid().to_pylist()
                pairs = zip(values, fits, strict=True)
                texts = [None if v is None or fit else _text(v) for v, fit in pairs]
                self.unread[name] = pa.array(texts, pa.string())
        return columns

    def _event(self, line: bytes, where: str, *, half: bool) -> dict[str, Any] | None:
        try:
            event = json.loads(line)
        except UnicodeDecodeError as error:
            event, reason = None, f"not text in UTF-8 ({error.reason})"
        except (ValueError, RecursionError) as error:
            event, reason = None, f"not JSON ({first_line(error)})"
        else:
            reason = "not a JSON object"
        if isinstance(event, dict):
            return event
        reason += HALF_WRITTEN if half else ""
        if self.line == 1 and line.lstrip().startswith(b"["):
            raise UnreadableFileError(
                f"{where} begins with a JSON array; JSON lines have one object a line. Name the"
                " file .json if it is one array, or give its elements one a line (jq -c '.[]')"
            )
        if self.line == 1:
            raise UnreadableFileError(
                f"{where}: line 1 is {reason}; JSON lines have one object a line"
                " (--format csv reads CSV)"
            )
        self._unreadable.note(self.line, reason)
        return None

    def _typed(self, name: str, values: list[Any]) -> pa.Array:
        """Return values of JSON as a column: what does not fit is null."""
        if name == self._stream.key:
            if self.key_type is None:
                first = next((v for v in values if type(v) in (str, int)), "")
                self.key_type = pa.int64() if type(first) is int else pa.string()
            kind = int if self.key_type == pa.int64() else str
            fine = [v if type(v) is kind and fits_arrow(v) else None for v in values]
            return pa.array(fine, self.key_type)
        if name == self._stream.time:
            return _times(values)
        if all(type(v) is int and fits_arrow(v) for v in values):
            return pa.array(values, pa.int64())
        return pa.array([exact_number(v) for v in values], pa.float64())


_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64()}


def count_objects(block: bytes) -> int:
    """Return how many lines there are if each begins with ``{`` and ends with ``}``, else 0.

    With as many objects as lines, no line holds two of them and none goes on in the next.
    """
    text = block.rstrip()
    breaks = text.count(b"\n")
    if not (text.startswith(b"{") and text.endswith(b"}") and text.count(b"\n{") == breaks):
        return 0
    ends = text.count(b"}\n")
    if ends < breaks:
        ends += text.count(b"}\r\n")
    return breaks + 1 if ends == breaks else 0


def objects_in_bulk(block: bytes, lines: int, schema: pa.Schema) -> dict[str, pa.Array] | None:
    """Return the columns of lines that `count_objects` has counted, by Arrow's reader.

    None if it can't read them: some value is of another type, or a line is not one object.
    """
    if not _is_text(block):
        return None
    try:
        table = pa.json.read_json(
            io.BytesIO(block),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pa.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except (pa.ArrowException, ValueError):
        return None
    if table.num_rows != lines:
        return None
    return {name: single_array(table.column(name)) for name in schema.names}


def _is_text(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def may_be_rounded(column: pa.Array) -> bool:
    """Tell whether a float may have been an integer that float64 does not hold."""
    if not pa.types.is_floating(column.type):
        return False
    values = np.asarray(column.fill_null(0.0))
    return bool((np.abs(values) >= EXACT).any())


def _times(values: list[Any]) -> pa.Array:
    kinds = {type(v) for v in values} - {type(None)}
    if kinds == {int} and all(v is None or fits_arrow(v) for v in values):
        return pa.array(values, pa.int64())
    if kinds and kinds <= {int, float}:
        return pa.array([exact_number(v) for v in values], pa.float64())
    texts = [
        None if v is None else v if type(v) is str and fits_arrow(v) else _text(v) for v in values
    ]
    return pa.array(texts, pa.string())


def _text(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """Return a value as JSON has it."""
    text = json.dumps(value, ensure_ascii=False)
    return text if fits_arrow(text) else json.dumps(value)
