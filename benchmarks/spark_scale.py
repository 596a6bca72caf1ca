"""The Spark runtime on a cluster: executors of one core each, more and more partitions of state.

A machine of two cores can't show what 64 executors do. It can show what they would cost: the
processor time of an event, which is divided among executors, and the time of a trigger that grows
with the number of tasks, which is not. A model of these two predicts the rest, and is compared with
what was measured.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from tests.servers.cluster import Cluster

import everquery as eq
from benchmarks.findings import Figure, Findings, Panel, Table
from benchmarks.harness import Scale
from benchmarks.markets import Market
from benchmarks.spark_files import Stock
from benchmarks.spark_jobs import STREAM
from benchmarks.spark_runtime import workers_megabytes
from everquery.spark import local_session, read_files, stop_session, watch

NAME = "spark_scale"
SHARDS = 8
PARTITIONS = (1, 2, 4, 8)
EXECUTORS = (1, 2, 4, 8, 16, 32, 64)
WARM = 3
FEW = 20


def run(scale: Scale) -> Findings:
    """Measure jobs in one process and on a cluster, and predict larger ones."""
    market = Market.draw(scale)
    rows = scale.pick(1_000_000, 2_000)
    findings = Findings(
        {
            **market.parameters(),
            "shards": SHARDS,
            "events_a_trigger": 2 * rows,
            "workers": "2 of one core each, on a machine of two cores",
            "timing": "median trigger behind the first three",
        }
    )
    with tempfile.TemporaryDirectory(prefix="everquery-scale-") as folder:
        stock = Stock(Path(folder), market, rows, scale)
        url = f"sqlite:///{folder}/queries.db"
        with eq.Engine(STREAM, registry=url, lazy=True, create=True) as engine:
            engine.register_table(market.table(), kind="border")
        measured = {"one process": _in_one_process(stock, url, scale)}
        measured["cluster"] = _on_a_cluster(stock, url, scale)
    _say(findings, measured, 2 * rows)
    return findings


@dataclass(frozen=True)
class Cost:
    """What a job took with a number of partitions.

    Attributes
    ----------
    large, small : float
        Seconds of a trigger with all events, and with few.
    busy_large, busy_small : float
        Seconds of processor time of the whole machine in such triggers.
    megabytes : float
        Resident memory of all Python workers at the end.
    """

    large: float
    small: float
    busy_large: float
    busy_small: float
    megabytes: float


def _in_one_process(stock: Stock, registry: str, scale: Scale) -> dict[int, Cost]:
    session = local_session("everquery benchmarks")
    try:
        return _costs(session, stock, registry, scale)
    finally:
        stop_session(session)


def _on_a_cluster(stock: Stock, registry: str, scale: Scale) -> dict[int, Cost]:
    cluster = Cluster(workers=2, memory="2g")
    try:
        cluster.start()
        session = local_session(
            "everquery benchmarks",
            settings={
                "spark.master": cluster.url,
                "spark.executor.cores": "1",
                "spark.executor.memory": "1500m",
                "spark.driver.host": "127.0.0.1",
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            },
        )
        try:
            return _costs(session, stock, registry, scale)
        finally:
            stop_session(session)
    finally:
        cluster.remove()


def _costs(session: SparkSession, stock: Stock, registry: str, scale: Scale) -> dict[int, Cost]:
    """Return what the job takes with each number of partitions."""
    costs = {}
    for partitions in PARTITIONS:
        session.conf.set("spark.sql.shuffle.partitions", str(partitions))
        small, busy_small = _trigger(session, stock, registry, scale.pick(10, 4), small=True)
        large, busy_large = _trigger(session, stock, registry, scale.pick(10, 4), small=False)
        costs[partitions] = Cost(large, small, busy_large, busy_small, workers_megabytes())
    return costs


def _trigger(
    session: SparkSession, stock: Stock, registry: str, triggers: int, *, small: bool
) -> tuple[float, float]:
    """Return the seconds of a trigger, and the processor time of the machine in one."""
    folder = stock.folder_of(triggers, few=FEW if small else None)
    source = read_files(session, STREAM, [folder], max_files_a_batch=2)
    frame = watch(source, STREAM, registry=registry, shards=SHARDS, wide_shards=0)
    checkpoint = Path(f"{folder}-checkpoint")
    began = _busy_seconds()
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    busy = _busy_seconds() - began
    progress: list[Any] = [each for each in query.recentProgress if "addBatch" in each.durationMs]
    shutil.rmtree(checkpoint)
    shutil.rmtree(folder)
    seconds = [each.durationMs["triggerExecution"] / 1e3 for each in progress]
    usual = median(seconds[WARM:])
    # What the first triggers took beyond the others is planning and loading, not their events.
    return usual, busy * usual * len(seconds) / sum(seconds) / len(seconds)


def _busy_seconds() -> float:
    """Return how long the processors of the machine have been busy."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Model:
    """The seconds of a trigger from what an event and a task cost.

    Attributes
    ----------
    event_s : float
        Processor time of an event, divided among executors.
    trigger_s, task_s : float
        Seconds of a trigger without events, and how many more for each partition of state.
    """

    event_s: float
    trigger_s: float
    task_s: float

    @classmethod
    def of(cls, costs: dict[int, Cost], events: int) -> Model:
        """Fit the model to what was measured with two partitions and more."""
        several = {count: cost for count, cost in costs.items() if count > 1}
        task, trigger = np.polyfit(list(several), [cost.small for cost in several.values()], 1)
        busy = median((cost.busy_large - cost.busy_small) / events for cost in several.values())
        return cls(busy, max(float(trigger), 0.0), max(float(task), 0.0))

    def seconds(self, events: float, executors: int) -> float:
        """Return how long a trigger takes with as many partitions as executors of one core.

        Shards are as many, or a multiple, so that executors have equally much to do.
        """
        return self.trigger_s + executors * self.task_s + events * self.event_s / executors


def _say(findings: Findings, measured: dict[str, dict[int, Cost]], events: int) -> None:
    rows: list[list[str | float | None]] = []
    base = events / measured["one process"][1].large
    for place, costs in measured.items():
        for partitions, cost in costs.items():
            rate = events / cost.large
            name = f"{place}, {partitions}"
            busy = 1e9 * cost.busy_large / events
            rows.append([name, rate, rate / base, 1e3 * cost.small, busy, cost.megabytes])
    findings.tables.append(
        Table(
            "spark_scale",
            "Partitions of state, in one process and on a cluster",
            [
                "where, partitions", "events/s", "of one partition", f"ms with {FEW} events",
                "processor ns an event", "MB of workers",
            ],
            rows,
            "Two executors of one core each have no more cores than one process has. With one"
            " partition its worker reads for itself; with more, events are packed and shuffled.",
        )
    )  # fmt: skip
    findings.at_most(
        "Spark, 1,000,000 borders from `read_files`, one partition: memory of all Python workers",
        measured["one process"][1].megabytes / 1e3, 1.2, "GB",
    )  # fmt: skip
    model = Model.of(measured["cluster"], events)
    seen = events / measured["cluster"][2].large
    findings.at_most(
        "Spark, cluster of two executors: the model's rate against the measured one, how far off",
        abs(events / model.seconds(events, 2) / seen - 1), 0.25, "",
    )  # fmt: skip
    sizes = {f"{events:,} events": events, f"{8 * events:,} events": 8 * events}
    findings.figures.append(
        Figure(
            "spark_scale",
            "Predicted: events a second with executors of one core each",
            "executors",
            [float(each) for each in EXECUTORS],
            [
                Panel(
                    "A trigger of",
                    "events/s",
                    {
                        name: [size / model.seconds(size, each) for each in EXECUTORS]
                        for name, size in sizes.items()
                    },
                )
            ],
            seen=(
                f"A model, not a measurement: an event takes {1e9 * model.event_s:.0f} ns of"
                f" processor time, which executors divide; a trigger takes"
                f" {1e3 * model.trigger_s:.0f} ms, and {1e3 * model.task_s:.1f} ms more for each"
                " partition."
            ),
        )
    )
