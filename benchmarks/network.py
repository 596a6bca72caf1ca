"""A chain of ten filters and maps: fused, one batch a box, and one row at a time."""

from __future__ import annotations

import time

import pyarrow as pa

import everquery as eq
from benchmarks.findings import Findings, Table
from benchmarks.harness import Scale, check_count
from everquery.network import Filter, Map
from everquery.network.runtime.run import Run
from everquery.network.spec import Box

NAME = "network"
COLUMNS = tuple("abcdefgh")
CHAIN: tuple[Box, ...] = (
    Filter("readings", where="a > 20"),
    Map("b0", select="key, a * 1.8 + 32 AS a, b, c, d, e, f, g, h"),
    Filter("b1", where="b < 80"),
    Map("b2", select="key, a, b, c - d AS c, d, e, f, g, h"),
    Filter("b3", where="c > -30"),
    Map("b4", select="key, a, b, c, d * e AS d, e, f, g, h"),
    Filter("b5", where="e > 20"),
    Map("b6", select="key, a + b AS ab, c, d, e, f, g, h"),
    Filter("b7", where="f < 90"),
    Map("b8", select="key, ab, c, d"),
)


def chain() -> eq.Network:
    """Return the network."""
    stream = eq.Stream("readings", key="key", attributes=COLUMNS)
    boxes = {f"b{at}": box for at, box in enumerate(CHAIN)}
    return eq.Network("chain", [stream], boxes, {"out": f"b{len(CHAIN) - 1}"})


def events(scale: Scale, rows: int) -> pa.Table:
    """Return readings: a key of a thousand, and eight numbers."""
    rng = scale.generator(20)
    numbers = {name: rng.normal(50, 20, rows) for name in COLUMNS}
    return pa.table({"key": rng.integers(0, 1_000, rows).astype(str), **numbers})


def passed(run: Run, table: pa.Table, size: int) -> tuple[float, int]:
    """Return seconds, and rows that came out, for batches of a size."""
    batches = [table.slice(at, size) for at in range(0, table.num_rows, size)]
    began, found = time.perf_counter(), 0
    for batch in batches:
        found += run.process({"readings": batch})["out"].num_rows
    return time.perf_counter() - began, found


def run(scale: Scale) -> Findings:
    """Measure batches of several sizes, both ways, and single rows."""
    rows = scale.pick(4_000_000, 40_000)
    table = events(scale, rows)
    network = chain()
    cells: list[list[str | float | None]] = []
    rates: dict[str, float] = {}
    ratios: list[float] = []
    for size in scale.pick((1_000_000, 100_000, 10_000, 1_000), (10_000, 1_000)):
        row: list[str | float | None] = [f"batches of {size:,}"]
        counts = []
        for name, optimize in (("fused", True), ("one batch a box", False)):
            seconds = []
            for _ in range(scale.pick(5, 1)):
                running = network.start(optimize=optimize)
                passed(running, table.slice(0, size), size)
                taken, found = passed(running, table, size)
                seconds.append(taken)
            counts.append(found)
            rates[f"{name}, {size}"] = rows / min(seconds) / 1e6
            row.append(rows / min(seconds) / 1e6)
        check_count("rows out", *counts)
        ratios.append(rates[f"fused, {size}"] / rates[f"one batch a box, {size}"])
        cells.append([*row, ratios[-1]])
    few = scale.pick(2_000, 50)
    seconds_each, _ = passed(network.start(optimize=False), table.slice(0, few), 1)
    single = few / seconds_each / 1e6
    cells.append(["one row at a time", None, single, None])
    largest = max(rates.values())
    findings = Findings({"rows": rows, "boxes": len(CHAIN)})
    findings.at_least("the chain, fused", largest, 10, "million rows a second")
    findings.at_least("fused against one batch a box", ratios[0], 5, "times")
    findings.at_least("batches against one row at a time", largest / single, 100, "times")
    title = "A chain of ten filters and maps, million rows a second"
    columns = ["batches", "fused", "one batch a box", "ratio"]
    findings.tables.append(Table("network-chain", title, columns, cells))
    return findings
