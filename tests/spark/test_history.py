"""A job keeps its past; queries that are registered later begin there, or are tried on it."""

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import everquery as eq
from everquery.spark import dry_run, read_files, watch

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"], keep="all")
EVENTS = 50


def events(number):
    rows = range(number * EVENTS, (number + 1) * EVENTS)
    return pa.table(
        {
            "symbol": [f"S{i % 7}" for i in rows],
            "ts": pa.array(list(rows), pa.int64()),
            "price": [float(i * 37 % 100) for i in rows],
        }
    )


def ids(notices):
    return sorted(notices["notice_id"].to_pylist())


def test_queries_begin_in_the_past_of_a_job(spark, tmp_path):
    (tmp_path / "in").mkdir()
    registry = f"sqlite:///{tmp_path}/queries.db"
    asked = [
        eq.Border("border", {"price": (20, 60)}),
        eq.Threshold("total", {"price": (0, 90)}, total=15, repeat=True),
    ]
    with eq.Engine(STREAM) as here:
        here.register(asked)
        told = pa.concat_tables([here.process(events(number)) for number in range(3)])

    def run(*numbers):
        for number in numbers:
            pq.write_table(events(number), tmp_path / "in" / f"{number}.parquet")
        source = read_files(spark, STREAM, [tmp_path / "in"], max_files_a_batch=1)
        folders = {"folder": tmp_path / "notices", "history": tmp_path / "past"}
        written = watch(source, STREAM, registry=registry, shards=2, **folders)
        query = (
            written.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    with eq.Engine(STREAM, registry=registry, create=True, lazy=True) as there:
        run(0, 1)
        tried = dry_run(spark, tmp_path / "past", asked, registry=registry)
        assert set(tried["notice_id"].to_pylist()) <= set(told["notice_id"].to_pylist())
        assert tried.num_rows
        there.register(asked, begin="oldest")
    run(2)
    assert ids(ds.dataset(tmp_path / "notices").to_table()) == ids(told)
