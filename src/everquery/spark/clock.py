"""What the clock says on Spark: a column of the events, or the timestamp of the batch."""

from __future__ import annotations

from pyspark.sql import Column, functions
from pyspark.sql.types import DateType, StructType, TimestampNTZType, TimestampType

from everquery.errors import InvalidStreamError, SparkError
from everquery.sharding.packing import CLOCK
from everquery.spark.rows import quoted
from everquery.stream import Stream


def clock_column(schema: StructType, stream: Stream, clock: str | None) -> dict[str, Column]:
    """Return the column that times are compared with; none for a stream without ``max_ahead``."""
    if stream.max_ahead is None:
        if clock is not None:
            raise SparkError(
                f"clock names column {clock!r}, and stream {stream.name!r} has no max_ahead, so"
                " that nothing would be compared with it; give the stream one, or leave out clock"
            )
        return {}
    kind = schema[str(stream.time)].dataType
    if clock is not None:
        return {CLOCK: _named(schema, stream, clock)}
    # Spark puts one timestamp in the place of this for all of a batch, and writes it into the log
    # of offsets before the batch begins.
    if isinstance(kind, (TimestampType, TimestampNTZType, DateType)):
        return {CLOCK: functions.current_timestamp()}
    raise InvalidStreamError(
        f"stream {stream.name!r} has max_ahead, and its times are numbers"
        f" ({kind.simpleString()}), which no clock tells: name a column that does"
        " (watch(..., clock=...)), cast the times to timestamps, or alter the stream to have no"
        " max_ahead"
    )


def _named(schema: StructType, stream: Stream, clock: str) -> Column:
    if clock not in schema.names:
        raise SparkError(f"clock names column {clock!r}, and the events have no such column")
    wanted, kind = schema[str(stream.time)].dataType, schema[clock].dataType
    if wanted != kind:
        raise SparkError(
            f"clock names column {clock!r} of type {kind.simpleString()}; it must be of the type of"
            f" the time column {stream.time!r}, {wanted.simpleString()}"
        )
    return functions.col(quoted(clock))
