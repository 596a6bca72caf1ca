"""Graphs of utility, as outputs have them: read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

from everquery.errors import InvalidNetworkError

Points = tuple[tuple[float, float], ...]
"""A piecewise-linear graph: where, and the utility there."""

FALLING = ("delay", "loss")
SHED = ("never", "always", "auto")


@dataclass(frozen=True)
class Quality:
    """How useful an output is, by its delay in seconds, by the share lost, by values of columns.

    Examples
    --------
    >>> Quality.read({"delay": [[0, 1.0], [5, 0.0]]}).delay
    ((0, 1.0), (5, 0.0))
    """

    delay: Points | None = None
    loss: Points | None = None
    values: Mapping[str, Points] | None = None

    @staticmethod
    def read(form: Any) -> Quality:  # noqa: ANN401 - whatever a file has
        """Return graphs from their form in YAML.

        Raises
        ------
        InvalidNetworkError
            If points do not ascend, a utility is not within 0 and 1, or a graph of delay or loss
            rises.
        """
        if isinstance(form, Quality):
            return form
        if not isinstance(form, Mapping) or not set(form) <= {*FALLING, "values"}:
            raise InvalidNetworkError(
                f"qos {form!r} is no set of graphs; it has delay, loss and values"
            )
        values = form.get("values")
        if values is not None and not isinstance(values, Mapping):
            raise InvalidNetworkError("the graphs of qos values stand behind their columns")
        graphs = {name: _read(form[name], name) for name in FALLING if form.get(name) is not None}
        named = None
        if values is not None:
            named = {name: _read(points, f"values of {name}") for name, points in values.items()}
        return Quality(graphs.get("delay"), graphs.get("loss"), named)

    def form(self) -> dict[str, Any]:
        """Return the graphs as YAML has them."""
        found: dict[str, Any] = {
            name: [list(point) for point in getattr(self, name)]
            for name in FALLING
            if getattr(self, name) is not None
        }
        if self.values is not None:
            found["values"] = {
                name: [list(point) for point in points] for name, points in self.values.items()
            }
        return found


def _read(given: Any, what: str) -> Points:  # noqa: ANN401 - whatever a file has
    where = f"the qos graph of {what}"
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise InvalidNetworkError(f"{where} is {given!r}; it is a list of [where, utility]")
    points = []
    for point in given:
        if not isinstance(point, Sequence) or len(point) != 2 or not all(map(_is_number, point)):
            raise InvalidNetworkError(f"{where} has {point!r}; a point is [where, utility]")
        points.append((point[0], point[1]))
    for at, utility in points:
        if not 0 <= utility <= 1:
            raise InvalidNetworkError(f"{where} has utility {utility} at {at}; it is from 0 to 1")
    for (before, high), (at, utility) in pairwise(points):
        if at <= before:
            raise InvalidNetworkError(f"{where} has {at} behind {before}; points ascend")
        if what in FALLING and utility > high:
            raise InvalidNetworkError(
                f"{where} rises from {high} to {utility} at {at}; more {what} is never better"
            )
    if what in FALLING and points[0][0] < 0:
        raise InvalidNetworkError(f"{where} begins at {points[0][0]}; it begins at 0")
    if what == "loss" and points[-1][0] > 1:
        raise InvalidNetworkError(f"{where} ends at {points[-1][0]}; a share is 1 at most")
    return tuple(points)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
