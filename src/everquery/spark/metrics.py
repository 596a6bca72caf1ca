"""What a running job tells its operators: metrics with steady names, from Spark's progress events.

Names and meanings are in `METRICS`; docs/spark.md lists them.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Event, Lock
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from everquery.sources.kafka_offsets import most_behind
from everquery.spark.watching import METRICS as OBSERVED

Sample = float | dict[str, float]
Snapshot = dict[str, Sample]

METRICS: Mapping[str, tuple[str, str]] = {
    "everquery_up": ("gauge", "1 while the job runs, 0 when it has ended."),
    "everquery_failures_total": ("counter", "Times that the job ended with an error."),
    "everquery_batches_total": ("counter", "Batches that are done."),
    "everquery_events_total": ("counter", "Events that the shards accepted."),
    "everquery_partial_total": ("counter", "Events that were accepted, and lack a value."),
    "everquery_lacking_total": ("counter", "Events that lack a value of a column; column=."),
    "everquery_notices_total": ("counter", "Notices."),
    "everquery_refused_total": ("counter", "Events that became dead letters."),
    "everquery_quarantined_total": ("counter", "Queries taken out because they made work fail."),
    "everquery_rebuilds_total": ("counter", "Times that a shard was built anew from its state."),
    "everquery_queries": ("gauge", "Queries in the shards; one without a key is in each of them."),
    "everquery_batch": ("gauge", "The number of the last batch."),
    "everquery_log_position": ("gauge", "The version of the query set in the last batch."),
    "everquery_log_lag": ("gauge", "Changes in the registry that no batch has taken yet."),
    "everquery_source_lag": ("gauge", "Offsets by which a source is behind, if it tells; source=."),
    "everquery_trigger_seconds": ("gauge", "How long the last batch took."),
    "everquery_trigger_seconds_total": ("counter", "How long all batches took."),
    "everquery_stage_seconds": ("gauge", "The last batch by stage; stage=."),
    "everquery_stage_seconds_total": ("counter", "All batches by stage; stage=."),
    "everquery_progress_timestamp_seconds": ("gauge", "When the last batch began; Unix time."),
}
"""Each metric's type and meaning; a label in its last word."""

LABELS = {
    "everquery_lacking_total": ["column"],
    "everquery_source_lag": ["source"],
    "everquery_stage_seconds": ["stage"],
    "everquery_stage_seconds_total": ["stage"],
}

_FAMILIES = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}

_STAGE = "_seconds"


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch of a job did.

    Attributes
    ----------
    query : str
        The name of the job, or its id.
    number : int
        Of the batch.
    began : str
        When, in ISO 8601.
    events, notices, refused, quarantined, rebuilt : int
    partial : int
        How many of the events lack a value.
    lacking : dict
        How many lack one of each column.
    queries : int or None
        None if not all shards had something to do, so that not all have told.
    position : int
        The version of the query set.
    log_lag : int
        How many changes of the registry it did not take.
    source_lag : dict
        By source; those that don't tell are not there.
    seconds : float
        How long it took.
    stages : dict
        Seconds by stage. Those that begin with ``spark_`` are parts of `seconds`; the others are
        parts of ``spark_add_batch``, summed over shards that work at the same time.
    """

    query: str
    number: int
    began: str
    events: int
    partial: int
    lacking: dict[str, int]
    notices: int
    refused: int
    quarantined: int
    rebuilt: int
    queries: int | None
    position: int
    log_lag: int
    source_lag: dict[str, float]
    seconds: float
    stages: dict[str, float]

    @classmethod
    def of(cls, progress: StreamingQueryProgress) -> Batch | None:
        """Return what a progress event tells; None if it is of no batch of ours."""
        row = progress.observedMetrics.get(OBSERVED)
        if row is None:
            return None
        figures = {name: value or 0 for name, value in row.asDict().items()}
        spent = {_snake(name): ms / 1e3 for name, ms in progress.durationMs.items()}
        seconds = spent.pop("trigger_execution", 0.0)
        stages = {name.removesuffix(_STAGE): figures[name] for name in figures if _STAGE in name}
        stages |= {f"spark_{name}": value for name, value in spent.items()}
        log_lag, source_lag = _lags(progress.sources)
        return cls(
            query=progress.name or str(progress.id),
            number=progress.batchId,
            began=progress.timestamp,
            events=figures["events"],
            partial=figures["partial"],
            lacking=_sum(map(json.loads, row["lacking"] or ())),
            notices=figures["told"],
            refused=figures["refused"],
            quarantined=figures["quarantined"],
            rebuilt=figures["rebuilt"],
            queries=figures["queries"] if figures["ran"] == figures["shards"] else None,
            position=figures["position"],
            log_lag=log_lag,
            source_lag=source_lag,
            seconds=seconds,
            stages=stages,
        )


@dataclass
class _Job:
    """The metrics of one job so far."""

    values: dict[str, float] = field(default_factory=dict)
    by_label: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, name: str, amount: float) -> None:
        self.values[name] = self.values.get(name, 0) + amount

    def add_labelled(self, name: str, amounts: Mapping[str, float]) -> None:
        totals = self.by_label.setdefault(name, {})
        for label, amount in amounts.items():
            totals[label] = totals.get(label, 0) + amount

    def take(self, batch: Batch) -> None:
        values = self.values
        self.add("everquery_batches_total", 1)
        self.add("everquery_events_total", batch.events)
        self.add("everquery_partial_total", batch.partial)
        self.add_labelled("everquery_lacking_total", batch.lacking)
        self.add("everquery_notices_total", batch.notices)
        self.add("everquery_refused_total", batch.refused)
        self.add("everquery_quarantined_total", batch.quarantined)
        self.add("everquery_rebuilds_total", batch.rebuilt)
        if batch.queries is not None:
            values["everquery_queries"] = batch.queries
        values["everquery_batch"] = batch.number
        values["everquery_log_position"] = max(
            batch.position, values.get("everquery_log_position", 0)
        )
        values["everquery_log_lag"] = batch.log_lag
        values["everquery_trigger_seconds"] = batch.seconds
        self.add("everquery_trigger_seconds_total", batch.seconds)
        values["everquery_progress_timestamp_seconds"] = _unix(batch.began)
        self.by_label["everquery_source_lag"] = dict(batch.source_lag)
        self.by_label["everquery_stage_seconds"] = dict(batch.stages)
        self.add_labelled("everquery_stage_seconds_total", batch.stages)

    def snapshot(self) -> Snapshot:
        found: Snapshot = {}
        for name in METRICS:
            if name in LABELS:
                found[name] = dict(self.by_label.get(name, {}))
            elif name in self.values:
                found[name] = self.values[name]
        return found


class JobMetrics(StreamingQueryListener):
    """Hears of the batches of all `everquery.spark.watch` jobs of a session, and keeps count.

    Counters begin with this object. Give it to ``spark.streams.addListener`` before the job starts.

    Parameters
    ----------
    file : Path or str, optional
        Gets the metrics as Prometheus text after each batch; replaced as a whole, so that a reader
        never sees a part.
    tell : function, optional
        Is called with each `Batch`, in Spark's thread; what it raises only Spark's log tells.

    Examples
    --------
    >>> metrics = JobMetrics()
    >>> metrics.snapshot()
    {}
    """

    def __init__(
        self,
        *,
        file: Path | str | None = None,
        tell: Callable[[Batch], None] | None = None,
    ) -> None:
        self._file = None if file is None else Path(file)
        self._tell = tell
        self._lock = Lock()
        self._jobs: dict[str, _Job] = {}
        self._names: dict[str, str] = {}  # by the id of a run
        self._ended: dict[str, Event] = {}

    def snapshot(self) -> dict[str, Snapshot]:
        """Return the metrics of each job, by its name or id; with a label, as dictionaries."""
        with self._lock:
            return {name: job.snapshot() for name, job in self._jobs.items()}

    def text(self) -> str:
        """Return all metrics as Prometheus text."""
        return prometheus_text(self.snapshot())

    def wait(self, run_id: str, seconds: float) -> bool:
        """Wait until the end of a run has been heard of, and so all its batches; tell if it was."""
        with self._lock:
            ended = self._ended.setdefault(str(run_id), Event())
        return ended.wait(seconds)

    # -- what Spark calls -----------------------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Note the name of a job."""
        with self._lock:
            self._names[str(event.runId)] = event.name or str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Count a batch."""
        batch = Batch.of(event.progress)
        if batch is None:
            return
        with self._lock:
            job = self._jobs.setdefault(batch.query, _Job())
            job.values["everquery_up"] = 1
            job.take(batch)
        self._write()
        if self._tell is not None:
            self._tell(batch)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing has changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Note that a job has ended."""
        run = str(event.runId)
        with self._lock:
            job = self._jobs.get(self._names.pop(run, str(event.id)))
            if job is not None:
                job.values["everquery_up"] = 0
                job.add("everquery_failures_total", int(event.exception is not None))
            ended = self._ended.setdefault(run, Event())
        self._write()
        ended.set()

    def _write(self) -> None:
        if self._file is not None:
            beside = self._file.with_name(f".{self._file.name}.{os.getpid()}")
            beside.write_text(self.text(), encoding="utf-8")
            beside.replace(self._file)


class _Families(Collector):
    """The metrics of all jobs, as the library wants them."""

    def __init__(self, jobs: Mapping[str, Snapshot]) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        for name, (kind, meaning) in METRICS.items():
            family = _FAMILIES[kind](name, meaning, labels=["query", *LABELS.get(name, [])])
            for job, found in self._jobs.items():
                value = found.get(name)
                if isinstance(value, dict):
                    for label, each in value.items():
                        family.add_metric([job, label], each)
                elif value is not None:
                    family.add_metric([job], value)
            if family.samples:
                yield family


def prometheus_text(jobs: Mapping[str, Snapshot]) -> str:
    """Return metrics in the text format that Prometheus reads.

    Examples
    --------
    >>> print(prometheus_text({"trades": {"everquery_up": 1.0}}), end="")
    # HELP everquery_up 1 while the job runs, 0 when it has ended.
    # TYPE everquery_up gauge
    everquery_up{query="trades"} 1.0
    """
    return generate_latest(_Families(jobs)).decode()


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of counts by name."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: "_" + found[1].lower(), name)


def _unix(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _lags(sources: list[Any]) -> tuple[int, dict[str, float]]:
    """Return by how much the registry's log is ahead, and other sources that tell."""
    log, others = 0, {}
    for number, source in enumerate(sources):
        end, latest = _offset(source.endOffset), _offset(source.latestOffset)
        if set(latest) == {"position"} and "position" in end:
            log = max(0, int(latest["position"]) - int(end["position"]))
            continue
        behind = (source.metrics or {}).get("maxOffsetsBehindLatest")  # Spark's connector tells it
        if "offsets" in end and "offsets" in latest:  # of read_kafka
            behind = most_behind(end, latest)
        if behind is not None:
            others[f"{number}"] = float(behind)
    return log, others


def _offset(text: str | None) -> dict[str, Any]:
    """Return an offset that is a JSON object; else nothing."""
    try:
        value = json.loads(text) if text else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
