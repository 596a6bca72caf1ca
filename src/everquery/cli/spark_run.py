"""``everquery run --engine spark``: files through a streaming job of Spark."""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everquery.cli.event_job import STDIN, Tally, check_spans, partial_line
from everquery.cli.numbers import rate
from everquery.cli.options import existing_engine, existing_registry, has_integer_keys
from everquery.cli.output import counted
from everquery.cli.this_process import Clock
from everquery.sharding.warm_up import warm_up
from everquery.sinks import JsonLinesWriter, TextWriter
from everquery.sinks.batches import BatchFiles
from everquery.sources.folder_journal import first_file
from everquery.sources.formats import format_of
from everquery.sources.section_events import types_of
from everquery.state.partial import Partial
from everquery.stream import Stream

if TYPE_CHECKING:
    from everquery.spark.job import StreamingJob
    from everquery.spark.metrics import Batch

JOURNAL = "everquery-files.jsonl"
LOG = "everquery-spark.log"
LOOK_SECONDS = 0.1

logger = logging.getLogger("everquery.run")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What to run.

    Attributes
    ----------
    inputs : list of Path
        Files and folders.
    registry, stream : str
    follow : bool
        Whether to wait for more files in the folders.
    out : Path or None
        A folder, ``-`` for JSON lines, None for lines.
    checkpoint : Path or None
        None: the run starts anew, and leaves nothing.
    metrics : Path or None
        Gets Prometheus text.
    """

    inputs: list[Path]
    registry: str
    stream: str | None
    follow: bool
    out: Path | None
    checkpoint: Path | None
    metrics: Path | None
    cores: int
    integer_keys: bool
    as_json: bool


@dataclass(slots=True)
class SparkTally:
    """What has happened so far; what `run` tells of the embedded runtime, and the batches."""

    counts: Tally = field(default_factory=Tally)
    refused: int = 0
    partial: Partial = field(default_factory=Partial)
    quarantined: int = 0
    batches: int = 0
    last: int | None = None
    position: int = 0


class SparkRun:
    """A run: `batches` yields what is done, until the end or until told to stop.

    Parameters
    ----------
    plan : RunPlan
    clock : function
        Returns seconds.
    stop : function
        Tells whether to end before the next batch.
    """

    def __init__(self, plan: RunPlan, *, clock: Clock, stop: Callable[[], bool]) -> None:
        self.plan = plan
        self.tally = SparkTally()
        self.interrupted = False
        self.stream: Stream
        self._clock = clock
        self._stop = stop
        self._files = None if plan.out in (None, Path(STDIN)) else BatchFiles(Path(str(plan.out)))

    def batches(self) -> Iterator[Batch]:
        """Yield the figures of each batch."""
        from everquery.spark.session import LIGHT_JAVA, local_session, stop_session

        with ExitStack() as stack:
            checkpoint = self._checkpoint(stack)
            schema, integers = self._columns()
            # A folder that does not last would take along what Java has to say of its end.
            log = None if self.plan.checkpoint is None else checkpoint / LOG
            with ThreadPoolExecutor(1) as thread:  # in the main one, Spark would take over Ctrl-C
                starting = thread.submit(
                    local_session,
                    "everquery run",
                    cores=self.plan.cores,
                    log=log,
                    java_options="" if self.plan.follow else LIGHT_JAVA,
                )
                warm_up(self.stream, self._time_type(schema))
            spark = starting.result()
            stack.callback(stop_session, spark)
            began = self._clock()
            job = stack.enter_context(self._start(spark, checkpoint, schema, integers))
            while job.running():
                if self._stop() and not self.interrupted:
                    self.interrupted = True
                    job.ask_to_stop()
                batch = job.next_batch(LOOK_SECONDS)
                if batch is not None:
                    self._count(batch)
                    self.tally.counts.seconds = self._clock() - began
                    yield batch

    def _checkpoint(self, stack: ExitStack) -> Path:
        folder = self.plan.checkpoint
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="everquery-run-")))
        folder.mkdir(parents=True, exist_ok=True)
        if self._files is not None and not (folder / "metadata").exists():
            self._files.expect_new()
        return folder

    def _columns(self) -> tuple[pa.Schema, bool]:
        """Return the types of the events' columns, and whether a CSV's keys are integers."""
        plan = self.plan
        registry = existing_registry(plan.registry)
        try:
            self.stream = registry.stream(plan.stream)
        finally:
            registry.close()
        first = first_file(plan.inputs, wait=self._wait if plan.follow else None)
        integers = plan.integer_keys
        if not integers and self.stream.key is not None and format_of(first) == "csv":
            with existing_engine(plan.registry, self.stream.name) as engine:
                integers = has_integer_keys(engine)
        schema = types_of(first, self.stream, integer_keys=integers)
        check_spans(self.stream, schema)
        return schema, integers

    def _time_type(self, schema: pa.Schema) -> pa.DataType:
        return pa.null() if self.stream.time is None else schema.field(self.stream.time).type

    def _wait(self) -> bool:
        sleep(LOOK_SECONDS)
        return not self._stop()

    def _start(
        self,
        spark: Any,  # noqa: ANN401 - a session of pyspark
        checkpoint: Path,
        schema: pa.Schema,
        integers: bool,
    ) -> StreamingJob:
        from everquery.spark import read_files, watch
        from everquery.spark.job import StreamingJob

        events = read_files(
            spark,
            self.stream,
            self.plan.inputs,
            schema=schema,
            journal=checkpoint / JOURNAL,
            integer_keys=integers,
        )
        notices = watch(events, self.stream, registry=self.plan.registry)
        writer = notices.writeStream.queryName(f"everquery {self.stream.name}")
        writer = writer.option("checkpointLocation", str(checkpoint))
        if not self.plan.follow:
            writer = writer.trigger(availableNow=True)
        return StreamingJob(spark, writer, write=self._write(), metrics_file=self.plan.metrics)

    def _write(self) -> Callable[[Any, int], None]:
        files, lines = self._files, self._lines()

        def write(batch: Any, number: int) -> None:  # noqa: ANN401 - a DataFrame of pyspark
            notices = shaped(batch.toArrow(), self.stream)
            self.tally.counts.count(notices)
            if files is not None:
                files.write(notices, number)
            else:
                lines.write(notices.drop_columns(["log_position"]))

        return write

    def _lines(self) -> JsonLinesWriter:
        if self.plan.out is None and not self.plan.as_json:
            return TextWriter(sys.stdout.buffer, colour=sys.stdout.isatty())
        return JsonLinesWriter(sys.stdout.buffer)

    def _count(self, batch: Batch) -> None:
        tally = self.tally
        tally.counts.events += batch.events + batch.refused
        tally.refused += batch.refused
        tally.partial += Partial(batch.partial, batch.lacking)
        tally.quarantined += batch.quarantined
        tally.batches += 1
        tally.last = batch.number
        tally.position = max(tally.position, batch.position)
        logger.info("%s", batch)

    @property
    def place(self) -> str:
        """Where the run is."""
        if self.tally.last is None:
            return "before the first batch"
        kept = self.plan.checkpoint
        where = f"; {kept} goes on from there" if kept is not None else ""
        return f"behind batch {self.tally.last}{where}"

    def summary(self) -> dict[str, Any]:
        """Return what happened."""
        tally, counts = self.tally, self.tally.counts
        return {
            "stream": self.stream.name,
            "position": tally.position,
            "events": counts.events,
            "partial": tally.partial.events,
            "partial_by_column": dict(tally.partial.by_column),
            "notices": sum(counts.notices.values()),
            "notices_by_event": dict(sorted(counts.notices.items())),
            "refused": tally.refused,
            "quarantined": tally.quarantined,
            "batches": tally.batches,
            "seconds": round(counts.seconds, 3),
            "interrupted": self.interrupted,
            "place": self.place,
        }

    def summary_lines(self) -> Iterator[str]:
        """Yield the summary as lines."""
        summary = self.summary()
        if self.interrupted:
            yield f"interrupted: {self.place}"
        by_event = ", ".join(f"{n:,} {event}" for event, n in summary["notices_by_event"].items())
        notices = counted(summary["notices"], "notice") + (f" ({by_event})" if by_event else "")
        speed = rate(summary["events"] / max(summary["seconds"], 1e-9))
        yield (
            f"{counted(summary['events'], 'event')}, {notices} in"
            f" {counted(summary['batches'], 'batch', 'batches')}, {summary['seconds']:.1f} s"
            f" ({speed})"
        )
        if summary["partial"]:
            yield partial_line(summary["partial"], summary["partial_by_column"])
        if summary["refused"]:
            yield f"{counted(summary['refused'], 'event')} refused"
        if summary["quarantined"]:
            yield f"{counted(summary['quarantined'], 'query', 'queries')} taken out: they failed"


def shaped(notices: pa.Table, stream: Stream) -> pa.Table:
    """Return notices as the embedded runtime writes them, with the version of the query set."""
    columns = dict(zip(notices.column_names, notices.columns, strict=True))
    columns["notice_id"] = columns["notice_id"].cast(pa.binary(16))
    if stream.time is None:
        columns["time"] = pa.chunked_array([pa.nulls(notices.num_rows)])
    return pa.table(columns)


def batch_line(batch: Batch) -> str:
    """Return what is said of a batch."""
    shown = (
        f"batch {batch.number}: {counted(batch.events, 'event')},"
        f" {counted(batch.notices, 'notice')}, {batch.refused:,} refused,"
        f" {batch.seconds:.2f} s, log position {batch.position:,}"
    )
    return shown + (f", {batch.log_lag:,} behind" if batch.log_lag else "")
