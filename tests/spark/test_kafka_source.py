"""Topics that workers read themselves, with a real broker: as by Spark's connector."""

import json
from collections import Counter
from datetime import timedelta

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import everquery as eq
from everquery.errors import KafkaError, RecordsLostError
from everquery.sources.kafka_client import Servers, TopicSpan, close_idle, records_of
from everquery.spark import read_kafka, wait_for, watch
from everquery.spark.kafka import read_json
from tests.spark.test_kafka import (
    STREAM,
    TRADE,
    UNREADABLE_JSON,
    queries,
    replay_last_batch,
    trades,
)

pytestmark = pytest.mark.kafka

LIMIT = 150  # records a batch
CARRY = ["kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp", "kafka_key"]
CARRY += ["kafka_value", "venue"]
TYPES = {"venue": "string"}
GOOD = (TRADE % "7").encode()
# What is to be read as Spark reads it, and not as a line of JSON.
ODD = [
    None,  # a tombstone
    GOOD.replace(b", ", b",\n  "),
    GOOD + b"\n",
    b"\n\t" + GOOD + b"\r\n ",
    GOOD + b"\n" + GOOD,
    GOOD + b",",
    GOOD + b"]",
    GOOD + b"] gibberish",
    b"\xef\xbb\xbf" + GOOD,
    b"{}",
    b"null",
    b"{}{}",
    b'"' + GOOD.replace(b'"', b'\\"') + b'"',
    GOOD.replace(b'"S1"', b"17"),
    GOOD.replace(b'"S1"', b"1.50"),
    GOOD.replace(b'"S1"', b"true"),
    GOOD.replace(b'"S1"', b'{"of": [1,  2]}'),
    GOOD.replace(b'"S1"', b'""'),
    GOOD.replace(b'"S1"', b'"\\u00e9 \\ud83d\\ude00"'),
    GOOD.replace(b'"S1"', b'"\\ud800"'),
    GOOD.replace(b'"S1"', '"\N{SNOWMAN}"'.encode()),
    GOOD.replace(b'"price": 7', b'"price": 8, "price": 9'),
    GOOD.replace(b": 7", b": NaN"),
    GOOD.replace(b": 7", b": -Infinity"),
    GOOD.replace(b": 7", b': "Infinity"'),
    GOOD.replace(b": 7", b': "INF"'),
    GOOD.replace(b": 7", b": 1e400"),
    GOOD.replace(b": 7", b": 07"),
    GOOD.replace(b": 7", b": -0"),
    GOOD.replace(b": 7", b": null"),
    GOOD.replace(b": 7", b": [7]"),
    GOOD.replace(b": 7", b": true"),
    GOOD.replace(b": 7", b': ""'),
    GOOD.replace(b": 7", b": 9007199254740992"),
    GOOD.replace(b": 7", b": 1152921504606846976"),
    GOOD.replace(b": 7", b": 1152921504606846980"),
    GOOD.replace(b": 7", b": 123456789012345678901234567890123456789012345"),
    GOOD.replace(b'"shares": 1', b'"shares": 1.0'),
    GOOD.replace(b'"shares": 1', b'"shares": 9223372036854775808'),
    GOOD.replace(b'"shares": 1', b'"venue": {"a": "\\u00e9",  "b": null}, "shares": 1'),
    GOOD.replace(b'"shares": 1', b'"venue": 1.50, "shares": 1'),
    GOOD.replace(b"2026-01-06T00:00:00Z", b""),
    *(
        GOOD.replace(b"2026-01-06T00:00:00Z", time.encode())
        for time in (
            "2026-01-06T00:00:00.1234567Z",
            "2026-01-06 01:02:03",
            "2026-01-06",
            "2026-01-06T",
            "2026-1-6 1:2:3.5",
            "2026-01-06T01:02Z",
            "2026-01-06T01:02",
            "2026-01-06T01+01:00",
            "2026-01-06T01:00:00+0100",
            "2026-01-06T01:00:00+5:30",
            "2026-01-06T01:00:00+18:01",
            "2026-01-06T01:00:00 Europe/Berlin",
            "2026-01-06T01:00:00 CET+1",
            "2026-01-06T24:00:00Z",
            "2026-02-30T00:00:00Z",
            " 2026-01-06T00:00:00Z ",
            "2026-01-06T00:00:00z",
            "2026",
        )
    ),
    GOOD.replace(b'"2026-01-06T00:00:00Z"', b"1767657600"),
    GOOD.replace(b'"2026-01-06T00:00:00Z"', b"1767657600.5"),
    GOOD,
]


class Topic:
    """A topic, written to by partition."""

    def __init__(self, broker, name, partitions=2):
        self.servers, self.name = broker.servers, name
        self.admin = AdminClient({"bootstrap.servers": broker.servers})
        self.make(partitions)

    def make(self, partitions):
        settings = {"retention.ms": "-1"}  # the records are of 1970
        topic = NewTopic(self.name, partitions, config=settings)
        self.admin.create_topics([topic])[self.name].result()

    def send(self, values, partition=None):
        """Write values in order; without a partition in turns."""
        producer = Producer({"bootstrap.servers": self.servers})
        for i, value in enumerate(values):
            number = i % 2 if partition is None else partition
            producer.produce(self.name, value, key=f"key {i}", partition=number, timestamp=1000 + i)
        assert producer.flush(60) == 0

    def forget(self, partition, before):
        place = TopicPartition(self.name, partition, before)
        self.admin.delete_records([place])[place].result()

    def by_us(self, spark, **more):
        where = spark, self.servers, self.name, STREAM
        return read_kafka(*where, **{"types": TYPES, "max_records_a_batch": LIMIT, **more})

    def by_spark(self, spark):
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(LIMIT)}
        where = spark, self.servers, self.name, STREAM
        return read_json(*where, types=TYPES, options=options)


@pytest.fixture
def partitions(spark):
    """Set into how many partitions state is divided."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    yield lambda number: spark.conf.set(name, number)
    spark.conf.set(name, before)
    close_idle()


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path}/queries.db"
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        engine.register(queries())
    return url


def lines(number):
    """Return trades as JSON."""
    return [json.dumps({**row, "ts": row["ts"].isoformat()}).encode() for row in trades(number)]


def run(collect, source, url, checkpoint):
    """Run a job to the end of its topic; return the rows of each batch in some order of theirs."""
    notices = watch(source, STREAM, registry=url, dead_letters=True, carry=CARRY)
    collected = collect(notices, checkpoint, availableNow=True)
    assert wait_for(collected.query, 240)
    return [(number, sorted(map(plain, rows))) for number, rows in collected.batches]


def plain(row):
    return repr({name: bytes(value) if isinstance(value, bytearray) else value
                 for name, value in row.asDict().items()})  # fmt: skip


@pytest.mark.parametrize("state_partitions", [1, 2])
def test_as_by_the_connector(spark, kafka, collect, url, tmp_path, partitions, state_partitions):
    partitions(state_partitions)
    topic = Topic(kafka, f"as-by-the-connector-{state_partitions}")
    topic.send([*lines(0), *UNREADABLE_JSON, *ODD, *lines(1)])
    ours = run(collect, topic.by_us(spark), url, tmp_path / "ours")
    theirs = run(collect, topic.by_spark(spark), url, tmp_path / "theirs")
    assert len(ours) > 2
    for (number, here), (same, there) in zip(ours, theirs, strict=True):
        assert number == same
        assert Counter(here) == Counter(there)


def test_a_job_goes_on_from_its_checkpoint(spark, kafka, collect, url, tmp_path, partitions):
    partitions(1)
    topic = Topic(kafka, "goes-on")
    found = {"ours": [], "theirs": []}
    for part in range(2):
        topic.send([*lines(part), None, b"gibberish"])
        for name, source in (("ours", topic.by_us(spark)), ("theirs", topic.by_spark(spark))):
            found[name] += run(collect, source, url, tmp_path / name)
    assert found["ours"] == found["theirs"]
    replay_last_batch(tmp_path / "ours")
    assert run(collect, topic.by_us(spark), url, tmp_path / "ours") == found["ours"][-1:]


def test_records_that_are_gone_are_an_error(spark, kafka, collect, url, tmp_path, partitions):
    partitions(1)
    topic, checkpoint = Topic(kafka, "forgotten"), tmp_path / "checkpoint"
    topic.send(lines(0))
    run(collect, topic.by_us(spark), url, checkpoint)
    topic.send(lines(1))
    topic.forget(1, 90)
    # Of another setting, for a consumer that is still open may have fetched them in time.
    late = topic.by_us(spark, wait_seconds=50)
    with pytest.raises(RecordsLostError, match=r"60 to 120 of partition 1 .* left is 90"):
        run(collect, late, url, checkpoint)
    rest = run(collect, topic.by_us(spark, skip_lost=True), url, checkpoint)
    assert sum(len(rows) for _, rows in rest) > 0

    topic.admin.delete_topics([topic.name])[topic.name].result()
    with pytest.raises(KafkaError, match=f"no topic 'forgotten' at {topic.servers}"):
        run(collect, topic.by_us(spark), url, checkpoint)
    topic.make(2)
    topic.send([*lines(0), *lines(1), *lines(2)])
    with pytest.raises(RecordsLostError, match="'forgotten' was deleted and made anew"):
        run(collect, topic.by_us(spark), url, checkpoint)


def test_partitions_that_come_later_are_read(spark, kafka, collect, url, partitions):
    partitions(2)
    topic = Topic(kafka, "grows", partitions=1)
    notices = watch(
        topic.by_us(spark), STREAM, registry=url, dead_letters=True, carry=["kafka_partition"]
    )
    collected = collect(notices)
    topic.send([b"first"], 0)
    collected.wait(lambda so_far: len(so_far.rows) == 1, seconds=120)
    topic.admin.create_partitions([NewPartitions(topic.name, 2)])[topic.name].result()
    topic.send([b"second", b"third"], 1)
    collected.wait(lambda so_far: len(so_far.rows) == 3, seconds=120)
    assert [row.kafka_partition for row in collected.rows] == [0, 1, 1]


@pytest.mark.parametrize("starting", ["latest", {"begins": {0: 2}}])
def test_where_a_job_begins(spark, kafka, starting):
    from everquery.spark.kafka_stream import KafkaStreamReader

    topic = Topic(kafka, f"begins-{isinstance(starting, dict)}", partitions=2)
    if isinstance(starting, dict):
        starting = {topic.name: starting["begins"]}
    topic.send([b"{}"] * 6)
    source = topic.by_us(spark, starting=starting)
    reader = KafkaStreamReader({**source.options, "together": "True"})
    begins = {"0": 3, "1": 3} if starting == "latest" else {"0": 2, "1": 0}
    assert reader.initialOffset()["offsets"] == {topic.name: begins}


def test_without_servers_there_is_an_error(spark, collect, url, tmp_path, partitions):
    source = read_kafka(spark, "127.0.0.1:1", "trades", STREAM, wait_seconds=2, types=TYPES)
    with pytest.raises(KafkaError, match=r"no answer from the Kafka servers 127\.0\.0\.1:1: .*"):
        run(collect, source, url, tmp_path / "checkpoint")


def test_records_of_transactions_leave_gaps(kafka):
    topic = Topic(kafka, "gaps", partitions=1)
    producer = Producer({"bootstrap.servers": topic.servers, "transactional.id": "gaps"})
    producer.init_transactions()
    for _ in range(3):
        producer.begin_transaction()
        producer.produce(topic.name, b"{}", partition=0)
        producer.commit_transaction()  # its mark has an offset, too

    def offsets(begin, end):
        found = records_of(
            Servers(topic.servers, wait_seconds=10), TopicSpan("gaps", 0, begin, end)
        )
        return [message.offset() for messages in found for message in messages]

    try:
        assert offsets(0, 6) == [0, 2, 4]
        assert offsets(0, 2) == [0]
        assert offsets(2, 4) == [2]  # what was fetched before is read on
        assert offsets(4, 5) == [4]
        assert offsets(5, 6) == []  # nothing comes but the end
        assert offsets(1, 3) == [2]
    finally:
        close_idle()


def test_a_records_timestamp_can_be_the_clock(spark, kafka, collect, tmp_path):
    stream = eq.Stream("clocked", key="symbol", time="ts", attributes=["price"],
                       max_ahead=timedelta(hours=1))  # fmt: skip
    topic = Topic(kafka, "clocked", partitions=1)
    value = b'{"symbol": "S1", "ts": "1970-01-01T00:%s:01Z", "price": 1}'
    topic.send([value % b"30", value.replace(b"T00", b"T02") % b"30"], 0)
    source = read_kafka(spark, topic.servers, topic.name, stream)
    notices = watch(
        source,
        stream,
        registry=f"sqlite:///{tmp_path}/clocked.db",
        create=True,
        dead_letters=True,
        clock="kafka_timestamp",
    )
    collected = collect(notices, availableNow=True)
    assert wait_for(collected.query, 120)
    assert [row.reason for row in collected.rows] == ["ahead"]
