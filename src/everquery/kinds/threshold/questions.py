"""How far a threshold query is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from everquery.kinds.answer import Asked, AskedQuery


def progress(asked: Asked, query: AskedQuery) -> int:
    """Return how much weight a live query has seen since it began, or last fired."""
    slots = np.array([query.slot], np.int32)
    total, left = asked.index.numbers(slots)["total"], asked.index.state(slots)["left"]
    return int(total[0] - left[0])


def shown_total(record: Mapping[str, Any]) -> str | None:
    """Return a total with what it is of, and whether it is waited for once or again and again.

    Examples
    --------
    >>> shown_total({"total": 1_000, "count": True, "repeat": True})
    'each 1,000 events'
    """
    if record["total"] is None:
        return None
    told = f"{record['total']:,}" + (" events" if record["count"] else "")
    return f"each {told}" if record["repeat"] else told
