"""A query that makes work fail: taken out, listed by the registry, given back."""

import time

import pyarrow as pa
import pyarrow.parquet as pq

import everquery as eq
from tests.spark.job import JobFolder, start
from tests.spark.poison import poison_stages

STREAM = eq.Stream("trades", key="symbol", attributes=["price"])
SCHEMA = pa.schema([("symbol", pa.string()), ("price", pa.float64())])
SECONDS = 60


def events(*prices):
    return pa.table({"symbol": ["IBM"] * len(prices), "price": list(prices)}, SCHEMA)


def told(folder):
    files = sorted(folder.notices.glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted((row["query_id"], row["event"]) for row in rows)


def eventually(check):
    """Wait until the registry has heard of a batch: Spark tells its listeners a little later."""
    give_up = time.monotonic() + SECONDS
    while not check():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_a_query_is_quarantined_listed_and_given_back_14(spark, tmp_path, monkeypatch):
    poison = tmp_path / "poison"
    poison.touch()
    poison_stages(monkeypatch, poison)
    folder = JobFolder(tmp_path)
    engine = eq.Engine(STREAM, registry=folder.registry, create=True)
    good = eq.Range("good", {"price": (0, 99)}, key="IBM")
    bad = eq.Range("bad", {"price": (13, 99)}, key="IBM", owner="ann")
    engine.register([good, bad, eq.Range("number", {}, key="IBM")])
    folder.write(0, events(20.0))
    query = start(spark, folder, STREAM, SCHEMA, shards=2, wide_shards=0)
    try:
        query.processAllAvailable()
        assert told(folder) == [("bad", "quarantined"), ("good", "match"), ("number", "match")]
        eventually(lambda: engine.quarantined().num_rows)
        (row,) = engine.quarantined().to_pylist()
        assert row["reason"] == "ZeroDivisionError: a box at 13"
        assert (row["id"], row["kind"], row["position"]) == ("bad", "range", 3)
        assert row["job"] == str(query.id)
        # A restart keeps it out, and tells it again where the registry has lost it.
        query.stop()
        engine._log.registry.quarantine("trades").forget(["bad"])
        query = start(spark, folder, STREAM, SCHEMA, shards=2, wide_shards=0)
        folder.write(1, events(21.0))
        query.processAllAvailable()
        eventually(lambda: engine.quarantined().num_rows)
        assert told(folder).count(("bad", "quarantined")) == 1
        # Given back while it still fails, it is taken out again; mended, it stays.
        engine.give_back("bad")
        assert engine.quarantined().num_rows == 0
        folder.write(2, events(22.0))
        query.processAllAvailable()
        eventually(lambda: engine.quarantined().num_rows)
        assert engine.quarantined()["position"].to_pylist() == [5]
        poison.unlink()
        engine.give_back("bad")
        folder.write(3, events(23.0))
        query.processAllAvailable()
        assert told(folder).count(("bad", "match")) == 1
        assert told(folder).count(("good", "match")) == 4
        eventually(lambda: not engine.quarantined().num_rows)
        assert "ann" in engine.queries()["owner"].to_pylist()
    finally:
        query.stop()
