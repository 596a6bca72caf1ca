"""Two million quantile queries over a stream: summaries alone, cells of queries, and the engine."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import everquery as eq
from benchmarks.findings import Findings, Table
from benchmarks.harness import Scale
from benchmarks.papers.rank_intervals import group_intervals, rank_intervals
from benchmarks.quantile_play import ONE_KEY, pieces
from benchmarks.quantile_work import FINE, STREAMS, stream
from everquery.core.arrays import Floats
from everquery.index.flags import LIVE
from everquery.kinds.quantile.feed import Feed
from everquery.kinds.quantile.feed_queries import FeedName
from everquery.kinds.quantile.gk_summary import Summaries
from everquery.kinds.quantile.rank_cells import codes_of

NAME = "quantile_engine"
ERROR = FINE[0] / 2  # what our summaries err, for the finest of these queries
ROUNDS = 3


@dataclass(frozen=True)
class Asked:
    """The queries, and one for each cell that they are in."""

    phi: Floats
    epsilon: Floats
    table: pa.Table
    cells: tuple[Floats, Floats]

    @classmethod
    def draw(cls, n: int, rng: np.random.Generator) -> Asked:
        """Return queries of the paper's Section 5.4."""
        epsilon = rng.uniform(*FINE, n)
        phi = np.maximum(1.0 - rng.random(n), epsilon)
        codes = np.empty(n, np.int64)
        codes_of(np.arange(n, dtype=np.int32), (phi, epsilon), ERROR, codes)
        _, one = np.unique(codes, return_index=True)
        table = pa.table({"id": [f"q{i}" for i in range(n)], "phi": phi, "epsilon": epsilon})
        return cls(phi, epsilon, table, (phi[one], epsilon[one]))


@dataclass(frozen=True)
class Seen:
    """How long a way took for a stream, and what it did."""

    seconds: float
    first: float
    looks: int = 0
    notices: int = 0


def run(scale: Scale) -> Findings:
    """Measure each way over each stream, in batches of two sizes."""
    queries = scale.pick(2_000_000, 2_000)
    events = scale.pick(5_000_000, 20_000)
    sizes = scale.pick((100_000, 1_000_000), (2_000, 10_000))
    findings = Findings(
        {
            "queries": queries,
            "phi": "uniform in (0, 1], not below epsilon",
            "epsilon": f"uniform in [{FINE[0]}, {FINE[1]}]",
            "events": events,
            "summary_epsilon": ERROR,
            "batches": list(sizes),
            "timing": f"best of {ROUNDS} whole streams, the engine once; registration is not in",
        }
    )
    asked = Asked.draw(queries, scale.generator(1))
    grouped(findings, asked)
    rows: list[list[str | float | None]] = []
    for number, kind in enumerate(STREAMS):
        values = stream(kind, events, scale.generator(2, number))
        for size in sizes:
            compare(findings, asked, kind, values, size, rows)
    findings.tables.append(
        Table(
            "quantile-engine",
            f"{queries:,} quantile queries: events a second over {events:,} events",
            ["stream, batch", "summary alone", "and all cells", "of the summary",
             "engine, all notices", "engine behind the first batch", "notices", "cells looked at"],
            rows,
            "A cell stands for all queries of it, as a cluster does in the paper, which counts a"
            " message for each. The engine writes a notice for each query: all of them in the first"
            " batch, and in semisort, where all values are new, in every one.",
        )
    )  # fmt: skip
    return findings


def grouped(findings: Findings, asked: Asked) -> None:
    """Say how many cells there are, beside the paper's clusters."""
    low, high = rank_intervals(asked.phi, asked.epsilon, summary_epsilon=ERROR)
    fewest = group_intervals(low, high, method="b", epsilon=ERROR).low.size
    cheapest = group_intervals(low, high, method="a", epsilon=ERROR).low.size
    findings.tables.append(
        Table(
            "quantile-cells",
            "Into how many groups the queries fall",
            ["", "groups"],
            [
                ["cells of ranks", asked.cells[0].size],
                ["clusters by cost (QC_A)", cheapest],
                ["the fewest clusters (QC_B)", fewest],
            ],
            "A query's cell depends on nothing but the query.",
        )
    )


def compare(
    findings: Findings,
    asked: Asked,
    kind: str,
    values: Floats,
    size: int,
    rows: list[list[str | float | None]],
) -> None:
    """Measure all ways over one stream."""
    n = values.size
    alone = min(summary_alone(values, size) for _ in range(ROUNDS))
    cells = min((with_cells(asked, values, size) for _ in range(ROUNDS)), key=lambda s: s.seconds)
    engine = through_engine(asked, values, size)
    behind = (n - size) / (engine.seconds - engine.first)
    rows.append(
        [
            f"{kind}, {size:,}", n / alone, n / cells.seconds, alone / cells.seconds,
            n / engine.seconds, behind, engine.notices, cells.looks,
        ]
    )  # fmt: skip
    what = f"{asked.phi.size:,} quantile queries, {kind}, batches of {size:,}"
    findings.at_least(f"{what}: summaries and cells", n / cells.seconds, 2e6, "events/s")
    findings.at_least(f"{what}: the same against summaries alone", alone / cells.seconds, 0.5, "")
    findings.at_least(f"{what}: engine, all notices", n / engine.seconds, 2e6, "events/s")
    fewer = n * asked.phi.size / cells.looks
    findings.at_least(f"{what}: events x queries against cells looked at", fewer, 1_000, "times")


def summary_alone(values: Floats, size: int) -> float:
    """Return the seconds of keeping a summary."""
    summary = Summaries(ERROR)
    begun = time.perf_counter()
    for piece in pieces(values.size, size):
        given = values[piece]
        summary.update(ONE_KEY, np.array([0, given.size]), given)
    return time.perf_counter() - begun


def with_cells(asked: Asked, values: Floats, size: int) -> Seen:
    """Keep a summary, and a value for each cell that does for all of its queries."""
    count = asked.cells[0].size
    feed = Feed(FeedName(0, 0, False))
    feed.add(np.arange(count, dtype=np.int32), np.zeros(count, np.int32))
    flags = np.full(count, LIVE, np.uint16)
    begun = time.perf_counter()
    feed.begin(asked.cells)
    for _ in feed.place(asked.cells):
        pass
    for piece in pieces(values.size, size):
        given = values[piece]
        feed.take(ONE_KEY, np.array([0, given.size]), given, asked.cells, flags)
    return Seen(time.perf_counter() - begun, 0.0, int(feed.looks[0]))


def through_engine(asked: Asked, values: Floats, size: int) -> Seen:
    """Process batches with all queries, every notice written."""
    engine = eq.Engine(eq.Stream("s", attributes=["x"]))
    engine.register_table(asked.table, kind="quantile")
    batches = [pa.table({"x": values[piece]}) for piece in pieces(values.size, size)]
    seconds, notices = [], 0
    for batch in batches:
        begun = time.perf_counter()
        told = engine.process(batch)
        seconds.append(time.perf_counter() - begun)
        notices += told.num_rows
    return Seen(sum(seconds), seconds[0], notices=notices)
