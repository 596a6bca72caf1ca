"""A standalone cluster runs a job of a driver in another process on both of its workers."""

import subprocess
import sys
import textwrap

DRIVER = """
    import sys, os, time
    import pyarrow as pa
    from pyspark import TaskContext
    from pyspark.sql import SparkSession
    from everquery.spark import spark_settings

    def tell(batches):
        for _ in batches:
            pass
        time.sleep(0.5)  # so that both executors get a task
        yield pa.record_batch({"python": [sys.executable], "parent": [os.getppid()]})

    builder = SparkSession.builder.master(sys.argv[1])
    for key, value in {
        **spark_settings(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    rows = spark.range(0, 4, 1, 4).mapInArrow(tell, "python string, parent long").collect()
    print(len(rows), len({row.parent for row in rows}), {row.python for row in rows})
    spark.stop()
"""


def test_a_job_runs_on_both_workers(cluster, driver_environment):
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DRIVER), cluster.url],
        capture_output=True, text=True, env=driver_environment,
    )  # fmt: skip
    assert ran.stdout == f"4 2 {{{sys.executable!r}}}\n", ran.stderr
