"""The columns of events on Spark: whether they can be those of a stream, and their types."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from everquery.errors import InvalidBatchError
from everquery.state.said_times import span_in_units
from everquery.stream import SPANS, Stream

WHOLE = (ByteType, ShortType, IntegerType, LongType)
_NUMBERS = (*WHOLE, FloatType, DoubleType, DecimalType)


def check_columns(schema: StructType, stream: Stream) -> None:
    """Raise if a DataFrame's columns can't be those of a stream."""
    kinds = {field.name: field.dataType for field in schema.fields}
    for name in stream.columns():
        if schema.names.count(name) > 1:
            raise InvalidBatchError(
                f"stream {stream.name!r} needs column {name!r}, and the DataFrame has it twice"
            )
        if name not in kinds and name in stream.needed_columns():
            raise InvalidBatchError(
                f"stream {stream.name!r} needs column {name!r}, and the DataFrame has"
                f" {', '.join(kinds)}"
            )
    if not kinds.keys() & set(stream.columns()):
        raise InvalidBatchError(
            f"the DataFrame has no column of stream {stream.name!r}, whose columns are"
            f" {', '.join(stream.columns())}; it has {', '.join(kinds)}"
        )
    _expect(stream.key, kinds, (*WHOLE, StringType), "strings or integers")
    times = (*WHOLE, FloatType, DoubleType, TimestampType, TimestampNTZType, DateType)
    _expect(stream.time, kinds, times, "timestamps, dates or numbers")
    for name in stream.attributes:
        _expect(name, kinds, _NUMBERS, "numbers")
    _expect(stream.weight, kinds, _NUMBERS, "integers")
    _, time_type = time_types(schema, stream)
    for span in SPANS:
        span_in_units(
            getattr(stream, span), time_type, str(stream.time)
        )  # raises where the unit does not fit


def _expect(
    name: str | None,
    kinds: dict[str, DataType],
    wanted: Sequence[type[DataType]],
    words: str,
) -> None:
    if name in kinds and not isinstance(kinds[name], tuple(wanted)):
        raise InvalidBatchError(
            f"column {name!r} has type {kinds[name].simpleString()}; it must be {words}"
        )


def time_types(schema: StructType, stream: Stream) -> tuple[DataType, pa.DataType]:
    """Return the types of a stream's times, in Spark and in Arrow."""
    if stream.time is None:
        return LongType(), pa.null()
    kind = schema[stream.time].dataType
    if isinstance(kind, TimestampType):
        return kind, pa.timestamp("us", tz="UTC")
    if isinstance(kind, TimestampNTZType):
        return kind, pa.timestamp("us")
    if isinstance(kind, DateType):
        return kind, pa.date32()
    if isinstance(kind, WHOLE):
        return LongType(), pa.int64()
    return DoubleType(), pa.float64()


def key_types(schema: StructType, stream: Stream) -> tuple[DataType, pa.DataType]:
    """Return the types of a stream's keys, in Spark and in Arrow."""
    if stream.key is None or isinstance(schema[stream.key].dataType, StringType):
        return StringType(), pa.string()
    return LongType(), pa.int64()
