"""The threshold query: the event at which a total is reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from everquery.errors import InvalidQueryError
from everquery.queries.spec import Query

LARGEST_TOTAL = 2**63 - 1


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

    total: int = field(kw_only=True)
    repeat: bool = field(default=False, kw_only=True)
    count: bool = field(default=False, kw_only=True)

    kind: ClassVar[str] = "threshold"
    options: ClassVar[tuple[str, ...]] = ("repeat", "count")
    across_keys: ClassVar[bool] = True
    numbers: ClassVar[tuple[str, ...]] = ("total",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.total, np.integer):
            object.__setattr__(self, "total", int(self.total))
        reason = bad_total(self.total)
        if reason:
            raise InvalidQueryError(f"query {self.id!r}: total is {self.total!r}; {reason}")
        for name in self.options:
            if not isinstance(getattr(self, name), bool):
                raise InvalidQueryError(
                    f"query {self.id!r}: {name} is {getattr(self, name)!r}; it is true or false"
                )


def bad_total(total: object) -> str | None:
    """Return why this can't be a total, or None."""
    if isinstance(total, bool) or not isinstance(total, int):
        return "it must be a whole number"
    if total < 1:
        return "it must be 1 or more"
    if total > LARGEST_TOTAL:
        return f"it must be at most {LARGEST_TOTAL:,}, which 64 bits can hold"
    return None
