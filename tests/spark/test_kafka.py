"""Events from Kafka, and what Spark finds in them back to Kafka, with a real broker."""

import json

import pytest
from pyspark.sql import functions as fn

pytestmark = pytest.mark.kafka


@pytest.fixture
def topics(kafka):
    kafka.create_topic("events", partitions=2)
    kafka.create_topic("found")
    return kafka.servers


def test_json_from_one_topic_to_another(spark, topics, tmp_path):
    def kafka(interface):
        return interface.format("kafka").option("kafka.bootstrap.servers", topics)

    events = [{"symbol": f"s{i % 5}", "price": float(i)} for i in range(100)]
    rows = [(event["symbol"], json.dumps(event)) for event in events]
    frame = spark.createDataFrame(rows, "key string, value string")
    kafka(frame.write).option("topic", "events").save()

    read = kafka(spark.readStream).option("subscribe", "events")
    values = read.option("startingOffsets", "earliest").load().select(
        fn.from_json(fn.col("value").cast("string"), "symbol string, price double").alias("event")
    )  # fmt: skip
    found = values.select("event.*").where("price >= 50")
    found = found.select(fn.col("symbol").alias("key"), fn.to_json(fn.struct("*")).alias("value"))
    query = (
        kafka(found.writeStream)
        .option("topic", "found")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)

    written = kafka(spark.read).option("subscribe", "found").load().collect()
    assert sorted(json.loads(row.value)["price"] for row in written) == [*range(50, 100)]
    assert {row.key.decode() for row in written} == {f"s{i}" for i in range(5)}


def test_avro_values(spark, kafka):
    from pyspark.sql.avro.functions import from_avro, to_avro

    fields = [{"name": "id", "type": "long"}]
    schema = json.dumps({"type": "record", "name": "event", "fields": fields})
    frame = spark.range(3).select(to_avro(fn.struct("id")).alias("value"))
    events = frame.select(from_avro("value", schema).alias("event")).select("event.*")
    assert [row.id for row in events.collect()] == [0, 1, 2]
