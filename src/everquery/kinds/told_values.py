"""Which values of a statistic are told: all, those that cross a range, or those that moved enough.

For kinds whose queries report a value that changes now and then. What a query was told last is all
that must be remembered: it is inside the range just if that value is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bools, Bytes, Floats
from everquery.index.rows import Outcome
from everquery.queries.fields import RangeField
from everquery.queries.interval import Interval
from everquery.queries.numbers import Limit, NumberField

WHEN = RangeField(
    "when",
    meaning="Tell only when the value enters this range, and when it leaves it.",
    in_clause=True,
)
BY = NumberField(
    "by",
    whole=False,
    required=False,
    added=True,
    limits=(
        Limit(lambda by: by <= 0, "must be above 0"),
        Limit(lambda by: by == np.inf, "must be finite"),
    ),
    meaning="Tell only a move by at least this share of what was told last: 0.1 is ten percent.",
    in_clause=True,
)

OUTCOMES = (Outcome("change"), Outcome("enter"), Outcome("leave"))
CHANGE, ENTER, LEAVE = range(3)
NOTHING = 255  # a code that no outcome has


class ValueRules(NamedTuple):
    """What queries want to be told of a value.

    Attributes
    ----------
    low, high : float64
        The range, half-open; -inf and NaN are no limit, and no range at all if both are.
    by : float64
        The share by which the value must have moved; 0 where that does not matter.
    """

    low: Floats
    high: Floats
    by: Floats

    def take(self, picked: Array) -> ValueRules:
        """Return the rules of some queries."""
        return ValueRules(self.low[picked], self.high[picked], self.by[picked])

    def ranged(self) -> Bools:
        """Tell which queries have a range."""
        return has_range(self.low, self.high)

    def given(self) -> Bools:
        """Tell which queries have a rule at all."""
        return self.ranged() | (self.by > 0)

    def told(self, value: Floats, said: Floats) -> Bytes:
        """Return the code of what each query is told of a new value, or `NOTHING`.

        Parameters
        ----------
        said : float64
            The value that it was told last; NaN if none.
        """
        inside, before = self._inside(value), self._inside(said)
        ranged = self.ranged()
        with np.errstate(invalid="ignore", over="ignore"):  # infinities
            moved = np.isnan(said) | (
                (value != said) & (np.abs(value - said) >= self.by * np.abs(said))
            )
        code = np.full(value.size, NOTHING, np.uint8)
        code[moved & np.where(ranged, inside & before & (self.by > 0), True)] = CHANGE
        code[ranged & inside & ~before] = ENTER
        code[ranged & ~inside & before] = LEAVE
        return code

    def _inside(self, value: Floats) -> Bools:
        inside: Bools = (self.low <= value) & ~(self.high <= value)
        return inside


def has_range(low: Floats, high: Floats) -> Bools:
    """Tell which half-open ranges leave something out."""
    ranged: Bools = (low != -np.inf) | ~np.isnan(high)
    return ranged


def one_told(
    when: Interval | None, by: float | None, value: float, said: float | None
) -> str | None:
    """Return the event that one query tells of a new value; None if it tells nothing.

    The same rules, for brute-force twins: one value at a time.

    Examples
    --------
    >>> one_told(Interval(0.5, None), None, 0.7, None), one_told(None, 0.1, 10.5, 10.0)
    ('enter', None)
    """
    if when is not None:
        inside, before = when.contains(value), said is not None and when.contains(said)
        if inside != before:
            return "enter" if inside else "leave"
        if not inside or by is None:
            return None
    if said is None or by is None:
        return "change"
    return "change" if value != said and abs(value - said) >= by * abs(said) else None
