"""Batches as people have them: Arrow, DataFrames, readers, lists of dicts, dicts of columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from everquery.core.python_values import unread_column
from everquery.engine.python_columns import Reader
from everquery.errors import EverqueryError, InvalidBatchError
from everquery.queries.table_columns import fail
from everquery.state.events import UNREADABLE
from everquery.stream import Stream


class ArrowStream(Protocol):
    """What has a table in Arrow's PyCapsule interface: of pandas, Polars, DuckDB, a reader."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the capsule."""


class ArrowArray(Protocol):
    """What has a batch in Arrow's PyCapsule interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        """Return the capsules of schema and array."""


Events = Mapping[str, Any] | Iterable[Mapping[str, Any]]
BatchLike: TypeAlias = pa.RecordBatch | pa.Table | ArrowStream | ArrowArray | Events
"""What `Engine.process` takes."""

TAKEN = (
    "a batch is an Arrow table or batch, a DataFrame of pandas or Polars, a relation of DuckDB,"
    " a list of dicts (one an event), or a dict of columns"
)
_UNCHANGED = "Nothing has changed"


def as_batch(
    given: BatchLike,
    stream: Stream,
    *,
    key_type: pa.DataType | None = None,
    time_type: pa.DataType | None = None,
) -> pa.RecordBatch | pa.Table:
    """Return a batch of events as Arrow has it.

    Of Python's values, one of a wrong type makes its row a dead letter, and not the batch an error.

    Parameters
    ----------
    given : BatchLike
    stream : Stream
    key_type, time_type : Arrow types, optional
        Those of the stream's keys and times, if they are known.

    Raises
    ------
    InvalidBatchError
        If it is none of these, or can't be read.
    """
    if isinstance(given, (pa.RecordBatch, pa.Table)):
        return given
    reader = Reader(stream, key_type, time_type)
    try:
        if _is_pandas(given):
            frame: Any = given
            return _table(_columns_of_frame(frame, stream), reader, len(frame))
        if hasattr(given, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(given).read_all()
        if hasattr(given, "__arrow_c_array__"):
            return pa.record_batch(given)
        if isinstance(given, Mapping):
            return _table(_columns_of_dict(given, stream), reader)
        if isinstance(given, Iterable) and not isinstance(given, (str, bytes, bytearray)):
            return _table_of_events(list(given), stream, reader)
    except EverqueryError:
        raise
    except Exception as error:  # of whatever library the batch is from
        told = f"{type(error).__name__}: {error}".rstrip(": ")[:500]
        raise InvalidBatchError(
            f"stream {stream.name!r}: a batch of type {type(given).__name__} can't be read"
            f" ({told}); {TAKEN}. {_UNCHANGED}"
        ) from error
    raise InvalidBatchError(
        f"stream {stream.name!r}: {type(given).__name__} is no batch; {TAKEN}. {_UNCHANGED}"
    )


def as_table(given: pa.Table | pa.RecordBatch | ArrowStream) -> pa.Table | pa.RecordBatch:
    """Return a table of queries as Arrow has it; what is none, whoever checks it says.

    An index of pandas without a name is no column of it.
    """
    if isinstance(given, (pa.Table, pa.RecordBatch)) or not hasattr(given, "__arrow_c_stream__"):
        return given
    try:
        table = pa.RecordBatchReader.from_stream(given).read_all()
    except Exception as error:  # of whatever library the table is from
        told = f"{type(error).__name__}: {error}".rstrip(": ")[:500]
        raise fail(f"a table of type {type(given).__name__} can't be read ({told})") from error
    return table.drop_columns(
        [name for name in table.column_names if name.startswith("__index_level_")]
    )


def _is_pandas(given: object) -> bool:
    """Tell whether this is a DataFrame of pandas, or of a library that is like it."""
    return all(hasattr(given, name) for name in ("iloc", "index", "dtypes", "columns"))


def _columns_of_frame(frame: Any, stream: Stream) -> dict[str, Any]:  # noqa: ANN401 - duck typing
    """Return the columns of a DataFrame that the stream has; an index may be one by its name.

    Only these are read: what else is in the frame need not be anything that Arrow knows.
    """
    columns = {}
    names = list(frame.columns)
    for name in stream.columns():
        if names.count(name) > 1:
            raise InvalidBatchError(
                f"stream {stream.name!r} needs column {name!r}, and the batch has it twice."
                f" {_UNCHANGED}"
            )
        if name in names:
            columns[name] = frame[name]
        elif name in frame.index.names:
            columns[name] = frame.index.get_level_values(name).to_series()
    if not columns:
        raise _no_column(stream, names)
    return columns


def _columns_of_dict(given: Mapping[str, Any], stream: Stream) -> dict[str, Any]:
    columns = {name: given[name] for name in stream.columns() if name in given}
    if not columns:
        raise _no_column(stream, given)
    for name, column in columns.items():
        flat = getattr(column, "ndim", 1) == 1 and hasattr(column, "__len__")
        if isinstance(column, (str, bytes)) or not flat:
            raise InvalidBatchError(
                f"stream {stream.name!r}: column {name!r} is {column!r:.80}; a dict of columns has"
                f" a list or an array of each. One event is a list of one: process([event])."
                f" {_UNCHANGED}"
            )
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise InvalidBatchError(
            f"stream {stream.name!r}: columns of one batch have as many rows as each other; {told}."
            f" {_UNCHANGED}"
        )
    return columns


def _table_of_events(events: Sequence[Any], stream: Stream, reader: Reader) -> pa.Table:
    for row, event in enumerate(events):
        if not isinstance(event, Mapping):
            raise InvalidBatchError(
                f"stream {stream.name!r}: row {row} is {event!r:.80}, and no dict; {TAKEN}."
                f" {_UNCHANGED}"
            )
    # What each of them has decides, and not what all have: batches must not matter.
    return _table(
        {name: [event.get(name) for event in events] for name in stream.columns()}, reader
    )


def _no_column(stream: Stream, names: Iterable[Any]) -> InvalidBatchError:
    found = ", ".join(str(name) for name in names) or "none"
    return InvalidBatchError(
        f"stream {stream.name!r} has the columns {', '.join(stream.columns())}, and the batch has"
        f" none of them; it has {found:.200}. {_UNCHANGED}"
    )


def _table(columns: Mapping[str, Any], reader: Reader, rows: int | None = None) -> pa.Table:
    """Return columns as Arrow's, with what could not be read of them beside."""
    arrays: dict[str, Any] = {}
    unread: dict[str, pa.Array] = {}
    for name, values in columns.items():
        arrays[name], texts = reader.read(name, values)
        if texts is not None:
            unread[name] = texts
    if unread:
        n = len(next(iter(arrays.values()))) if rows is None else rows
        arrays[UNREADABLE] = unread_column(n, unread)
    return pa.table(arrays)
