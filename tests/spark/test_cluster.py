"""The same job on all masters: within one process, on a cluster in one machine, on a real one."""

import os
import subprocess
import sys
import textwrap

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everquery as eq
from everquery.testing import assert_same_notices, assert_unique_ids, notices_of

DRIVER = """
    import sys, os, time
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from everquery.spark import spark_settings, watch
    from everquery.spark.session import LIGHT_JAVA

    master, folder = sys.argv[1:]
    builder = SparkSession.builder.master(master)
    for key, value in {
        **spark_settings(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": LIGHT_JAVA,
        "spark.executor.extraJavaOptions": LIGHT_JAVA,
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()

    df = spark.readStream.schema("symbol string, t long, price double")
    df = df.option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    notices = watch(df, "trades", registry=f"sqlite:///{folder}/queries.db", shards=4)
    writer = notices.writeStream.format("parquet").option("path", f"{folder}/out")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()

    def tell(batches):
        for _ in batches:
            pass
        time.sleep(0.5)  # so that both executors get a task
        yield pa.record_batch({"python": [sys.executable], "parent": [os.getppid()]})

    rows = spark.range(0, 4, 1, 4).mapInArrow(tell, "python string, parent long").collect()
    print(len({row.parent for row in rows}), {row.python for row in rows})
    spark.stop()
"""
STREAM = eq.Stream("trades", key="symbol", time="t", attributes=["price"])
QUERIES = [
    *(eq.Border(f"b{i}", {"price": (i, i + 30)}, key=f"k{i % 40}") for i in range(60)),
    eq.Range("high", {"price": (90, 200)}),
    eq.Border("low", {"price": (0, 10)}),
]


def events(number):
    keys = [f"k{i % 40}" for i in range(200)]
    prices = [float((7 * number + 13 * i) % 100) for i in range(200)]
    return pa.table({"symbol": keys, "t": range(200 * number, 200 * number + 200), "price": prices})


@pytest.mark.parametrize(
    ("master", "executors"),
    [
        ("local[*]", 1),
        pytest.param("local-cluster[2,1,1024]", 2, marks=pytest.mark.slow),
        # The executors that are killed are those of a standalone cluster too.
        pytest.param("standalone", 2, marks=pytest.mark.slow),
    ],
)
def test_the_same_on_every_master(master, executors, request, driver_environment, tmp_path):
    if master == "standalone":
        master = request.getfixturevalue("cluster").url
    (tmp_path / "in").mkdir()
    for number in range(2):
        path = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(events(number), path)
        os.utime(path, (1000 * number, 1000 * number))
    eq.Engine(STREAM, registry=f"sqlite:///{tmp_path}/queries.db", create=True).register(QUERIES)
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DRIVER), master, tmp_path],
        capture_output=True, text=True, env=driver_environment,
    )  # fmt: skip
    assert ran.stdout == f"{executors} {{{sys.executable!r}}}\n", ran.stderr[-5000:]

    engine = eq.Engine(STREAM, all_columns=True)
    engine.register(QUERIES)
    batches = [engine.process(events(number)) for number in range(2)]
    expected = [notice for batch in batches for notice in notices_of(batch, STREAM)]
    told = pa.concat_tables(pq.read_table(path) for path in (tmp_path / "out").glob("*.parquet"))
    assert_unique_ids(told)
    order = {query.id: place for place, query in enumerate(QUERIES)}
    got = sorted(notices_of(told, STREAM), key=lambda notice: (notice.seq, order[notice.query_id]))
    assert_same_notices(got, expected)
    assert len(expected) > 200
