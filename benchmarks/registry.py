"""The registry and the command line: loading, following, running over files, reading SQL."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import everquery as eq
from benchmarks.findings import Findings, Table
from benchmarks.harness import ROOT, Scale, Stopwatch, Timing, check_count
from benchmarks.markets import STREAM, Market
from everquery.cli.sql_session import SqlSession
from everquery.core.names import repeated
from everquery.queries.changes import RegisterBlocks
from everquery.queries.sql import print_query, read_sql
from everquery.queries.table import check_table
from everquery.registry import Registry

NAME = "registry"
RATE = 10_000  # registrations and statements a second that are asked
ROUNDS = 5
Cell = str | float | None

WRITER = """
import sys, time
import everquery as eq
url, n = sys.argv[1], int(sys.argv[2])
engine = eq.open(url, lazy=True)
made = [
    eq.Border(f"live{i}", {"price": (i % 999_000, i % 999_000 + 1_000)}, key=f"S{i % 2_000:05}")
    for i in range(n)
]
print("ready", flush=True)
sys.stdin.readline()
begin, worked = time.perf_counter(), time.process_time()
for query in made:
    engine.register(query)
print(time.perf_counter() - begin, time.process_time() - worked, flush=True)
"""


def run(scale: Scale) -> Findings:
    """Measure each on one market, in a folder of its own."""
    market = Market.draw(scale)
    findings = Findings(
        {
            **market.parameters(),
            "events_in_the_file": scale.pick(10_000_000, 20_000),
            "timing": f"best of {ROUNDS} rounds, contestants in turns; all cores",
        }
    )
    table = market.table()
    with tempfile.TemporaryDirectory(prefix="everquery-registry-") as folder:
        loading(findings, scale, table, Path(folder))
        following(findings, scale, market, table, Path(folder))
        running(findings, scale, market, table, Path(folder))
        statements(findings, scale, Path(folder))
    return findings


# -- loading ----------------------------------------------------------------------------------


def loading(findings: Findings, scale: Scale, table: pa.Table, folder: Path) -> None:
    """Load a table of queries into SQLite, beside the same columns into Parquet; and reopen it."""
    watches = {name: Stopwatch() for name in ("parquet", "append", "load", "engine", "reopen")}
    for turn in range(scale.pick(ROUNDS + 1, 2)):
        url = f"sqlite:///{folder}/load{turn}.db"
        # The first turn compiles and warms up; it is not counted.
        seen = watches if turn else {name: Stopwatch() for name in watches}
        seen["parquet"](pq.write_table, table, folder / "queries.parquet")
        append(seen["append"], table, f"{url}a")
        with eq.Engine(STREAM, registry=f"{url}l", lazy=True, create=True) as engine:
            seen["load"](partial(engine.register_table, table, kind="border"))
        with eq.Engine(STREAM, registry=url, create=True) as engine:
            seen["engine"](partial(engine.register_table, table, kind="border"))
        del engine
        gc.collect()
        opened: eq.Engine = seen["reopen"](eq.open, url)
        check_count("queries", table.num_rows, opened.stats()["queries"]["border"])
        opened.close()
        del opened
        gc.collect()
    size = (folder / "queries.parquet").stat().st_size
    base = watches["parquet"].timing.best
    titles = {
        "parquet": f"the columns to Parquet (snappy, {size / 1e6:.1f} MB)",
        "append": "the checked columns into SQLite, one transaction",
        "load": "`register_table` without index: rows checked, written, ids and keys numbered",
        "engine": "`register_table` with index: ready for events",
        "reopen": "an engine opened on it, index included",
    }
    findings.tables.append(
        Table(
            "registry-loading",
            f"{table.num_rows:,} border queries into a SQLite registry",
            ["", "seconds", "spread", "times Parquet"],
            [
                [title, timing.best, timing.spread, timing.best / base]
                for title, timing in ((titles[name], watches[name].timing) for name in titles)
            ],
            "Without index is what `everquery query load` does: a program that registers and"
            " processes no events (`Engine(..., lazy=True)`).",
        )
    )
    what = f"Loading {table.num_rows:,} border queries into SQLite"
    load, engine_s = watches["load"].timing.best, watches["engine"].timing.best
    findings.at_most(f"{what}, against Parquet", load / base, 4, "times the time")
    findings.at_most(f"{what}, index included, against Parquet", engine_s / base, 4, "times")
    findings.at_most(f"{what}, index included", engine_s, 15, "s")
    again = f"Reopening an engine on {table.num_rows:,} queries in SQLite"
    findings.at_most(again, watches["reopen"].timing.best, 5, "s")


def append(watch: Stopwatch, table: pa.Table, url: str) -> None:
    """Time the durable write alone: the transaction that holds the checked columns."""
    registry = Registry(url)
    registry.create_stream(STREAM)
    live = eq.Engine(STREAM)._shard.queries.live
    checked = check_table(table, eq.Border, STREAM, already_live=live, repeated=repeated)
    end = watch(partial(registry.append, STREAM, RegisterBlocks(checked.blocks), head=0))
    check_count("queries in the log", table.num_rows, end)
    registry.close()


# -- following --------------------------------------------------------------------------------


def following(
    findings: Findings, scale: Scale, market: Market, table: pa.Table, folder: Path
) -> None:
    """Let another process register one query after the other while events flow here."""
    n = scale.pick(30_000, 300)
    rows: list[list[Cell]] = []
    rates = []
    for turn in range(scale.pick(3, 1)):
        url = f"sqlite:///{folder}/follow{turn}.db"
        with eq.Engine(STREAM, registry=url, create=True) as engine:
            engine.register_table(table, kind="border")
            engine.process(market.first_batch())
            rates.append(follow(engine, market, url, n))
            live = engine.stats()["queries"]["border"]
            check_count("live queries", table.num_rows + n, live)
    writer, core, reader, lag = max(rates)
    rows.append(["with events all the time", writer, core, reader / 1e6, lag * 1e3])
    findings.tables.append(
        Table(
            "registry-following",
            f"{n:,} single registrations by another process, into an engine with"
            f" {table.num_rows:,} queries",
            [
                "",
                "registrations a second",
                "a second of processor time",
                "million events a second meanwhile",
                "ms between two looks at the log",
            ],
            rows,
            "Each registration is a transaction of its own. `process` follows the log before each"
            " batch, so a query is live with the batch after it. Where other processes share the"
            " machine, the processor time tells what an idle core would do. Best of 3.",
        )
    )
    what = "Single registrations by another process, live with the next batch"
    findings.at_least(what, writer, RATE, "a second")


def follow(engine: eq.Engine, market: Market, url: str, n: int) -> tuple[float, ...]:
    """Return registrations a second, by the clock and by the processor; events; seconds a batch."""
    command = [sys.executable, "-c", WRITER, url, str(n)]
    pipe = subprocess.PIPE
    batches = (strings for _, strings, _ in market.batches())
    goal = engine.position + n
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        engine.process(next(batches))
        child.stdin.write("\n")
        child.stdin.flush()
        begin = time.perf_counter()
        events = looks = 0
        working = 0.0
        while engine.position < goal:
            batch = next(batches)
            started = time.perf_counter()
            engine.process(batch)
            working += time.perf_counter() - started
            events += batch.num_rows
            looks += 1
        seconds = time.perf_counter() - begin
        taken, worked = map(float, child.stdout.readline().split())
    return n / taken, n / worked, events / working, seconds / looks


# -- running ----------------------------------------------------------------------------------


def running(
    findings: Findings, scale: Scale, market: Market, table: pa.Table, folder: Path
) -> None:
    """Run the command line over a Parquet file, beside `process` on the same batches."""
    count = scale.pick(100, 20)
    first = market.first_batch()
    following = [strings for _, strings, _ in islice(market.batches(), count)]
    events = pa.Table.from_batches([first, *following]).slice(0, count * market.batch)
    path = folder / "events.parquet"
    pq.write_table(events, path)
    url = f"sqlite:///{folder}/run.db"
    with eq.Engine(STREAM, registry=url, lazy=True, create=True) as engine:
        engine.register_table(table, kind="border")
    timings: dict[str, Timing] = {}
    notices = 0
    for _ in range(scale.pick(3, 1)):
        for name, keys in (("string keys", None), ("dictionary keys", ["symbol"])):
            read = pq.read_table(path, read_dictionary=keys)
            seconds, notices = in_memory(url, read.to_batches(max_chunksize=market.batch))
            timings.setdefault(f"`process` in memory, {name}", Timing()).samples.append(seconds)
            del read
            gc.collect()
        for out in ("notices.parquet", "notices.jsonl"):
            summary = command_line("run", path, "--out", folder / out, "--json", "-r", url)
            check_count(f"notices in {out}", notices, summary["notices"])
            name = f"`everquery run` to {out.rpartition('.')[2]}"
            timings.setdefault(name, Timing()).samples.append(summary["seconds"])
    base = timings["`process` in memory, string keys"].best
    rows: list[list[Cell]] = [
        [name, events.num_rows / timing.best, timing.spread, base / timing.best]
        for name, timing in timings.items()
    ]
    findings.tables.append(
        Table(
            "registry-running",
            f"{events.num_rows:,} events from a Parquet file, {notices:,} notices",
            ["", "events a second", "spread", "share of the rate in memory, string keys"],
            rows,
            "`run` counts from its first batch to its last notice; before that it starts, opens"
            " the registry and builds the index. Best of 3.",
        )
    )
    for out in ("parquet", "jsonl"):
        share = base / timings[f"`everquery run` to {out}"].best
        what = f"`everquery run` over {events.num_rows:,} events, notices to {out}"
        findings.at_least(what, 100 * share, 100 / 3, "% of the rate in memory")


def in_memory(url: str, batches: list[pa.RecordBatch]) -> tuple[float, int]:
    """Return the seconds of processing batches, and the notices."""
    notices = 0
    with eq.open(url) as engine:
        engine.process(batches[0].slice(0, 0))
        begin = time.perf_counter()
        for batch in batches:
            notices += engine.process(batch).num_rows
        return time.perf_counter() - begin, notices


def command_line(*line: object) -> dict[str, Any]:
    """Run the command line in a process of its own; return what it prints as JSON."""
    program = "from everquery.cli.app import main; main()"
    command = [sys.executable, "-c", program, *map(str, line)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


# -- statements -------------------------------------------------------------------------------


def statements(findings: Findings, scale: Scale, folder: Path) -> None:
    """Read a text of CREATE STANDING QUERY statements, and run it against SQLite."""
    n = scale.pick(30_000, 300)
    queries = [
        eq.Border(f"q{i}", {"price": (i % 999_000, i % 999_000 + 1_000)}, key=f"S{i % 2_000:05}")
        for i in range(n)
    ]
    text = "\n".join(print_query(query, STREAM) for query in queries)
    reading, doing = Stopwatch(), Stopwatch()
    for turn in range(scale.pick(ROUNDS, 1)):
        read = reading(partial(read_sql, text, stream_of=lambda _: STREAM))
        check_count("statements", n, len(read))
        registry = Registry(f"sqlite:///{folder}/sql{turn}.db")
        registry.create_stream(STREAM)
        session = SqlSession(registry)
        doing(lambda: list(session.run(text)))  # noqa: B023 - called at once
        check_count("position", n, registry.head(STREAM.name))
        session.close()
    rows: list[list[Cell]] = [
        [name, n / watch.timing.best, watch.timing.best / n * 1e6, watch.timing.spread]
        for name, watch in (("read", reading), ("read and registered in SQLite", doing))
    ]
    findings.tables.append(
        Table(
            "registry-sql",
            f"{n:,} statements CREATE STANDING QUERY in one text",
            ["", "statements a second", "us a statement", "spread"],
            rows,
            f"As `everquery sql --file` does it. Best of {ROUNDS}.",
        )
    )
    findings.at_least(
        "CREATE STANDING QUERY statements read", n / reading.timing.best, RATE, "a second"
    )
