"""Quantile summaries beside the KLL sketch of Apache DataSketches: values a second, and size."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from datasketches import kll_doubles_sketch

from benchmarks.findings import Findings, Table
from benchmarks.harness import Scale, UnequalResultsError, race
from benchmarks.quantile_play import ONE_KEY, pieces
from benchmarks.quantile_work import EPSILON, STREAMS, stream
from everquery.core.arrays import Floats
from everquery.kinds.quantile.gk_summary import Summaries
from everquery.kinds.quantile.window_summary import WindowSummaries

NAME = "quantile_summary"
Ours = Summaries | WindowSummaries
RANKS = np.linspace(0.005, 0.995, 199)
OURS, KLL, KLL_EACH = "everquery", "KLL, arrays", "KLL, a call each"
WINDOW = "everquery, the last rows"


def least_k() -> int:
    """Return the smallest sketch whose ranks are within epsilon with a confidence of 99%."""
    k = 8
    while kll_doubles_sketch.get_normalized_rank_error(k, False) > EPSILON:
        k += 1
    return k


def fill(kind: Callable[[float], Ours], values: Floats, size: int) -> Ours:
    """Put a stream into one of our summaries, in batches."""
    summary = kind(EPSILON)
    for piece in pieces(values.size, size):
        given = values[piece]
        summary.update(ONE_KEY, np.array([0, given.size]), given)
    return summary


def sketch_of(values: Floats, size: int, k: int) -> Any:  # noqa: ANN401 - ships no types
    """Put a stream into a sketch, in arrays."""
    sketch = kll_doubles_sketch(k)
    for piece in pieces(values.size, size):
        sketch.update(values[piece])
    return sketch


def sketch_each(values: list[float], k: int) -> Any:  # noqa: ANN401 - ships no types
    """Put a stream into a sketch, one by one."""
    sketch = kll_doubles_sketch(k)
    for value in values:
        sketch.update(value)
    return sketch


def furthest(seen: Floats, answers: Floats) -> float:
    """Return how far an answer is from its rank at most, as a share of all values."""
    ordered = np.sort(seen)
    low = np.searchsorted(ordered, answers, "left") + 1 - RANKS * seen.size
    high = RANKS * seen.size - np.searchsorted(ordered, answers, "right")
    return float(np.maximum(np.maximum(low, high), 0).max() / seen.size)


def error_of(summary: Ours, seen: Floats) -> float:
    """Return how far an answer of ours is from its rank; raise if that is more than promised."""
    error = furthest(seen, summary.query_many(0, RANKS * seen.size)[0])
    if error > EPSILON:
        raise UnequalResultsError(f"a rank is off by {error:.4f} of all values, above {EPSILON}")
    return error


def run(scale: Scale) -> Findings:
    """Compare the answers with exact ranks, then measure."""
    n, batch, last = scale.pick((5_000_000, 100_000, 500_000), (20_000, 2_000, 5_000))
    k = least_k()
    findings = Findings(
        {
            "epsilon": EPSILON,
            "values": n,
            "batch": batch,
            "window": last,
            "kll": f"datasketches {version('datasketches')}",
            "kll_k": f"{k}, the least with a rank error of at most epsilon (99% of answers)",
        }
    )
    bound = 11 / (2 * EPSILON) * math.log2(2 * EPSILON * n)
    rows: list[list[str | float | None]] = []
    for i, kind in enumerate(STREAMS):
        values = stream(kind, n, scale.generator(20, i))
        few = values[: scale.pick(500_000, 2_000)]
        listed = few.tolist()
        contest: dict[str, Callable[[], Any]] = {
            OURS: partial(fill, Summaries, values, batch),
            KLL: partial(sketch_of, values, batch, k),
            KLL_EACH: partial(sketch_each, listed, k),
            WINDOW: partial(fill, partial(WindowSummaries, window=last), values, batch),
        }
        ours, sketch, _, latest = (make() for make in contest.values())
        best = {name: timing.best for name, timing in race(contest, budget_s=3.0).items()}
        rates = {name: n / spent for name, spent in best.items()}
        rates[KLL_EACH] = few.size / best[KLL_EACH]
        held = {OURS: int(ours.sizes()[0]), KLL: sketch.num_retained, WINDOW: latest.sizes()[0]}
        error = {
            OURS: error_of(ours, values),
            KLL: furthest(values, np.array(sketch.get_quantiles(RANKS))),
            WINDOW: error_of(latest, values[-last:]),
        }
        rows += [
            [
                f"{kind}: {name}",
                rate,
                float(held[name]) if name in held else None,
                error.get(name),
            ]
            for name, rate in rates.items()
        ]
        other = max(rates[KLL], rates[KLL_EACH])
        what = f"Quantile summary, {kind}"
        findings.at_least(f"{what}: values a second over KLL", rates[OURS] / other, 1, "times")
        size = held[OURS] / bound
        findings.at_most(f"{what}: tuples over Greenwald and Khanna's bound", size, 1, "times")
    findings.tables.append(
        Table(
            "quantile-summaries",
            f"Summaries of {n:,} values",
            ["", "values a second", "values held", "furthest of 199 ranks, as a share"],
            rows,
            f"The bound is 11 / (2 epsilon) log2(2 epsilon n) = {bound:,.0f} tuples. Ours promises"
            " every rank within epsilon, KLL 99% of them. A call each is timed on"
            f" {scale.pick(500_000, 2_000):,} values; the better of both ways to fill a sketch is"
            f" what ours is held against. The last {last:,} rows have no peer here: DataSketches"
            " has no windows.",
        )
    )
    return findings
