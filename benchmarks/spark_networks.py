"""Networks on Spark beside the DataFrame job that a user would write by hand."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema

import everquery as eq
from benchmarks.findings import Findings, Table
from benchmarks.harness import Scale
from everquery.spark import local_session, read_files, stop_session

NAME = "spark_networks"
SEED = 20
WARM = 3  # triggers
SECOND = 1_000_000  # of the time column, which is in microseconds
NETWORK = """
network: plant
streams:
  readings: {key: machine, time: ts, attributes: [temperature, vibration]}
boxes:
  hot:    {box: filter, from: readings, where: "temperature > 40"}
  scaled: {box: map, from: hot,
           select: "machine, ts, (temperature - 32) / 1.8 AS celsius, vibration"}
  calm:   {box: filter, from: scaled, where: "vibration < 2.5"}
  tops:   {box: tumble, from: calm, by: [machine], every: {time: 10},
           select: "machine, max(celsius) AS top, count(*) AS n"}
outputs:
  calm: {from: calm}
  tops: {from: tops}
"""


def run(scale: Scale) -> Findings:
    """Race the network and the jobs by hand over the same files, in turns."""
    rows, triggers = scale.pick((500_000, 12), (20_000, 5))
    findings = Findings(
        {
            "machines": 1_000,
            "rows_a_trigger": 2 * rows,
            "time": "100,000 rows are a second: a window of 10 s has as many rows as a trigger",
            "source": "Parquet files, two a trigger; sink: noop",
            "timing": f"median trigger behind the first {WARM}; all cores, local[2]",
        }
    )
    with tempfile.TemporaryDirectory(prefix="everquery-spark-") as folder:
        session = local_session("everquery benchmarks")
        try:
            feed = Feed(Path(folder), session, rows, triggers)
            race(findings, scale, feed)
        finally:
            stop_session(session)
    return findings


class Feed:
    """Files of readings in time order, as a stream that may be read again and again."""

    def __init__(self, folder: Path, session: SparkSession, rows: int, triggers: int) -> None:
        self.folder, self.session, self.rows, self._jobs = folder, session, rows, 0
        self.events = folder / "events"
        self.events.mkdir()
        rng = np.random.default_rng(SEED)
        names = pa.array([f"machine{i}" for i in range(1_000)])
        for number in range(2 * triggers):
            at = (number * rows + np.arange(rows)) * (SECOND // 100_000)
            table = pa.table(
                {
                    "machine": names.take(pa.array(rng.integers(0, len(names), rows))),
                    "ts": pa.array(at, pa.timestamp("us", "UTC")),
                    "temperature": rng.normal(60, 20, rows),
                    "vibration": rng.normal(1, 1, rows),
                }
            )
            pq.write_table(table, self.events / f"{number:06}.parquet", row_group_size=rows // 4)
        self.schema = table.schema

    def frame(self) -> DataFrame:
        """Return the readings as Spark reads them."""
        reader = self.session.readStream.schema(from_arrow_schema(self.schema))
        return reader.option("maxFilesPerTrigger", 2).parquet(str(self.events))

    def rate(self, frame: DataFrame) -> float:
        """Run a job to its end; return its rows a second."""
        checkpoint = self.folder / f"checkpoint{self._jobs}"
        self._jobs += 1
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        seconds = [
            each.durationMs["triggerExecution"] / 1000
            for each in query.recentProgress
            if each.numInputRows
        ]
        shutil.rmtree(checkpoint)
        return 2 * self.rows / median(seconds[WARM:])


def calm_by_hand(df: DataFrame) -> DataFrame:
    """Return what the output `calm` is, as one writes it for Spark."""
    scaled = df.where("temperature > 40").selectExpr(
        "machine", "ts", "(temperature - 32) / 1.8D AS celsius", "vibration"
    )
    return scaled.where("vibration < 2.5")


def tops_by_hand(df: DataFrame) -> DataFrame:
    """Return what the output `tops` is, as one writes it for Spark."""
    windows = functions.window("ts", "10 seconds")
    grouped = calm_by_hand(df).withWatermark("ts", "0 seconds").groupBy(windows, "machine")
    return grouped.agg(
        functions.max("celsius").alias("top"),
        functions.count("*").alias("n"),
    )


def race(findings: Findings, scale: Scale, feed: Feed) -> None:
    """Run all jobs in turns, and say what was seen."""
    network = eq.Network.load(NETWORK)
    stream = network.streams["readings"].stream

    def over_files(name: str) -> DataFrame:
        source = read_files(feed.session, stream, [feed.events], max_files_a_batch=2)
        found: DataFrame = network.watch(feed.session, {"readings": source})[name]
        return found

    def over_frame(name: str) -> DataFrame:
        found: DataFrame = network.watch(feed.session, {"readings": feed.frame()})[name]
        return found

    jobs: dict[tuple[str, str], Callable[[], DataFrame]] = {
        ("filters and a map", "by hand"): lambda: calm_by_hand(feed.frame()),
        ("filters and a map", "network"): lambda: over_frame("calm"),
        ("and a tumbling window", "by hand"): lambda: tops_by_hand(feed.frame()),
        ("and a tumbling window", "network"): lambda: over_frame("tops"),
        ("and a tumbling window", "network, workers read"): lambda: over_files("tops"),
    }
    rates: dict[tuple[str, str], list[float]] = {name: [] for name in jobs}
    for _ in range(scale.pick(3, 1)):
        for name, make in jobs.items():
            rates[name].append(feed.rate(make()))
    best = {name: median(each) for name, each in rates.items()}
    for (what, how), rate in best.items():
        if how != "by hand":
            told = f"Spark, {what}: {how} against the DataFrame job by hand"
            findings.at_least(told, rate / best[what, "by hand"], 0.8, "")
    findings.tables.append(
        Table(
            "spark_network_rates",
            "Networks on Spark: rows a second",
            ["job", "rows/s", "of the job by hand"],
            [
                [f"{what}: {how}", rate, rate / best[what, "by hand"]]
                for (what, how), rate in best.items()
            ],
            "Boxes without state are Spark's own operators. A window runs in the stateful stage, to"
            " which rows go packed, or which reads the files itself.",
        )
    )
