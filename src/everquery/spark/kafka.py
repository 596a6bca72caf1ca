"""Events from Kafka topics and notices to them.

What can't be read is not dropped: its columns are null, so that it becomes a dead letter. Of JSON,
the column `UNREADABLE` has the values that could not be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from everquery.errors import SparkError
from everquery.spark.rows import quoted
from everquery.state.events import UNREADABLE
from everquery.stream import Stream

SCALA = "2.13"
EXACT = float(2**53)  # below it float64 holds every integer

# Where a record came from, and what it was; for `carry`.
_ORIGIN = {
    "topic": "kafka_topic",
    "partition": "kafka_partition",
    "offset": "kafka_offset",
    "timestamp": "kafka_timestamp",
    "key": "kafka_key",
    "value": "kafka_value",
}
_STRICT = {"allowSingleQuotes": "false"}
_WRITTEN = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",  # Spark's own has milliseconds only
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def kafka_packages() -> str:
    """Return the packages that Spark needs for Kafka and Avro, for ``spark.jars.packages``.

    Examples
    --------
    >>> kafka_packages()
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4...,org.apache.spark:spark-avro_2.13:4...'
    """
    names = ("spark-sql-kafka-0-10", "spark-avro")
    return ",".join(f"org.apache.spark:{name}_{SCALA}:{pyspark.__version__}" for name in names)


def read_json(
    spark: SparkSession,
    servers: str,
    topic: str,
    stream: Stream,
    *,
    types: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the events of a topic whose values are JSON objects, as a streaming DataFrame.

    Parameters
    ----------
    spark : SparkSession
    servers : str
        Of Kafka, such as ``"host:9092,other:9092"``.
    topic : str
        One, or several with commas between them.
    stream : Stream
        Its columns are read.
    types : mapping from column to a type of Spark, optional
        Further columns, and the stream's where they are not these: strings as keys, timestamps as
        times, doubles as attributes, whole numbers (bigint) as weights.
    options : mapping, optional
        Further options of Spark's Kafka source, such as ``{"startingOffsets": "earliest"}``.

    Returns
    -------
    DataFrame
        The columns of the stream and of `types`; then ``everquery unreadable``, which tells `watch`
        what could not be read; ``kafka_topic``, ``kafka_partition``, ``kafka_offset``,
        ``kafka_timestamp``, ``kafka_key`` and ``kafka_value``.
    """
    fields = json_fields(stream, types or {})
    records = _read(spark, servers, topic, options or {})
    # In brackets: behind one object Spark would read no further, and what follows it were lost.
    text = fn.try_validate_utf8(fn.col("kafka_value").cast("string"))
    text = fn.concat(fn.lit("["), text, fn.lit("]"))
    parsed = fn.from_json(text, ArrayType(fields), _STRICT)
    events = records.withColumn("everquery events", parsed)
    event = fn.when(fn.size("everquery events") == 1, fn.get("everquery events", fn.lit(0)))
    events = events.withColumn("everquery events", event)
    columns = [_field("everquery events", field.name) for field in fields]
    for i, field in enumerate(fields):
        if field.name in stream.attributes and isinstance(field.dataType, DoubleType):
            columns[i] = _never_rounded(columns[i], text, field.name)
    found = dict(zip(fields.names, columns, strict=True))
    named = [column.alias(name) for name, column in found.items()]
    named.append(_unread({name: found[name] for name in stream.columns()}, text).alias(UNREADABLE))
    return events.select(*named, *(name for name in records.columns if name not in fields.names))


def read_avro(
    spark: SparkSession,
    servers: str,
    topic: str,
    schema: str,
    *,
    header_bytes: int = 0,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the events of a topic whose values are Avro records, as a streaming DataFrame.

    Parameters
    ----------
    spark : SparkSession
    servers, topic, options
        As in `read_json`.
    schema : str
        The schema that the values were written with, in JSON; its fields become columns.
    header_bytes : int
        What stands before each record: 5, where a schema registry's serializer wrote it.

    Returns
    -------
    DataFrame
        The fields of the schema; then columns of Kafka, as in `read_json`.
    """
    if isinstance(header_bytes, bool) or not isinstance(header_bytes, int) or header_bytes < 0:
        raise SparkError(f"header_bytes is {header_bytes!r}; it takes an integer of at least 0")
    records = _read(spark, servers, topic, options or {})
    record = fn.col("kafka_value")
    if header_bytes:
        record = fn.substring(record, header_bytes + 1, 2**31 - 1)
    parsed = from_avro(record, schema, {"mode": "PERMISSIVE"}).alias("everquery events")
    events = records.select(parsed, "*")
    kind = events.schema["everquery events"].dataType
    if not isinstance(kind, StructType):
        raise SparkError(f"an event is an Avro record, and this schema is {kind.simpleString()}")
    fields = [_field("everquery events", name).alias(name) for name in kind.names]
    kept = [name for name in records.columns if name not in kind.names]
    return events.select(*fields, *kept)


def notices_to_kafka(notices: DataFrame) -> DataFrame:
    """Return notices as records for a topic: ``key``, the query's id, and ``value``, all as JSON.

    All notices of a query go to one partition of the topic, and those of one key are in order.
    Bytes are hexadecimal; infinities are the strings ``"Infinity"`` and ``"-Infinity"``.
    """
    columns = []
    for field in notices.schema:
        column = fn.col(quoted(field.name))
        if isinstance(field.dataType, BinaryType):
            column = fn.lower(fn.hex(column))
        columns.append(column.alias(field.name))
    value = fn.to_json(fn.struct(*columns), _WRITTEN)
    return notices.select(fn.col("query_id").alias("key"), value.alias("value"))


def _read(spark: SparkSession, servers: str, topic: str, options: Mapping[str, str]) -> DataFrame:
    """Return a topic's records."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    try:
        records = reader.option("subscribe", topic).options(**options).load()
    except AnalysisException as error:
        if "kafka" not in str(error).lower():
            raise
        raise SparkError(
            "Spark has no connector to Kafka; start it with the setting"
            f' spark.jars.packages="{kafka_packages()}"'
        ) from error
    return records.select(*(fn.col(name).alias(ours) for name, ours in _ORIGIN.items()))


def json_fields(stream: Stream, types: Mapping[str, str]) -> StructType:
    """Return the columns to read, each with its type."""
    kinds = dict.fromkeys(stream.attributes, "double")
    if stream.weight is not None:
        kinds.setdefault(stream.weight, "bigint")
    if stream.time is not None:
        kinds[stream.time] = "timestamp"
    if stream.key is not None:
        kinds[stream.key] = "string"
    kinds = {**{name: kinds[name] for name in stream.columns()}, **types}
    return StructType([StructField(name, DataType.fromDDL(kind)) for name, kind in kinds.items()])


def _never_rounded(value: Column, text: Column, name: str) -> Column:
    """Return a number, or null where it is an integer that float64 can't hold.

    Only large ones are read again, as they are written.
    """
    again = fn.from_json(text, ArrayType(StructType([StructField(name, StringType())])), _STRICT)
    digits = fn.get(again, fn.lit(0)).getField(name)
    # By way of bigint: as a decimal, Spark takes the shortest digits that mean the same double.
    whole = fn.coalesce(
        value.try_cast("bigint").cast("decimal(38,0)"), value.try_cast("decimal(38,0)")
    )
    exact = digits.try_cast("decimal(38,0)") == whole
    fine = ~digits.rlike("^-?[0-9]+$") | fn.coalesce(exact, fn.lit(False))
    return fn.when(fn.abs(value) < EXACT, value).when(fine, value)


def _unread(columns: Mapping[str, Column], text: Column) -> Column:
    """Return which columns are null though the record has a value there, with that value as text.

    Records that lack nothing are not read again.
    """
    texts = fn.from_json(text, ArrayType(MapType(StringType(), StringType())), _STRICT)
    record = fn.when(fn.size(texts) == 1, fn.get(texts, fn.lit(0)))
    pairs = []
    for name, column in columns.items():
        value = fn.try_element_at(record, fn.lit(name))
        pair = fn.struct(fn.lit(name).alias("key"), value.alias("value"))
        pairs.append(fn.when(column.isNull() & value.isNotNull(), pair))
    unread = fn.map_from_entries(fn.array_compact(fn.array(*pairs)))
    whole = fn.create_map(fn.lit(next(iter(columns))), fn.lit("a record"))
    lacking = reduce(or_, (column.isNull() for column in columns.values()))
    return fn.when(lacking, fn.when(record.isNull(), whole).otherwise(unread))


def _field(struct: str, name: str) -> Column:
    return fn.col(f"{quoted(struct)}.{quoted(name)}")
