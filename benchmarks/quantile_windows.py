"""continuous-quantiles Figures 13 and 14: queries over the last rows."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.findings import Curves, Figure, Panel
from benchmarks.harness import Scale
from benchmarks.quantile_grouping import OURS, grouped
from benchmarks.quantile_play import ONE_KEY, pieces
from benchmarks.quantile_work import EPSILON, STREAMS, Queries, draw_queries, stream
from everquery.core.arrays import Floats
from everquery.kinds.quantile.gk_merge import pick_tuples
from everquery.kinds.quantile.window_summary import WindowSummaries


@dataclass
class Watched:
    """Seconds that a stream took: to keep the summary, and in all."""

    summary: float = 0.0
    total: float = 0.0


def watch(values: Floats, clusters: Queries, window: int, epsilon: float, size: int) -> Watched:
    """Keep the last rows, and evaluate all clusters after every `size` elements."""
    watched, summary = Watched(), WindowSummaries(epsilon, window)
    middle = (clusters.low + clusters.high) / 2
    picked = np.empty(middle.size, np.int64)
    for piece in pieces(values.size, size):
        begin = time.perf_counter()
        given = values[piece]
        summary.update(ONE_KEY, np.array([0, given.size]), given)
        found, r_minus, r_plus = summary.tuples(0)
        kept = time.perf_counter()
        pick_tuples(r_minus, r_plus, middle * min(piece.stop, window), picked)
        np.take(found, picked)
        watched.summary += kept - begin
        watched.total += time.perf_counter() - begin
    return watched


def clusters_of(queries: Queries) -> Queries:
    """Return the clusters of QC_A as queries of their own."""
    groups = grouped(queries, "a")
    return Queries(groups.low, groups.high, queries.epsilon)


def window_figures(scale: Scale) -> list[Figure]:
    """Measure Figures 13 and 14."""
    elements, batch = scale.pick((2_000_000, 100_000), (6_000, 500))
    queries = scale.pick(1_000_000, 1_000)
    clusters = clusters_of(draw_queries(queries, scale.generator(13), fine=False))
    by_data = Curves((OURS, "CSU", "CSU, its summary"))
    window = scale.pick(500_000, 2_000)
    data = {kind: stream(kind, elements, scale.generator(14, i)) for i, kind in enumerate(STREAMS)}
    for values in data.values():
        step = max(1, int(EPSILON * window / 2))
        csu = watch(values, clusters, window, EPSILON, step)
        ours = watch(values, clusters, window, EPSILON, batch)
        by_data.add({OURS: ours.total, "CSU": csu.total, "CSU, its summary": csu.summary})
    windows = scale.pick([200_000, 600_000, 1_000_000], [500, 2_000])
    names = [f"epsilon {epsilon}" for epsilon in (0.005, 0.01, 0.02)]
    lines = {"CSU": Curves(names), OURS: Curves(names)}
    for window in windows:
        spent: dict[str, dict[str, float | None]] = {"CSU": {}, OURS: {}}
        for name in names:
            epsilon = float(name.split()[1])
            sizes = {"CSU": max(1, int(epsilon * window / 2)), OURS: batch}
            for way, size in sizes.items():
                spent[way][name] = watch(data["semisort"], clusters, window, epsilon, size).total
        for way, curves in lines.items():
            curves.add(spent[way])
    return [
        Figure(
            "quantiles-13",
            f"continuous-quantiles Figure 13: the last {scale.pick(500_000, 2_000):,} rows",
            "data",
            [1.0, 2.0, 3.0],
            [Panel(f"{elements:,} elements", "seconds", by_data.series, log_y=False)],
            "A few hundred seconds, most of them for the summary; semisort takes the longest.",
            ends(by_data.series["CSU"], by_data.series[OURS], STREAMS),
            log_x=False,
            x_names=list(STREAMS),
        ),
        Figure(
            "quantiles-14",
            "continuous-quantiles Figure 14: windows and summaries",
            "rows in the window",
            [float(window) for window in windows],
            [Panel(way, "seconds", curves.series) for way, curves in lines.items()],
            "The smaller the window, the longer it takes, as clusters are evaluated more often.",
            f"CSU takes {lines['CSU'].series[names[0]][0]:.3g} s with {windows[0]:,} rows and"
            f" {lines['CSU'].series[names[0]][-1]:.3g} s with {windows[-1]:,} at epsilon 0.005.",
            log_x=False,
        ),
    ]


def ends(
    theirs: list[float | None], ours: list[float | None], names: tuple[str, ...]
) -> str:  # fmt: skip
    """Say how much longer they take."""
    told = [
        f"{name} takes {a / b:.3g} times ours"
        for name, a, b in zip(names, theirs, ours, strict=True)
        if a and b
    ]
    return f"CSU, which evaluates all clusters every epsilon N / 2 elements: {', '.join(told)}."
