"""The Spark runtime: rates beside a no-op, trigger times, live registration, a long run."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import everquery as eq
from benchmarks import spark_jobs
from benchmarks.findings import Figure, Findings, Panel, Table
from benchmarks.harness import Scale
from benchmarks.markets import Market
from benchmarks.spark_files import Stock
from benchmarks.spark_jobs import STREAM, WEIGHED
from everquery.spark import EventSource, local_session, read_files, stop_session, watch
from everquery.spark.session import QUERY_SETTINGS

NAME = "spark_runtime"
SCHEMA = "symbol string, price double"
WEIGHED_SCHEMA = f"{SCHEMA}, shares bigint"
WARM = 3  # batches of a job that are not counted
FEW = 20  # events of a small batch
BORDERS = "1,000,000 borders"
THRESHOLDS = "1,000,000 thresholds"
AS_IT_COMES = "no-op, with Spark's own settings"
ARROW = ("maxRecordsPerBatch", "maxBytesPerBatch")  # of these, ours make every job faster


def run(scale: Scale) -> Findings:
    """Measure every job over the same files, in one session, in turns."""
    market = Market.draw(scale)
    rows = scale.pick(1_000_000, 2_000)
    findings = Findings(
        {
            **market.parameters(),
            "events_a_trigger": 2 * rows,
            "files_a_trigger": 2,
            "source": "Parquet files, two a trigger",
            "timing": "median trigger behind the first three; all cores, local[2]",
        }
    )
    with tempfile.TemporaryDirectory(prefix="everquery-spark-") as folder:
        bench = Bench(Path(folder), market, rows, scale)
        try:
            bench.rates(findings)
            bench.from_files(findings)
            bench.triggers(findings)
            bench.registration(findings)
            bench.long_run(findings)
        finally:
            bench.close()
    return findings


class Bench:
    """A session, its files of events, and registries of two sizes."""

    def __init__(self, folder: Path, market: Market, rows: int, scale: Scale) -> None:
        self.folder, self.market, self.rows, self.scale = folder, market, rows, scale
        self.spark: SparkSession = local_session("everquery benchmarks")
        self._jobs = 0
        self.stock = Stock(folder, market, rows, scale)
        table = market.table()
        self.many = self._registry("many", table)
        few = scale.pick(10_000, 100)
        self.few = self._registry("few", table.slice(0, few))
        # As many notices an event as with few: the others are where no price comes.
        self.totals = self._registry("totals", _totals(table), kind="threshold")
        self.few_of_many = self._registry(
            "few of many", pa.concat_tables([table.slice(0, few), _far(table.slice(few))])
        )

    def close(self) -> None:
        """Stop Spark."""
        stop_session(self.spark)

    def _registry(self, name: str, table: pa.Table, *, kind: str = "border") -> str:
        url = f"sqlite:///{self.folder}/{name}.db"
        stream = STREAM if kind == "border" else WEIGHED
        with eq.Engine(stream, registry=url, lazy=True, create=True) as engine:
            engine.register_table(table, kind=kind)
        return url

    def source(self, triggers: int, *, small: bool = False, schema: str = SCHEMA) -> DataFrame:
        """Return a stream of two files a trigger."""
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 2)
        return reader.parquet(str(self.stock.folder_of(triggers, few=FEW if small else None)))

    def past_the_pipe(
        self, triggers: int, *, small: bool = False, stream: eq.Stream = STREAM
    ) -> EventSource:
        """Return the same events, two files a trigger, for workers to read."""
        folder = self.stock.folder_of(triggers, few=FEW if small else None)
        return read_files(self.spark, stream, [folder], max_files_a_batch=2)

    def job(self, frame: DataFrame, at_end: Callable[[Path], None] | None = None) -> Any:  # noqa: ANN401
        """Run a job over all of its source; return its progress, trigger by trigger."""
        checkpoint = self.folder / f"checkpoint{self._jobs}"
        self._jobs += 1
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress = [each for each in query.recentProgress if "addBatch" in each.durationMs]
        if at_end is not None:
            at_end(checkpoint)
        shutil.rmtree(checkpoint)
        return progress

    # -- rates ----------------------------------------------------------------------------

    def rates(self, findings: Findings) -> None:
        """Race the jobs over the same files."""
        triggers = self.scale.pick(10, 4)
        # All queries have keys: no wide shards.
        jobs: dict[str, tuple[int, Callable[[DataFrame], DataFrame]]] = {
            "no-op": (triggers, spark_jobs.no_op),
            AS_IT_COMES: (triggers, spark_jobs.no_op),
            "1,000,000 queries": (triggers, self._watch(self.many)),
            "the same with a wide shard": (
                self.scale.pick(8, 4), self._watch(self.many, wide_shards=1)
            ),
            "10,000 queries": (triggers, self._watch(self.few)),
            "the same and 990,000 that are far": (triggers, self._watch(self.few_of_many)),
            "a row an event": (
                self.scale.pick(5, 4), lambda df: spark_jobs.row_by_row(df, self.many)
            ),
            "no-op, with weights": (triggers, spark_jobs.no_op),
            THRESHOLDS: (triggers, self._watch(self.totals, WEIGHED)),
        }  # fmt: skip
        found: dict[str, list[float]] = {name: [] for name in jobs}
        told: dict[str, float | None] = {}
        for _ in range(self.scale.pick(3, 1)):
            for name, (count, make) in jobs.items():
                weighed = name in (THRESHOLDS, "no-op, with weights")
                schema = WEIGHED_SCHEMA if weighed else SCHEMA
                set_arrow(self.spark, ours=name != AS_IT_COMES)
                progress = self.job(make(self.source(count, schema=schema)))
                found[name].append(rate_of(progress))
                told[name] = told_of(progress)
        best = {name: median(rates) for name, rates in found.items()}
        best["range join"] = self._join()
        self._say_rates(findings, best, told)

    def _watch(
        self, registry: str, stream: eq.Stream = STREAM, *, wide_shards: int = 0
    ) -> Callable[[DataFrame], DataFrame]:
        return lambda df: watch(df, stream, registry=registry, wide_shards=wide_shards)

    def _join(self) -> float:
        """Return the rate of a range join with all queries, over what it can finish."""
        queries = self.folder / "queries.parquet"
        pq.write_table(self.market.table(), queries)
        source = self.source(self.scale.pick(4, 4), small=True)
        few = self.spark.read.parquet(str(queries))
        return rate_of(self.job(spark_jobs.range_join(source, few)), warm=1)

    def _say_rates(
        self, findings: Findings, best: dict[str, float], told: dict[str, float | None]
    ) -> None:
        base = best["no-op"]
        ours = best["1,000,000 queries"]
        name = "Spark, 1,000,000 key-filtered borders"
        findings.at_least(f"{name}: rate against a no-op `mapInArrow`", ours / base, 0.6, "")
        findings.at_least(
            f"{name}: rate against a no-op with Spark's own settings",
            ours / best[AS_IT_COMES], 0.6, "",
        )  # fmt: skip
        findings.at_least(
            f"{name}: rate against a row an event", ours / best["a row an event"], 4, "times"
        )
        findings.at_least(
            "Spark, from 10,000 to 1,000,000 queries with as many notices: rate",
            best["the same and 990,000 that are far"] / best["10,000 queries"], 0.8, "",
        )  # fmt: skip
        weighed = best["no-op, with weights"]
        findings.at_least(
            "Spark, 1,000,000 key-filtered thresholds: rate against a no-op `mapInArrow`",
            best[THRESHOLDS] / weighed, 0.5, "",
        )  # fmt: skip
        rows: list[list[str | float | None]] = [
            [job, rate, rate / base, told.get(job)] for job, rate in best.items()
        ]
        findings.tables.append(
            Table(
                "spark_rates",
                "Events a second through a streaming job",
                ["job", "events/s", "of the no-op", "notices an event"],
                rows,
                "The range join tells matches, not borders, and keeps no state; it is given"
                f" {FEW} events a trigger, all that it can finish.",
            )
        )

    # -- events that never are rows -------------------------------------------------------

    def from_files(self, findings: Findings) -> None:
        """Race jobs whose workers read the files with Spark's no-op over the same files."""
        triggers = self.scale.pick(10, 4)
        folder = self.folder / "written"
        jobs: dict[str, Callable[[], DataFrame]] = {
            "no-op": lambda: spark_jobs.no_op(self.source(triggers)),
            BORDERS: lambda: self._from_files(self.many, triggers),
            "the same to Parquet": lambda: self._from_files(
                self.many, triggers, folder=folder / str(self._jobs)
            ),
            "no-op, with weights": lambda: spark_jobs.no_op(
                self.source(triggers, schema=WEIGHED_SCHEMA)
            ),
            THRESHOLDS: lambda: self._from_files(self.totals, triggers, WEIGHED),
        }
        set_arrow(self.spark, ours=True)
        self.spark.conf.set("spark.sql.shuffle.partitions", "1")
        found: dict[str, list[float]] = {name: [] for name in jobs}
        kept: list[float] = []
        for _ in range(self.scale.pick(3, 1)):
            for name, make in jobs.items():
                progress = self.job(make())
                found[name].append(2 * self.rows / median(seconds_of(p) for p in progress[WARM:]))
                rebuilt = [p.observedMetrics.get("everquery") for p in progress[1:]]
                kept += [float(row["rebuilt"] == 0) for row in rebuilt if row is not None]
        self.spark.conf.set("spark.sql.shuffle.partitions", "2")
        best = {name: median(rates) for name, rates in found.items()}
        for name, base, least in (
            (BORDERS, "no-op", 1.0),
            (THRESHOLDS, "no-op, with weights", 0.9),
        ):
            findings.at_least(
                f"Spark, {name} from `read_files`: rate against a no-op over Spark's Parquet",
                best[name] / best[base], least, "",
            )  # fmt: skip
        findings.at_least(
            f"Spark, {BORDERS} from `read_files`", best[BORDERS] / 1e6, 5, "million events/s"
        )
        findings.at_least(
            "Spark, notices to Parquet against the same without",
            best["the same to Parquet"] / best[BORDERS], 0.8, "",
        )  # fmt: skip
        findings.at_least(
            "Spark, batches that found their shards live", sum(kept) / len(kept), 0.95, ""
        )
        rows: list[list[str | float | None]] = [
            [job, rate, rate / best["no-op"]] for job, rate in best.items()
        ]
        findings.tables.append(
            Table(
                "spark_files",
                "Events a second where workers read the files",
                ["job", "events/s", "of the no-op"],
                rows,
                "The no-op is `mapInArrow` over Spark's Parquet source, in the same session.",
            )
        )

    def _from_files(
        self,
        registry: str,
        triggers: int,
        stream: eq.Stream = STREAM,
        folder: Path | None = None,
    ) -> DataFrame:
        source = self.past_the_pipe(triggers, stream=stream)
        return watch(source, stream, registry=registry, shards=1, wide_shards=0, folder=folder)

    # -- triggers -------------------------------------------------------------------------

    def triggers(self, findings: Findings) -> None:
        """Compare the triggers of small batches with those of an empty stateful job."""
        count = self.scale.pick(60, 6)
        times: dict[str, list[float]] = {}
        jobs: dict[str, Callable[[], DataFrame]] = {
            "empty": lambda: spark_jobs.empty(self.source(count, small=True)),
            "ours": lambda: self._watch(self.many)(self.source(count, small=True)),
            "ours, from files": lambda: watch(
                self.past_the_pipe(count, small=True), STREAM,
                registry=self.many, shards=1, wide_shards=0,
            ),
        }  # fmt: skip
        for turn in range(2):
            for name, make in jobs.items():
                alone = name == "ours, from files"
                self.spark.conf.set("spark.sql.shuffle.partitions", "1" if alone else "2")
                progress = self.job(make())
                if turn:  # the first turn warms up
                    times[name] = [seconds_of(each) for each in progress][WARM:]
        self.spark.conf.set("spark.sql.shuffle.partitions", "2")
        empty = median(times["empty"])
        for name, most in (("ours", 1.3), ("ours, from files", 1.1)):
            findings.at_most(
                f"Spark, 1,000,000 queries, few events, {name}: trigger against an empty stateful"
                " job",
                median(times[name]) / empty, most, "times",
            )  # fmt: skip
        findings.tables.append(
            Table(
                "spark_triggers",
                f"Triggers with {FEW} events, milliseconds",
                ["job", "median", "best"],
                [[name, 1e3 * median(each), 1e3 * min(each)] for name, each in times.items()],
            )
        )

    # -- registration ---------------------------------------------------------------------

    def registration(self, findings: Findings) -> None:
        """Register queries while small batches flow; count triggers until the first notice."""
        folder = self.folder / "live"
        folder.mkdir()
        few = pq.read_table(self.stock.files[0]).slice(0, FEW)
        reader = self.spark.readStream.schema(SCHEMA).parquet(str(folder))
        seen: list[tuple[int, set[str]]] = []

        def note(batch: DataFrame, number: int) -> None:
            seen.append((number, {row.query_id for row in batch.select("query_id").collect()}))

        query = (
            watch(reader, STREAM, registry=self.many).writeStream.foreachBatch(note)
            .option("checkpointLocation", str(self.folder / "live checkpoint")).start()
        )  # fmt: skip
        registrar = eq.Engine(STREAM, registry=self.many, lazy=True, create=True)
        begun: dict[str, float] = {}
        feed = _Feeder(folder, few)
        while query.isActive and not seen:
            feed.put()
            time.sleep(0.2)
        for number in range(self.scale.pick(20, 3)):
            name = f"fresh{number}"
            registrar.register(eq.Range(name, {}))
            begun[name] = time.time()
            while query.isActive and not any(name in told for _, told in seen):
                feed.put()
                time.sleep(0.05)
        if (error := query.exception()) is not None:
            raise RuntimeError(str(error))
        query.stop()
        registrar.deregister(list(begun))
        started = {each.batchId: _started(each) for each in query.recentProgress}
        waits = [
            sum(begun[name] <= started.get(number, 0.0) for number, _ in seen if number <= first)
            for name in begun
            for first in [min(number for number, told in seen if name in told)]
            if first in started
        ]
        findings.at_most(
            "Spark: triggers from registration to the first notice, the most of"
            f" {len(waits)}", max(waits), 2, "",
        )  # fmt: skip

    # -- a long run -----------------------------------------------------------------------

    def long_run(self, findings: Findings) -> None:
        """Watch memory and checkpoint over a hundred million events."""
        triggers = self.scale.pick(50, 6)
        frame = watch(self.source(triggers), STREAM, registry=self.many)
        checkpoint = self.folder / "long checkpoint"
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        events: list[float] = []
        memory: list[float] = []
        disk: list[float] = []
        while query.isActive:
            last = query.lastProgress
            if last is not None and (not events or 2 * self.rows * last.batchId > events[-1]):
                events.append(2.0 * self.rows * last.batchId)
                memory.append(workers_megabytes())
                disk.append(_megabytes(checkpoint))
            time.sleep(0.2)
        half = len(events) // 2
        growth = max(memory[half:]) / max(memory[1:half]) if half > 1 else 1.0
        findings.at_most(
            "Spark, 100 million events: memory of the workers, second half against the first",
            growth, 1.1, "times",
        )  # fmt: skip
        size = max(disk[half:]) / max(disk[1:half]) if half > 1 else 1.0
        findings.at_most(
            "Spark, 100 million events: checkpoint, second half against the first",
            size, 2.0, "times",
        )  # fmt: skip
        findings.figures.append(
            Figure(
                "spark_long_run",
                "A long run: memory of the Python workers, and the checkpoint",
                "events",
                events,
                [
                    Panel("Workers", "MB", {"resident": list(memory)}, log_y=False),
                    Panel("Checkpoint", "MB", {"on disk": list(disk)}, log_y=False),
                ],
                seen="Spark keeps the last hundred batches of a checkpoint; it grows until then.",
                log_x=False,
            )
        )


def set_arrow(spark: SparkSession, *, ours: bool) -> None:
    """Choose between our settings of a session and Spark's own."""
    for name in (f"spark.sql.execution.arrow.{each}" for each in ARROW):
        if ours:
            spark.conf.set(name, QUERY_SETTINGS[name])
        else:
            spark.conf.unset(name)


def _totals(table: pa.Table) -> pa.Table:
    """Return thresholds of a tenth of the prices each, that need a few triggers to many."""
    rng = np.random.default_rng(7)
    low, high = pc.min(table["price_lo"]).as_py(), pc.max(table["price_hi"]).as_py()
    begin = rng.uniform(low, low + 0.9 * (high - low), table.num_rows)
    return pa.table(
        {
            "id": table["id"],
            "key": table["key"],
            "price_lo": begin,
            "price_hi": begin + 0.1 * (high - low),
            "total": rng.integers(100_000, 10_000_000, table.num_rows),
        }
    )


def _far(table: pa.Table) -> pa.Table:
    """Return the same queries where no price comes."""
    for name in ("price_lo", "price_hi"):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pc.add(table[name], 1e9))
    return table


class _Feeder:
    """Puts small files into a folder that a job reads."""

    def __init__(self, folder: Path, table: pa.Table) -> None:
        self._folder, self._table, self._number = folder, table, 0

    def put(self) -> None:
        path = self._folder / f".{self._number}"
        pq.write_table(self._table, path)
        path.rename(self._folder / f"{self._number:06}.parquet")
        self._number += 1


def seconds_of(progress: Any) -> float:  # noqa: ANN401 - pyspark's
    """Return how long a trigger took."""
    return float(progress.durationMs["triggerExecution"]) / 1e3


def rate_of(progress: list[Any], warm: int = WARM) -> float:
    return float(median(each.numInputRows / seconds_of(each) for each in progress[warm:]))


def told_of(progress: list[Any]) -> float | None:
    """Return the notices an event of a job of ours; None for others."""
    figures = [each.observedMetrics.get("everquery") for each in progress[WARM:]]
    told = sum(each["told"] for each in figures if each is not None)
    events = sum(each["events"] for each in figures if each is not None)
    return told / events if events else None


def _started(progress: Any) -> float:  # noqa: ANN401 - pyspark's
    return (
        float(np.datetime64(progress.timestamp.rstrip("Z")).astype("datetime64[ms]").astype(float))
        / 1e3
    )


def _megabytes(folder: Path) -> float:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total / 1e6


def workers_megabytes() -> float:
    """Return the resident memory of all Python workers of Spark; what they share counts once."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/smaps_rollup"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            if b"daemon" in command and b"pyspark.worker" in command:
                lines = status.read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
    return total / 1e3
