"""The registry's log as a stream: every change once, whatever stops in between."""

import json

import pytest
from pyspark.errors import PySparkException

import everquery as eq
from tests.spark.conftest import Collected

STREAM = eq.Stream("trades", key="symbol", attributes=["price"])


def query(name):
    return eq.Range(name, {"price": (1, 2)})


def positions(collected):
    return [row.position for row in collected.rows]


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'queries.db'}"


@pytest.fixture
def log(spark):
    def open_log(url, **options):
        source = spark.readStream.format("everquery_registry").option("url", url)
        return source.option("stream", "trades").options(**options).load()

    return open_log


def test_changes_come_once_through_stops_and_compactions(log, url, collect):
    engine = eq.Engine(STREAM, registry=url, create=True)
    engine.register([query("a"), query("b")])
    first = collect(log(url))
    first.wait(lambda it: positions(it) == [0])
    engine.register(query("c"))
    first.wait(lambda it: positions(it) == [0, 2])
    row = first.rows[1]
    assert (row.number, row["count"], row.operation) == (0, 1, "register")
    assert json.loads(row.payload)[0]["id"] == "c"
    first.query.processAllAvailable()  # a batch that is not committed would come again
    first.query.stop()
    engine.deregister("a")
    engine.compact_registry()
    engine.pause("b")
    second = collect(log(url))
    second.wait(lambda it: positions(it) == [3, 4])
    assert [row.operation for row in second.rows] == ["deregister", "pause"]
    second.wait(lambda it: it.query.lastProgress is not None)
    latest = json.loads(second.query.lastProgress["sources"][0]["latestOffset"])
    assert latest["position"] == engine.position


def test_a_new_query_begins_with_the_base(log, url, collect):
    engine = eq.Engine(STREAM, registry=url, create=True)
    engine.register([query("a"), query("b")])
    engine.pause("a")
    engine.compact_registry()
    engine.register(query("c"))
    collected = collect(log(url, maxQueriesPerBatch=1), availableNow=True)
    collected.query.awaitTermination(60)
    rows = sorted((row.position, row.number, row["count"], row.operation) for row in collected.rows)
    assert rows == [(3, -2, 0, "register blocks"), (3, -1, 0, "pause"), (3, 0, 1, "register")]
    assert len(collected.batches) == 1


def test_a_batch_names_at_most_so_many_queries(log, url, collect):
    engine = eq.Engine(STREAM, registry=url, create=True)
    engine.register(query("first"))
    limited = log(url, maxQueriesPerBatch=3)
    collect(limited, availableNow=True).query.awaitTermination(60)
    for i in range(7):
        engine.register(query(f"q{i}"))
    engine.register([query(f"many{i}") for i in range(5)])
    collected = collect(limited, availableNow=True)
    collected.query.awaitTermination(60)
    sizes = [sum(row["count"] for row in rows) for _, rows in collected.batches]
    assert sizes == [3, 3, 1, 5]


def test_events_flow_while_the_server_is_away(spark, log, own_postgres, tmp_path, collect):
    engine = eq.Engine(STREAM, registry=own_postgres.url, create=True)
    engine.register(query("a"))
    events = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    both = (
        log(own_postgres.url)
        .selectExpr("position", "'change' AS what")
        .union(events.selectExpr("value AS position", "'event' AS what"))
    )

    def changes(it):
        return [row.position for row in it.rows if row.what == "change"]

    collected = collect(both)
    collected.wait(lambda it: changes(it) == [0])
    engine.register(query("b"))
    collected.wait(lambda it: changes(it) == [0, 1])
    own_postgres.stop()
    seen = len(collected.rows)
    collected.wait(lambda it: len(it.rows) > seen + 20)
    own_postgres.start()
    engine.register(query("c"))
    collected.wait(lambda it: changes(it) == [0, 1, 2])
    events = [row.position for row in collected.rows if row.what == "event"]
    assert sorted(events) == list(range(len(events)))
    collected.query.stop()
    engine._log.registry.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": ""}, "needs the option 'url'"),
        ({"maxQueriesPerBatch": "0"}, "takes an integer of at least 1"),
        ({"stream": "trade"}, "no stream 'trade'"),
    ],
)
def test_what_is_wrong_is_said(spark, url, tmp_path, options, message):
    eq.Engine(STREAM, registry=url, create=True)
    chosen = {"url": url, "stream": "trades", **options}

    def run():
        frame = spark.readStream.format("everquery_registry").options(**chosen).load()
        Collected(frame, tmp_path / "checkpoint", availableNow=True).query.awaitTermination(60)

    with pytest.raises(PySparkException, match=message):
        run()
