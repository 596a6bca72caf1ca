"""The files of a trigger follow each other by name or time of change, not as Spark reads them."""

import os

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import everquery as eq
from everquery.spark import watch

STREAM = eq.Stream("ticks", attributes=["price"])
QUERIES = [
    eq.Border("band", {"price": (40, 50)}),
    eq.Threshold("thousands", {}, total=700, repeat=True, count=True),
    eq.Range("first of a file", {"price": (-1, 0)}),
]
SIZES = (5, 900, 300, 2_000, 1)  # Spark reads larger files first
BY_TIME = (3, 1, 4, 0, 2)


def table(number):
    """Return the rows of a file: the first has a price that no other row of it has."""
    later = [float((i * 7 + number * 11) % 97) for i in range(1, SIZES[number])]
    return pa.table({"price": pa.array([-1.0 + number / 10, *later])})


def expected(order):
    engine = eq.Engine(STREAM, all_columns=True)
    engine.register(QUERIES)
    return engine.process(pa.concat_tables(map(table, order)))


@pytest.mark.parametrize(
    ("kind", "options", "order"),
    [
        ("parquet", {}, range(5)),
        ("csv", {}, range(5)),
        ("parquet", {"file_order": "time"}, BY_TIME),
    ],
)
def test_as_an_engine_takes_the_files_12(spark, tmp_path, kind, options, order):
    folder = tmp_path / "in"
    folder.mkdir()
    write = {"parquet": pq.write_table, "csv": pa.csv.write_csv}[kind]
    for number in range(5):
        path = folder / f"{number} +é%20.{kind}"
        write(table(number), path)
        os.utime(path, (1000 * BY_TIME.index(number), 1000 * BY_TIME.index(number)))
    url = f"sqlite:///{tmp_path}/queries.db"
    eq.Engine(STREAM, registry=url, create=True).register(QUERIES)
    reader = spark.readStream.schema("price double").option("header", kind == "csv")
    events = reader.format(kind).load(str(folder)).where("price is not null").select("price")
    told = []
    writer = watch(events, STREAM, registry=url, **options).writeStream
    writer = writer.foreachBatch(lambda batch, _: told.append(batch.toArrow()))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    (notices,) = told
    names = ["query_id", "event", "seq", "price", "total", "notice_id"]
    wanted = expected(order).select(names).to_pylist()
    assert len(wanted) > 200
    assert notices.select(names).to_pylist() == wanted
