"""The stages of a job as Spark calls them, but for the shards: route the log, pack, unpack.

Nothing here decides anything: the work is in `everquery.sharding`. Objects of these classes are
sent to Python workers; whatever they hold is small.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from everquery.registry.rows import LogRow
from everquery.sharding.job import Job
from everquery.sharding.left_tables import clear_blobs, leave_blob, pick_up
from everquery.sharding.packing import Packer
from everquery.sharding.routing import route
from everquery.sharding.span_events import with_clock
from everquery.sharding.spans import SpanReader, Spans
from everquery.sharding.wire import table_of_bytes
from everquery.spark.rows import BATCH, EVENTS, LOG, PACKED_ARROW, QUERY


class Worker:
    """What is done for each Python worker, at the end of its work on a partition."""

    rounds = 0

    @classmethod
    def rest(cls) -> None:
        """Take what the imports and the first batches made out of garbage collection.

        Spark collects garbage after every task, which takes 130 ms over all that.
        """
        if cls.rounds in (0, 3):
            gc.collect()
            gc.freeze()
        cls.rounds += 1


@dataclass(frozen=True)
class RouteLog:
    """Rows of the registry's log to the parts of it that each shard gets."""

    job: Job
    codes: list[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route the rows of a partition."""
        for batch in batches:
            for values in batch.to_pylist():
                row = LogRow(**values)
                job = self.job
                routed = route(row, job.stream, job.division)
                yield from (self._packed(shard, part) for shard, part in routed)
        Worker.rest()

    def _packed(self, shard: int, row: LogRow) -> pa.RecordBatch:
        packed = {
            "shard": self.codes[shard],
            "source": LOG,
            "first": row.position,
            "second": row.number,
            "named": row.count,
            "operation": row.operation,
            "payload": row.payload,
            "digest": row.digest,
        }
        return pa.RecordBatch.from_pylist([packed], PACKED_ARROW)


def packer_of(job: Job) -> Packer:
    """Return what packs the events of a job."""
    return Packer(
        job.stream,
        job.shards,
        tuple(job.carried.names),
        wide=job.wide,
        secret=job.secret,
        time_type=job.time_type,
    )


@dataclass(frozen=True)
class PackEvents:
    """Events to packed rows.

    Attributes
    ----------
    job : Job
    codes : the grouping value of each shard
    names : the columns of the events; Spark gives them others, for it does not take all names
    one_host : bool
        Whether all workers are on one host, so that blobs can be left in files.
    """

    job: Job
    codes: list[int]
    names: list[str]
    one_host: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the events of a partition."""
        task = TaskContext.get()
        partition = 0 if task is None else task.partitionId()
        named = (pa.RecordBatch.from_arrays(batch.columns, self.names) for batch in batches)
        left = Left.by_this_task() if self.one_host else None
        yield from _packed_rows(packer_of(self.job), self.codes, named, partition, left)
        Worker.rest()


@dataclass(frozen=True)
class PackSpans:
    """Names of spans to packed rows: whoever has the shards is not who reads."""

    job: Job
    codes: list[int]
    reader: SpanReader
    one_host: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read and pack the spans of a partition."""
        packer = packer_of(self.job)
        left = Left.by_this_task() if self.one_host else None
        for batch in batches:
            for row in batch.to_pylist():
                spans = Spans.from_bytes(row["payload"], row["named"] or None)
                tables = (table for name in spans.names for table in self.reader.read(name))
                clocked = (with_clock(table, spans.clock) for table in tables)
                events = (part for table in clocked for part in table.to_batches())
                yield from _packed_rows(packer, self.codes, events, row["first"], left)
        Worker.rest()


@dataclass(frozen=True)
class Left:
    """Where the blobs of a batch are left: by the id of a streaming job, and the batch's number."""

    job: str
    batch: int

    @classmethod
    def by_this_task(cls) -> Left | None:
        """Return where this task leaves blobs, which clears up those of earlier batches."""
        task = TaskContext.get()
        job = None if task is None else task.getLocalProperty(QUERY)
        batch = None if task is None else task.getLocalProperty(BATCH)
        if job is None or batch is None:
            return None
        clear_blobs(job, int(batch))
        return cls(job, int(batch))


def _packed_rows(
    packer: Packer,
    codes: list[int],
    batches: Iterable[pa.RecordBatch],
    first: int,
    left: Left | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the events of a part of a source as packed rows; `first` is the part's number."""
    seen = set()
    for number, shard, blob in packer.pack(batches):
        seen.add(shard)
        file = None if left is None else leave_blob(blob, left.job, left.batch)
        yield _packed_row(codes[shard], first, number, b"" if file else blob, file)
    if seen and 0 not in seen:  # it looks whether the checkpoint is that of this job
        yield _packed_row(codes[0], first, 0, b"")


def _packed_row(
    code: int, first: int, second: int, blob: bytes, file: str | None = None
) -> pa.RecordBatch:
    packed = {
        "shard": code,
        "source": EVENTS,
        "first": first,
        "second": second,
        "named": 0,
        "operation": file,
        "payload": blob,
        "digest": None,
    }
    return pa.RecordBatch.from_pylist([packed], PACKED_ARROW)


@dataclass(frozen=True)
class UnpackNotices:
    """What shards told to notices."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the notices of a partition."""
        for batch in batches:
            for table in _told(batch):
                yield from table.to_batches()
        Worker.rest()


def _told(batch: pa.RecordBatch) -> list[pa.Table]:
    """Return the notices of rows of `TOLD`.

    All at once: what is done with the first ones may take longer than the files of others stay.
    """
    told = []
    for blob, file in zip(batch.column("notices"), batch.column("file"), strict=True):
        if file.is_valid:
            told.append(pick_up(file.as_py()))
        elif blob.is_valid:
            told.append(table_of_bytes(blob.as_py()))
    return told
