"""A million key-filtered border queries in the engine: events a second, registration, memory."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa

import everquery as eq
from benchmarks.diff_rmq import Grouping
from benchmarks.findings import Findings, Table
from benchmarks.harness import ROOT, Scale, Stopwatch, Timing, check_count
from benchmarks.markets import STREAM, Market
from everquery.index.rows import Grouped, Rows, Shape, Step
from everquery.kinds.border.region_segments import RegionSegments

NAME = "border_engine"


def run(scale: Scale) -> Findings:
    """Measure registration, memory, the engine and the bare loop on one market."""
    market = Market.draw(scale)
    findings = Findings({**market.parameters(), "timing": "median over batches, spread stated"})
    table = market.table()
    registration(findings, scale, table)
    memory(findings, scale)
    process(findings, scale, market, table)
    return findings


def registration(findings: Findings, scale: Scale, table: pa.Table) -> None:
    """Seconds from a table to queries that the next batch can use."""
    with eq.Engine(STREAM) as warm:
        warm.register_table(table.slice(0, 100), kind="border")
        warm.stats()
    taken, whole = Stopwatch(), Stopwatch()
    for _ in range(scale.pick(3, 2)):
        with eq.Engine(STREAM) as engine:
            taken(partial(engine.register_table, table, kind="border"))
            # Registrations are indexed when they are first needed; that counts too.
            stats = whole(engine.stats)
            check_count("registered queries", table.num_rows, stats["queries"]["border"])
    seconds = [a + b for a, b in zip(taken.timing.samples, whole.timing.samples, strict=True)]
    both = Timing(seconds)
    findings.tables.append(
        Table(
            "border-registration",
            f"Border, engine: `register_table` of {table.num_rows:,} key-filtered queries",
            ["", "seconds", "spread", "queries a second"],
            [
                [name, timing.best, timing.spread, table.num_rows / timing.best]
                for name, timing in (
                    ("register_table", taken.timing),
                    ("and built into the index", both),
                )
            ],
            f"Best of {len(seconds)}.",
        )
    )
    what = f"`register_table` of {table.num_rows:,} border queries, index included"
    findings.at_most(what, both.best, 5, "s")


def memory(findings: Findings, scale: Scale) -> None:
    """Resident memory that the queries take, measured in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.memory_probe",
        *(["--quick"] if scale.quick else []),
    ]
    probe = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(probe.stdout)
    n = found["queries"]
    rows: list[list[str | float | None]] = [
        ["resident, all", found["resident"] / n],
        ["resident without the ids", (found["resident"] - found["ids"]) / n],
    ]
    if found["peak"] is not None:
        rows.append(["at the peak of registration, table included", found["peak"] / n])
    rows += [[f"arrays: {name}", size / n] for name, size in found["arrays"].items()]
    findings.tables.append(
        Table(
            "border-memory",
            f"Border, engine: memory of {n:,} key-filtered queries, one attribute",
            ["", "bytes a query"],
            rows,
            "Resident: growth of a fresh process from before the query table is made until after it"
            " is dropped and batches have run. Arrays: what `stats()` reports.",
        )
    )
    resident = (found["resident"] - found["ids"]) / n
    findings.at_most("Resident memory a border query, without the ids", resident, 100, "bytes")


def process(findings: Findings, scale: Scale, market: Market, table: pa.Table) -> None:
    """`Engine.process` with string and with dictionary keys, and the walk alone."""
    watches = {"string keys": Stopwatch(), "dictionary keys": Stopwatch(), "bare loop": Stopwatch()}
    bare = BareLoop(market)
    notices = events = 0
    with eq.Engine(STREAM) as engine:
        engine.register_table(table, kind="border")
        engine.process(market.first_batch())
        last = market.last_values(np.zeros(market.feed.streams), market.feed.first_sight())
        turns = scale.pick(36, 12)
        for turn, (piece, strings, dictionary) in enumerate(islice(market.batches(), turns)):
            name, batch = [("string keys", strings), ("dictionary keys", dictionary)][turn % 2]
            step = bare.step(piece.key, piece.value)
            warm = turn < 4
            told = (Stopwatch() if warm else watches[name])(engine.process, batch)
            found = (Stopwatch() if warm else watches["bare loop"])(bare.walk, step)
            check_count("notices and the bare loop's crossings", found, told.num_rows)
            if turn in (0, turns - 1):
                expected = market.count_crossings(last, piece)
                check_count("notices and brute force", expected, told.num_rows)
            last = market.last_values(last, piece)
            bare.remember(last)
            notices += told.num_rows
            events += market.batch
        check_count("dead letters", 0, engine.stats()["dead_letters"])
    per_second = {name: market.batch / watch.timing.median for name, watch in watches.items()}
    rows: list[list[str | float | None]] = [
        [name, rate, 1e9 / rate, watches[name].timing.spread] for name, rate in per_second.items()
    ]
    findings.tables.append(
        Table(
            "border-engine",
            f"Border, engine: `process`, batches of {market.batch:,} events,"
            f" {notices / events:.3f} notices an event",
            ["", "events a second", "ns an event", "spread"],
            rows,
            "The bare loop walks events that are grouped by key already; `process` reads Arrow,"
            " looks up keys, checks time order, groups, walks, and writes notices.",
        )
    )
    what = f"Border, {table.num_rows:,} key-filtered queries, FL = 0.01%: `process`"
    rate = per_second["string keys"] / 1e6
    findings.at_least(f"{what}, string keys", rate, 10, "million events a second")
    rate = per_second["dictionary keys"] / 1e6
    findings.at_least(f"{what}, dictionary keys", rate, 10, "million events a second")


class BareLoop:
    """The region-segment lists of the market, walked without an engine."""

    def __init__(self, market: Market) -> None:
        n, streams = market.low.size, market.feed.streams
        slot = np.arange(n, dtype=np.int32)
        rows = Rows(Shape((0,), True), slot, market.key, market.low[None], market.high[None])
        self._segment = RegionSegments.build(rows)
        self._group = Grouping(streams)
        self._flags = np.ones(n, np.uint16)
        self._seen = np.zeros(streams, np.uint8)
        self._last = np.zeros((1, streams))
        self._crossings = np.empty(1 << 12, np.int64)
        first = market.feed.first_sight()
        self.walk(self.step(first.key, first.value))
        self._seen[:] = 1
        self._last[0, first.key] = first.value

    def step(self, key: np.ndarray, value: np.ndarray) -> Step:
        """Group events; the bare loop gets them so."""
        group_key, start, member = self._group(key)
        return Step(
            Grouped(group_key, start, 2 * member + 1, value[member][None]),
            np.zeros(key.size, np.uint8),
            self._seen,
            self._last,
            self._flags,
            all_live=True,
        )

    def walk(self, step: Step) -> int:
        """Return the number of crossings."""
        self._segment.make_room(step.seen.size)
        self._crossings, n, _ = self._segment.walk(step, self._crossings)
        return n

    def remember(self, last: np.ndarray) -> None:
        """Note the keys' last values."""
        self._last[0] = last
