"""The range query: every event inside a box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from everquery.queries.spec import Query


@dataclass(frozen=True)
class Range(Query):
    """Tell of every event inside a box (event ``match``).

    Examples
    --------
    >>> Range("cheap", {"price": (0, 10)}, key="IBM").kind
    'range'
    """

    kind: ClassVar[str] = "range"
