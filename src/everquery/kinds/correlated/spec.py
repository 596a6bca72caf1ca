"""The correlated query: an aggregate of the events whose x relates to the MIN, MAX or AVG of x."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from everquery.core.spans import SpanLike
from everquery.errors import InvalidQueryError
from everquery.kinds.by_key import ByKeyQuery
from everquery.kinds.correlated.usual_numbers import UsualNumber
from everquery.kinds.told_values import WHEN
from everquery.queries.box import Box
from everquery.queries.fields import FlagField, SpanField, declared
from everquery.queries.interval import Interval
from everquery.queries.numbers import (
    NO_NUMBER,
    Bools,
    Limit,
    MeasuredField,
    NumberColumn,
    NumberField,
    WordField,
)
from everquery.queries.spec import SaidColumns
from everquery.stream import Stream

LONGEST_WINDOW = 2**31 - 1  # rows
COUNT, SUM, AVG = AGGREGATES = ("count", "sum", "avg")
LESS, AT_MOST, MORE, AT_LEAST, WITHIN = RELATIONS = ("<", "<=", ">", ">=", "within")
REFERENCES = ("min", "max", "avg")
USUAL_FACTOR, USUAL_EPSILON, USUAL_BUCKETS = 1.0, 0.01, 10
MOST_BUCKETS = 1_000

AGGREGATE = WordField(
    "aggregate",
    words=AGGREGATES,
    meaning="What is told of the events that are picked.",
    in_clause=True,
    example=COUNT,
)
OF = MeasuredField(
    "of",
    meaning="Whose values are summed or averaged; a count counts events that have it.",
    in_clause=True,
)
WHERE = MeasuredField(
    "where",
    required=True,
    meaning="Whose values pick the events, and are compared.",
    in_clause=True,
    example="price",
)
COMPARED = WordField(
    "compared",
    words=RELATIONS,
    meaning="How the value of an event relates to the reference.",
    in_clause=True,
    example="<=",
)
TO = WordField(
    "to",
    words=REFERENCES,
    meaning="The reference: the least, largest or average value of the same events.",
    in_clause=True,
    example="avg",
)
FACTOR = UsualNumber(
    "factor",
    whole=False,
    usual=USUAL_FACTOR,
    limits=(
        Limit(lambda factor: factor == 0, "must not be 0: that compares with a constant"),
        Limit(lambda factor: abs(factor) == np.inf, "must be finite"),
    ),
    meaning="The reference is multiplied by it; with within, the share of the reference.",
    takes="number other than 0",
    in_clause=True,
)
LAST = NumberField(
    "last",
    whole=True,
    required=False,
    limits=(
        Limit(lambda last: last < 1, "must be 1 or more: a window holds at least one row"),
        Limit(lambda last: last > LONGEST_WINDOW, f"must be at most {LONGEST_WINDOW:,} rows"),
    ),
    meaning="Only so many events count, the newest; in Python a span of time too.",
    takes="whole number, 1 or more",
    in_clause=True,
)
SPAN = SpanField(
    "span", meaning="Only events that are younger count, instead of `last`.", in_clause=True
)
BY_KEY = FlagField(
    "by_key", meaning="Of each key's events apart, not of those of all keys.", in_clause=True
)
EPSILON = UsualNumber(
    "epsilon",
    whole=False,
    usual=USUAL_EPSILON,
    takes_zero=True,
    limits=(
        Limit(
            lambda epsilon: (epsilon < 0) & (epsilon != -1), "must be 0, which is exact, or more"
        ),
        Limit(lambda epsilon: epsilon >= 1, "must be below 1"),
    ),
    meaning="The least move that is told, as a share; 0 keeps every event, and is exact.",
    takes="number, 0 or more and below 1",
)
BUCKETS = UsualNumber(
    "buckets",
    whole=True,
    usual=USUAL_BUCKETS,
    limits=(
        Limit(lambda buckets: buckets < 2, "must be 2 or more"),
        Limit(lambda buckets: buckets > MOST_BUCKETS, f"must be at most {MOST_BUCKETS:,}"),
    ),
    meaning="How many buckets a histogram has, unless epsilon is 0.",
    takes=f"whole number, 2 to {MOST_BUCKETS:,}",
)
DWELL = SpanField(
    "dwell", meaning="An entry or exit counts after the value has stayed there for this long."
)


@dataclass(frozen=True)
class Correlated(ByKeyQuery):
    """Tell a COUNT, SUM or AVG over the events whose value relates to the MIN, MAX or AVG of all.

    Parameters
    ----------
    aggregate : str
        ``count``, ``sum`` or ``avg``.
    of : str, optional
        Whose values are summed or averaged. A count needs none; with one, it counts the events
        that have a value there.
    where : str
        The attribute that picks the events: those count whose value relates to the reference.
    compared : str
        ``<``, ``<=``, ``>`` or ``>=``; or ``within``: no further away from the reference than that
        share of it which `factor` says.
    to : str
        The reference: ``min``, ``max`` or ``avg`` of the values of `where`, over the same events.
    factor : number
        What the reference is multiplied by.
    last : int or span of time, optional
        Only so many events count, the newest of the key or of the stream; or those that came less
        than that before the newest. Without it, all since registration.
    span : span of time, optional
        The same as a span given as `last`; it takes numbers too, where times are numbers.
    by_key : bool
        Of each key's events apart, not of those of all keys together.
    epsilon : number
        A value is told if it has moved by more than this share, and by more than its bounds are
        wide, since it was told last. 0 keeps every event, is exact, and tells every change.
    buckets : int
        How many buckets a histogram has, unless `epsilon` is 0.
    when : range, optional
        Tell only when the value enters this range and when it leaves it (events ``enter`` and
        ``leave``), not every change. A pair is half-open ``[lo, hi)``, and None is no limit.
    dwell : span of time, optional
        With `when`: an entry or exit counts once the value has stayed there for this long.

    Examples
    --------
    >>> Correlated("long", "count", where="duration", compared=">=", to="max", factor=0.9).factor
    0.9
    >>> Correlated("odd", "sum", of="fee", where="duration", compared="within", to="avg",
    ...            factor=0.1, last=500).last
    500
    """

    box: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)
    aggregate: str = field(metadata=declared(AGGREGATE))
    of: str | None = field(default=None, kw_only=True, metadata=declared(OF))
    where: str = field(kw_only=True, metadata=declared(WHERE))
    compared: str = field(kw_only=True, metadata=declared(COMPARED))
    to: str = field(kw_only=True, metadata=declared(TO))
    factor: float = field(default=USUAL_FACTOR, kw_only=True, metadata=declared(FACTOR))
    last: int | SpanLike | None = field(default=None, kw_only=True, metadata=declared(LAST))
    span: SpanLike | None = field(default=None, kw_only=True, metadata=declared(SPAN))
    by_key: bool = field(default=False, kw_only=True, metadata=declared(BY_KEY))
    epsilon: float = field(default=USUAL_EPSILON, kw_only=True, metadata=declared(EPSILON))
    buckets: int = field(default=USUAL_BUCKETS, kw_only=True, metadata=declared(BUCKETS))
    when: Interval | tuple[float | None, float | None] | None = field(
        default=None, kw_only=True, metadata=declared(WHEN)
    )
    dwell: SpanLike | None = field(default=None, kw_only=True, metadata=declared(DWELL))

    kind: ClassVar[str] = "correlated"
    across_keys: ClassVar[bool] = True
    limited: ClassVar[bool] = False

    def __post_init__(self) -> None:
        names = {name for name in (self.where, self.of) if isinstance(name, str)}
        if any(interval != Interval() for interval in Box(self.box).values()):
            raise self._error("it has a box; a correlated query sees all events of its key")
        object.__setattr__(self, "box", Box(dict.fromkeys(sorted(names), Interval())))
        for each in (FACTOR, EPSILON, BUCKETS):
            if getattr(self, each.name) is None:
                object.__setattr__(self, each.name, each.usual)
        if self.last is not None and not isinstance(self.last, (int, np.integer)):
            if self.span is not None:
                raise self._error("last is a span of time, and span is given too; give one")
            object.__setattr__(self, "span", self.last)
            object.__setattr__(self, "last", None)
        super().__post_init__()
        reason = self._contradiction()
        if reason:
            raise self._error(reason)

    def _error(self, reason: str) -> InvalidQueryError:
        return InvalidQueryError(f"query {self.id!r}: {reason}")

    def _contradiction(self) -> str | None:
        """Return what can't be together, or None."""
        if self.epsilon < 0:
            return f"epsilon is {self.epsilon!r}; it must be 0, which is exact, or more"
        if self.aggregate != COUNT and self.of is None:
            return f"{self.aggregate} of what? give of=, the attribute"
        if self.compared == WITHIN and self.factor < 0:
            return f"within a share of {self.factor!r}? give a factor above 0"
        if self.last is not None and self.span is not None:
            return "last is a number of rows, and span is given too; give one of the two"
        if self.by_key and self.key is not None:
            return (
                f"by_key asks for every key's answer, and it has a key already, {self.key!r};"
                " give one of the two"
            )
        if self.dwell is not None and self.when is None:
            return "dwell is for entries and exits; give a range, when=, or leave it out"
        return None

    @property
    def said_box(self) -> Mapping[str, Interval]:
        """No box: a user gives none."""
        return {}

    def misfit(self, stream: Stream) -> str | None:
        """Return why the query can't be on the stream, or None."""
        if self.dwell is not None and self.looks_across_keys and stream.key is not None:
            return "dwell is by key; give a key or by_key, or leave it out"
        return super().misfit(stream)

    @classmethod
    def untold(cls, ranged: Bools, numbers: Mapping[str, NumberColumn]) -> Mapping[str, Bools]:
        """Return which queries never tell some events: only those with a range enter and leave."""
        return {"change": ranged, "enter": ~ranged, "leave": ~ranged}

    @classmethod
    def bad_rows(cls, said: SaidColumns) -> Iterator[tuple[Bools, str]]:
        """Yield which rows of a table can't be for what several columns say together, and why."""
        numbers = said.numbers
        yield numbers["where"] == NO_NUMBER, "it needs where, an attribute"
        summed = numbers["aggregate"] > AGGREGATES.index(COUNT) + 1
        yield summed & (numbers["of"] == NO_NUMBER), "a sum or avg needs of, an attribute"
        around = numbers["compared"] == RELATIONS.index(WITHIN) + 1
        yield around & (numbers["factor"] < 0), "within a negative factor; give one above 0"
        rows, timed = numbers["last"] != NO_NUMBER, said.has_span("span")
        yield rows & timed, "it has last, a number of rows, and span; give one of the two"
        lower, upper = range_ends(numbers)
        yield upper <= lower, "when_lo is not below when_hi, so the range holds no value"
        dwells, ranged = said.has_span("dwell"), (lower != -np.inf) | ~np.isnan(upper)
        yield dwells & ~ranged, "dwell is for entries and exits; give when_lo or when_hi too"
        if said.stream.key is not None:
            across = ~said.keyed & ~said.options["by_key"]
            yield dwells & across, "dwell is by key; give a key or by_key, or leave it out"
        yield from super().bad_rows(said)


def range_ends(numbers: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the half-open ends of `when`, from the columns of a block."""
    lower, upper = Correlated.numbers[-2:]
    return lower.ends(numbers[lower.name]), upper.ends(numbers[upper.name])  # type: ignore[attr-defined]
