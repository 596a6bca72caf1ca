"""Topics of Kafka as a source whose records never become rows of Spark.

The driver learns how far partitions reach, and hands out spans of offsets. Workers read the records
themselves, with librdkafka.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from everquery.errors import InvalidStreamError, SparkError
from everquery.sharding.spans import Spans
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
from everquery.sources.kafka_offsets import (
    Offsets,
    Place,
    check_same_topics,
    end_of_batch,
    spans_between,
    waiting,
)
from everquery.sources.kafka_topics import KafkaTopics, Starting
from everquery.spark.event_source import EventSource, grouped, span_rows
from everquery.spark.kafka import json_fields
from everquery.spark.registry_source import end_quietly
from everquery.spark.rows import PACKED
from everquery.state.events import UNREADABLE, UNREADABLE_TYPE
from everquery.stream import Stream

if TYPE_CHECKING:
    from confluent_kafka import Message

NAME = "everquery_kafka"
BATCH_RECORDS = 1_000_000
TABLE_RECORDS = 1 << 18  # that are divided among shards together
LOOK_SECONDS = 0.05
LOOK_SHARE = 10  # of the time: a look that takes long is not repeated at once

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
_OPTION = "kafka."


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
        **{f"{_OPTION}{name}": value for name, value in where.options},
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


class KafkaSource(DataSource):
    """The streaming source ``everquery_kafka`` of spans; made by `read_kafka`."""

    @classmethod
    def name(cls) -> str:
        """Return the source's name."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns."""
        return PACKED

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what hands out spans."""
        return KafkaStreamReader(self.options)


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Hands out spans from offset to offset.

    Spark keeps one in a process of the driver, for offsets and partitions; `read` runs in
    executors.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        given = [
            (name.removeprefix(_OPTION), value)
            for name, value in options.items()
            if name.startswith(_OPTION)
        ]
        wait = float(options["waitSeconds"])
        self._servers = Servers(options["servers"], tuple(sorted(given)), wait)
        self._topics = json.loads(options["topics"])
        self._starting = json.loads(options["starting"])
        self._together = options["together"] == "True"
        self._most = int(options["maxRecords"])
        self._asked: KafkaTopics | None = None
        self._target: Offsets | None = None
        self._known: Offsets | None = None
        self._next_look = 0.0
        self._planned: tuple[Mapping[Place, int], Offsets] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset of a new query."""
        return self._asking().begin(self._starting).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much a batch may have."""
        return ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note how far partitions reach now."""
        self._target = self._asking().look()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch."""
        before = Offsets.from_json(start)
        latest = self._latest()
        check_same_topics(before, latest)
        if isinstance(limit, ReadAllAvailable):
            return self._end(before, latest, None).to_json()
        planned, self._planned = self._planned, None
        if planned is not None and planned[0] == before.next:
            return planned[1].to_json()  # which workers have begun to read
        return self._end(before, latest, self._most).to_json()

    def _end(self, before: Offsets, latest: Offsets, most: int | None) -> Offsets:
        new = [place for place in latest.next if place not in before.next]
        begins: dict[Place, int] = {}
        if new:
            first = self._asking().look("earliest")
            begins = {place: first.of(place) for place in new}
        end = end_of_batch(before.with_new(begins), latest, most)
        return replace(end, begins={place: begin for place, begin in begins.items() if begin})

    def _latest(self) -> Offsets:
        """Return how far partitions reach, as of a short while ago."""
        if self._target is not None:
            return self._target
        now = time.monotonic()
        if self._known is None or now >= self._next_look:
            self._known = self._asking().look()
            took = time.monotonic() - now
            self._next_look = now + max(LOOK_SECONDS, LOOK_SHARE * took)
        return self._known

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return how far partitions reach."""
        return self._latest().to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the spans between two offsets."""
        before, after = Offsets.from_json(start), Offsets.from_json(end)
        check_same_topics(after, self._latest())
        names = [list(astuple(span)) for span in spans_between(before, after)]
        ahead = [list(astuple(span)) for span in self._plan(after)] if self._together else []
        return [
            InputPartition((i, Spans(group, ahead).to_bytes()))
            for i, group in enumerate(grouped(names, self._together))
        ]

    def _plan(self, after: Offsets) -> list[TopicSpan]:
        """Return what the next batch will have, if that is clear by now."""
        latest = self._latest()
        whole = self._target is not None or waiting(after, latest) >= self._most
        if not whole or latest.next.keys() != after.next.keys():
            return []
        planned = end_of_batch(after, latest, self._most)
        self._planned = after.next, planned
        return spans_between(after, planned)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what names the spans of a partition."""
        first, spans = partition.value
        yield from span_rows(first, Spans.from_bytes(spans))

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is told to Kafka: offsets are in the checkpoint."""

    def stop(self) -> None:
        """Nothing is open that does not end with the process."""
        end_quietly()

    def _asking(self) -> KafkaTopics:
        if self._asked is None:
            self._asked = KafkaTopics(self._servers, self._topics)
        return self._asked
