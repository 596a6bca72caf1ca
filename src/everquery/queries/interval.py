"""Intervals over float64, with every end exact."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, get_args

import numpy as np

from everquery.errors import InvalidQueryError

Closed = Literal["left", "right", "both", "neither"]


def exact_float(value: Any, what: str) -> float:  # noqa: ANN401 - it is here to find out
    """Return the number as a float; refuse NaN, non-numbers, and what float64 would round."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, Decimal)):
        raise InvalidQueryError(f"{what} is {value!r}, which is not a number")
    try:
        as_float = float(value)
    except OverflowError:
        as_float = math.inf
    if math.isnan(as_float):
        raise InvalidQueryError(f"{what} is NaN, which no value compares with; give a number")
    if as_float != value:
        raise InvalidQueryError(
            f"{what} is {value!r}, which float64 can't hold exactly; the nearest is {as_float!r}"
        )
    return as_float


@dataclass(frozen=True, slots=True)
class Interval:
    """A range of one attribute.

    Parameters
    ----------
    lo, hi : number or None
        The ends; None is no limit on that side, so that even an infinity is inside.
    closed : {"left", "right", "both", "neither"}
        Which ends belong to it. An end that is None has nothing to close.

    Examples
    --------
    >>> Interval(40, 50, closed="both").contains(50.0)
    True
    >>> Interval(40, 50).contains(50.0)
    False
    >>> Interval(40, None).contains(float("inf"))
    True
    """

    lo: float | None = None
    hi: float | None = None
    closed: Closed = "left"

    def __post_init__(self) -> None:
        if self.closed not in get_args(Closed):
            raise InvalidQueryError(
                f"closed is {self.closed!r}; it takes 'left', 'right', 'both' or 'neither'"
            )
        for name in ("lo", "hi"):
            end = getattr(self, name)
            if end is not None:
                object.__setattr__(self, name, exact_float(end, name))
        low, high = self.half_open()
        if high <= low:  # false where there is no upper limit
            raise InvalidQueryError(
                f"{self} holds no value: lo must be below hi"
                " (equal ends need closed='both'); the query could never match"
            )

    def half_open(self) -> tuple[float, float]:
        """Return the same set as ``[low, high)``; a `high` of NaN has no upper limit."""
        low = -math.inf if self.lo is None else self.lo
        if self.lo is not None and self.closed in ("right", "neither"):
            low = math.inf if low == math.inf else math.nextafter(low, math.inf)
            if self.lo == math.inf:
                return math.inf, math.inf  # nothing is above it
        high = math.nan if self.hi is None else self.hi
        if self.hi is not None and self.closed in ("right", "both"):
            high = math.nan if high == math.inf else math.nextafter(high, math.inf)
        return low, high

    def contains(self, value: float) -> bool:
        """Tell whether a value is inside."""
        low, high = self.half_open()
        return low <= value and not high <= value

    def __str__(self) -> str:
        left = "[" if self.closed in ("left", "both") and self.lo is not None else "("
        right = "]" if self.closed in ("right", "both") and self.hi is not None else ")"
        lo = "-∞" if self.lo is None else f"{self.lo!r}"
        hi = "∞" if self.hi is None else f"{self.hi!r}"
        return f"{left}{lo}, {hi}{right}"


def as_interval(value: Any, attribute: str) -> Interval:  # noqa: ANN401 - it is here to find out
    """Return an interval from what a user may give for one: itself or a pair."""
    if isinstance(value, Interval):
        return value
    if isinstance(value, (tuple, list)) and len(value) == 2:
        try:
            return Interval(value[0], value[1])
        except InvalidQueryError as error:
            raise InvalidQueryError(f"{attribute}: {error}") from None
    raise InvalidQueryError(
        f"{attribute}: {value!r} is no range; give (lo, hi), or eq.Interval(lo, hi, closed=...)"
    )


def from_half_open(low: float, high: float) -> Interval:
    """Return the interval of a half-open pair, written with the shorter upper end.

    ``[40, nextafter(50))`` reads as ``[40, 50]`` again.
    """
    lo = None if low == -math.inf else low
    if math.isnan(high):
        return Interval(lo, None)
    below = math.nextafter(high, -math.inf)
    if len(repr(below)) < len(repr(high)) and low <= below:
        return Interval(lo, below, closed="both")
    return Interval(lo, high)
