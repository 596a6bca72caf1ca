"""Notices into Parquet files, written where they are made: they never become rows of Spark.

A batch that is done again has the same notices, and its files have the same names: one for each
shard, because the number of partitions may change between two attempts. So a reader finds every
notice once, whatever was killed, without a log of which files count.
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext

from everquery.errors import SparkError
from everquery.sinks.files import ParquetWriter
from everquery.spark.rows import BATCH, QUERY

OWNER = "_everquery-job"  # the job whose notices a folder has; readers of folders leave it alone


def write_notices(notices: pa.Table, folder: Path, shard: int) -> Path:
    """Write what a shard told in the batch that this task is of; return the file.

    Raises
    ------
    SparkError
        If the folder has notices of another job.
    """
    task = TaskContext.get()
    batch = None if task is None else task.getLocalProperty(BATCH)
    if task is None or batch is None:
        raise SparkError("notices are written to a folder by streaming jobs only")
    folder.mkdir(parents=True, exist_ok=True)
    _claim(folder, task.getLocalProperty(QUERY) or "")
    path = folder / f"batch-{int(batch):012}-{shard:03}.parquet"
    _write(notices, path)
    return path


def _claim(folder: Path, query: str) -> None:
    """Note whose notices a folder has, or raise if it is somebody else."""
    owner = folder / OWNER
    unfinished = owner.with_name(f"{OWNER}.{uuid4().hex}")
    if not owner.exists():
        if any(folder.glob("*.parquet")):
            raise SparkError(
                f"{folder} has files of others; name a folder for the notices of this job alone"
            )
        unfinished.write_text(query)
        try:
            os.link(unfinished, owner)  # whole, or not at all
        except FileExistsError:
            pass
        finally:
            unfinished.unlink()
    if owner.read_text() != query:
        raise SparkError(
            f"{folder} has the notices of another job; name another folder, or go on with the"
            " checkpoint of that job"
        )


def _write(notices: pa.Table, path: Path) -> None:
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with ParquetWriter(unfinished) as writer:
            writer.write(notices)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
