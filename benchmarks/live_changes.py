"""Queries that come and go while events flow: what single registrations cost the event rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any

import numpy as np
import pyarrow as pa

import everquery as eq
from benchmarks.findings import Findings, Table
from benchmarks.harness import Scale, check_count, one_core
from benchmarks.markets import STREAM, WIDTH, Market
from benchmarks.workloads import PRICES, Intervals, query_table

NAME = "live_changes"
RATE = 10_000  # registrations a second
Make = Callable[[int], eq.Query]


@dataclass
class Flow:
    """What went through an engine, and the seconds that it took."""

    events: int = 0
    notices: int = 0
    registered: int = 0
    seconds: float = 0.0
    registering: float = 0.0

    @property
    def rate(self) -> float:
        """Events a second, registrations included."""
        return self.events / self.seconds


def flow(
    engine: eq.Engine,
    batches: Iterator[pa.RecordBatch],
    seconds: float,
    make: Make | None = None,
    numbers: Iterator[int] | None = None,
) -> Flow:
    """Process batches for some seconds; with `make`, register `RATE` queries a second meanwhile.

    Before each batch the queries that are due by the clock are registered, one call each. The clock
    runs while the engine works, and stands while the next batch is made.
    """
    done = Flow()
    while done.seconds < seconds:
        batch = next(batches)
        begin = time.perf_counter()
        if make is not None and numbers is not None:
            while done.registered < RATE * done.seconds:
                engine.register(make(next(numbers)))
                done.registered += 1
                if time.perf_counter() - begin > seconds:  # it will never catch up
                    break
            done.registering += time.perf_counter() - begin
        notices = engine.process(batch)
        done.seconds += time.perf_counter() - begin
        done.events += batch.num_rows
        done.notices += notices.num_rows
    return done


def run(scale: Scale) -> Findings:
    """Measure borders and ranges, on all cores and on one."""
    market = Market.draw(scale)
    seconds = scale.pick(5.0, 0.2)
    findings = Findings(
        {
            "registrations_a_second": RATE,
            "seconds_each": seconds,
            "border": market.parameters(),
            "timing": "events over the seconds that the engine works, registrations included",
        }
    )
    table = market.table()
    rows: list[list[str | float | None]] = []
    for cores in ("all cores", "one core"):
        with nullcontext() if cores == "all cores" else one_core():
            for kind, subject in (("border", border_engine), ("range", range_engine)):
                engine, batches, make = subject(scale, market, table)
                share = fall(rows, f"{kind}, {cores}", engine, batches, make, seconds)
                what = f"{kind.capitalize()}: event rate with {RATE:,} registrations a second"
                findings.at_least(f"{what}, {cores}", 100 * share, 200 / 3, "% of the rate without")
                engine.close()
    findings.tables.append(
        Table(
            "live-rates",
            f"Event rate while {RATE:,} single registrations a second arrive",
            [
                "",
                "events/s without",
                "events/s with",
                "share",
                "registrations/s",
                "us a registration",
            ],
            rows,
            f"Where registrations are far fewer than {RATE:,}/s, the engine did not keep pace. With"
            " one core the merges of the index share it with the events.",
        )
    )
    alone(findings, scale, market, table)
    return findings


def fall(
    rows: list[list[str | float | None]],
    name: str,
    engine: eq.Engine,
    batches: Iterator[pa.RecordBatch],
    make: Make,
    seconds: float,
) -> float:
    """Add a row with the rates without and with registrations; return their ratio."""
    flow(engine, batches, seconds / 5)  # warm-up
    flow(engine, batches, seconds / 10, make, count(10**9))
    before = sum(engine.stats()["queries"].values())
    without = flow(engine, batches, seconds)
    having = flow(engine, batches, seconds, make, count())
    after = sum(engine.stats()["queries"].values())
    check_count("live queries", before + having.registered, after)
    check_count("dead letters", 0, engine.stats()["dead_letters"])
    each = having.registering / max(1, having.registered) * 1e6
    share = having.rate / without.rate
    pace = having.registered / having.seconds
    rows.append([name, without.rate, having.rate, share, pace, each])
    return share


def border_engine(
    scale: Scale, market: Market, table: pa.Table
) -> tuple[eq.Engine, Iterator[pa.RecordBatch], Make]:
    """Return the engine with the market's borders, its feed, and more borders."""
    engine = eq.Engine(STREAM)
    engine.register_table(table, kind="border")
    engine.process(market.first_batch())
    names: list[str] = market.names.to_pylist()
    low = scale.generator(12).integers(1, PRICES, 1 << 16).tolist()

    def make(number: int) -> eq.Query:
        begin = low[number % len(low)]
        box = eq.Box({"price": (begin, begin + WIDTH * PRICES)})
        return eq.Border(f"live{number}", box, key=names[number % len(names)])

    return engine, (strings for _, strings, _ in market.batches()), make


def range_engine(
    scale: Scale, market: Market, table: pa.Table
) -> tuple[eq.Engine, Iterator[pa.RecordBatch], Make]:
    """Return an engine with the ranges of `range_peers`, random events, and more ranges."""
    domain, n = scale.pick((1 << 20, 100_000), (1 << 14, 2_000))
    generator = scale.generator(13)
    work = Intervals.draw(generator, domain=domain, widest=200, queries=n, values=1)
    engine = eq.Engine(eq.Stream("values", attributes=["value"]))
    ranges = query_table(work.low.astype(np.float64), work.high.astype(np.float64), "value")
    engine.register_table(ranges, kind="range")
    batches = [
        pa.record_batch({"value": generator.uniform(1, domain, market.batch)}) for _ in range(10)
    ]
    low = work.low.tolist()

    def make(number: int) -> eq.Query:
        begin = low[number % n]
        return eq.Range(f"live{number}", eq.Box({"value": (begin, begin + 100)}))

    return engine, cycle(batches), make


def alone(findings: Findings, scale: Scale, market: Market, table: pa.Table) -> None:
    """Registrations and deregistrations a second, one call each, with no events in between."""
    n = scale.pick(20_000, 500)
    engine, batches, make = border_engine(scale, market, table)
    with engine:
        flow(engine, batches, 0.01, make, count(10**9))
        queries = [make(number) for number in range(n)]
        rows: list[list[str | float | None]] = []
        for what, call in (("register", engine.register), ("deregister", engine.deregister)):
            given: list[Any] = queries if what == "register" else [query.id for query in queries]
            batch = next(batches).slice(0, 1)
            begin = time.perf_counter()
            for each in given:
                call(each)
            calls = time.perf_counter() - begin
            engine.process(batch)  # pending changes are built in here
            seconds = time.perf_counter() - begin
            rows.append([what, n / calls, calls / n * 1e6, n / seconds])
    findings.tables.append(
        Table(
            "live-alone",
            f"Single changes to an engine with {table.num_rows:,} border queries, without events",
            ["", "calls a second", "us a call", "a second, next batch of one event included"],
            rows,
            f"{n:,} calls each; the specs are made before.",
        )
    )
