"""The rows between the stages of a job, and the columns of its notices."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

LOG, EVENTS, SPAN_NAMES = 0, 1, 2

BATCH, QUERY = "streaming.sql.batchId", "sql.streaming.queryId"  # properties of Spark's tasks

KAFKA_PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")

# What goes to the shards: parts of the log, packed events, or names of spans. The order of rows is
# by the first three columns behind the shard; `named` and `digest` are only in the log: how many
# queries a row names, and what it is checked by. Of spans, `named` is the timestamp of the batch;
# of events, `operation` is the file that they were left in, if they were.
PACKED = StructType(
    [
        StructField("shard", IntegerType(), False),
        StructField("source", IntegerType(), False),
        StructField("first", LongType(), False),
        StructField("second", IntegerType(), False),
        StructField("named", LongType(), False),
        StructField("operation", StringType()),
        StructField("payload", BinaryType(), False),
        StructField("digest", BinaryType()),
    ]
)
PACKED_ARROW = pa.schema(
    [
        ("shard", pa.int32()),
        ("source", pa.int32()),
        ("first", pa.int64()),
        ("second", pa.int32()),
        ("named", pa.int64()),
        ("operation", pa.string()),
        ("payload", pa.binary()),
        ("digest", pa.binary()),
    ]
)

# What comes from the shards: notices as blobs or left in files, and figures of the batch in the
# first row of each.
TOLD = StructType(
    [
        StructField("notices", BinaryType()),
        StructField("file", StringType()),
        StructField("shard", IntegerType(), False),
        StructField("position", LongType(), False),
        StructField("held_out", StringType()),  # the shard, and which queries it runs without
        StructField("lacking", StringType()),  # partial events by column, as JSON
        StructField("events", LongType(), False),
        StructField("partial", LongType(), False),
        StructField("told", LongType(), False),
        StructField("refused", LongType(), False),
        StructField("quarantined", LongType(), False),
        StructField("queries", LongType(), False),
        StructField("rebuilt", LongType(), False),
        StructField("ran", LongType(), False),  # 1 in the first row of a shard
        *(
            StructField(f"{stage}_seconds", DoubleType(), False)
            for stage in ("open", "unpack", "changes", "events", "merge", "commit")
        ),
    ]
)


def quoted(name: str) -> str:
    """Return a column's name as Spark's expressions take any name."""
    return "`" + name.replace("`", "``") + "`"
