"""The names of stores and of groups: what queries have in common that share lanes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.index.rows import NO_KEY, Rows, Shape
from everquery.kinds.window.families import SQUARES

EACH, WIDE = -2, -1  # the key of a group that has a lane for each key, or one for all together


class StoreName(NamedTuple):
    """What lanes of a store have in common.

    Attributes
    ----------
    family : int
    exact : bool
        Whether queries are told at each event, what exactly is; else once a batch.
    timed : bool
        Whether marks are times, and not row numbers.
    """

    family: int
    exact: bool
    timed: bool


class GroupName(NamedTuple):
    """What queries that share lanes have in common.

    Attributes
    ----------
    attribute, by : int
        As in `Groups`.
    epsilon : float
    key : int
        Or `EACH` or `WIDE`.
    attributes, low, high : tuples
        The box; None where there is no upper limit.
    quotient : bool
        Whether it is about approximate means, which need buckets of half the size.
    past : int
        0, or the number of those that began in the past together: they know of other events.
    """

    attribute: int
    by: int
    epsilon: float
    key: int
    attributes: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float | None, ...]
    quotient: bool = False
    past: int = 0

    def plain(self) -> bool:
        """Tell whether all events are inside that know the one value that is needed."""
        needed = {self.attribute, self.by} - {-1}
        return needed.issuperset(set(self.attributes) - {-1}) and all(
            low == -math.inf and high is None for low, high in zip(self.low, self.high, strict=True)
        )

    def box(self, number: int) -> Rows:
        """Return the box as a row whose slot is the group's number."""
        return Rows(
            Shape(self.attributes, self.key >= 0, tallied=True, by_key=self.key == EACH),
            np.full(1, number, np.int32),
            np.full(1, max(self.key, int(NO_KEY)), np.int32),
            np.array([self.low], np.float64).T.copy(),
            np.array([self.high], np.float64).T.copy(),  # None becomes NaN
        )


class Asked(NamedTuple):
    """What queries ask for, by slot; see `Members`."""

    group: Int32s
    statistic: Int64s
    window: Array
    every: Array
    low: Array
    high: Array
    epsilon: Array


def error_of(family: int, epsilon: float, *, quotient: bool) -> float:
    """Return how far off a lane's totals may be so that what is told is off by at most epsilon.

    A mean and a variance are quotients of two totals.
    """
    if family == SQUARES or quotient:
        return (math.sqrt(1 + 2 * epsilon) - 1) / 2
    return epsilon
