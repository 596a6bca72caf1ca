"""The rows between the stages of a network's job, and how tables become rows and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from everquery.core.arrow_bytes import table_bytes
from everquery.network.rows import RowType
from everquery.sharding.left_tables import blob_of, leave_blob
from everquery.sharding.places import OFFSET, place_columns, places_of, with_short_sources
from everquery.sharding.wire import cut, table_of_bytes
from everquery.spark.rows import EVENTS
from everquery.spark.stages import Left, Worker

BLOB_BYTES = 4 << 20  # a blob is a row of Spark, of which Java holds several copies at a time
SENT_BYTES = 1 << 19

# What goes to the stateful stage: rows of a stream as a blob or left in a file, or names of spans.
PIECE = StructType(
    [
        StructField("part", IntegerType(), False),  # the group of Spark's state: there is one
        StructField("stream", IntegerType(), False),
        StructField("source", IntegerType(), False),  # EVENTS or SPAN_NAMES
        StructField("first", LongType(), False),
        StructField("second", IntegerType(), False),
        StructField("file", StringType()),
        StructField("payload", BinaryType(), False),
    ]
)
PIECE_ARROW = pa.schema(
    [
        ("part", pa.int32()),
        ("stream", pa.int32()),
        ("source", pa.int32()),
        ("first", pa.int64()),
        ("second", pa.int32()),
        ("file", pa.string()),
        ("payload", pa.binary()),
    ]
)

# What comes from it: rows of an output, and figures of the batch in the first row.
GIVEN = StructType(
    [
        StructField("output", IntegerType(), False),
        StructField("file", StringType()),
        StructField("payload", BinaryType()),
        StructField("rows", LongType(), False),
        StructField("told", LongType(), False),
        StructField("refused", LongType(), False),
        StructField("shed", LongType(), False),
        StructField("rebuilt", LongType(), False),
        StructField("state_bytes", LongType(), False),
        StructField("seconds", DoubleType(), False),
    ]
)
FIGURES = ("rows", "told", "refused", "shed", "rebuilt", "state_bytes", "seconds")


def schema_of(row_type: RowType) -> pa.Schema:
    """Return the types in which rows of a type leave the process: those that Spark has.

    Examples
    --------
    >>> schema_of(RowType({"a": pa.float64(), "b": pa.null()})).types
    [DataType(double), DataType(string)]
    """
    return pa.schema([(name, _plain(kind)) for name, kind in row_type.columns.items()])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_null(kind) or pa.types.is_large_string(kind):
        return pa.string()
    return kind


def spark_schema(schema: pa.Schema) -> StructType:
    """Return an Arrow schema as Spark has it."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def plain_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows of an output in the types in which they leave the process."""
    return pa.table([rows.column(field.name).cast(field.type) for field in schema], schema=schema)


@dataclass(frozen=True)
class PackRows:
    """Rows of a stream to pieces.

    Attributes
    ----------
    stream : int
        The stream's number.
    names : the columns; Spark gives them others, for it does not take all names
    one_host : bool
        Whether all workers are on one host, so that blobs can be left in files.
    """

    stream: int
    names: list[str]
    one_host: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of a partition."""
        task = TaskContext.get()
        partition = 0 if task is None else task.partitionId()
        left = Left.by_this_task() if self.one_host else None
        waiting: list[pa.RecordBatch] = []
        size = number = 0
        for batch in batches:
            named = pa.RecordBatch.from_arrays(batch.columns, self.names)
            waiting.append(with_short_sources(named))
            size += batch.nbytes
            if size >= BLOB_BYTES:
                yield self._piece(waiting, partition, number, left)
                waiting, size, number = [], 0, number + 1
        if waiting:
            yield self._piece(waiting, partition, number, left)
        Worker.rest()

    def _piece(
        self, batches: list[pa.RecordBatch], first: int, second: int, left: Left | None
    ) -> pa.RecordBatch:
        blob = table_bytes(_with_places(pa.Table.from_batches(batches)))
        file = None if left is None else leave_blob(blob, left.job, left.batch)
        row = {
            "part": 0,
            "stream": self.stream,
            "source": EVENTS,
            "first": first,
            "second": second,
            "file": file,
            "payload": b"" if file else blob,
        }
        return pa.RecordBatch.from_pylist([row], PIECE_ARROW)


def _with_places(rows: pa.Table) -> pa.Table:
    """Return rows whose places are metadata, and a column of numbers where they have these."""
    places = places_of(rows)
    plain = rows.drop_columns(place_columns(rows.column_names)).combine_chunks()
    return plain.replace_schema_metadata(None if places is None else places.metadata())


def without_offset(rows: pa.Table) -> pa.Table:
    """Return rows without the column of their numbers."""
    found = rows.drop_columns([OFFSET]) if OFFSET in rows.column_names else rows
    return found.replace_schema_metadata(None)


def sent(rows: pa.Table, left: Left | None) -> Iterator[tuple[bytes | None, str | None]]:
    """Yield rows as bytes, or the name of the file that they are in; nothing for none.

    The file stays until the next batch: a batch may be looked at more than once.
    """
    if not rows.num_rows:
        return
    if left is not None and rows.nbytes > SENT_BYTES:
        file = leave_blob(table_bytes(rows), left.job, left.batch)
        if file is not None:
            yield None, file
            return
    for part in cut(rows, SENT_BYTES):
        yield table_bytes(part), None


@dataclass(frozen=True)
class UnpackRows:
    """What an output was given to its rows."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the rows of a partition."""
        for batch in batches:
            for blob, file in zip(batch.column("payload"), batch.column("file"), strict=True):
                content = blob_of(file.as_py()) if file.is_valid else blob.as_py()
                yield from table_of_bytes(content).to_batches()
        Worker.rest()
