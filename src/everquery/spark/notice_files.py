"""Notices into Parquet files, written where they are made: they never become rows of Spark.

A batch that is done again has the same notices, and its files have the same names. So a reader
finds every notice once, whatever was killed, without a log of which files count.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import LongType, StringType, StructField, StructType

from everquery.errors import SparkError
from everquery.sinks.files import ParquetWriter
from everquery.spark.stages import Worker, told_tables

WRITTEN = StructType(
    [
        StructField("file", StringType(), False),
        StructField("notices", LongType(), False),
    ]
)
OWNER = "_everquery-job"  # the job whose notices a folder has; readers of folders leave it alone

_BATCH, _QUERY = "streaming.sql.batchId", "sql.streaming.queryId"  # properties of Spark's tasks


@dataclass(frozen=True)
class WriteNotices:
    """What shards told to files of a folder, one for each shard and batch that has any.

    Not one for each partition: the number of these may change between two attempts at a batch.
    """

    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the notices of a partition, and tell of the files."""
        folder, batch = self._place(TaskContext.get())
        told: dict[int, list[pa.Table]] = {}
        for rows in batches:
            for shard, table in told_tables(rows):
                told.setdefault(shard, []).append(table)
        for shard, tables in told.items():
            path = folder / f"batch-{batch:012}-{shard:03}.parquet"
            notices = pa.concat_tables(tables)
            _write(notices, path)
            written = {"file": [str(path)], "notices": [notices.num_rows]}
            yield pa.RecordBatch.from_pydict(written)
        Worker.rest()

    def _place(self, task: TaskContext | None) -> tuple[Path, int]:
        """Return the folder and the number of the batch; raise if the folder is another job's."""
        batch = None if task is None else task.getLocalProperty(_BATCH)
        if task is None or batch is None:
            raise SparkError("notices are written to a folder by streaming jobs only")
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        _claim(folder, task.getLocalProperty(_QUERY) or "")
        return folder, int(batch)


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
