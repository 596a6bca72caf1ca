"""A job that runs in the background of this process, and ends between two batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from threading import Event
from time import monotonic, sleep
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from everquery.errors import SparkError
from everquery.spark.failures import cause_of
from everquery.spark.java_process import has_died, java_deaths_explained
from everquery.spark.metrics import Batch, JobMetrics

HEARING_SECONDS = 10.0  # for the last progress events to come
LOOK_SECONDS = 0.02

_STOPPED = "everquery was told to stop, and this batch has not begun"

BatchWriter = Callable[[DataFrame, int], None]


class Stopped(Exception):  # noqa: N818 - no error, but the only way to leave a batch to the next run
    """Raised in front of a batch that is not to begin."""


class StreamingJob:
    """A streaming query, and its batches as they are done.

    Parameters
    ----------
    spark : SparkSession
    writer : DataStreamWriter
        Of notices; a checkpoint and, unless `write` is given, a sink are set.
    write : function, optional
        Takes the notices of each batch and its number. With it the job ends exactly between two
        batches; else a batch that has just begun is given up, and done again by the next run.
    metrics_file : Path, optional
        Gets Prometheus text.

    Attributes
    ----------
    metrics : JobMetrics
    """

    def __init__(
        self,
        spark: SparkSession,
        writer: DataStreamWriter,
        *,
        write: BatchWriter | None = None,
        metrics_file: Path | None = None,
    ) -> None:
        self._batches: Queue[Batch] = Queue()
        self._stopping = Event()
        self._spark = spark
        self.metrics = JobMetrics(file=metrics_file, tell=self._batches.put)
        spark.streams.addListener(self.metrics)
        if write is not None:
            writer = writer.foreachBatch(self._gated(write))
        try:
            self.query: StreamingQuery = writer.start()
        except BaseException:
            spark.streams.removeListener(self.metrics)
            raise

    def _gated(self, write: BatchWriter) -> BatchWriter:
        def each(notices: DataFrame, number: int) -> None:
            if self._stopping.is_set():
                raise Stopped(_STOPPED)
            write(notices, number)

        return each

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if has_died():  # and the query with it
            return
        if self.query.isActive:
            self.query.stop()
        self._spark.streams.removeListener(self.metrics)

    def next_batch(self, seconds: float) -> Batch | None:
        """Return the next batch that is done, or None if there was none in the meantime."""
        try:
            return self._batches.get(timeout=seconds)
        except Empty:
            return None

    def running(self) -> bool:
        """Tell whether there is more to come.

        Raises
        ------
        EverqueryError
            If the job has failed.
        """
        with java_deaths_explained():
            if self._stopping.is_set() and self.query.isActive and not self._is_busy():
                self.query.stop()  # no batch comes that would find the gate closed
            if self.query.isActive or not self._batches.empty():
                return True
            self._raise()
        # The end is heard of after the last batch.
        heard = self.metrics.wait(str(self.query.runId), HEARING_SECONDS)
        return heard and not self._batches.empty()

    def ask_to_stop(self) -> None:
        """Let no further batch begin; `running` tells when the last one is done."""
        self._stopping.set()

    def stop(self, *, seconds: float) -> None:
        """End as soon as no batch runs; after so many seconds, in the middle of one."""
        self._stopping.set()
        give_up = monotonic() + seconds
        with java_deaths_explained():
            while self.query.isActive and self._is_busy() and monotonic() < give_up:
                sleep(LOOK_SECONDS)
            if self.query.isActive:
                self.query.stop()
            self._raise()

    def _is_busy(self) -> bool:
        """Tell whether a batch runs; Spark also calls it a trigger to look for data."""
        status = self.query.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])

    def _raise(self) -> None:
        error = self.query.exception()
        if error is None or (self._stopping.is_set() and _STOPPED in str(error)):
            return
        first_line = str(error).strip().split("\n")[0]
        raise cause_of(error) or SparkError(f"the job has failed: {first_line}") from error
