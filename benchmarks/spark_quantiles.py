"""Quantile queries on Spark: a million of them over ten thousand keys, beside a no-op."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import everquery as eq
from benchmarks import spark_jobs
from benchmarks.findings import Findings, Table
from benchmarks.harness import Scale
from benchmarks.spark_jobs import STREAM
from benchmarks.spark_runtime import AS_IT_COMES, SCHEMA, WARM, seconds_of, set_arrow, told_of
from everquery.spark import local_session, read_files, stop_session, watch

NAME = "spark_quantiles"
SEED = 11
EPSILON = 0.01, 0.05


def run(scale: Scale) -> Findings:
    """Race both jobs over the same files, in turns."""
    keys, queries = scale.pick((10_000, 1_000_000), (50, 500))
    rows = scale.pick(1_000_000, 2_000)
    findings = Findings(
        {
            "keys": keys,
            "queries": queries,
            "phi": "uniform in (0, 1]",
            "epsilon": f"uniform in [{EPSILON[0]}, {EPSILON[1]}]",
            "values": "normal, keys uniform",
            "events_a_trigger": 2 * rows,
            "source": "Parquet files, two a trigger",
            "timing": "median trigger behind the first three; all cores, local[2]",
        }
    )
    with tempfile.TemporaryDirectory(prefix="everquery-spark-") as folder:
        session = local_session("everquery benchmarks")
        try:
            race(findings, scale, Feed(Path(folder), session, keys, rows), queries)
        finally:
            stop_session(session)
    return findings


class Feed:
    """Files of events, as a stream that may be read again and again."""

    def __init__(self, folder: Path, session: SparkSession, keys: int, rows: int) -> None:
        self.folder, self.session, self.keys, self.rows = folder, session, keys, rows
        self._jobs = 0
        rng = np.random.default_rng(SEED)
        self.names = pa.array([f"key{i}" for i in range(keys)])
        self._files = []
        for number in range(8):
            path = folder / f"{number}.parquet"
            symbol = self.names.take(pa.array(rng.integers(0, keys, rows)))
            pq.write_table(
                pa.table({"symbol": symbol, "price": rng.normal(100, 10, rows)}),
                path,
                row_group_size=rows // 4,
            )
            self._files.append(path)

    def run(
        self, make: Callable[[DataFrame], DataFrame] | None, triggers: int, url: str
    ) -> list[Any]:
        """Run a job over so many triggers; return its progress.

        Without `make`, it is one whose worker reads the files.
        """
        source = self.folder / f"in{self._jobs}"
        checkpoint = self.folder / f"checkpoint{self._jobs}"
        self._jobs += 1
        source.mkdir()
        for number in range(2 * triggers):
            path = source / f"{number:06}.parquet"
            os.link(self._files[number % len(self._files)], path)
            os.utime(path, (number, number))
        self.session.conf.set("spark.sql.shuffle.partitions", "1" if make is None else "2")
        if make is None:
            files = read_files(self.session, STREAM, [source], max_files_a_batch=2)
            frame = watch(files, STREAM, registry=url, shards=1, wide_shards=0)
        else:
            reader = self.session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2)
            frame = make(reader.parquet(str(source)))
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress = [each for each in query.recentProgress if "addBatch" in each.durationMs]
        shutil.rmtree(checkpoint)
        return progress


def race(findings: Findings, scale: Scale, feed: Feed, queries: int) -> None:
    """Register the queries, run both jobs, and say what was seen."""
    rng = np.random.default_rng(SEED)
    url = f"sqlite:///{feed.folder}/queries.db"
    with eq.Engine(STREAM, registry=url, lazy=True, create=True) as engine:
        engine.register_table(
            pa.table(
                {
                    "id": [f"q{i}" for i in range(queries)],
                    "key": feed.names.take(pa.array(rng.integers(0, feed.keys, queries))),
                    "phi": 1 - rng.random(queries),
                    "epsilon": rng.uniform(*EPSILON, queries),
                }
            ),
            kind="quantile",
        )
    ours, from_files = "1,000,000 quantile queries", "the same, workers read the files"
    jobs: dict[str, Callable[[DataFrame], DataFrame] | None] = {
        "no-op": spark_jobs.no_op,
        AS_IT_COMES: spark_jobs.no_op,
        ours: lambda df: watch(df, STREAM, registry=url, wide_shards=0),
        from_files: None,
    }
    rates: dict[str, list[float]] = {name: [] for name in jobs}
    told: dict[str, float | None] = {}
    for _ in range(scale.pick(2, 1)):
        for name, make in jobs.items():
            set_arrow(feed.session, ours=name != AS_IT_COMES)
            progress = feed.run(make, scale.pick(12, 4), url)
            rates[name].append(2 * feed.rows / median(map(seconds_of, progress[WARM:])))
            told[name] = told_of(progress)
    best = {name: median(each) for name, each in rates.items()}
    what = f"Spark, {queries:,} quantile queries over {feed.keys:,} keys: rate against a no-op"
    findings.at_least(f"{what} `mapInArrow`", best[ours] / best["no-op"], 0.4, "")
    findings.at_least(
        f"{what} `mapInArrow`, from `read_files`", best[from_files] / best["no-op"], 0.7, ""
    )
    findings.at_least(f"{what} with Spark's own settings", best[ours] / best[AS_IT_COMES], 0.4, "")
    findings.tables.append(
        Table(
            "spark_quantile_rates",
            "Quantiles: events a second through a streaming job",
            ["job", "events/s", "of the no-op", "notices an event"],
            [[name, rate, rate / best["no-op"], told[name]] for name, rate in best.items()],
            "A session gets settings from us that make all jobs faster, the no-op among them.",
        )
    )
