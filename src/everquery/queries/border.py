"""The border query: only what enters or leaves a box."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from everquery.queries.spec import Query


@dataclass(frozen=True)
class Border(Query):
    """Tell when a key enters a box, and when it leaves (events ``enter`` and ``leave``).

    Parameters
    ----------
    silent : bool
        Do not report the keys that are inside already when the query is registered or resumed.

    Examples
    --------
    >>> Border("band", {"price": (40, 50)}, key="IBM").silent
    False
    """

    silent: bool = field(default=False, kw_only=True)

    kind: ClassVar[str] = "border"
    options: ClassVar[tuple[str, ...]] = ("silent",)
