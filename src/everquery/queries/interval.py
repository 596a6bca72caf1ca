"""Intervals over float64, with every end exact."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, get_args

import numpy as np

from everquery.errors import InvalidQueryError

Closed = Literal["left", "right", "both", "neither"]
_CLOSED = get_args(Closed)


def exact_float(value: Any, what: str) -> float:  # noqa: ANN401 - it is here to find out
    """Return the number as a float; refuse NaN, non-numbers, and what float64 would round."""
    if type(value) is float and value == value:  # the usual case
        return value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, Decimal)):
        raise InvalidQueryError(f"{what} is {value!r}, which is not a number")
    try:
        as_float = float(value)
    except OverflowError:
        as_float = math.inf
    except ValueError:  # a signaling NaN
        as_float = math.nan
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
    _half_open: tuple[float, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.closed not in _CLOSED:
            raise InvalidQueryError(
                f"closed is {self.closed!r}; it takes 'left', 'right', 'both' or 'neither'"
            )
        for name in ("lo", "hi"):
            end = getattr(self, name)
            if end is not None:
                object.__setattr__(self, name, exact_float(end, name))
        low, high = self._as_half_open()
        object.__setattr__(self, "_half_open", (low, high))
        if high <= low:  # false where there is no upper limit
            raise InvalidQueryError(
                f"{self} holds no value: lo must be below hi"
                " (equal ends need closed='both'); the query could never match"
            )

    def half_open(self) -> tuple[float, float]:
        """Return the same set as ``[low, high)``; a `high` of NaN has no upper limit."""
        return self._half_open

    def _as_half_open(self) -> tuple[float, float]:
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


def as_limits(value: Any, name: str) -> Interval:  # noqa: ANN401 - it is here to find out
    """Return a range that a user gave, which must leave something out."""
    interval = as_interval(value, name)
    low, high = interval.half_open()
    if low == -math.inf and math.isnan(high):
        raise InvalidQueryError(f"{name} is {value!r}, which holds every value; leave it out")
    return interval
