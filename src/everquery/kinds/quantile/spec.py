"""The quantile query: the value at a rank, told whenever it has moved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from everquery.errors import InvalidQueryError
from everquery.kinds.by_key import ByKeyQuery
from everquery.kinds.told_values import BY, WHEN
from everquery.queries.box import Box
from everquery.queries.fields import AttributeField, FlagField, declared
from everquery.queries.interval import Interval
from everquery.queries.numbers import NO_NUMBER, Bools, Limit, NumberColumn, NumberField
from everquery.queries.spec import LONGEST_ID, Query, SaidColumns, bad_text

LONGEST_WINDOW = 2**31 - 1  # rows

ATTRIBUTE = AttributeField("attribute", meaning="Whose values are ranked.", in_clause=True)
PHI = NumberField(
    "phi",
    whole=False,
    limits=(Limit(lambda phi: (phi <= 0) | (phi > 1), "must be above 0 and at most 1"),),
    several=True,
    meaning="The rank asked for, as a share; several make one query each.",
    in_clause=True,
    example="0.99",
)
EPSILON = NumberField(
    "epsilon",
    whole=False,
    limits=(Limit(lambda epsilon: (epsilon <= 0) | (epsilon >= 1), "must be above 0 and below 1"),),
    meaning="How far off the rank may be, as a share.",
    in_clause=True,
    example="0.005",
)
LAST = NumberField(
    "last",
    whole=True,
    required=False,
    limits=(
        Limit(lambda last: last < 1, "must be 1 or more: an empty window has no quantile"),
        Limit(lambda last: last > LONGEST_WINDOW, f"must be at most {LONGEST_WINDOW:,} rows"),
    ),
    meaning="Rank only so many values, the newest; at least 1/epsilon.",
    takes="whole number, 1 or more",
    in_clause=True,
)
BY_KEY = FlagField(
    "by_key",
    meaning="Rank each key's values apart, not those of all keys together.",
    in_clause=True,
)

_ROUNDING = 1e-9  # of 1/epsilon: that of 0.01 is 100, whatever float64 makes of it


@dataclass(frozen=True)
class Quantile(ByKeyQuery):
    """Tell what value has a rank among an attribute's values, whenever it moves far enough.

    The answer's rank is within ``epsilon * n`` of ``phi * n``, of n values.

    Parameters
    ----------
    attribute : str
        Whose values are ranked.
    phi : number, or a sequence of them
        The rank asked for, as a share: above 0, and at most 1, which is the largest value. Several
        make a composite, which is one query for each: see `parts`.
    epsilon : number
        How far off the rank may be, as a share: above 0 and below 1.
    last : int, optional
        Rank only so many values, the newest; at least 1/epsilon.
    by_key : bool
        Rank each key's values apart, not those of all keys together.
    when : range, optional
        Tell only when the value enters this range and when it leaves it (events ``enter`` and
        ``leave``), not every change. A pair is half-open ``[lo, hi)``, and None is no limit.
    by : number, optional
        Tell only a value that differs from the last one told by at least this share of it: 0.1 is
        ten percent. With `when`, such moves within the range are told too.

    Examples
    --------
    >>> query = Quantile("latency", "ms", phi=[0.5, 0.99], epsilon=0.005, by_key=True)
    >>> [part.id for part in query.parts()]
    ['latency[0.5]', 'latency[0.99]']
    """

    box: Mapping[str, Any] = field(init=False, repr=False, compare=False)
    attribute: str = field(metadata=declared(ATTRIBUTE))
    phi: float | Sequence[float] = field(kw_only=True, metadata=declared(PHI))
    epsilon: float = field(kw_only=True, metadata=declared(EPSILON))
    last: int | None = field(default=None, kw_only=True, metadata=declared(LAST))
    by_key: bool = field(default=False, kw_only=True, metadata=declared(BY_KEY))
    when: Interval | tuple[float | None, float | None] | None = field(
        default=None, kw_only=True, metadata=declared(WHEN)
    )
    by: float | None = field(default=None, kw_only=True, metadata=declared(BY))

    kind: ClassVar[str] = "quantile"
    across_keys: ClassVar[bool] = True

    def __post_init__(self) -> None:
        named = isinstance(self.attribute, str)
        object.__setattr__(self, "box", Box({self.attribute: Interval()} if named else {}))
        super().__post_init__()
        if isinstance(self.when, Interval):
            object.__setattr__(self, "box", Box({self.attribute: self.when}))
        for phi in self.phi if isinstance(self.phi, Sequence) else ():
            reason = bad_text(self._id_of(phi), "query id", LONGEST_ID)
            if reason:
                raise InvalidQueryError(f"{reason}; it is that of a part: one for each phi")
        reason = None if self.last is None else bad_window(self.last, self.epsilon)
        if reason:
            raise self._error(reason)
        if self.by_key and self.key is not None:
            raise self._error(
                f"by_key asks for every key's quantile, and it has a key already, {self.key!r};"
                " give one of the two"
            )

    def _error(self, reason: str) -> InvalidQueryError:
        return InvalidQueryError(f"query {self.id!r}: {reason}")

    def _id_of(self, phi: float) -> str:
        return f"{self.id}[{phi!r}]"

    @property
    def shared_name(self) -> str:
        """Which rows it ranks: queries that rank the same ones share a summary."""
        return _rows_name(self.attribute, self.last or NO_NUMBER)

    @classmethod
    def shared_names(
        cls, ids: pa.Array, attribute: str, numbers: Mapping[str, NumberColumn]
    ) -> pa.Array:
        """Return which rows the queries of a block rank."""
        windows, place = np.unique(numbers["last"], return_inverse=True)
        names = pa.array([_rows_name(attribute, last) for last in windows.tolist()], pa.string())
        return names.take(pa.array(place))

    @classmethod
    def untold(cls, ranged: Bools, numbers: Mapping[str, NumberColumn]) -> Mapping[str, Bools]:
        """Return which queries never tell some events: only those with a range enter and leave."""
        changing = numbers["by"] != NO_NUMBER
        return {"change": ranged & ~changing, "enter": ~ranged, "leave": ~ranged}

    def parts(self) -> tuple[Query, ...]:
        """Return one query for each phi, with ids such as ``latency[0.99]``; itself if it is one.

        All else is that of the composite.
        """
        if not isinstance(self.phi, Sequence):
            return (self,)
        return tuple(
            replace(self, id=self._id_of(phi), phi=phi, part_of=self.id) for phi in self.phi
        )

    @classmethod
    def bad_rows(cls, said: SaidColumns) -> Iterator[tuple[Bools, str]]:
        """Yield which rows of a table can't be for what several columns say together, and why."""
        last, epsilon = said.numbers["last"], said.numbers["epsilon"]
        yield (
            (last != NO_NUMBER) & (epsilon != NO_NUMBER) & _is_short(last, epsilon),
            "last is shorter than 1/epsilon rows, so no rank but the exact one would do; give more"
            " of either",
        )
        yield from super().bad_rows(said)


def _rows_name(attribute: str, last: int) -> str:
    return f"{attribute}, last {last}"


def _is_short(last: Any, epsilon: Any) -> Any:  # noqa: ANN401 - numbers or columns of them
    return last * epsilon < 1 - _ROUNDING


def bad_window(last: int, epsilon: float) -> str | None:
    """Return why a window of so many rows can't be, or None."""
    if not _is_short(last, epsilon):
        return None
    shortest = 1 / epsilon
    advice = []
    if last > 1:  # else epsilon would have to be 1
        advice.append(f"epsilon={1 / last:.10g} or more")
    if shortest <= LONGEST_WINDOW:
        advice.append(f"last={math.ceil(shortest * (1 - _ROUNDING / 2))} or more")
    return (
        f"a window of {last:,} rows is shorter than 1/epsilon = {shortest:.6g} rows, so no rank but"
        f" the exact one would do; give {', or '.join(advice) or 'more of both'}"
    )
