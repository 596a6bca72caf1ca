"""continuous-quantiles Figures 5 to 7: how many clusters the groupings make, and how quickly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.findings import Curves, Figure, Findings, Panel
from benchmarks.harness import Scale, Timing, race
from benchmarks.papers.quantile_clusters import Clusters
from benchmarks.papers.rank_intervals import Grouping, Method, group_intervals
from benchmarks.quantile_work import Queries, draw_queries

OURS = "everquery"
SORT = "np.argsort"
STEPS = 100  # in which a batch comes and the last one leaves
NAMES = ("uni10", "uni20", "zipf10", "zipf20")


def grouped(queries: Queries, method: Method) -> Grouping:
    """Group a given set."""
    return group_intervals(queries.low, queries.high, method=method, epsilon=queries.epsilon)


def first(queries: Queries, n: int) -> Queries:
    """Return the first queries, with the same summary."""
    return Queries(queries.low[:n], queries.high[:n], queries.epsilon)


def register_bulk(queries: Queries, sizes: Sequence[int]) -> tuple[list[int], list[float]]:
    """Register in a few calls; return how many clusters there were at some sizes, and seconds."""
    clusters, counts, seconds = Clusters(epsilon=queries.epsilon), [], []
    begin, before = time.perf_counter(), 0
    for size in sizes:
        clusters.register(queries.low[before:size], queries.high[before:size])
        counts.append(len(clusters))
        seconds.append(time.perf_counter() - begin)
        before = size
    return counts, seconds


def register_each(queries: Queries) -> int:
    """Register with a call each; return how many clusters there are."""
    clusters = Clusters(epsilon=queries.epsilon)
    for i in range(len(queries)):
        clusters.register(queries.low[i : i + 1], queries.high[i : i + 1])
    return len(clusters)


def grouping_figure(
    findings: Findings, scale: Scale, number: str, name: str, queries: Queries
) -> Figure:
    """Figures 5 and 6: numbers of clusters and seconds by the number of queries."""
    sizes = scale.pick(
        [20_000, 60_000, 100_000, 200_000, 400_000, 800_000, 1_400_000, 2_000_000], [500, 2_000]
    )
    many, spent = Curves(("QC_A", "QC_B", "OQC")), Curves(("QC_A", "QC_B", "OQC", SORT))
    online = min((register_bulk(queries, sizes) for _ in range(3)), key=lambda run: run[1][-1])
    timings: dict[str, Timing] = {}
    for place, size in enumerate(sizes):
        some = first(queries, size)
        timings = race(
            {
                "QC_A": partial(grouped, some, "a"),
                "QC_B": partial(grouped, some, "b"),
                SORT: partial(np.argsort, some.low),
            },
            rounds=3,
        )
        counts = {"QC_A": grouped(some, "a").low.size, "QC_B": grouped(some, "b").low.size}
        many.add({**counts, "OQC": online[0][place]})
        best = {each: timing.best for each, timing in timings.items()}
        spent.add({**best, "OQC": online[1][place]})
    what = f"Quantiles, {sizes[-1]:,} queries ({name})"
    ratio = timings["QC_B"].best / timings[SORT].best
    findings.at_most(f"{what}: QC_B against sorting the lower ends", ratio, 3, "times")
    findings.at_most(f"{what}: QC_A", timings["QC_A"].best, 10, "s")
    rate = sizes[-1] / online[1][-1]
    findings.at_least(f"{what}: OQC in bulk", rate, 100_000, "registrations a second")
    some = first(queries, scale.pick(200_000, 500))
    calls = race({"each": lambda: register_each(some)}, rounds=2)["each"].best
    what = f"Quantiles ({name}): OQC with a call each, {len(some):,} queries"
    findings.at_least(what, len(some) / calls, 100_000, "registrations a second")
    return Figure(
        f"quantiles-{number}",
        f"continuous-quantiles Figure {number}: clusters of {name} queries",
        "queries",
        [float(size) for size in sizes],
        [
            Panel("number of clusters", "clusters", many.series),
            Panel("time to cluster", "seconds", spent.series),
        ],
        PAPER[number],
        f"{sizes[-1]:,} queries make {many.series['QC_A'][-1]:,} clusters by QC_A,"
        f" {many.series['QC_B'][-1]:,} by QC_B and {many.series['OQC'][-1]:,} by OQC; QC_B takes"
        f" {ratio:.3g} times as long as sorting the lower ends, QC_A"
        f" {timings['QC_A'].best / timings[SORT].best:.3g} times.",
    )


@dataclass
class Drift:
    """How a stream of queries went: clusters of the groupings over those kept online."""

    ratio_a: float
    ratio_b: float
    ratio_ours: float
    online_s: float
    ours_s: float


def drift_of(queries: Queries, count: int) -> Drift:
    """Let batches come while the last one leaves, in small steps; compare after each batch.

    Ours groups anew whenever that is due.
    """
    online, ours = Clusters(epsilon=queries.epsilon), Clusters(epsilon=queries.epsilon)
    spent = [0.0, 0.0]
    ratios = []
    bounds = np.arange(count + 1) * len(queries) // count
    leaving = np.arange(0)
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        steps = np.linspace(begin, end, STEPS + 1).astype(np.int64)
        gone = np.linspace(0, leaving.size, STEPS + 1).astype(np.int64)
        for k in range(STEPS):
            come, go = slice(steps[k], steps[k + 1]), leaving[gone[k] : gone[k + 1]]
            for place, clusters in enumerate((online, ours)):
                start = time.perf_counter()
                clusters.register(queries.low[come], queries.high[come])
                clusters.drop(go)
                job = clusters.due_recluster() if clusters is ours else None
                if job is not None:
                    clusters.install(job, job.run())
                spent[place] += time.perf_counter() - start
        leaving = np.random.default_rng(begin).permutation(np.arange(begin, end))
        here = Queries(queries.low[begin:end], queries.high[begin:end], queries.epsilon)
        by_a, by_b = grouped(here, "a").low.size, grouped(here, "b").low.size
        ratios.append((by_a / len(online), by_b / len(online), by_a / len(ours)))
    return Drift(*np.mean(ratios, axis=0).tolist(), *spent)


def drift_figure(uniform: Queries, skewed: Queries) -> Figure:
    """Figure 7: queries that come and go in batches."""
    ratios = Curves(("QC_A / OQC", "QC_B / OQC", "QC_A / everquery"))
    spent = Curves((OURS, "OQC"))
    for queries, count in ((uniform, 10), (uniform, 20), (skewed, 10), (skewed, 20)):
        drift = drift_of(queries, count)
        ratios.add(
            {
                "QC_A / OQC": drift.ratio_a,
                "QC_B / OQC": drift.ratio_b,
                "QC_A / everquery": drift.ratio_ours,
            }
        )
        spent.add({OURS: drift.ours_s, "OQC": drift.online_s})
    told = [
        f"{name}: {a:.2f} and {ours:.2f}"
        for name, a, ours in zip(
            NAMES, ratios.series["QC_A / OQC"], ratios.series["QC_A / everquery"], strict=True
        )
    ]
    return Figure(
        "quantiles-7",
        "continuous-quantiles Figure 7: queries in batches that come and go",
        "batches",
        [1.0, 2.0, 3.0, 4.0],
        [
            Panel("clusters over those kept online", "ratio", ratios.series, log_y=False),
            Panel("time of all changes", "seconds", spent.series, log_y=False),
        ],
        PAPER["7"],
        "Clusters by QC_A over those of OQC, and over ours, which groups all queries anew when that"
        f" is due: {'; '.join(told)}.",
        log_x=False,
        x_names=list(NAMES),
    )


PAPER = {
    "5": "2M queries make a small number of clusters; all three ways take a few seconds.",
    "6": "As in Figure 5, but QC_A and OQC take longer, as many queries intersect.",
    "7": "OQC stays close to QC_A and QC_B although it never groups anew, in little time.",
}


def grouping_figures(findings: Findings, scale: Scale) -> list[Figure]:
    """Measure Figures 5 to 7."""
    n = scale.pick(2_000_000, 2_000)
    uniform = draw_queries(n, scale.generator(5), fine=False)
    skewed = draw_queries(n, scale.generator(6), is_zipf=True, fine=False)
    return [
        grouping_figure(findings, scale, "5", "uniform", uniform),
        grouping_figure(findings, scale, "6", "zipf", skewed),
        drift_figure(uniform, skewed),
    ]
