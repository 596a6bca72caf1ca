"""The kept past: what keeping costs the event rate, and how long queries take to fill from it."""

from __future__ import annotations

import gc
import tempfile
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

import everquery as eq
from benchmarks.findings import Check, Findings, Table
from benchmarks.harness import Scale, check_count
from benchmarks.markets import STREAM, WIDTH, Market
from benchmarks.workloads import PRICES, query_table

NAME = "history"
KEEPING = 0.85  # of the rate without
ONE, MANY, TRY = 1.0, 30.0, 1.0  # seconds
ROUNDS = 5


def run(scale: Scale) -> Findings:
    """Measure all of it in one run."""
    market = Market.draw(scale)
    findings = Findings({**market.parameters(), "events kept": scale.pick(10_000_000, 20_000)})
    keeping(findings, scale, market)
    filling(findings, scale, market)
    return findings


def keeping(findings: Findings, scale: Scale, market: Market) -> None:
    """Compare the event rates without a past, with one in memory, and with one in files."""
    table = market.table()
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, dict[str, Any]] = {
            "keeps nothing": {},
            "1,000,000 events in memory": {"keep": 1_000_000},
            "everything in Parquet files": {"keep": "all", "history": folder},
        }
        engines = {}
        for name, option in options.items():
            stream = replace(STREAM, keep=option.get("keep"))
            engine = eq.Engine(stream, history=option.get("history"))
            engine.register_table(table, kind="border")
            engine.process(market.first_batch())
            engines[name] = engine, (strings for _, strings, _ in market.batches())
        best = dict.fromkeys(options, 0.0)
        for _ in range(ROUNDS):  # turn by turn: what else the machine does hits all of them
            for name, (engine, batches) in engines.items():
                best[name] = max(best[name], _rate(engine, batches, scale.pick(30, 3)))
        for engine, _ in engines.values():
            engine.close()
    plain = best["keeps nothing"]
    rows: list[list[str | float | None]] = [
        [name, rate, rate / plain] for name, rate in best.items()
    ]
    findings.tables.append(
        Table(
            "history-keeping",
            f"Event rate with {table.num_rows:,} border queries",
            ["", "events a second", "of the rate without"],
            rows,
            f"The best of {ROUNDS} rounds, turn by turn.",
        )
    )
    for name in list(best)[1:]:
        share = best[name] / plain
        what = f"Event rate of a stream that keeps {name}, to one that keeps nothing"
        findings.checks.append(Check(what, f">= {KEEPING}", share, "", share >= KEEPING))


def _rate(engine: eq.Engine, batches: Any, count: int) -> float:  # noqa: ANN401 - an iterator
    events, seconds = 0, 0.0
    for _ in range(count):
        batch = next(batches)
        begin = time.perf_counter()
        engine.process(batch)
        seconds += time.perf_counter() - begin
        events += batch.num_rows
    return events / seconds


def filling(findings: Findings, scale: Scale, market: Market) -> None:
    """Time queries that begin with the oldest of many kept events, and one that is only tried."""
    kept = scale.pick(10_000_000, 20_000)
    engine = eq.Engine(replace(STREAM, keep="all"))
    batches = (strings for _, strings, _ in market.batches())
    while engine.history()["events"] < kept:
        engine.process(next(batches))
    name = market.names[0].as_py()
    one = eq.Border("one", {"price": (PRICES / 2, PRICES / 2 + WIDTH * PRICES)}, key=name)
    wide = eq.Border("wide", {"price": (PRICES / 2, PRICES / 2 + WIDTH * PRICES)})
    engine.dry_run(wide, begin=(engine.place.batch - 1, 0))  # compiled
    rows: list[list[str | float | None]] = []
    tried, seconds = _timed(lambda: engine.dry_run(wide))
    rows.append(["dry run of one query, all keys", kept, seconds, tried.num_rows])
    findings.checks.append(_check(f"Dry run of one query over {kept:,} events", TRY, seconds))
    for query in (one, wide):
        _, seconds = _timed(lambda query=query: engine.register(query, begin="oldest"))
        notices = engine.process(next(batches).slice(0, 0))
        rows.append([f"backfill of one query ({query.id})", kept, seconds, notices.num_rows])
        findings.checks.append(
            _check(f"Backfill of one query ({query.id}) over {kept:,} events", ONE, seconds)
        )
    check_count("notices of a dry run", tried.num_rows, notices.num_rows)
    many = scale.pick(100_000, 500)
    low = scale.generator(21).uniform(1, PRICES, many)
    key = (np.arange(many) % market.feed.streams).astype(np.int32)
    table = query_table(low, low + WIDTH * PRICES, "price", key, market.feed.streams)
    table = table.set_column(0, "id", pa.array([f"past{n}" for n in range(many)]))
    _, seconds = _timed(lambda: engine.register_table(table, kind="border", begin="oldest"))
    notices = engine.process(next(batches).slice(0, 0))
    rows.append([f"backfill of {many:,} queries", kept, seconds, notices.num_rows])
    findings.checks.append(
        _check(f"Backfill of {many:,} queries over {kept:,} events", MANY, seconds)
    )
    engine.close()
    findings.tables.append(
        Table(
            "history-filling",
            "Queries that begin with the oldest kept event",
            ["", "events", "seconds", "notices of the past"],
            rows,
            "Events came in batches as they are kept; the past is in memory.",
        )
    )


def _check(what: str, asked: float, seconds: float) -> Check:
    return Check(what, f"< {asked:g} s", seconds, "s", seconds < asked)


def _timed(call: Any) -> tuple[Any, float]:  # noqa: ANN401 - whatever it returns
    gc.collect()
    begin = time.perf_counter()
    found = call()
    return found, time.perf_counter() - begin
