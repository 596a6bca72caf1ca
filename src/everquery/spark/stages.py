"""The stages of a job as Spark calls them: route the log, pack events, run shards, unpack notices.

Nothing here decides anything: the work is in `everquery.sharding`. Objects of these classes are
sent to Python workers; whatever they hold is small.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from everquery.core.arrow_bytes import table_bytes
from everquery.registry.rows import LogRow
from everquery.sharding.head import check_store
from everquery.sharding.job import Job
from everquery.sharding.left_tables import clear_up, leave, pick_up
from everquery.sharding.operator import Input, Output, run_batch
from everquery.sharding.packing import Packer, Unpacked
from everquery.sharding.routing import route
from everquery.sharding.spans import SpanReader, Spans, span_events, with_clock
from everquery.sharding.telling import plain_letters, plain_notices, plain_quarantined
from everquery.sharding.wire import cut, table_of_bytes
from everquery.spark.quarantine_reports import told_as
from everquery.spark.rows import EVENTS, LOG, PACKED_ARROW, SPAN_NAMES, TOLD

NOTICES_BYTES = 1 << 19  # of a row of Spark: Java holds several copies of it at a time

_DRIVER = "pyspark.sql.streaming.transform_with_state_driver_worker"
_NAME = StructType([StructField("name", StringType(), False)])
_VALUE = StructType([StructField("value", BinaryType(), False)])


class _Worker:
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
        _Worker.rest()

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
    """

    job: Job
    codes: list[int]
    names: list[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the events of a partition."""
        task = TaskContext.get()
        partition = 0 if task is None else task.partitionId()
        named = (pa.RecordBatch.from_arrays(batch.columns, self.names) for batch in batches)
        yield from _packed_rows(packer_of(self.job), self.codes, named, partition)
        _Worker.rest()


@dataclass(frozen=True)
class PackSpans:
    """Names of spans to packed rows: whoever has the shards is not who reads."""

    job: Job
    codes: list[int]
    reader: SpanReader

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read and pack the spans of a partition."""
        packer = packer_of(self.job)
        for batch in batches:
            for row in batch.to_pylist():
                spans = Spans.from_bytes(row["payload"], row["named"] or None)
                tables = (table for name in spans.names for table in self.reader.read(name))
                clocked = (with_clock(table, spans.clock) for table in tables)
                events = (part for table in clocked for part in table.to_batches())
                yield from _packed_rows(packer, self.codes, events, row["first"])
        _Worker.rest()


def _packed_rows(
    packer: Packer, codes: list[int], batches: Iterable[pa.RecordBatch], first: int
) -> Iterator[pa.RecordBatch]:
    """Yield the events of a part of a source as packed rows; `first` is the part's number."""
    seen = set()
    for number, shard, blob in packer.pack(batches):
        seen.add(shard)
        yield _packed_row(codes[shard], first, number, blob)
    if seen and 0 not in seen:  # it looks whether the checkpoint is that of this job
        yield _packed_row(codes[0], first, 0, b"")


def _packed_row(code: int, first: int, second: int, blob: bytes) -> pa.RecordBatch:
    packed = {
        "shard": code,
        "source": EVENTS,
        "first": first,
        "second": second,
        "named": 0,
        "operation": None,
        "payload": blob,
        "digest": None,
    }
    return pa.RecordBatch.from_pylist([packed], PACKED_ARROW)


class _StateStore:
    """The state of one shard in Spark's store."""

    def __init__(self, state: Any) -> None:  # noqa: ANN401 - a MapState of pyspark, which has no types
        self._state = state

    def get(self, name: str) -> bytes | None:
        found = self._state.getValue((name,))
        return None if found is None else found[0]

    def put(self, name: str, value: bytes) -> None:
        self._state.updateValue((name,), (value,))

    def remove(self, name: str) -> None:
        self._state.removeKey((name,))


class RunShards(StatefulProcessor):
    """Packed rows of a shard to notices, with all state in Spark's store.

    Parameters
    ----------
    letters : bool
        Whether refused events become rows, too.
    reader : SpanReader, optional
        What reads the spans, if rows name these.
    """

    def __init__(
        self,
        job: Job,
        codes: list[int],
        plain: pa.Schema,
        *,
        letters: bool,
        reader: SpanReader | None = None,
    ) -> None:
        self._job = job
        self._letters = letters
        self._reader = reader
        self._token = uuid4().hex
        self._shards = {code: shard for shard, code in enumerate(codes)}
        self._plain = plain

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive in another process."""
        vars(self).update(state)
        _silence_driver()

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Get hold of the state; called for every task, and once on the driver."""
        clear_up(time.monotonic())
        self._store = _StateStore(handle.getMapState("store", _NAME, _VALUE))

    def handleInputRows(
        self,
        key: Any,  # noqa: ANN401 - Spark's types
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ANN401
    ) -> Iterator[Row]:
        """Run one batch of one shard."""
        shard = self._shards[key[0]]
        log: list[LogRow] = []
        events: list[tuple[tuple[int, ...], bytes | Unpacked]] = []
        for row in rows:
            if row.source == LOG:
                part = row.operation, row.payload, row.digest or b""
                log.append(LogRow(row.first, row.second, row.named, *part))
            elif row.source == SPAN_NAMES:
                events += self._read(Spans.from_bytes(row.payload, row.named or None), shard)
            elif row.payload:
                events.append(((row.first, row.second), row.payload))
        if log or events:
            output = run_batch(self._job, shard, Input(log, events), self._store)
            yield from self._rows(shard, output)
        else:
            check_store(self._job, shard, self._store)
        _Worker.rest()

    def _read(self, spans: Spans, shard: int) -> list[tuple[tuple[int, ...], Unpacked]]:
        assert self._reader is not None
        here = span_events(self._token, self._reader, packer_of(self._job))
        return here.of_shard(spans, shard)

    def _rows(self, shard: int, output: Output) -> Iterator[Row]:
        position, plain = output.position, self._plain
        told = [plain_notices(output.notices, position, plain, output.carried)]
        if output.quarantined:
            told.append(plain_quarantined(output.quarantined, shard, position, plain))
        if self._letters:
            lost = output.letters_carried
            told.append(plain_letters(output.letters, shard, position, plain, lost))
        notices = pa.concat_tables(told)
        figures: dict[str, Any] = {field.name: 0 for field in TOLD.fields}
        figures |= {f"{stage}_seconds": seconds for stage, seconds in output.seconds.items()}
        figures |= {
            "events": output.events,
            "partial": output.partial.events,
            "told": output.notices.num_rows,
            "refused": output.letters.num_rows,
            "quarantined": len(output.quarantined),
            "queries": output.queries,
            "rebuilt": int(output.found == "rebuilt"),
            "ran": 1,
        }
        once = {
            "held_out": None if output.held_out is None else told_as(shard, output.held_out),
            "lacking": json.dumps(dict(output.partial.by_column))
            if output.partial.events
            else None,
        }
        for blob, file in _sent(notices):
            here = {"notices": blob, "file": file, "shard": shard, "position": position, **once}
            yield Row(**{**figures, **here})
            figures, once = _zeros(figures), dict.fromkeys(once)

    def close(self) -> None:
        """Nothing is open."""


def _silence_driver() -> None:
    """Drop what is printed from now on, if this process only tells Spark what state there is.

    pyspark says there, at each start of a query, what it is about to do.
    """
    if getattr(sys.modules["__main__"].__spec__, "name", None) == _DRIVER:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _sent(notices: pa.Table) -> Iterator[tuple[bytes | None, str | None]]:
    """Yield notices as bytes, or the name of a file in which they are left."""
    file = leave(notices)
    if file is not None:
        yield None, file
        return
    for part in cut(notices, NOTICES_BYTES):
        yield table_bytes(part) if part.num_rows else None, None


def _zeros(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the same without figures: they are counted in the first row of a shard."""
    return {name: type(value)(0) for name, value in figures.items()}


@dataclass(frozen=True)
class UnpackNotices:
    """What shards told to notices."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the notices of a partition."""
        for batch in batches:
            for table in told_tables(batch):
                yield from table.to_batches()
        _Worker.rest()


def told_tables(batch: pa.RecordBatch) -> list[pa.Table]:
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
