"""Topics of Kafka as a source whose records never become rows of Spark.

Spark hands out spans of offsets (`everquery.spark.kafka_stream`). Workers read the records
themselves, with librdkafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from everquery.errors import InvalidStreamError, SparkError
from everquery.sources.json_records import JsonRecords
from everquery.sources.json_values import fit_of
from everquery.sources.kafka_client import (
    OURS,
    WAIT_SECONDS,
    Servers,
    TopicSpan,
    new_consumer,
    records_of,
)
from everquery.sources.kafka_topics import Starting
from everquery.spark.event_source import EventSource
from everquery.spark.kafka import json_fields
from everquery.spark.kafka_stream import NAME, OPTION, KafkaSource
from everquery.state.events import UNREADABLE, UNREADABLE_TYPE
from everquery.stream import Stream

if TYPE_CHECKING:
    from confluent_kafka import Message

BATCH_RECORDS = 1_000_000
TABLE_RECORDS = 1 << 18  # that are divided among shards together

# Where a record came from, and what it was; for `carry`.
ORIGIN = pa.schema(
    [
        ("kafka_topic", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("kafka_timestamp", pa.timestamp("us", "UTC")),
        ("kafka_key", pa.binary()),
        ("kafka_value", pa.binary()),
    ]
)


def read_kafka(
    spark: SparkSession,
    servers: str,
    topic: str,
    stream: Stream,
    *,
    types: Mapping[str, str] | None = None,
    starting: Starting = "earliest",
    max_records_a_batch: int = BATCH_RECORDS,
    options: Mapping[str, str | int | float | bool] | None = None,
    wait_seconds: float = WAIT_SECONDS,
    skip_lost: bool = False,
) -> EventSource:
    """Return the events of a topic whose values are JSON objects, for `watch`.

    Spark only learns which offsets a batch has; the workers that hold the shards read the records
    themselves. Notices and dead letters are those of `everquery.spark.kafka.read_json`. It needs
    no connector of Spark, but the extra ``kafka`` on every worker.

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
    starting : {"earliest", "latest"} or mapping, optional
        Where a new checkpoint begins; or offsets, as in ``{"trades": {0: 1500, 1: 0}}``. Partitions
        that are not named, and those that come later, begin with their first record.
    max_records_a_batch : int
        About how many records a batch has at most.
    options : mapping, optional
        Options of librdkafka, such as ``{"security.protocol": "SASL_SSL"}``.
    wait_seconds : float
        How long servers may be silent while a batch is read, before that is an error.
    skip_lost : bool
        Whether to go on with the records that are left where Kafka has deleted some that were yet
        to be read. Without, that is an error.

    Returns
    -------
    EventSource
        With the columns that `everquery.spark.kafka.read_json` returns, for ``watch(carry=...)``.
    """
    if not isinstance(stream, Stream):
        raise InvalidStreamError(f"{stream!r} is no stream")
    most = max_records_a_batch
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise SparkError(f"max_records_a_batch is {most!r}; it takes an integer of at least 1")
    if not wait_seconds > 0:
        raise SparkError(f"wait_seconds is {wait_seconds!r}; it takes a number above 0")
    where = Servers(servers, _checked(options or {}), float(wait_seconds), bool(skip_lost))
    new_consumer(where).close()  # raises if options are none
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    fields = _arrow_fields(stream, types or {}, zone)
    origin = [field for field in ORIGIN if field.name not in fields.names]
    schema = pa.schema([*fields, pa.field(UNREADABLE, UNREADABLE_TYPE), *origin])
    spark.dataSource.register(KafkaSource)
    source = {
        "servers": servers,
        "topics": json.dumps(_topics(topic)),
        "starting": json.dumps(_starting(starting)),
        "maxRecords": str(most),
        "waitSeconds": repr(where.wait_seconds),
        **{f"{OPTION}{name}": value for name, value in where.options},
    }

    def reads(names: Sequence[str]) -> KafkaReader:
        wanted = pa.schema([field for field in fields if field.name in names])
        further = tuple(field.name for field in origin if field.name in names)
        return KafkaReader(where, JsonRecords(stream, wanted, zone), further)

    return EventSource(spark, stream, schema, NAME, source, reads)


def _topics(topic: str) -> list[str]:
    topics = [name.strip() for name in topic.split(",")] if isinstance(topic, str) else []
    if not topics or not all(topics):
        raise SparkError(f"topic is {topic!r}; give the name of one, or several with commas")
    return sorted(set(topics))


def _starting(starting: Starting) -> Starting:
    if isinstance(starting, Mapping) and all(isinstance(of, Mapping) for of in starting.values()):
        return {topic: dict(offsets) for topic, offsets in starting.items()}
    if starting in ("earliest", "latest"):
        return starting
    raise SparkError(
        f"starting is {starting!r}; it takes 'earliest', 'latest', or offsets by topic and"
        " partition, as in {'trades': {0: 1500}}"
    )


def _checked(options: Mapping[str, str | int | float | bool]) -> tuple[tuple[str, str], ...]:
    """Return options as librdkafka takes them; raise if one can't be given."""
    for name, value in options.items():
        if name in OURS or name == "bootstrap.servers":
            raise SparkError(f"option {name!r} is set by read_kafka; leave it out")
        if not isinstance(value, (str, int, float)):
            raise SparkError(f"option {name!r} is {value!r}; it takes text, a number or a bool")
    return tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in sorted(options.items())
    )


def _arrow_fields(stream: Stream, types: Mapping[str, str], zone: str) -> pa.Schema:
    """Return the columns to read from JSON, with their types."""
    fields = to_arrow_schema(json_fields(stream, types), timezone="UTC")
    for field in fields:
        if fit_of(field.type, zone) is None:
            raise SparkError(
                f"column {field.name!r} has type {types[field.name]}, which read_kafka can't read;"
                " everquery.spark.kafka.read_json can"
            )
    return fields


@dataclass(frozen=True, slots=True)
class KafkaReader:
    """Reads spans of topics, in workers.

    Attributes
    ----------
    servers : Servers
    records : JsonRecords
    further : the columns of `ORIGIN` that are wanted
    """

    servers: Servers
    records: JsonRecords
    further: tuple[str, ...]

    def read(self, name: Any) -> Iterator[pa.Table]:  # noqa: ANN401 - what JSON makes of a span
        """Yield the events of a span."""
        span = TopicSpan(*name)
        parts: list[pa.Table] = []
        rows = 0
        for messages in records_of(self.servers, span):
            parts.append(self._table(span, messages))
            rows += len(messages)
            if rows >= TABLE_RECORDS:
                yield pa.concat_tables(parts)
                parts, rows = [], 0
        if parts:
            yield pa.concat_tables(parts)

    def _table(self, span: TopicSpan, messages: list[Message]) -> pa.Table:
        values = [message.value() for message in messages]
        table = self.records.read(values)
        for name in self.further:
            kind = ORIGIN.field(name).type
            table = table.append_column(name, _origin(name, kind, span, messages))
        return table


def _origin(name: str, kind: pa.DataType, span: TopicSpan, messages: list[Message]) -> pa.Array:
    """Return a column of `ORIGIN`."""
    if name == "kafka_topic":
        return pa.repeat(pa.scalar(span.topic, kind), len(messages))
    if name == "kafka_partition":
        return pa.repeat(pa.scalar(span.partition, kind), len(messages))
    if name == "kafka_offset":
        return pa.array([message.offset() for message in messages], kind)
    if name == "kafka_key":
        return pa.array([message.key() for message in messages], kind)
    if name == "kafka_value":
        return pa.array([message.value() for message in messages], kind)
    times = np.array([message.timestamp()[1] for message in messages], np.int64)
    return pa.array(times * 1000).cast(kind)
