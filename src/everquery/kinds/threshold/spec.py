"""The threshold query: the event at which a total is reached."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np

from everquery.core.spans import SpanLike
from everquery.errors import InvalidQueryError
from everquery.kinds.by_key import ByKeyQuery
from everquery.queries.fields import ChoiceField, FlagField, SpanField, ZoneField, declared
from everquery.queries.numbers import Bools, Limit, NumberField
from everquery.queries.spans import MICROSECONDS, NANOSECONDS
from everquery.queries.spec import SaidColumns
from everquery.stream import Stream

LARGEST_TOTAL = 2**63 - 1
TOTAL = NumberField(
    "total",
    whole=True,
    limits=(
        Limit(lambda total: total < 1, "must be 1 or more"),
        Limit(  # not > the largest, which as a float is 2**63
            lambda total: total >= LARGEST_TOTAL + 1,
            f"must be at most {LARGEST_TOTAL:,}, which 64 bits can hold",
        ),
    ),
    takes="whole number, 1 or more",
    meaning="How much weight fires: of the stream's weight column, or so many events.",
    in_clause=True,
    example="1000",
)
REPEAT = FlagField("repeat", meaning="Start again from zero after a fire.", in_clause=True)
COUNT = FlagField("count", meaning="Count events, whatever they weigh.", in_clause=True)
BY_KEY = FlagField("by_key", meaning="Each key has a total of its own.", in_clause=True)
EVERY = SpanField(
    "every",
    meaning="Start again from zero at each multiple of this span: every hour, day or week.",
    in_clause=True,
)
ZONE = ZoneField("zone", meaning="Whose days `every` means; without one, UTC.", in_clause=True)
NEGATIVE = ChoiceField(
    "negative",
    choices=("ignore", "subtract"),
    meaning="What a weight below 0 does: nothing, or it lowers the total.",
)

_MICROSECONDS_A_DAY = 86_400 * 10**6
_PERIODS_IN_ZONES = (
    "in a zone, every is whole days, or a span such as 6 hours that divides a day evenly"
)
_COUNTS = "count counts events, which have nothing to subtract; leave out one of the two"


@dataclass(frozen=True)
class Threshold(ByKeyQuery):
    """Tell when events inside a box weigh a total together (event ``fire``).

    Only events after the registration count. With the fire the query ends, unless it repeats, or
    has further totals: of other keys or periods.

    Parameters
    ----------
    total : int
        How much weight: the sum of the stream's weight column, or the number of events if the
        stream has none.
    repeat : bool
        Start again from zero after a fire. An event that covers the total several times fires
        once, and the notice's ``rounds`` says how many times.
    count : bool
        Count events, whatever they weigh.
    by_key : bool
        Each key has a total of its own, and fires by itself.
    every : span of time, optional
        Start again from zero at each multiple of this span. Without `repeat`, at most one fire a
        period.
    zone : str, optional
        The time zone whose days, or parts of days, `every` means: an IANA name such as
        ``Europe/Berlin``. Without one, UTC.
    negative : str
        What an event with a weight below 0 does: with ``subtract`` it lowers the total, with
        ``ignore`` the query does not see it.

    Examples
    --------
    >>> Threshold("sold", {"price": (100, 105)}, total=100_000, key="AAPL").repeat
    False
    >>> limit = Threshold("limit", {}, total=1_000, by_key=True, every=timedelta(days=1))
    """

    total: int = field(kw_only=True, metadata=declared(TOTAL))
    repeat: bool = field(default=False, kw_only=True, metadata=declared(REPEAT))
    count: bool = field(default=False, kw_only=True, metadata=declared(COUNT))
    by_key: bool = field(default=False, kw_only=True, metadata=declared(BY_KEY))
    every: SpanLike | None = field(default=None, kw_only=True, metadata=declared(EVERY))
    zone: str | None = field(default=None, kw_only=True, metadata=declared(ZONE))
    negative: str = field(default="ignore", kw_only=True, metadata=declared(NEGATIVE))

    kind: ClassVar[str] = "threshold"
    across_keys: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        reason = None
        if self.by_key and self.key is not None:
            reason = (
                f"by_key asks for every key's total, and it has a key already, {self.key!r};"
                " give one of the two"
            )
        elif self.negative_subtract and self.count:
            reason = _COUNTS
        elif self.zone is not None:
            reason = self._bad_zone()
        if reason:
            raise InvalidQueryError(f"query {self.id!r}: {reason}")

    def _bad_zone(self) -> str | None:
        if self.every is None:
            return f"zone is {self.zone!r}, and says whose days every means; give every too"
        if not isinstance(self.every, timedelta):
            return f"every is {self.every!r}, and numbers know no zones; give a timedelta"
        exact = self.every // timedelta(microseconds=1)
        return None if _fits_zones(exact) else f"every is {self.every}; {_PERIODS_IN_ZONES}"

    @property
    def negative_subtract(self) -> bool:
        """Whether weights below 0 lower the total."""
        return self.negative == "subtract"

    def misfit(self, stream: Stream) -> str | None:
        """Return why the query can't be on the stream, or None."""
        if self.negative_subtract and stream.weight is None:
            return f"negative needs a stream with a weight, and stream {stream.name!r} has none"
        return super().misfit(stream)

    @classmethod
    def bad_rows(cls, said: SaidColumns) -> Iterator[tuple[Bools, str]]:
        """Yield which rows of a table can't be for what several columns say together, and why."""
        yield from super().bad_rows(said)
        subtract = said.options["negative_subtract"]
        yield subtract & said.options["count"], _COUNTS
        if said.stream.weight is None:
            yield subtract, f"negative needs a stream with a weight; {said.stream.name!r} has none"
        yield from _bad_zones(said)


def _bad_zones(said: SaidColumns) -> Iterator[tuple[Bools, str]]:
    """Yield which rows of a table have zones that do not go with their periods, and why."""
    if "zone" in said.zones:
        zoned = np.asarray(said.zones["zone"].is_valid())
        every = said.spans.get("every")
        if every is None:
            yield zoned, "zone says whose days every means; give every too"
            return
        yield zoned & ~every.given(), "zone says whose days every means; give every too"
        timed = np.isin(every.unit, (MICROSECONDS, NANOSECONDS))
        yield zoned & ~timed, "every is a number, and numbers know no zones; give a duration"
        fits = _fits_zones(np.maximum(every.amount, 1)) & (every.unit == MICROSECONDS)
        yield zoned & timed & ~fits, _PERIODS_IN_ZONES


def _fits_zones(microseconds: Any) -> Any:  # noqa: ANN401 - a number or a column of them
    """Tell whether a span is whole days, or divides a day evenly."""
    whole = microseconds % _MICROSECONDS_A_DAY == 0
    return whole | (_MICROSECONDS_A_DAY % microseconds == 0)
