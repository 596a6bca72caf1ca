"""The threshold query: the event at which a total is reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from everquery.queries.fields import FlagField, declared
from everquery.queries.numbers import Limit, NumberField
from everquery.queries.spec import Query

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


@dataclass(frozen=True)
class Threshold(Query):
    """Tell when events inside a box weigh a total together (event ``fire``).

    Only events after the registration count. With the fire the query ends, unless it repeats.

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

    Examples
    --------
    >>> Threshold("sold", {"price": (100, 105)}, total=100_000, key="AAPL").repeat
    False
    """

    total: int = field(kw_only=True, metadata=declared(TOTAL))
    repeat: bool = field(default=False, kw_only=True, metadata=declared(REPEAT))
    count: bool = field(default=False, kw_only=True, metadata=declared(COUNT))

    kind: ClassVar[str] = "threshold"
    across_keys: ClassVar[bool] = True
