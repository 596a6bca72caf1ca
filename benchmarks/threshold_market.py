"""Threshold queries through the engine: many keys, batches of events, and how far a query is."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

import everquery as eq
from benchmarks.findings import Findings, Table
from benchmarks.harness import Scale, Stopwatch, check_count
from benchmarks.threshold_work import DOMAIN, Boxes, Setting, draw_elements
from benchmarks.workloads import query_table, symbols
from everquery.core.arrays import Int64s

STREAM = eq.Stream("trades", key="symbol", attributes=["price"], weight="shares")
WARM = 2  # batches before the timing
TOTALS = 1_000, 40_000


def through_engine(findings: Findings, scale: Scale) -> None:
    """Events a second through `Engine.process`, and the time of `progress`."""
    queries, keys, size = scale.pick((1_000_000, 2_000, 100_000), (5_000, 40, 2_000))
    turns = WARM + scale.pick(15, 4)
    generator = scale.generator(40)
    boxes = Boxes.draw(generator, 1, queries)
    key = generator.integers(0, keys, queries).astype(np.int32)
    total = generator.integers(*TOTALS, queries)
    table = query_table(boxes.low[0], boxes.high[0], "price", key, keys)
    table = table.append_column("total", pa.array(total))
    seen = np.zeros(queries, np.int64)
    names = symbols(keys)
    watches = {name: Stopwatch() for name in ("process", "progress", "again")}
    notices = 0
    register = Stopwatch()
    with eq.Engine(STREAM) as engine:  # compiles what registration needs
        engine.register_table(table.slice(0, 100), kind="threshold")
    with eq.Engine(STREAM) as engine:
        register(partial(engine.register_table, kind="threshold"), table)
        for turn in range(turns):
            values, shares = draw_elements(generator, Setting(1, queries), size)
            symbol = generator.integers(0, keys, size)
            batch = pa.record_batch(
                {"symbol": names.take(pa.array(symbol)), "price": values[0], "shares": shares}
            )
            told = (Stopwatch() if turn < WARM else watches["process"])(engine.process, batch)
            notices += told.num_rows
            seen += gains(boxes, key, symbol, values[0], shares)
            check_count("fires of the engine", int(np.count_nonzero(seen >= total)), notices)
            running = np.flatnonzero(seen < total)[:2]
            for name, row in zip(("progress", "again"), running, strict=True):
                got = watches[name](engine.progress, f"q{row:08}")
                check_count("progress", int(seen[row]), got)
    timing = watches["process"].timing
    findings.tables.append(
        Table(
            "threshold-engine",
            f"Threshold, engine: {queries:,} key-filtered queries on {keys:,} keys,"
            f" batches of {size:,} events",
            ["", "seconds", "events a second"],
            [
                ["`process`, string keys", timing.median, size / timing.median],
                ["`register_table`, index included", register.timing.total, None],
                ["`progress` of one query, after a batch", watches["progress"].timing.median, None],
                ["`progress` of another query", watches["again"].timing.median, None],
            ],
            f"Median of {turns - WARM} batches; totals from {TOTALS[0]:,} to {TOTALS[1]:,}, so that"
            f" {notices / turns:,.0f} queries fire in a batch. All fires and what `progress` tells"
            " are compared with sums over all events.",
        )
    )


def gains(boxes: Boxes, key: Int64s, symbol: Int64s, price: Int64s, shares: Int64s) -> Int64s:
    """Return what each query gains from a batch, by sums over the sorted events of its key."""
    wide = DOMAIN + 2
    at = symbol * wide + price
    order = np.argsort(at)
    sums = np.concatenate([[0], np.cumsum(shares[order])])
    begin, end = (
        np.searchsorted(at[order], key.astype(np.int64) * wide + side[0])
        for side in (boxes.low, boxes.high)
    )
    gained: Int64s = sums[end] - sums[begin]
    return gained
