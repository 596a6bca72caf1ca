"""Events from a Kafka topic, notices to another, with a real broker; again after a replay."""

import json
import re
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import functions as fn

import everquery as eq
from everquery.spark import watch
from everquery.spark.kafka import notices_to_kafka, read_avro, read_json
from everquery.state.events import UNREADABLE

pytestmark = pytest.mark.kafka

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"], weight="shares")
START = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
AVRO = json.dumps(
    {
        "type": "record",
        "name": "trade",
        "fields": [
            {"name": "symbol", "type": "string"},
            {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "price", "type": ["null", "double"]},
            {"name": "shares", "type": "long"},
        ],
    }
)
TRADE = '{"symbol": "S1", "ts": "2026-01-06T00:00:00Z", "price": %s, "shares": 1}'
# What is no event, and why it is refused.
UNREADABLE_JSON = {
    b"": "unreadable_key",
    b"gibberish": "unreadable_key",
    b"[" + (TRADE % "1").encode() + b"]": "unreadable_key",
    2 * (TRADE % "1").encode(): "unreadable_key",  # not the first of two
    (TRADE % "1").encode()[:-9]: "unreadable_key",
    (TRADE % "1").replace("S1", "S\xe9").encode("latin-1"): "unreadable_key",
    (TRADE % "1").replace('"S1"', "null").encode(): "null_key",
    (TRADE % "1").replace("2026-01-06", "tomorrow").encode(): "unreadable_time",
    (TRADE % '"1"').encode(): "unreadable_attribute",
    (TRADE % "9007199254740993").encode(): "inexact_attribute",  # a double would round it
    (TRADE % "1").replace('"shares": 1', '"shares": 1.5').encode(): "unreadable_weight",
}
UNREADABLE_AVRO = {b"": "null_key", b"\x01": "null_key", b"gibberish": "null_key"}


def queries():
    boxes = [eq.Border(f"band{i}", {"price": (5 * i, 5 * i + 12)}, key=f"S{i}") for i in range(7)]
    return [*boxes, eq.Border("low", {"price": (0, 10)}), eq.Range("high", {"price": (45, 1e17)})]


def trades(number):
    """Return the trades of one part of the day."""
    rows = range(120 * number, 120 * number + 120)
    return [
        {
            "symbol": f"S{i % 7}",
            "ts": START + timedelta(microseconds=1_000_001 * i),
            "price": float(2**53 if i % 50 == 0 else i * 37 % 53) + (i % 4) / 4,
            "shares": 1 + i % 3,
        }
        for i in rows
    ]


class Topics:
    """A topic of events, and one of notices."""

    def __init__(self, spark, broker, form):
        self.spark, self.broker, self.form = spark, broker, form
        self.events, self.notices = f"{form}-events", f"{form}-notices"
        broker.create_topic(self.events, partitions=2)
        broker.create_topic(self.notices, partitions=2)

    def kafka(self, interface):
        return interface.format("kafka").option("kafka.bootstrap.servers", self.broker.servers)

    def send(self, events, unreadable=()):
        """Write events, each with its symbol as the key, so that they stay in order."""
        frame = self.spark.createDataFrame(
            [tuple(event.values()) for event in events],
            "symbol string, ts timestamp, price double, shares long",
        )
        record = fn.struct("symbol", "ts", "price", "shares")
        if self.form == "avro":
            from pyspark.sql.avro.functions import to_avro

            value = to_avro(record, AVRO)
        else:
            value = fn.to_json(record, {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"})
            value = value.cast("binary")
        rows = frame.select(fn.col("symbol").alias("key"), value.alias("value")).coalesce(1)
        if unreadable:
            others = [("odd", value) for value in unreadable]
            others = self.spark.createDataFrame(others, "key string, value binary").coalesce(1)
            rows = rows.union(others).coalesce(1)
        self.kafka(rows.write).option("topic", self.events).save()

    def read(self):
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
        where = self.spark, self.broker.servers, self.events
        if self.form == "avro":
            return read_avro(*where, AVRO, options=options)
        return read_json(*where, STREAM, options=options)

    def run(self, url, checkpoint):
        """Start the job, and let it go on to the end of the topic."""
        carry = ["kafka_partition", "kafka_offset", "kafka_value"]
        notices = watch(self.read(), STREAM, registry=url, dead_letters=True, carry=carry)
        writer = self.kafka(notices_to_kafka(notices).writeStream).option("topic", self.notices)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        query = writer.start()
        assert query.awaitTermination(120)

    def consume(self):
        """Return all notices, and those that a consumer sees that drops repeats."""
        records = self.kafka(self.spark.read).option("subscribe", self.notices).load()
        records = sorted(records.collect(), key=lambda row: (row.partition, row.offset))
        every = [json.loads(record.value) for record in records]
        assert all(
            (None if record.key is None else record.key.decode()) == notice["query_id"]
            for record, notice in zip(records, every, strict=True)
        )
        places = {(record.key, record.partition) for record in records if record.key is not None}
        assert len(places) == len({key for key, _ in places})  # a query's are in one partition
        return every, list({notice["notice_id"]: notice for notice in every}.values())


def replay_last_batch(checkpoint):
    """Make Spark believe that it stopped before it had noted the end of its last batch."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("form", ["json", "avro"])
def test_from_topic_to_topic(spark, kafka, tmp_path, form):
    unreadable = UNREADABLE_AVRO if form == "avro" else UNREADABLE_JSON
    topics = Topics(spark, kafka, form)
    url, checkpoint = f"sqlite:///{tmp_path}/queries.db", tmp_path / "checkpoint"
    registrar = eq.Engine(STREAM, registry=url, create=True)
    registrar.register(queries())
    topics.send(trades(0))
    topics.run(url, checkpoint)
    registrar.register(eq.Border("new", {"price": (20, 30)}))
    topics.send(trades(1), unreadable)
    topics.run(url, checkpoint)
    before, _ = topics.consume()
    replay_last_batch(checkpoint)
    topics.run(url, checkpoint)
    every, told = topics.consume()
    assert len(every) > len(before)  # the sink repeats what it had written
    assert len(told) == len({notice["notice_id"] for notice in before})  # with the same ids

    engine = eq.Engine(STREAM, all_columns=True)
    engine.register(queries())
    expected = engine.process(pa.Table.from_pylist(trades(0))).to_pylist()
    engine.register(eq.Border("new", {"price": (20, 30)}))
    expected += engine.process(pa.Table.from_pylist(trades(1))).to_pylist()
    letters = [notice for notice in told if notice["kind"] == "dead_letter"]
    told = [notice for notice in told if notice["kind"] != "dead_letter"]
    assert len(told) > 150
    assert by_query_and_key(map(comparable, told)) == by_query_and_key(map(comparable, expected))

    refused = [(bytes.fromhex(letter["kafka_value"]), letter["reason"]) for letter in letters]
    assert Counter(refused) == Counter(unreadable.items())
    assert all(letter["kafka_offset"] >= 0 for letter in letters)


def comparable(notice):
    time, price = notice["time"], notice["price"]
    return {
        **{name: notice[name] for name in ("query_id", "kind", "event", "key", "seq", "reason")},
        "notice_id": notice["notice_id"]
        if isinstance(notice["notice_id"], str)
        else notice["notice_id"].hex(),
        "time": datetime.fromisoformat(time) if isinstance(time, str) else time,
        "price": float(price),
    }


def by_query_and_key(notices):
    """Return the notices of each query and key, in order."""
    ordered = {}
    for notice in notices:
        ordered.setdefault((notice["query_id"], notice["key"]), []).append(notice)
    return ordered


def test_columns_of_other_types_and_further_ones(spark, kafka):
    stream = eq.Stream("trades", key="id", time="t", attributes=["price", "size"])
    types = {"id": "bigint", "t": "double", "size": "decimal(20,2)", "venue": "string"}
    frame = read_json(spark, kafka.servers, "anything", stream, types=types)
    assert dict(frame.dtypes) == {
        "id": "bigint",
        "t": "double",
        "price": "double",
        "size": "decimal(20,2)",
        "venue": "string",
        "kafka_topic": "string",
        "kafka_partition": "int",
        "kafka_offset": "bigint",
        "kafka_timestamp": "timestamp",
        "kafka_key": "binary",
        "kafka_value": "binary",
        UNREADABLE: "map<string,string>",  # what can't be read is told as what it was
    }


def blocks_of_the_page():
    text = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text(encoding="utf-8")
    found = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return {next(name for name in WORDS if name in block): block for block in found}


WORDS = (
    "local_session",
    "notices_to_kafka",
    "read_kafka",
    "types=",
    "read_avro",
    "confluent_kafka",
)


def test_the_page_leads_from_topic_to_topic(spark, kafka, tmp_path, monkeypatch, capsys):
    kafka.create_topic("trades")
    kafka.create_topic("notices")
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of_the_page()
    assert set(blocks) == set(WORDS)
    events = [
        ("IBM", '{"symbol": "IBM", "ts": "2026-01-05T09:30:00Z", "price": 45.0}'),
        ("IBM", '{"symbol": "IBM", "ts": "2026-01-05T09:30:01Z", "price": 50.5}'),
    ]
    rows = spark.createDataFrame(events, "key string, value string").coalesce(1)
    server = {"kafka.bootstrap.servers": kafka.servers}
    rows.write.format("kafka").options(**server, topic="trades").save()

    names = {"spark": spark}
    job = blocks["notices_to_kafka"].replace("localhost:9092", kafka.servers)
    job = job.replace('"checkpoint"', f'"{tmp_path}/checkpoint"')
    exec(compile(job, "docs/kafka.md", "exec"), names)
    finish(names["query"])
    block = blocks["read_kafka"].replace('"notices"', f'"{tmp_path}/notices"')
    block = block.replace('"checkpoint-of-files"', f'"{tmp_path}/checkpoint-of-files"')
    exec(compile(block, "docs/kafka.md", "exec"), names)
    finish(names["query"])
    rows = spark.read.parquet(f"{tmp_path}/notices").orderBy("kafka_offset").collect()
    assert [(row.event, row.kafka_offset) for row in rows] == [("enter", 0), ("leave", 1)]
    for block in ("types=", "read_avro"):
        exec(compile(blocks[block], "docs/kafka.md", "exec"), names)
    assert names["trades"].columns[:3] == ["symbol", "ts", "price"]

    told = spark.read.format("kafka").options(**server, subscribe="notices").load().collect()
    values = [row.value for row in sorted(told, key=lambda row: row.offset)]
    assert list(json.loads(values[1]).items())[:8] == [
        ("query_id", "ibm-band"),
        ("kind", "border"),
        ("event", "leave"),
        ("key", "IBM"),
        ("time", "2026-01-05T09:30:01.000000Z"),
        ("seq", 1),
        ("reason", None),
        ("price", 50.5),
    ]
    client = ModuleType("confluent_kafka")
    client.Consumer = partial(FakeConsumer, values=[*values, *values])
    monkeypatch.setitem(sys.modules, "confluent_kafka", client)
    capsys.readouterr()
    exec(compile(blocks["confluent_kafka"], "docs/kafka.md", "exec"), {})
    assert capsys.readouterr().out == "enter ibm-band IBM\nleave ibm-band IBM\n"


def finish(query):
    try:
        query.processAllAvailable()
    finally:
        query.stop()


class FakeConsumer:
    """Stands for the client that users install; gives some values, then nothing."""

    def __init__(self, settings, values):
        self._values = iter(values)

    def subscribe(self, topics):
        assert topics == ["notices"]

    def poll(self, seconds):
        value = next(self._values, None)
        return None if value is None else SimpleNamespace(value=lambda: value)
