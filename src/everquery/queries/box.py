"""Boxes: a conjunction of ranges over named attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from everquery.errors import InvalidQueryError
from everquery.queries.interval import Interval, as_interval


class Box(Mapping[str, Interval]):
    """An immutable, hashable mapping from attribute to interval; attributes not named are free.

    Parameters
    ----------
    ranges : mapping from attribute to range
        A pair is half-open, ``[lo, hi)``; None is no limit on that side. `Interval` says it
        otherwise.

    Examples
    --------
    >>> Box({"price": (40, 50)}).contains({"price": 44.0, "volume": 7.0})
    True
    """

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Mapping[str, Any]) -> None:
        if type(ranges) is not dict and not isinstance(ranges, Mapping):
            raise InvalidQueryError(
                f"a box is a mapping from attribute to range, for example"
                f" {{'price': (40, 50)}}; got {ranges!r}"
            )
        self._ranges = {name: as_interval(value, name) for name, value in ranges.items()}

    def __getitem__(self, attribute: str) -> Interval:
        return self._ranges[attribute]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def __hash__(self) -> int:
        return hash(frozenset(self._ranges.items()))

    def __repr__(self) -> str:
        return f"Box({self._ranges!r})"

    def __str__(self) -> str:
        ranges = (f"{name} in {interval}" for name, interval in self._ranges.items())
        return " and ".join(ranges) or "everything"

    def contains(self, values: Mapping[str, float]) -> bool:
        """Tell whether a point, given by attribute, is inside."""
        return all(interval.contains(values[name]) for name, interval in self._ranges.items())
