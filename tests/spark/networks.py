"""Networks over files, one file of each stream a batch, on both runtimes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

import everquery as eq
from everquery.network import Network

ALL_BOXES = """
network: everything
streams:
  s: {key: k, time: t, attributes: [x, o]}
  r: {key: k, time: t, attributes: [y]}
boxes:
  high:    {box: filter, from: s, where: "x > 4"}
  scaled:  {box: map, from: high, select: "k, t, (x - 32) / 1.8 AS c"}
  shared:  {box: map, from: s, select: "k, t, 6 / x AS part"}
  low:     {box: filter, from: s, where: "x < 3 OR x IS NULL"}
  both:    {box: union, from: [high, low]}
  ten:     {box: tumble, from: s, by: [k], every: {time: 10},
            select: "k, max(x) AS top, count(*) AS n, sum(x) AS total"}
  five:    {box: tumble, from: s, by: [k], every: {rows: 5}, select: "k, avg(x) AS mean"}
  pairs:   {box: join, from: [high, r], on: "high.k = r.k", within: {time: 3}}
  recent:  {box: slide, from: s, by: [k], last: {rows: 4}, select: "k, avg(x) AS mean"}
  ever:    {box: latch, from: s, by: [k], every: {time: 10}, select: "k, max(x) AS top"}
  guess:   {box: resample, from: [s, r], within: {time: 5}, predict: "linear(x) AS x"}
  thinned: {box: drop, from: s, every: {rows: 3}}
  grouped: {box: group-by, from: s, by: [k]}
  each:    {box: tumble, from: grouped, every: {time: 20}, select: "k, count(*) AS n"}
  alarms:  {box: watch, from: s,
            queries: ["CREATE STANDING QUERY q AS SELECT * FROM s WHERE x >= 5 AND x < 7
                       EMIT ENTER, LEAVE"]}
points:
  joint: {from: both}
outputs:
  scaled: {from: scaled}
  shared: {from: shared}
  joint: {from: joint}
  ten: {from: ten}
  five: {from: five}
  pairs: {from: pairs}
  recent: {from: recent}
  ever: {from: ever}
  guess: {from: guess}
  thinned: {from: thinned}
  each: {from: each}
  alarms: {from: alarms}
"""

PLANT = """
network: plant
streams:
  s: {key: k, time: t, attributes: [x, o]}
boxes:
  high: {box: filter, from: s, where: "x > 4"}
  ten:  {box: tumble, from: high, by: [k], every: {time: 10},
         select: "k, max(x) AS top, count(*) AS n"}
  pair: {box: join, from: [s, ten], on: "s.k = ten.k", within: {time: 5}}
outputs:
  high: {from: high}
  ten: {from: ten}
  pair: {from: pair}
"""


def batches(count: int, rows: int = 40, seed: int = 1) -> list[dict[str, pa.Table]]:
    """Return batches of both streams; some values are unknown, some rows lack a key or are late."""
    rng = np.random.default_rng(seed)
    found, now = [], 0
    for _ in range(count):
        t = now + np.cumsum(rng.integers(0, 4, rows))
        shuffled = rng.permutation(rows)  # within a batch, order is the time's
        late = rng.random(rows) < 0.03
        times = np.where(late, np.maximum(t - 60, 0), t)[shuffled]
        x = np.where(rng.random(rows) < 0.05, np.nan, rng.integers(0, 40, rows) / 4)
        s = {
            "k": pa.array(rng.choice(["a", "b", "c"], rows), mask=rng.random(rows) < 0.03),
            "t": pa.array(times, pa.int64()),
            "x": pa.array(x, mask=rng.random(rows) < 0.05),
            "o": pa.array(times / 2),
        }
        r = {
            "k": pa.array(rng.choice(["a", "b", "c"], rows)),
            "t": pa.array(np.sort(now + rng.integers(0, 80, rows)), pa.int64()),
            "y": pa.array(rng.integers(0, 40, rows) / 4),
        }
        found.append({"s": pa.table(s), "r": pa.table(r)})
        now = int(t[-1])
    return found


class Files:
    """A folder of files for each stream; each file is a batch."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.count = 0
        self.schemas: dict[str, pa.Schema] = {}

    def add(self, batch: Mapping[str, pa.Table]) -> None:
        """Add a file to each stream."""
        for name, rows in batch.items():
            (self.root / name).mkdir(parents=True, exist_ok=True)
            hidden = self.root / f".{name}.{self.count:05}"
            pq.write_table(rows, hidden)
            os.utime(hidden, (1e9 + self.count, 1e9 + self.count))  # Spark takes files by age
            hidden.rename(self.folder(name) / f"{self.count:05}.parquet")
            self.schemas[name] = rows.schema
        self.count += 1

    @classmethod
    def found(cls, root: Path) -> Files:
        """Return the files of a folder."""
        files = cls(root)
        for folder in root.iterdir():
            if folder.is_dir():
                first = next(folder.glob("*.parquet"))
                files.schemas[folder.name] = pq.read_schema(first)
        return files

    def folder(self, name: str) -> Path:
        return self.root / name

    def frames(self, spark) -> dict:
        """Return the streams as DataFrames, a file a batch."""
        return {
            name: spark.readStream.schema(from_arrow_schema(schema))
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self.folder(name)))
            for name, schema in self.schemas.items()
        }


class Told:
    """The rows of outputs by batch; a batch that is done again takes the place of the former."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[int, list[dict]]] = {}

    def writer(self, name: str):
        """Return what takes the rows of one output."""
        own = self.rows.setdefault(name, {})

        def write(frame, number):
            own[number] = [row.asDict() for row in frame.collect()]

        return write

    def writers(self, network: Network) -> dict:
        return {name: self.writer(name) for name in network.outputs}


def embedded(network: Network, given: list[dict[str, pa.Table]]) -> list[dict[str, list[dict]]]:
    """Return the rows of each output, and the dead letters, batch by batch."""
    run = network.start()
    found = []
    for batch in given:
        rows = {name: table.to_pylist() for name, table in run.process(batch).items()}
        found.append({**rows, "": run.drain_dead_letters().to_pylist()})
    return found


def bag(rows: list[dict]) -> list[str]:
    """Return rows so that their order does not matter."""
    return sorted(json.dumps(row, sort_keys=True, default=_plain) for row in rows)


def _plain(value: object) -> str:
    return bytes(value).hex() if isinstance(value, (bytes, bytearray)) else str(value)


def assert_same(told: Told, wanted: list[dict[str, list[dict]]], *, first: int = 0) -> None:
    """Assert that every output has the rows that the embedded runtime gives, batch by batch."""
    for name, own in told.rows.items():
        for number, rows in enumerate(wanted[first:], first):
            assert bag(own.get(number, [])) == bag(rows[name]), (name, number)


def load(text: str) -> Network:
    return eq.Network.load(text)
