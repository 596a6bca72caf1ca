"""Draws the error of approximate windows against their memory.

``python -m benchmarks.windows_page`` writes ``docs/plots/windows-errors.png``. It measures no time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

import everquery as eq
from benchmarks.plots import INK
from benchmarks.windows import stores_of
from everquery.core.arrays import Floats

PAGE = Path(__file__).parents[1] / "docs" / "plots" / "windows-errors.png"
EVENTS, LAST, STEP = 60_000, 10_000, 487
EPSILONS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
STATISTICS = {"count": "#0b6e99", "sum": "#e07b39", "variance": "#5b8c5a"}
STREAM = eq.Stream("packets", attributes=["length"])


def values(kind: str) -> Floats:
    """Return lengths that are alike, or that come in bursts a thousand times as large."""
    rng = np.random.default_rng(7)
    length = rng.integers(1, 1_000, EVENTS).astype(np.float64)
    if kind == "bursts":
        burst = np.arange(EVENTS) // 250 % 20 == 0
        length[burst] *= 1_000
    return length


def measured(length: Floats, statistic: str, epsilon: float) -> tuple[float, float]:
    """Return the bytes that a window held at most, and the largest error of its answers."""
    engine = eq.Engine(STREAM)
    engine.register(eq.Window("w", statistic, "length", last=LAST, epsilon=epsilon))
    worst, held = 0.0, 0
    for end in range(STEP, EVENTS, STEP):
        engine.process(pa.table({"length": length[end - STEP : end]}))
        (store,) = stores_of(engine).values()
        held = max(held, int(store.lanes.used[0]) * store.entry_bytes())
        window = length[max(0, end - LAST) : end]
        real = {"count": window.size, "sum": window.sum(), "variance": window.var()}[statistic]
        answer = engine.answer("w")
        assert answer.low <= real * (1 + 1e-12)
        assert answer.high >= real * (1 - 1e-12)
        worst = max(worst, abs(answer.value - real) / real)
    return float(held), worst


def draw() -> None:
    """Write the plot."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
    for panel, kind in zip(panels, ("uniform", "bursts"), strict=True):
        length = values(kind)
        for statistic, colour in STATISTICS.items():
            found = [measured(length, statistic, epsilon) for epsilon in EPSILONS]
            held, worst = zip(*found, strict=True)
            kilobytes = np.array(held) / 1_000
            panel.plot(kilobytes, worst, "o-", color=colour, label=f"{statistic}, largest seen")
            panel.plot(kilobytes, EPSILONS, ":", color=colour, label=f"{statistic}, epsilon")
        for size, name in ((16, "count"), (48, "sum, variance")):
            panel.axvline(LAST * size / 1_000, color=INK, linewidth=0.8, linestyle="--")
            panel.text(LAST * size / 1_050, 0.00012, f"exact {name}", rotation=90, ha="right")
        _label(panel, f"{kind}, {LAST:,} rows")
    panels[0].set_ylabel("error, as a share of the value")
    panels[0].legend(fontsize=8, loc="upper right")
    figure.savefig(PAGE, dpi=110, metadata={"Software": None})


def _label(panel: Any, title: str) -> None:  # noqa: ANN401 - matplotlib's
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_ylim(1e-4, 0.5)
    panel.set_title(title)
    panel.set_xlabel("memory, kB")
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g}%"))
    panel.grid(visible=True, alpha=0.3)


if __name__ == "__main__":
    draw()
