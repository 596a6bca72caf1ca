"""Draws figures as PNG: one file a figure, its panels side by side."""

from __future__ import annotations

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
}


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


def _draw_panel(axis: Any, figure: Figure, panel: Panel) -> None:  # noqa: ANN401 - an Axes
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
        axis.set_xticks(figure.x)
        axis.minorticks_off()
    short = FuncFormatter(lambda value, _: short_number(value))
    axis.xaxis.set_major_formatter(short)
    if panel.log_y:
        axis.set_yscale("log")
        low, high = axis.get_ylim()
        few_decades = high < 300 * low
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few_decades else (1,)))
        axis.yaxis.set_minor_formatter(NullFormatter())
    else:
        axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter(short)
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
