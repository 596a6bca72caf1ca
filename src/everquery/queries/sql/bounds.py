"""The range that several comparisons leave of one attribute."""

from __future__ import annotations

from dataclasses import dataclass

from everquery.queries.interval import Closed, Interval


@dataclass(slots=True)
class Bounds:
    """The range of one attribute so far; a side that no comparison names is that of [lo, hi)."""

    low: float | None = None
    high: float | None = None
    low_closed: bool | None = None
    high_closed: bool | None = None

    def keep(self, operator: str, value: float | None) -> None:
        """Keep what compares like this with the value; None is no limit."""
        if operator in (">", ">=", "="):
            self._above(value, closed=operator != ">")
        if operator in ("<", "<=", "="):
            self._below(value, closed=operator != "<")

    def _above(self, value: float | None, *, closed: bool) -> None:
        if value == self.low:
            self.low_closed = closed and self.low_closed is not False
        elif self.low is None or (value is not None and value > self.low):
            self.low, self.low_closed = value, closed

    def _below(self, value: float | None, *, closed: bool) -> None:
        if value == self.high:
            self.high_closed = closed and self.high_closed is not False
        elif self.high is None or (value is not None and value < self.high):
            self.high, self.high_closed = value, closed

    def interval(self) -> Interval:
        """Return the range; raise `InvalidQueryError` if nothing is inside."""
        left, right = self.low_closed is not False, self.high_closed is True
        closed: Closed = ("both" if right else "left") if left else "right" if right else "neither"
        return Interval(self.low, self.high, closed)
