"""Graphs of utility: what they are worth at a place, how steep they are, where they bend."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from everquery.network.quality import Points, Quality

LINEAR: Points = ((0.0, 1.0), (1.0, 0.0))
"""The graph of loss of an output that has none: half of its rows are worth half."""
WORTHLESS: Points = ((0.0, 0.0), (1.0, 0.0))
"""The graph of loss of an output that is always shed first."""


def utility(points: Points, at: float) -> float:
    """Return the utility at a place; before the first point and behind the last it is level.

    Examples
    --------
    >>> utility(((0, 1.0), (10, 0.0)), 2.5)
    0.75
    """
    return float(utilities(points, [at])[0])


def utilities(
    points: Points, at: Sequence[float] | npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the utility at many places."""
    where, worth = zip(*points, strict=True)
    return np.asarray(np.interp(np.asarray(at, np.float64), where, worth))


def slope(points: Points, at: float) -> float:
    """Return how much utility the next unit brings, to the right of a place.

    Examples
    --------
    >>> slope(((0, 1.0), (10, 0.0)), 0)
    -0.1
    """
    for (low, before), (high, behind) in itertools.pairwise(points):
        if low <= at < high:
            return (behind - before) / (high - low)
    return 0.0


def critical(points: Points, after: float) -> list[float]:
    """Return where a graph bends, behind a place."""
    return [float(where) for where, _ in points if where > after]


def good_until(points: Points) -> float:
    """Return the end of the good zone of a falling graph: the last place with its best utility.

    Examples
    --------
    >>> good_until(((0, 1.0), (5, 1.0), (60, 0.0)))
    5.0
    """
    best = points[0][1]
    return float(max(where for where, worth in points if worth == best))


def loss_graph(quality: Quality | None, shed: str | None = None) -> Points:
    """Return the graph of loss of an output: its own, or the one that is taken without."""
    if shed == "always":
        return WORTHLESS
    if quality is None or quality.loss is None:
        return LINEAR
    return quality.loss


def delay_graph(quality: Quality | None) -> Points | None:
    """Return the graph of delay of an output, if it has one."""
    return None if quality is None else quality.delay


def value_graph(quality: Quality | None) -> tuple[str, Points] | None:
    """Return the column whose values matter, and its graph; the first, where there are several."""
    if quality is None or not quality.values:
        return None
    column, points = next(iter(quality.values.items()))
    return column, points


def worth_of(values: Any, points: Points) -> npt.NDArray[np.float64]:  # noqa: ANN401 - Arrow
    """Return the utility of the values of an Arrow column; unknown ones have the best there is."""
    numbers = np.asarray(values.to_numpy(zero_copy_only=False), np.float64)
    best = max(worth for _, worth in points)
    known = np.isfinite(numbers)
    return np.where(known, utilities(points, np.where(known, numbers, 0.0)), best)
