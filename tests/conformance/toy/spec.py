"""The query: every n-th event inside a box."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from everquery.queries.fields import FlagField, declared
from everquery.queries.numbers import Limit, NumberField
from everquery.queries.spec import Query

NTH = NumberField(
    "nth",
    whole=True,
    limits=(
        Limit(lambda nth: nth < 1, "must be 1 or more"),
        Limit(lambda nth: nth > 1_000_000, "must be at most 1,000,000"),
    ),
    meaning="Tell one event of so many.",
    in_clause=True,
    example="3",
)
AT_ONCE = FlagField("at_once", meaning="Begin with the first event, not with the n-th.")


@dataclass(frozen=True)
class Nth(Query):
    """Tell of every n-th event inside a box: of the key, or of all keys together."""

    nth: int = field(kw_only=True, metadata=declared(NTH))
    at_once: bool = field(default=False, kw_only=True, metadata=declared(AT_ONCE))

    kind: ClassVar[str] = "nth"
    across_keys: ClassVar[bool] = True
