"""Window queries: speed, memory, buckets and errors, beside rolling statistics of others."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

import everquery as eq
from benchmarks.findings import Curves, Figure, Findings, Panel, Table
from benchmarks.harness import Scale
from everquery.core.arrays import Floats, Int64s
from everquery.kinds.window.families import COUNTS, MEASURES, RESTS, SUMS
from everquery.kinds.window.index import WindowIndex
from everquery.kinds.window.store import Store

NAME = "windows"
EPSILON = 0.01
LAST = 10_000
LARGEST = 1_000
BATCH = 100_000  # where others run beside us
STREAM = eq.Stream("packets", key="host", attributes=["length"])


def run(scale: Scale) -> Findings:
    """Measure many keys, many queries, errors against memory, and others."""
    findings = Findings(
        {
            "epsilon": EPSILON,
            "window": f"{LAST:,} rows of a key",
            "values": f"whole numbers of 1 to {LARGEST:,}, uniform; keys uniform",
            "timing": "whole calls of process, notices written, once over the stream",
        }
    )
    many_keys(findings, scale)
    full_windows(findings, scale)
    many_queries(findings, scale)
    errors(findings, scale)
    peers(findings, scale)
    return findings


def drawn(rng: np.random.Generator, events: int, keys: int) -> tuple[Int64s, Floats]:
    """Return the keys and values of a stream."""
    return rng.integers(0, keys, events), rng.integers(1, LARGEST, events).astype(np.float64)


def batches(host: Int64s, length: Floats, size: int) -> Iterator[pa.Table]:
    """Yield a stream in batches."""
    for begin in range(0, host.size, size):
        part = slice(begin, begin + size)
        yield pa.table({"host": host[part], "length": length[part]})


def played(engine: eq.Engine, tables: list[pa.Table]) -> float:
    """Return the seconds that batches take."""
    begin = time.perf_counter()
    for table in tables:
        engine.process(table)
    return time.perf_counter() - begin


def stores_of(engine: eq.Engine) -> dict[int, Store]:
    """Return the stores of an engine's windows, by family."""
    index = engine._shard.contents.indexes["window"]
    assert isinstance(index, WindowIndex)
    return {name.family: store for name, store in index.stores.items()}


def with_count_and_sum() -> eq.Engine:
    """Return an engine with a count and a sum of each key."""
    engine = eq.Engine(STREAM)
    for statistic in ("count", "sum"):
        engine.register(
            eq.Window(statistic, statistic, "length", last=LAST, epsilon=EPSILON, by_key=True)
        )
    return engine


def many_keys(findings: Findings, scale: Scale) -> None:
    """Measure count and sum over many keys, whose windows fill."""
    keys, size = scale.pick(100_000, 50), scale.pick(1_000_000, 20_000)
    engine = with_count_and_sum()
    rng = scale.generator(1)
    for _ in range(scale.pick(50, 5)):
        for table in batches(*drawn(rng, size, keys), size):
            engine.process(table)
    tables = list(batches(*drawn(rng, 4 * size, keys), size))
    rate = 4 * size / played(engine, tables)
    findings.at_least(f"count and sum over {keys:,} keys", rate, 5e6, "events/s")


def full_windows(findings: Findings, scale: Scale) -> None:
    """Measure memory, buckets and speed once all windows are full."""
    keys, size = scale.pick(2_000, 5), scale.pick(1_000_000, 10_000)
    engine = with_count_and_sum()
    rng = scale.generator(5)
    for _ in range(scale.pick(24, 6)):
        for table in batches(*drawn(rng, size, keys), size):
            engine.process(table)
    tables = list(batches(*drawn(rng, 4 * size, keys), size))
    rate = 4 * size / played(engine, tables)
    rows: list[list[str | float | None]] = []
    k = math.ceil(1 / EPSILON)
    for statistic, family, most in (("count", COUNTS, 1), ("sum", SUMS, LARGEST)):
        store = stores_of(engine)[family]
        used = store.lanes.used[: store.used]
        held = np.minimum(store.lanes.seen[: store.used], LAST)
        theorem = (k / 2 + 1) * (math.log2(2 * float(held.max()) * most / k + 1) + 1)
        exact = 8 * (1 + MEASURES[family] + RESTS[family])
        share = store.nbytes() / float(held.sum() * exact)
        rows.append([statistic, float(used.mean()), float(used.max()), theorem, 1 / share])
        if not scale.quick:
            findings.at_most(f"memory of {statistic}, of exact windows", share, 1 / 20, "")
        findings.at_most(f"buckets of {statistic}", float(used.max()), theorem, "buckets")
    title = f"Buckets of {keys:,} keys whose windows are full ({rate:,.0f} events a second)"
    columns = ["statistic", "buckets, mean", "most", "theorem 1 or 5", "exact windows take, times"]
    findings.tables.append(Table("windows-buckets", title, columns, rows))


def many_queries(findings: Findings, scale: Scale) -> None:
    """Measure a million queries that share lanes."""
    keys, queries = scale.pick((2_000, 1_000_000), (20, 500))
    size = scale.pick(1_000_000, 5_000)
    rng = scale.generator(2)
    engine = eq.Engine(STREAM)
    last = rng.choice([100, 200, 500, 1_000, 2_000, 5_000, LAST], queries)
    table = pa.table(
        {
            "id": [f"w{i}" for i in range(queries)],
            "key": rng.integers(0, keys, queries),
            "statistic": rng.choice(["sum", "mean"], queries),
            "attribute": ["length"] * queries,
            "last": last,
            "epsilon": [EPSILON] * queries,
            "when_lo": rng.uniform(0.9, 1.1, queries) * last * LARGEST / 2,
        }
    )
    engine.register_table(table, kind="window")
    for warm in batches(*drawn(rng, 5 * size, keys), size):
        engine.process(warm)
    tables = list(batches(*drawn(rng, 4 * size, keys), size))
    rate = 4 * size / played(engine, tables)
    findings.at_least(f"{queries:,} queries over {keys:,} keys", rate, 2e6, "events/s")


def errors(findings: Findings, scale: Scale) -> None:
    """Compare the largest error seen with what is held."""
    events, last = scale.pick((200_000, LAST), (2_000, 500))
    length = drawn(scale.generator(3), events, 1)[1]
    epsilons = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
    names = ("count", "sum", "mean", "variance")
    seen, held = Curves(names), Curves(names)
    stream = eq.Stream("packets", attributes=["length"])
    for epsilon in epsilons:
        engine = eq.Engine(stream)
        engine.register([eq.Window(n, n, "length", last=last, epsilon=epsilon) for n in names])
        worst = dict.fromkeys(names, 0.0)
        for end in range(997, events, 997):
            engine.process(pa.table({"length": length[end - 997 : end]}))
            window = length[max(0, end - last) : end]
            real = {"count": float(window.size), "sum": window.sum(), "mean": window.mean(),
                    "variance": window.var()}  # fmt: skip
            for name in names:
                error = abs(engine.answer(name).value - real[name]) / max(real[name], 1e-300)
                worst[name] = max(worst[name], error)
        seen.add(worst)
        entries = {name: float(stores_of(engine)[family].lanes.used[0]) for name, family in
                   (("count", 0), ("sum", 1), ("mean", 1), ("variance", 2))}  # fmt: skip
        held.add(entries)
    panels = [
        Panel("largest error seen, as a share", "error", seen.series),
        Panel("buckets held", "buckets", held.series),
    ]
    title = f"Errors and memory of windows of {last:,} rows"
    findings.figures.append(Figure("windows-errors", title, "epsilon", epsilons, panels))


def peers(findings: Findings, scale: Scale) -> None:
    """Compare with the rolling means of others: one at a time, and in a batch job."""
    keys, events = scale.pick((1_000, 1_000_000), (10, 2_000))
    last = 1_000
    host, length = drawn(scale.generator(4), events, keys)
    tables = list(batches(host, length, scale.pick(BATCH, 1_000)))
    for played_tables in (tables[:1], tables):  # the first loads the loops
        engine = eq.Engine(STREAM)
        engine.register(eq.Window("w", "mean", "length", last=last, epsilon=EPSILON, by_key=True))
        ours = events / played(engine, played_tables)
    rows: list[list[str | float | None]] = [["everquery, within 1%", ours, 1.0]]
    few = slice(0, scale.pick(50_000, 500))
    ways: dict[str, tuple[Callable[[Int64s, Floats, int], None], slice]] = {
        "deques by hand": (_deques, few),
        "river, rolling mean": (_river, few),
        "pandas, batch by batch": (_pandas_batches, slice(0, events)),
        "pandas, rolling by key": (_pandas, slice(0, events)),
        "DuckDB, window function": (_duckdb, slice(0, events)),
        "Polars, rolling mean by key": (_polars, slice(0, events)),
    }
    for name, (way, part) in ways.items():
        package = name.split(",")[0].lower()
        if package in ("river", "pandas", "duckdb", "polars") and find_spec(package) is None:
            rows.append([f"{name} (not installed)", None, None])
            continue
        begin = time.perf_counter()
        way(host[part], length[part], last)
        rate = host[part].size / (time.perf_counter() - begin)
        rows.append([name, rate, ours / rate])
        if way in (_river, _pandas_batches) and not scale.quick:
            findings.at_least(f"times {name}", ours / rate, 20, "")
    note = (
        f"Batches of {BATCH:,}. DuckDB, Polars and pandas by key get all rows at once and return"
        " one value a row, exactly; they hold no state between batches. Batch by batch, pandas has"
        " the last rows of each key put in front of the next ones."
    )
    title = f"Rolling means of {last:,} rows over {keys:,} keys"
    columns = ["who", "events a second", "everquery is faster, times"]
    findings.tables.append(Table("windows-peers", title, columns, rows, note))


def _deques(host: Int64s, length: Floats, last: int) -> None:
    windows: dict[int, deque[float]] = {}
    sums: dict[int, float] = {}
    for key, value in zip(host.tolist(), length.tolist(), strict=True):
        window = windows.setdefault(key, deque())
        window.append(value)
        sums[key] = sums.get(key, 0.0) + value
        if len(window) > last:
            sums[key] -= window.popleft()


def _river(host: Int64s, length: Floats, last: int) -> None:
    from river import stats, utils

    windows: dict[int, Any] = {}
    for key, value in zip(host.tolist(), length.tolist(), strict=True):
        if key not in windows:
            windows[key] = utils.Rolling(stats.Mean(), window_size=last)
        windows[key].update(value)
        windows[key].get()


def _pandas(host: Int64s, length: Floats, last: int) -> None:
    import pandas as pd

    frame = pd.DataFrame({"host": host, "length": length})
    frame.groupby("host")["length"].rolling(last, min_periods=1).mean()


def _pandas_batches(host: Int64s, length: Floats, last: int) -> None:
    import pandas as pd

    kept = pd.DataFrame({"host": host[:0], "length": length[:0]})
    for begin in range(0, host.size, BATCH):
        part = slice(begin, begin + BATCH)
        new = pd.DataFrame({"host": host[part], "length": length[part]})
        kept = pd.concat([kept, new], ignore_index=True)
        kept.groupby("host")["length"].rolling(last, min_periods=1).mean()
        kept = kept.groupby("host").tail(last - 1)


def _duckdb(host: Int64s, length: Floats, last: int) -> None:
    import duckdb

    rows = pa.table({"host": host, "length": length, "i": np.arange(host.size)})  # noqa: F841
    duckdb.execute(
        "SELECT avg(length) OVER (PARTITION BY host ORDER BY i ROWS BETWEEN"
        f" {last - 1} PRECEDING AND CURRENT ROW) FROM rows"
    ).fetchnumpy()


def _polars(host: Int64s, length: Floats, last: int) -> None:
    import polars as pl

    frame = pl.DataFrame({"host": host, "length": length})
    frame.select(pl.col("length").rolling_mean(last, min_samples=1).over("host"))
