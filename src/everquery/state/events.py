"""Arrow batches to plain arrays; what is wrong with a row becomes a reason, not an error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from everquery.columns import exact_floats, is_numeric
from everquery.errors import InvalidBatchError
from everquery.index.arrays import Array, Bytes, Floats, Int64s
from everquery.index.weighed import HEAVIEST
from everquery.stream import Stream

# Why a row is refused, in the order in which it is looked for.
REASONS = (
    "",
    "null_key",
    "null_time",
    "null_attribute",
    "nan_attribute",
    "inexact_attribute",
    "null_weight",
    "bad_weight",
    "late",
)
(
    FINE,
    NULL_KEY,
    NULL_TIME,
    NULL_ATTRIBUTE,
    NAN_ATTRIBUTE,
    INEXACT_ATTRIBUTE,
    NULL_WEIGHT,
    BAD_WEIGHT,
    LATE,
) = range(len(REASONS))


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A batch as it arrived.

    Attributes
    ----------
    key : Arrow array of strings or int64, perhaps dictionary-encoded; None for a stream without key
    time : int64 or float64, shape (n,); None for a stream without time
    time_type : the Arrow type of the time column
    values : float64, shape (attributes, n)
    weight : int64, shape (n,); None for a stream without weight
    refused : uint8, shape (n,)
        0, or why the row is refused: a place in `REASONS`.
    culprit : int8, shape (n,)
        The attribute that is at fault, or -1.
    oldest, newest : int or float, optional
        For a part of a larger batch: the least and the largest time of the good rows in all parts.
    """

    key: pa.Array | None
    time: Array | None
    time_type: pa.DataType
    values: Floats
    weight: Int64s | None
    refused: Bytes
    culprit: Array
    oldest: int | float | None = None
    newest: int | float | None = None

    def __len__(self) -> int:
        return int(self.refused.size)


def decode(batch: pa.RecordBatch | pa.Table, stream: Stream) -> Arrivals:
    """Read the stream's columns.

    Raises
    ------
    InvalidBatchError
        If a column is missing or is of a type that can't hold what it should.
    """
    columns = _columns(batch, stream)
    n = batch.num_rows
    refused = np.zeros(n, np.uint8)
    culprit = np.full(n, -1, np.int8)
    key = None if stream.key is None else _key(columns[stream.key], stream.key, refused)
    time, time_type = None, pa.null()
    if stream.time is not None:
        time, time_type = _time(columns[stream.time], stream.time, refused)
    values = np.empty((len(stream.attributes), n), np.float64)
    for i, name in enumerate(stream.attributes):
        before = refused != FINE
        values[i] = _attribute(columns[name], name, refused)
        culprit[(refused != FINE) & ~before] = i
    weight = None if stream.weight is None else _weight(columns[stream.weight], stream, refused)
    return Arrivals(key, time, time_type, values, weight, refused, culprit)


def _columns(batch: pa.RecordBatch | pa.Table, stream: Stream) -> dict[str, pa.Array]:
    if not isinstance(batch, (pa.RecordBatch, pa.Table)):
        raise InvalidBatchError(
            f"stream {stream.name!r}: a batch is a pyarrow RecordBatch or Table,"
            f" not {type(batch).__name__}"
        )
    columns = {}
    for name in stream.columns():
        if batch.schema.get_field_index(name) < 0:
            found = batch.schema.names.count(name)
            problem = "twice" if found else f"not at all; it has {', '.join(batch.schema.names)}"
            raise InvalidBatchError(
                f"stream {stream.name!r} needs column {name!r}, and the batch has it {problem}."
                " The batch is refused whole and nothing has changed"
            )
        column = batch.column(name)
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            if isinstance(column, pa.ChunkedArray):  # too large for one array of its type
                raise InvalidBatchError(f"column {name!r} is larger than one Arrow array; split it")
        columns[name] = column
    return columns


def _refuse(refused: Bytes, rows: Array, reason: int) -> None:
    """Note a reason for rows that have none yet."""
    refused[rows & (refused == FINE)] = reason


def _wrong_type(name: str, column: pa.Array, wanted: str) -> InvalidBatchError:
    return InvalidBatchError(
        f"column {name!r} has type {column.type}; it must be {wanted}."
        " The batch is refused whole and nothing has changed"
    )


def _key(column: pa.Array, name: str, refused: Bytes) -> pa.Array:
    values = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string_view(values):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        column, values = column.cast(pa.string()), pa.string()
    if pa.types.is_null(values):
        column = column.cast(pa.string())
    elif pa.types.is_integer(values):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise InvalidBatchError(f"column {name!r}: {error}; keys are 64-bit integers") from None
    elif not (pa.types.is_string(values) or pa.types.is_large_string(values)):
        raise _wrong_type(name, column, "strings or integers")
    # A dictionary may hold nulls as values too; `is_valid` of the indices does not see them.
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.dictionary_decode()
    if column.null_count:
        _refuse(refused, np.asarray(column.is_null()), NULL_KEY)
    return column


def _time(column: pa.Array, name: str, refused: Bytes) -> tuple[Array, pa.DataType]:
    kind = column.type
    if column.null_count:
        _refuse(refused, np.asarray(column.is_null()), NULL_TIME)
    if pa.types.is_floating(kind):
        time = np.asarray(column.cast(pa.float64()).fill_null(0.0))
        _refuse(refused, np.isnan(time), NULL_TIME)
        return time, pa.float64()
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_integer(kind):
        kind = pa.int64()
    elif pa.types.is_null(kind):
        return np.zeros(len(column), np.int64), kind  # every row is refused; no type to learn
    elif not (pa.types.is_timestamp(kind) or pa.types.is_date64(kind)):
        raise _wrong_type(name, column, "timestamps, dates or numbers")
    try:
        column = column.cast(pa.int64())
        return np.asarray(column.fill_null(0) if column.null_count else column), kind
    except pa.ArrowInvalid as error:
        raise InvalidBatchError(f"column {name!r}: {error}; times are 64-bit") from None


def _attribute(column: pa.Array, name: str, refused: Bytes) -> Floats:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not is_numeric(column.type):
        raise _wrong_type(name, column, "numbers")
    floats, null, inexact = exact_floats(column)
    if null is not None:
        _refuse(refused, null, NULL_ATTRIBUTE)
    not_a_number = np.isnan(floats)
    if not_a_number.any():
        _refuse(refused, not_a_number, NAN_ATTRIBUTE)
    if inexact is not None:
        _refuse(refused, inexact, INEXACT_ATTRIBUTE)
    return floats


def _weight(column: pa.Array, stream: Stream, refused: Bytes) -> Int64s:
    kind = column.type
    if not is_numeric(kind):
        raise _wrong_type(str(stream.weight), column, "integers")
    if column.null_count:
        _refuse(refused, np.asarray(column.is_null()), NULL_WEIGHT)
    if pa.types.is_integer(kind):
        numbers = np.asarray(column.fill_null(pa.scalar(1, kind)))
        good = numbers <= HEAVIEST
    else:
        numbers = np.asarray(column.cast(pa.float64()).fill_null(1.0))
        good = (numbers == np.floor(numbers)) & (np.abs(numbers) <= HEAVIEST)
    weight = np.where(good, numbers, 0).astype(np.int64)
    _refuse(refused, weight < 1, BAD_WEIGHT)
    return weight
