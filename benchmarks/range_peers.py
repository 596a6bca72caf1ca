"""Range queries on one attribute: search beside the peers, storage, growth, the whole engine."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import everquery as eq
from benchmarks.findings import Findings, Table
from benchmarks.harness import Scale, Stopwatch, check_count
from benchmarks.papers.virtual_constructs import storage_bytes
from benchmarks.peers import IntervalTrees, Ncls, OurIntervals, RTrees, SuperIntervals
from benchmarks.stabbing import Builder, stab
from benchmarks.workloads import Intervals, query_table
from everquery.index.containment import count_pieces

NAME = "range_peers"
W = 200
L = 16
PEERS: dict[str, tuple[Builder, float]] = {  # and how many times as fast ours should be
    "ncls": (Ncls, 5),
    "superintervals": (SuperIntervals, 5),
    "intervaltree": (IntervalTrees, 150),
    "rtree": (RTrees, 150),
}


def run(scale: Scale) -> Findings:
    """Measure everything on one workload."""
    domain, n = scale.pick((1 << 20, 100_000), (1 << 14, 2_000))
    searches = scale.pick(50_000, 1_000)
    findings = Findings(
        {
            "r": domain,
            "W": W,
            "n": n,
            "searches": searches,
            "searches_of_slow_peers": 2_000,
            "timing": "best of up to 15 rounds, all contestants in turns; matches written out",
        }
    )
    work = Intervals.draw(scale.generator(2), domain=domain, widest=W, queries=n, values=searches)
    compare_peers(findings, work)
    compare_storage(findings, work)
    grow(findings, scale, work)
    through_engine(findings, scale, work)
    return findings


def compare_peers(findings: Findings, work: Intervals) -> None:
    """Our index and the four peers, one after the other in each round."""
    builders = {"everquery": OurIntervals, **{name: peer[0] for name, peer in PEERS.items()}}
    found = stab(work, builders, rounds=15, budget_s=2.0)
    ours = found["everquery"].ns
    matches = float((work.high - work.low).sum()) / work.domain
    findings.tables.append(
        Table(
            name="range-peers",
            title=f"Range, one attribute: n = {work.low.size:,}, {matches:.1f} matches a search",
            columns=["index", "ns a search", "spread", "times ours", "searches a round"],
            rows=[
                [name, each.ns, each.spread, each.ns / ours, each.values]
                for name, each in found.items()
            ],
            note="superintervals and intervaltree return Python objects, the others arrays. rtree"
            " is bulk-loaded, searched by its batch call, and tuned (nodes of 10).",
        )
    )
    for name, (_, limit) in PEERS.items():
        what = f"Range, one attribute: search against {name}"
        findings.at_least(what, found[name].ns / ours, limit, "times as fast")
    findings.at_most("Range, one attribute: search (HINT in C++: 576 ns)", ours, 200, "ns")


def compare_storage(findings: Findings, work: Intervals) -> None:
    """Our bytes beside the paper's formula, ``4N + 8 n mu``, with mu counted on this workload."""
    n, domain = work.low.size, work.domain
    ours = OurIntervals(work)
    rows: list[list[str | float | None]] = []
    formula = {}
    for level in range(13):
        length = 1 << level
        constructs = -(-domain // length) * (2 * length - 1)
        mean_pieces = count_pieces(work.low, work.high, level) / n
        formula[length] = storage_bytes(constructs, n, mean_pieces)
        rows.append([f"paper's formula, L = {length}", formula[length], mean_pieces])
    best = min(formula, key=formula.__getitem__)
    segment = ours.segment
    bare = segment.nbytes() - sum(array.nbytes for array in segment.rows.arrays())
    mean_pieces = segment.pieces.size / n
    rows.append([f"everquery, L = {1 << segment.levels}", segment.nbytes(), mean_pieces])
    rows.append(["everquery without the queries' own bounds", bare, mean_pieces])
    findings.tables.append(
        Table(
            "range-storage",
            "Range, one attribute: storage",
            ["index", "bytes", "pieces a query"],
            rows,
            "Ours counts every array, with the queries' own bounds, keys and slots (24 bytes each)"
            " that a merge needs and the paper's formula leaves out.",
        )
    )
    what = "Range, one attribute: storage, as a share of the paper's 4N + 8n*mu"
    findings.at_most(f"{what} (L = {L})", segment.nbytes() / formula[L], 1, "")
    findings.at_most(f"{what} (its best L, {best})", segment.nbytes() / formula[best], 1, "")


def grow(findings: Findings, scale: Scale, work: Intervals) -> None:
    """Search time with 6.4 times the queries and as many matches."""
    more = scale.pick(640_000, 12_800)
    wider = Intervals.draw(
        scale.generator(3),
        domain=work.domain,
        widest=round(W * work.low.size / more),
        queries=more,
        values=work.values.size,
    )
    rows: list[list[str | float | None]] = []
    times = []
    for each in (work, wider):
        found = stab(each, {"everquery": OurIntervals}, rounds=25, budget_s=2.0)["everquery"]
        matches = float((each.high - each.low).sum()) / each.domain
        rows.append([f"{each.low.size:,}", matches, found.ns, found.spread, found.nbytes])
        times.append(found.ns)
    findings.tables.append(
        Table(
            "range-growth",
            "Range, one attribute: more queries, as many matches",
            ["queries", "matches a search", "ns a search", "spread", "bytes"],
            rows,
        )
    )
    what = f"Range, one attribute: search time from n = {work.low.size:,} to {more:,}"
    findings.at_most(what, times[1] / times[0], 1.3, "times")


def through_engine(findings: Findings, scale: Scale, work: Intervals) -> None:
    """Events and notices a second through `Engine.process`, with all columns of the notices."""
    size = scale.pick(100_000, 1_000)
    batches = scale.pick(8, 3)
    generator = scale.generator(4)
    watch = Stopwatch()
    with eq.Engine(eq.Stream("values", attributes=["value"])) as engine:
        table = query_table(work.low.astype(np.float64), work.high.astype(np.float64), "value")
        engine.register_table(table, kind="range")
        notices = 0
        for turn in range(batches + 1):
            values = generator.uniform(1, work.domain, size)
            begun = np.searchsorted(np.sort(work.low), values, "right")
            ended = np.searchsorted(np.sort(work.high), values, "right")
            batch = pa.record_batch({"value": values})
            told = (watch if turn else Stopwatch())(engine.process, batch)
            check_count("notices of the engine", int((begun - ended).sum()), told.num_rows)
            notices += told.num_rows if turn else 0
    per_second = size / watch.timing.median
    findings.tables.append(
        Table(
            "range-engine",
            f"Range, one attribute, through the engine: batches of {size:,} events",
            ["", "a second", "ns each"],
            [
                ["events", per_second, 1e9 / per_second],
                ["notices", notices / watch.timing.total, watch.timing.total / notices * 1e9],
            ],
            f"Median of {batches} batches (notices: mean); a notice has its id, query, time,"
            " sequence number and value.",
        )
    )
