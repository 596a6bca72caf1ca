"""What Spark takes to read files and hand their rows to Python and back, and nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyspark.sql import SparkSession

COLUMNS = "symbol string, ts timestamp_ntz, price double, shares long"


def no_op_rate(spark: SparkSession, files: list[Path], a_trigger: int) -> float | None:
    """Return the events a second of a job that does nothing; None where there are too few files.

    Parameters
    ----------
    spark : SparkSession
    files : list of Path
        Parquet files of a market, all in one folder.
    a_trigger : int
        How many of them a trigger reads.
    """
    if not files:
        return None
    events = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", a_trigger)
    names = ",".join(file.name for file in files)
    same = events.parquet(f"{files[0].parent}/{{{names}}}").mapInArrow(_same, COLUMNS)
    with tempfile.TemporaryDirectory(prefix="everquery-demo-") as checkpoint:
        query = (
            same.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        triggers = [each for each in query.recentProgress if each.numInputRows][1:]
    rates = [each.numInputRows / each.durationMs["triggerExecution"] * 1e3 for each in triggers]
    return median(rates) if rates else None


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
