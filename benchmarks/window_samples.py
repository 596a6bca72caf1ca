"""Prints what windows of distinct values and of norms hold, beside exact ones, and their errors.

``python -m benchmarks.window_samples`` prints the table of docs/windows.md. It measures no time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import everquery as eq
from benchmarks.windows import stores_of
from everquery.core.arrays import Floats

STREAM = eq.Stream("s", attributes=["x", "y"])
BATCH, ANSWERS = 10_000, 30
WINDOWS = (10_000, 100_000, 1_000_000)
EPSILONS = (0.05, 0.1, 0.2)
STATISTICS = ("distinct", "l1", "l2")
MANY, FEW = 10**9, 20  # places


@dataclass(frozen=True)
class Measured:
    """What a window held at most, what an exact one would, and the largest error of its answers."""

    held: int
    exact: int
    error: float


def truth(statistic: str, x: Floats, y: Floats) -> tuple[float, float]:
    """Return a statistic, and what its epsilon is a share of."""
    _, place = np.unique(y, return_inverse=True)
    sums, sizes = np.bincount(place, x), np.bincount(place, np.abs(x))
    if statistic == "distinct":
        return float(sums.size), float(sums.size)
    order = 1 if statistic == "l1" else 2
    return float(np.linalg.norm(sums, order)), float(np.linalg.norm(sizes, order))


def measured(statistic: str, epsilon: float, last: int, places: int) -> Measured:
    """Measure one window over one and a half times as many events as it holds."""
    rng = np.random.default_rng(last)
    n = last + last // 2
    x, y = rng.normal(0, 1, n), rng.integers(0, places, n).astype(np.float64)
    attribute, per = ("y", None) if statistic == "distinct" else ("x", "y")
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("w", statistic, attribute, per=per, last=last, epsilon=epsilon))
    worst, held = 0.0, 0
    every = max(1, n // BATCH // ANSWERS)
    for number, begin in enumerate(range(0, n, BATCH)):
        end = begin + BATCH
        engine.process(pa.table({"x": x[begin:end], "y": y[begin:end]}))
        (store,) = stores_of(engine).values()
        held = max(held, int(store.lanes.used[0]) * store.entry_bytes())
        if number % every == 0:
            window = slice(max(0, end - last), end)
            real, scale = truth(statistic, x[window], y[window])
            answer = engine.answer("w")
            assert answer.low - 1e-9 * scale <= real <= answer.high + 1e-9 * scale
            worst = max(worst, abs(answer.value - real) / scale)
    values = np.unique(y[-last:]).size
    return Measured(held, 16 * values if statistic == "distinct" else 24 * last, worst)


def main() -> None:
    """Print a line for each window."""
    for places in (MANY, FEW):
        for statistic in STATISTICS:
            for epsilon in EPSILONS:
                for last in WINDOWS:
                    found = measured(statistic, epsilon, last, places)
                    print(
                        f"{statistic:8} epsilon {epsilon:<4} last {last:>9,} places {places:<10}"
                        f" held {found.held:>10,} exact {found.exact:>10,}"
                        f" largest error {found.error:.4f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
