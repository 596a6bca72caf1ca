"""Draws Q-Q plots. Matplotlib is imported when there is something to draw."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Floats
from everquery.errors import InvalidQueryError, PlotMissingError, UnwritableFileError
from everquery.sinks.lines import shown

SUFFIXES = (".png", ".svg", ".pdf")
INCHES = 4.6  # a panel
DPI = 110
MANY = 500  # times the lowest value: too much for numbers between the powers of ten
LONGEST = 60  # characters of a name
INK, LINE, POINT, ZOOMED = "#333333", "#b0b0b0", "#0b6e99", "#e07b39"


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart.

    Attributes
    ----------
    title : str
    table : pyarrow.Table
        As of `qq.compare`.
    """

    title: str
    table: pa.Table


@dataclass(frozen=True, slots=True)
class Labels:
    """What is written beside a plot.

    Attributes
    ----------
    title, value, against : str
    """

    title: str
    value: str
    against: str


def expect_matplotlib() -> None:
    """Raise if there is nothing to draw with."""
    if find_spec("matplotlib") is None:
        raise PlotMissingError(
            "a picture needs matplotlib: pip install 'everquery[plot]'; --data FILE without"
            " --output writes the numbers alone"
        )


def draw(panels: list[Panel], labels: Labels, path: Path, *, log: bool = False) -> None:
    """Write a picture of comparisons side by side: the whole, and perhaps a part of it.

    Parameters
    ----------
    panels : list of Panel
        Where the second one is in the first is marked there.
    log : bool
        Whether the axes are logarithmic, for which all values must be above 0.
    """
    expect_matplotlib()
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(INCHES * len(panels), INCHES), dpi=DPI, layout="constrained")
    axes = canvas.subplots(1, len(panels), squeeze=False)[0]
    points = [finite_points(panel.table, log=log) for panel in panels]
    for axis, panel, dots in zip(axes, panels, points, strict=True):
        _draw_panel(axis, dots, log=log)
        axis.set_title(panel.title, fontsize=9, color=INK)
        axis.set_xlabel(literal(labels.against), color=INK)
    axes[0].set_ylabel(literal(labels.value), color=INK)
    if len(panels) > 1:
        _mark(axes[0], points[1])
    canvas.suptitle(literal(labels.title), fontsize=10, color=INK)
    try:
        # No software version in the file: the same numbers give the same bytes.
        metadata = {"Software": None} if path.suffix.lower() == ".png" else None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # it draws a box for it
            canvas.savefig(path, metadata=metadata)
    except OSError as error:
        raise UnwritableFileError(f"{path} can't be written: {error.strerror or error}") from error


def literal(text: str) -> str:
    """Return a name such that it is drawn as it is, and not read as a formula."""
    text = shown(text)
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return text.replace("$", r"\$")


def finite_points(table: pa.Table, *, log: bool) -> tuple[Floats, Floats]:
    """Return the values to draw, against left and value right; infinities have no place on a page.

    Raises
    ------
    InvalidQueryError
        If there are none, or one is not above 0 where the axes are logarithmic.
    """
    across, up = (table[name].to_numpy() for name in ("against", "value"))
    kept = np.isfinite(across) & np.isfinite(up)
    across, up = across[kept], up[kept]
    if not kept.any():
        raise InvalidQueryError("there is nothing to draw: all of these quantiles are infinite")
    if log and min(across.min(), up.min()) <= 0:
        raise InvalidQueryError(
            f"logarithmic axes are for values above 0, and {min(across.min(), up.min())} is among"
            " the quantiles; draw without --log, or from a higher rank on"
        )
    return across, up


def _draw_panel(axis: Any, dots: tuple[Floats, Floats], *, log: bool) -> None:  # noqa: ANN401 - an Axes
    low, high = min(each.min() for each in dots), max(each.max() for each in dots)
    axis.plot([low, high], [low, high], color=LINE, linewidth=1, linestyle="--", zorder=1)
    axis.plot(*dots, color=POINT, linestyle="none", marker="o", markersize=3, zorder=2)
    if log:
        axis.set_xscale("log")
        axis.set_yscale("log")
    for scale in (axis.xaxis, axis.yaxis):
        _number(scale, few=high < MANY * low, log=log)
    axis.tick_params(labelsize=8, colors=INK)
    axis.grid(visible=True, color=LINE, alpha=0.3, linewidth=0.6)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _number(scale: Any, *, few: bool, log: bool) -> None:  # noqa: ANN401 - an Axis
    """Write plain numbers along an axis; on a logarithmic one of few decades also between them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if log:
        scale.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        scale.set_minor_formatter(NullFormatter())
    scale.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.10g}"))


def _mark(axis: Any, dots: tuple[Floats, Floats]) -> None:  # noqa: ANN401 - an Axes
    """Draw a box around the points that another panel shows more closely."""
    (left, right), (low, high) = ((each.min(), each.max()) for each in dots)
    box = [left, right, right, left, left], [low, low, high, high, low]
    axis.plot(*box, color=ZOOMED, linewidth=1.2, zorder=3)
