"""The window query: a statistic of the last rows or of a stretch of time, told when it moves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from everquery.core.spans import SpanLike
from everquery.errors import InvalidQueryError
from everquery.kinds.by_key import ByKeyQuery
from everquery.queries.box import Box
from everquery.queries.fields import FlagField, NumbersField, RangeField, SpanField, declared
from everquery.queries.interval import Interval, exact_float
from everquery.queries.numbers import (
    NO_NUMBER,
    Bools,
    EndField,
    Limit,
    MeasuredField,
    NumberColumn,
    NumberField,
    WordField,
)
from everquery.queries.spec import LONGEST_ID, Query, SaidColumns, bad_text
from everquery.stream import Stream

LONGEST_WINDOW = 2**31 - 1  # rows
HISTOGRAM = "histogram"
COUNT = "count"
STATISTICS = (COUNT, "sum", "mean", "variance", "min", "max", "distinct", "l1", "l2")
NORMS = ("l1", "l2")

STATISTIC = WordField(
    "statistic",
    words=(*STATISTICS, HISTOGRAM),
    meaning="What is computed of the events in the window.",
    in_clause=True,
    example=COUNT,
)
ATTRIBUTE = MeasuredField(
    "attribute", meaning="Whose values it is computed of; a count needs none.", in_clause=True
)
PER = MeasuredField(
    "per",
    meaning="Of l1 and l2: by whose values the sums are that the norm is of.",
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
    meaning="How many rows the window holds, the newest; in Python a span of time too.",
    takes="whole number, 1 or more",
    in_clause=True,
)
SPAN = SpanField(
    "span", meaning="How long an event stays in the window, instead of `last`.", in_clause=True
)
EPSILON = NumberField(
    "epsilon",
    whole=False,
    required=False,
    limits=(
        Limit(lambda epsilon: epsilon < 0, "must be 0, which is exact, or more"),
        Limit(lambda epsilon: epsilon >= 1, "must be below 1"),
    ),
    meaning="How far off the value may be, as a share of it; 0 keeps every event, and is exact.",
    in_clause=True,
)
BY_KEY = FlagField(
    "by_key", meaning="A window for each key, not one for all keys together.", in_clause=True
)
WHEN = RangeField(
    "when",
    meaning="Tell only when the value enters this range, and when it leaves it.",
    in_clause=True,
)
EVERY = SpanField(
    "every",
    meaning="Tell the value once in each period of this length, whether it has moved or not.",
    in_clause=True,
)
EDGES = NumbersField(
    "edges",
    meaning="Of a histogram: where its bins begin and end; one count for each.",
    in_clause=True,
)
DWELL = SpanField(
    "dwell", meaning="An entry or exit counts after the value has stayed there for this long."
)


@dataclass(frozen=True)
class Window(ByKeyQuery):
    """Tell a statistic of the last rows, or of the last stretch of time, whenever it has moved.

    Parameters
    ----------
    statistic : str
        ``count`` (of the events in the box), ``sum``, ``mean``, ``variance`` (of all values in the
        window, not of a sample), ``min``, ``max`` or ``distinct`` (how many different values) of
        the attribute; ``l1`` or ``l2``, the norm of the vector of its sums by another attribute;
        ``histogram``, which is one count for each bin: see `parts`.
    attribute : str, optional
        Whose values it is computed of. A count needs none.
    per : str, optional
        Of ``l1`` and ``l2``: by whose values the sums are.
    box : mapping from attribute to range, optional
        Only the events inside are counted, summed and so on. All others still pass as rows.
    last : int or span of time
        The window: so many rows, the newest of its key or of the stream; or as long, up to now,
        without its beginning.
    span : span of time, optional
        The same as a span given as `last`; it takes numbers too, where times are numbers.
    epsilon : number
        How far off the value may be, as a share of it, below 1. Notices and answers have bounds
        that hold. 0, the default, keeps every event of the window, and is exact. With fewer than
        64 events ``distinct``, ``l1`` and ``l2`` are exact; beyond, 99 of 100 values are within
        epsilon, and bounds hold but for one answer in a billion.
    by_key : bool
        A window for each key, not one for all keys together.
    when : range, or mapping with ``above`` or ``below``, optional
        Tell only when the value enters this range and when it leaves it (events ``enter`` and
        ``leave``), not every change. A pair is half-open ``[lo, hi)``, and None is no limit.
    every : span of time, optional
        Of windows of time: tell the value once in each period of this length, whether it has moved
        or not: exact windows when the period begins, others when they are first looked at there.
    edges : sequence of numbers, optional
        Of a histogram: where its bins begin and end, ascending. Bins are half-open.
    dwell : span of time, optional
        With `when`: an entry or exit counts once the value has stayed there for this long.

    Examples
    --------
    >>> from datetime import timedelta
    >>> Window("busy", "count", last=timedelta(minutes=5), when={"above": 100}).span
    datetime.timedelta(seconds=300)
    >>> query = Window("sizes", "histogram", "bytes", last=1_000, edges=[0, 100, 1_500])
    >>> [part.id for part in query.parts()]
    ['sizes[0.0]', 'sizes[100.0]']
    """

    box: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    statistic: str = field(metadata=declared(STATISTIC))
    attribute: str | None = field(default=None, metadata=declared(ATTRIBUTE))
    per: str | None = field(default=None, kw_only=True, metadata=declared(PER))
    last: int | SpanLike | None = field(default=None, kw_only=True, metadata=declared(LAST))
    span: SpanLike | None = field(default=None, kw_only=True, metadata=declared(SPAN))
    epsilon: float | None = field(default=None, kw_only=True, metadata=declared(EPSILON))
    by_key: bool = field(default=False, kw_only=True, metadata=declared(BY_KEY))
    when: Interval | Mapping[str, float] | tuple[float | None, float | None] | None = field(
        default=None, kw_only=True, metadata=declared(WHEN)
    )
    every: SpanLike | None = field(default=None, kw_only=True, metadata=declared(EVERY))
    dwell: SpanLike | None = field(default=None, kw_only=True, metadata=declared(DWELL))
    edges: Sequence[float] | None = field(default=None, kw_only=True, metadata=declared(EDGES))

    kind: ClassVar[str] = "window"
    across_keys: ClassVar[bool] = True

    def __post_init__(self) -> None:
        try:
            self._settle()
        except InvalidQueryError as error:
            raise InvalidQueryError(f"query {self.id!r}: {error}") from None
        super().__post_init__()
        reason = self._contradiction()
        if reason:
            raise InvalidQueryError(f"query {self.id!r}: {reason}")
        if self.edges is not None:
            for edge in self.edges:
                reason = bad_text(self._id_of(edge), "query id", LONGEST_ID)
                if reason:
                    raise InvalidQueryError(f"{reason}; it is that of a part: one for each bin")

    def _settle(self) -> None:
        """Give what may be written in several ways its one form."""
        if isinstance(self.last, (float, np.floating)):
            raise InvalidQueryError(
                f"last is {self.last!r}; give a whole number of rows, or a span of time as span="
            )
        if self.last is not None and not isinstance(self.last, (int, np.integer)):
            if self.span is not None:
                raise InvalidQueryError("last is a span of time, and span is given too; give one")
            object.__setattr__(self, "span", self.last)
            object.__setattr__(self, "last", None)
        if isinstance(self.epsilon, (int, float)) and self.epsilon == 0:
            object.__setattr__(self, "epsilon", None)
        if isinstance(self.when, Mapping):
            object.__setattr__(self, "when", _range_of(self.when))
        if self.edges is not None:
            object.__setattr__(self, "edges", _read_edges(self.edges))
        box = Box(self.box)
        for name in (self.attribute, self.per):
            if isinstance(name, str) and name not in box:
                box = Box({**box, name: Interval()})
        object.__setattr__(self, "box", box)

    def _contradiction(self) -> str | None:
        """Return what can't be together, or None."""
        if self.last is None and self.span is None:
            return "a window has an extent; give last=, a number of rows or a span of time"
        if self.last is not None and self.span is not None:
            return "last is a number of rows, and span is given too; give one of the two"
        if self.statistic != COUNT and self.attribute is None:
            return f"{self.statistic} of what? give the attribute"
        if (self.statistic in NORMS) != (self.per is not None):
            return "per is for l1 and l2, the norms of sums by an attribute, and these need it"
        if (self.statistic == HISTOGRAM) != (self.edges is not None):
            return "edges are those of a histogram, and a histogram needs them"
        if self.by_key and self.key is not None:
            return (
                f"by_key asks for every key's window, and it has a key already, {self.key!r};"
                " give one of the two"
            )
        if self.every is not None and (self.when is not None or self.last is not None):
            return "every tells the value of a window of time; leave out when, and give a span"
        if self.dwell is not None and self.when is None:
            return "dwell is for entries and exits; give a range, when=, or leave it out"
        return None

    def _id_of(self, edge: float) -> str:
        return f"{self.id}[{edge!r}]"

    @property
    def said_box(self) -> Mapping[str, Interval]:
        """The box without the attribute that is only measured."""
        return {
            name: interval
            for name, interval in self.box.items()
            if name not in (self.attribute, self.per) or interval != Interval()
        }

    @property
    def shared_name(self) -> str:
        """What stream-wide windows share: those of the same events share what is kept of them."""
        return self.kind

    @classmethod
    def shared_names(
        cls, ids: pa.Array, attribute: str, numbers: Mapping[str, NumberColumn]
    ) -> pa.Array:
        """Return the same for the queries of a block."""
        return pa.repeat(cls.kind, len(ids))

    def parts(self) -> tuple[Query, ...]:
        """Return one count for each bin of a histogram, with ids such as ``sizes[100.0]``.

        Any other query is its only part.
        """
        if self.edges is None:
            return (self,)
        assert self.attribute is not None
        return tuple(
            replace(
                self,
                id=self._id_of(low),
                statistic=COUNT,
                attribute=None,
                box={**self.box, self.attribute: _narrowed(self.box[self.attribute], low, high)},
                edges=None,
                part_of=self.id,
            )
            for low, high in pairwise(self.edges)
        )

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
        statistic = numbers["statistic"]
        measured = statistic > STATISTICS.index(COUNT) + 1
        yield measured & (numbers["attribute"] == NO_NUMBER), "it needs an attribute"
        yield statistic == len(STATISTIC.words), "a histogram can't be a row: give a count a bin"
        normed = (statistic == len(STATISTICS)) | (statistic == len(STATISTICS) - 1)
        yield normed != (numbers["per"] != NO_NUMBER), "per is for l1 and l2, and these need it"
        lower, upper = ends_of_range(numbers)
        yield upper <= lower, "when_lo is not below when_hi, so the range holds no value"
        rows, timed = numbers["last"] != NO_NUMBER, said.has_span("span")
        yield ~rows & ~timed, "it needs last, a number of rows, or span, a span of time"
        yield rows & timed, "it has last, a number of rows, and span; give one of the two"
        dwells, ranged = said.has_span("dwell"), (lower != -np.inf) | ~np.isnan(upper)
        yield dwells & ~ranged, "dwell is for entries and exits; give when_lo or when_hi too"
        ticking = said.has_span("every")
        yield ticking & (ranged | rows), "every is for windows of time, without a range"
        if said.stream.key is not None:
            across = ~said.keyed & ~said.options["by_key"]
            yield dwells & across, "dwell is by key; give a key or by_key, or leave it out"
        yield from super().bad_rows(said)


def ends_of_range(numbers: Mapping[str, NumberColumn]) -> tuple[Any, Any]:
    """Return the half-open ends of the ranges of queries: -inf and NaN are no limit."""
    lower, upper = EndField.of_range(WHEN)
    return lower.ends(numbers[lower.name]), upper.ends(numbers[upper.name])


def _range_of(when: Mapping[str, float]) -> Interval:
    if not when or when.keys() - {"above", "below"}:
        raise InvalidQueryError(f"when is {dict(when)!r}; give above, below, or a range (lo, hi)")
    return Interval(when.get("above"), when.get("below"), closed="neither")


def _read_edges(given: Any) -> tuple[float, ...]:  # noqa: ANN401 - it is here to find out
    values = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(values, (list, tuple)) or len(values) < 2:
        raise InvalidQueryError(f"edges is {given!r}; give two or more, ascending")
    edges = tuple(exact_float(each, "an edge") for each in values)
    if any(low >= high for low, high in pairwise(edges)):
        raise InvalidQueryError(f"edges are {list(edges)}; they must ascend")
    return edges


def _narrowed(interval: Interval, low: float, high: float) -> Interval:
    """Return a bin, as far as it lies in a range."""
    begin, end = interval.half_open()
    end = high if math.isnan(end) else min(end, high)
    return Interval(max(begin, low), end)
