"""Notices that workers write to a folder: each once for every reader, whatever is done again."""

import shutil

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import everquery as eq
from everquery.spark import read_files, watch
from everquery.spark.notice_files import OWNER

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"])
FILES = 4
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


@pytest.fixture
def job(spark, tmp_path):
    """Return what runs all files that are there to their end, and the notices to expect."""
    (tmp_path / "in").mkdir()
    registry = f"sqlite:///{tmp_path}/queries.db"
    queries = [eq.Border(f"b{i}", {"price": (i * 10, i * 10 + 25)}) for i in range(9)]
    with (
        eq.Engine(STREAM, registry=registry, create=True, lazy=True) as there,
        eq.Engine(STREAM) as here,
    ):
        for engine in (there, here):
            for query in queries:
                engine.register(query)
        told = [here.process(events(number)) for number in range(FILES)]

    def run(*, checkpoint="checkpoint", folder="notices"):
        source = read_files(spark, STREAM, [tmp_path / "in"], max_files_a_batch=1)
        written = watch(source, STREAM, registry=registry, shards=2, folder=tmp_path / folder)
        query = (
            written.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    return run, pa.concat_tables(told)


def put(tmp_path, *numbers):
    for number in numbers:
        pq.write_table(events(number), tmp_path / "in" / f"{number}.parquet")


def ids(notices):
    return sorted(notices["notice_id"].to_pylist())


def test_each_notice_is_there_once_also_when_a_batch_is_done_again(job, tmp_path):
    run, told = job
    put(tmp_path, 0, 1)
    run()
    folder = tmp_path / "notices"
    names = sorted(path.name for path in folder.glob("*.parquet"))
    assert {name[:18] for name in names} == {"batch-000000000000", "batch-000000000001"}
    # The last batch is not known to be done, so it is done again, over what it wrote.
    last = tmp_path / "checkpoint" / "commits" / "1"
    last.unlink()
    last.with_name(".1.crc").unlink(missing_ok=True)
    before = ds.dataset(folder).to_table()
    put(tmp_path, 2, 3)
    run()
    found = ds.dataset(folder, format="parquet").to_table()
    assert found.num_rows > before.num_rows
    assert ids(found) == ids(told)
    assert not list(folder.glob(".batch*"))


def test_a_folder_has_the_notices_of_one_job(job, tmp_path):
    run, told = job
    put(tmp_path, *range(FILES))
    run()
    with pytest.raises(Exception, match="notices of another job"):
        run(checkpoint="another")
    (tmp_path / "others").mkdir()
    pq.write_table(events(0), tmp_path / "others" / "mine.parquet")
    with pytest.raises(Exception, match="files of others"):
        run(checkpoint="third", folder="others")
    assert ids(ds.dataset(tmp_path / "notices", format="parquet").to_table()) == ids(told)
    shutil.rmtree(tmp_path / "notices")
    run(checkpoint="fourth")
    assert (tmp_path / "notices" / OWNER).exists()


def test_the_frame_tells_of_files(job, spark, tmp_path):
    run, told = job
    put(tmp_path, *range(FILES))
    query = run()
    told_in_all = sum(each.observedMetrics["everquery"]["told"] for each in query.recentProgress)
    assert told_in_all == told.num_rows
