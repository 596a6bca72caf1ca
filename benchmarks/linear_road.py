"""Linear Road: how many expressways one core holds, as a network and on Structured Streaming."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from benchmarks.findings import Findings, Table
from benchmarks.harness import ROOT, Scale, check_count
from benchmarks.linear_road_data import expressway, expressways, steps
from everquery.network import Network
from everquery.spark import local_session, stop_session

NAME = "linear_road"
EXAMPLE = ROOT / "examples" / "linear_road.yaml"
SEED = 4
MOST_DELAY = 5.0
WARM = 3  # batches that are not counted: plans, compilers and workers start
CLOSE = 1.15  # two numbers of expressways between which it does not matter

Batches = Callable[[int], Iterator[pa.Table]]
Costs = Callable[[Iterator[pa.Table]], Iterator[float]]


def longest_delay(costs: Iterator[float], step: int, most: float) -> float:
    """Return the longest delay of a report until its batch is done; stop when it is too long.

    A batch comes when its last report is there, so that its first has waited for `step` seconds,
    and begins when those before it are done.
    """
    free, longest = 0.0, 0.0
    for number, cost in enumerate(costs):
        if number < WARM:
            continue
        came = (number + 1) * step
        free = max(free, came) + cost
        longest = max(longest, free - came + step)
        if longest > most:
            break
    return longest


def without_charges() -> Network:
    """Return the network as far as Structured Streaming does the same here."""
    whole = Network.load(EXAMPLE)
    boxes = {name: box for name, box in whole.boxes.items() if not name.startswith("charging.")}
    outputs = {name: one for name, one in whole.outputs.items() if name != "charges"}
    return Network(whole.name, whole.streams, boxes, outputs)


def network_costs(network: Network, batches: Iterator[pa.Table]) -> Iterator[float]:
    """Yield how long the network takes for each batch."""
    run = network.start()
    for batch in batches:
        began = time.perf_counter()
        run.process({"reports": batch})
        yield time.perf_counter() - began


@dataclass(frozen=True)
class Trial:
    """Seconds of reports in a batch, the longest delay that is allowed, and how to begin."""

    step: int
    delay: float
    first: int
    most: int


def holds(batches: Batches, costs: Costs, trial: Trial) -> tuple[int, float]:
    """Return the most expressways whose delay is short enough, and their longest delay.

    Doubles until it is too long, then looks between; 0 if not even one is held.
    """
    good, bad, delay = 0, trial.most + 1, 0.0
    tried = trial.first
    while good < tried < bad:
        found = longest_delay(costs(batches(tried)), trial.step, trial.delay)
        if found <= trial.delay:
            good, delay = tried, found
        else:
            bad = tried
        if bad <= good * CLOSE or bad == good + 1:
            break
        tried = min(2 * tried, trial.most) if bad > trial.most else (good + bad) // 2
    return good, delay


# -- the same rules on Structured Streaming -------------------------------------------------------

PLAIN = {  # what Spark itself has, not what suits everquery
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
}
ROAD = ("xway", "dir", "seg")
PLACE = (*ROAD, "lane", "pos")


def statistics(reports: DataFrame) -> DataFrame:
    """Return cars of each minute, and the mean of the average speeds of five."""
    cars = reports.groupBy(f.window("ts", "1 minute"), *ROAD, "car").agg(
        f.avg("speed").alias("speed")
    )
    at = f.window_time("window")
    minutes = (
        cars.withColumn("at", at)
        .groupBy(f.window("at", "1 minute"), *ROAD)
        .agg(f.avg("speed").alias("speed"), f.count("*").alias("cars"))
    )
    five = (
        minutes.withColumn("at", at)
        .groupBy(f.window("at", "5 minutes", "1 minute"), *ROAD)
        .agg(
            f.avg("speed").alias("speed"),
            f.max_by("cars", "at").alias("cars"),
            f.max("at").alias("latest"),
        )
    )
    return five.where("latest = window.end - INTERVAL 1 MICROSECOND").select(
        *ROAD, "speed", "cars", at.alias("ts")
    )


def accidents(reports: DataFrame) -> DataFrame:
    """Return places with two cars that stand, by minute."""
    four = (
        reports.where("speed = 0")
        .groupBy(f.window("ts", "2 minutes", "30 seconds"), *PLACE, "car")
        .count()
        .where("count = 4")
    )
    places = (
        four.withColumn("at", f.window_time("window"))
        .groupBy(f.window("at", "1 minute"), *PLACE)
        .agg(f.size(f.collect_set("car")).alias("cars"))
    )
    return places.where("cars >= 2").select(*ROAD, f.window_time("window").alias("ts"))


def tolls(reports: DataFrame) -> DataFrame:
    """Return the tolls, by the minute before; an accident ahead rules one out."""
    latest = statistics(reports).where("speed < 40 AND cars > 50").alias("latest")
    ahead = accidents(reports).alias("ahead")
    near = f.expr(
        "latest.xway = ahead.xway AND latest.dir = ahead.dir AND latest.ts = ahead.ts"
        " AND (ahead.seg - latest.seg) * (1 - 2 * latest.dir) BETWEEN 0 AND 4"
    )
    return (
        latest.join(ahead, near, "left_outer")
        .where("ahead.seg IS NULL")
        .selectExpr(
            *(f"latest.{name} AS {name}" for name in ROAD),
            "latest.ts AS ts",
            "2 * (cars - 50) * (cars - 50) AS toll",
        )
    )


def tolls_over(session: SparkSession, folder: Path, schema: pa.Schema) -> DataFrame:
    """Return the tolls of the reports in a folder, a file a batch."""
    reader = session.readStream.schema(from_arrow_schema(schema))
    reports = reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
    return tolls(reports.withWatermark("ts", "0 seconds"))


class Streaming:
    """Jobs of Structured Streaming over files of reports, one job at a time."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self._session, self._folder, self._jobs = session, folder, 0

    def costs(self, batches: Iterator[pa.Table]) -> Iterator[float]:
        """Yield how long a job takes for each batch; what it finds goes nowhere."""
        folder, schema = self._written(batches)
        writer = tolls_over(self._session, folder / "reports", schema).writeStream.format("noop")
        query = self._started(writer, folder)
        found = [
            each.durationMs["triggerExecution"] / 1000
            for each in query.recentProgress
            if each.numInputRows
        ]
        shutil.rmtree(folder)
        yield from found

    def rows(self, batches: Iterator[pa.Table]) -> list[tuple[float, ...]]:
        """Return the tolls that a job finds."""
        folder, schema = self._written(batches)
        frame = tolls_over(self._session, folder / "reports", schema)
        out = folder / "tolls"
        self._started(frame.writeStream.format("parquet").option("path", str(out)), folder)
        rows = self._session.read.parquet(str(out)).collect()
        shutil.rmtree(folder)
        return sorted((r.xway, r.dir, r.seg, r.ts.timestamp() // 60 * 60, r.toll) for r in rows)

    def _written(self, batches: Iterator[pa.Table]) -> tuple[Path, pa.Schema]:
        folder = self._folder / f"job{self._jobs}"
        self._jobs += 1
        (folder / "reports").mkdir(parents=True)
        schema = None
        for number, batch in enumerate(batches):
            ts = pc.cast(batch["t"], pa.timestamp("s")).cast(pa.timestamp("us", "UTC"))
            table = batch.append_column("ts", ts)
            pq.write_table(table, folder / "reports" / f"{number:06}.parquet")
            schema = table.schema
        assert schema is not None
        return folder, schema

    def _started(self, writer, folder: Path):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - Spark's
        query = (
            writer.option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query


# -- the subject ----------------------------------------------------------------------------------


def run(scale: Scale) -> Findings:
    """Compare what both find, then add expressways until delays are too long."""
    seconds, cars, step = scale.pick((420, 30_000, 2), (320, 4_000, 40))
    allowed = scale.pick(MOST_DELAY, 1e9)
    one = expressway(SEED, cars=cars, seconds=seconds, stops=24)
    most = int(pc.max(one["car"]).as_py()) + 1
    pieces = list(steps(one, step))

    def batches(count: int) -> Iterator[pa.Table]:
        return (expressways(piece, count, most) for piece in pieces)

    findings = Findings(
        {
            "reports_a_second": f"{one.num_rows / seconds:,.0f} for each expressway",
            "seconds": seconds,
            "batch": f"{step} s of reports",
            "delay": "from a report to the end of its batch, by the measured time of each batch",
            "core": "one, for Spark too (Java included)",
        }
    )
    tried = Trial(step, allowed, *scale.pick((32, 1024), (2, 4)))
    own = [
        holds(batches, partial(network_costs, network), tried)
        for network in (Network.load(EXAMPLE), without_charges())
    ]
    tried = Trial(step, allowed, *scale.pick((1, 256), (1, 1)))
    with tempfile.TemporaryDirectory(prefix="everquery-road-") as folder:
        session = local_session(
            "everquery benchmarks",
            cores=1,
            partitions=1,
            settings=PLAIN,
        )
        try:
            streaming = Streaming(session, Path(folder))
            same(pieces, streaming)
            theirs = holds(batches, streaming.costs, tried)
        finally:
            stop_session(session)
    _tell(findings, own, theirs)
    return findings


def same(pieces: Sequence[pa.Table], streaming: Streaming) -> None:
    """Assert that both find the same tolls, for the minutes that Spark tells before its end."""
    cars = max(int(pc.max(piece["car"]).as_py()) for piece in pieces if piece.num_rows) + 1
    given = [expressways(piece, 1, cars) for piece in pieces]
    theirs = streaming.rows(iter(given))
    network = without_charges().start()
    found: list[tuple[float, ...]] = []
    for batch in given:
        rows = network.process({"reports": batch})["tolls"].to_pylist()
        found += (tuple(row[name] for name in (*ROAD, "window_start", "toll")) for row in rows)
    told = {row[3] for row in theirs}
    kept = sorted(row for row in found if row[3] in told)
    check_count("tolls", len(kept), len(theirs))
    assert kept == theirs, "the tolls of Structured Streaming are others"
    assert theirs


def _tell(findings: Findings, own: Sequence[tuple[int, float]], theirs: tuple[int, float]) -> None:
    findings.at_least(
        "Linear Road: expressways of the network against Structured Streaming, one core",
        own[1][0] / max(theirs[0], 1),
        1.0,
        "times",
    )
    rows = {
        "the network: statistics, accidents, tolls, and charges of each car": own[0],
        "the network: statistics, accidents, tolls": own[1],
        "Structured Streaming: statistics, accidents, tolls": theirs,
    }
    findings.tables.append(
        Table(
            "linear_road",
            f"Linear Road: expressways that one core holds with {MOST_DELAY:g} s of delay",
            ["", "expressways", "longest delay, s"],
            [[title, float(held), delay] for title, (held, delay) in rows.items()],
            "A report's delay ends with the batch that it came in. Structured Streaming tells a"
            " minute only batches later, when the watermarks of its operators have passed one after"
            " the other; that is not counted. 0: not even one.",
        )
    )
