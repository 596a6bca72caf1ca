"""Draws figures as PNG: one file a figure, its panels side by side."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.findings import Figure, Panel

INK = "#333333"
COLOURS = {
    "everquery": "#0b6e99",
    "CEI": "#e07b39",
    "LCI": "#8a5aa8",
    "UI": "#5b8c5a",
    "ncls": "#b8435a",
    "rtree": "#8c6d46",
    "intervaltree": "#7f7f7f",
    "DiffRMQ, own range index": "#e07b39",
    "DiffRMQ, own, remembering": "#8a5aa8",
    "DiffRMQ, ncls": "#b8435a",
    "the paper's CEI, L = 16": "#5b8c5a",
    "DT": "#e07b39",
    "Baseline": "#7f7f7f",
    "interval tree": "#b8435a",
    "Seg-Intv": "#8a5aa8",
    "R-tree": "#8c6d46",
    "everquery, batches of 1,000": "#4aa3c7",
    "CASU": "#e07b39",
    "CSU": "#8a5aa8",
    "CSU, its summary": "#c9b2d6",
    "SU": "#b8435a",
    "eager": "#7f7f7f",
    "summary alone": "#5b8c5a",
    "QC_A": "#e07b39",
    "QC_B": "#8a5aa8",
    "OQC": "#5b8c5a",
    "QC_A / OQC": "#e07b39",
    "QC_B / OQC": "#8a5aa8",
    "QC_A / everquery": "#0b6e99",
    "np.argsort": "#7f7f7f",
    "NumPy": "#e07b39",
    "NumPy, lists": "#e07b39",
    "NumPy, sorted": "#c9b2d6",
    "NumPy, named": "#e07b39",
    "NumPy, sums": "#c9b2d6",
    "Polars": "#5b8c5a",
    "Polars, sums": "#5b8c5a",
    "DuckDB": "#b8435a",
    "DuckDB, sums": "#b8435a",
    "random dropping": "#e07b39",
    "no shedding": "#7f7f7f",
    "police": "#0b6e99",
    "plan": "#e07b39",
    "usage": "#5b8c5a",
    "batteries": "#8a5aa8",
    "epsilon 0.005": "#0b6e99",
    "epsilon 0.01": "#e07b39",
    "epsilon 0.02": "#5b8c5a",
}
CLOSEST = 0.06  # two labels, as a share of the axis
BARS = 0.8  # the width of all bars at a place


def draw(figure: Figure, folder: Path) -> None:
    """Write ``<name>.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    count = len(figure.panels)
    canvas, axes = plt.subplots(1, count, figsize=(5.6 * count, 3.9), squeeze=False, dpi=110)
    for axis, panel in zip(axes[0], figure.panels, strict=True):
        _draw_panel(axis, figure, panel)
    lines = {
        label: handle
        for axis in axes[0]
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    canvas.legend(
        lines.values(),
        lines.keys(),
        loc="outside lower center",
        ncols=min(len(lines), 2 * count),
        frameon=False,
    )
    canvas.suptitle(figure.title, fontsize=10, color=INK)
    canvas.set_layout_engine("constrained")
    # No software version in the file: the same numbers give the same bytes.
    canvas.savefig(folder / f"{figure.name}.png", metadata={"Software": None})
    plt.close(canvas)


def _draw_bars(axis: Any, figure: Figure, panel: Panel) -> None:  # noqa: ANN401 - an Axes
    width = BARS / len(panel.series)
    for i, (name, line) in enumerate(panel.series.items()):
        left = (i + 0.5) * width - BARS / 2
        points = [(x + left, y) for x, y in zip(figure.x, line, strict=True) if y is not None]
        places, heights = zip(*points, strict=True)
        axis.bar(places, heights, 0.9 * width, label=name, color=COLOURS.get(name, INK), zorder=2)
    axis.set_xticks(figure.x, figure.x_names)


def _draw_lines(axis: Any, figure: Figure, panel: Panel) -> None:  # noqa: ANN401 - an Axes
    for name, line in panel.series.items():
        points = [(x, y) for x, y in zip(figure.x, line, strict=True) if y is not None]
        base = name.removesuffix(" lower").removesuffix(" upper")
        ours = name == "everquery"
        axis.plot(
            *zip(*points, strict=True),
            label=name,
            color=COLOURS.get(base, INK),
            linewidth=2.4 if ours else 1.4,
            linestyle="-" if base == name else ":",
            marker="o" if base == name else None,
            markersize=5 if ours else 3.5,
            zorder=3 if ours else 2,
        )
    if figure.log_x:
        axis.set_xscale("log", base=2)
        axis.set_xticks(_apart(figure.x))
        axis.minorticks_off()
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))


def _apart(x: list[float]) -> list[float]:
    """Return the places that are far enough from the last one for a label, on a log scale."""
    kept = x[:1]
    for place in x[1:]:
        if math.log(place / kept[-1]) > CLOSEST * math.log(x[-1] / x[0]):
            kept.append(place)
    return kept


def _draw_panel(axis: Any, figure: Figure, panel: Panel) -> None:  # noqa: ANN401 - an Axes
    if figure.x_names:
        _draw_bars(axis, figure, panel)
    else:
        _draw_lines(axis, figure, panel)
    if panel.log_y:
        axis.set_yscale("log")
        low, high = axis.get_ylim()
        few_decades = high < 300 * low
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few_decades else (1,)))
        axis.yaxis.set_minor_formatter(NullFormatter())
    else:
        axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    axis.set_xlabel(figure.x_label, color=INK)
    axis.set_ylabel(panel.y_label, color=INK)
    axis.set_title(panel.title, fontsize=9, color=INK)
    axis.grid(color="#dddddd", linewidth=0.6)
    axis.tick_params(colors=INK, labelsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def short_number(value: float) -> str:
    """Return a number with a unit prefix: 65536 is 65.5k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
