"""How far a threshold query is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from everquery.errors import InvalidQueryError
from everquery.kinds.answer import NOWHERE, Asked, AskedQuery
from everquery.kinds.threshold.index import ThresholdIndex
from everquery.kinds.threshold.tally import OF_ALL
from everquery.queries.spec import Key


def progress(asked: Asked, query: AskedQuery, *, key: Key | None = None) -> int:
    """Return how much weight a live query has seen since it began, or last fired."""
    by_key = query.options["by_key"]
    if by_key and key is None:
        raise InvalidQueryError(
            f"query {query.id!r} has a total for each key; say of which: key=..."
        )
    if key is not None and not by_key:
        raise InvalidQueryError(f"query {query.id!r} has one total; ask for it without key")
    index = cast("ThresholdIndex", asked.index)
    slots = np.array([query.slot], np.int32)
    found = index.asked(slots)
    if not found["tallied"][0]:
        return int(found["total"][0] - index.state(slots)["left"][0])
    number = OF_ALL if key is None else asked.number_of(key)
    if key is not None and number == NOWHERE:
        return 0
    return index.tally.progress(query.slot, number)


def shown_total(record: Mapping[str, Any]) -> str | None:
    """Return a total with what it is of, and whether it is waited for once or again and again.

    Examples
    --------
    >>> shown_total({"total": 1_000, "count": True, "repeat": True, "by_key": True})
    'each 1,000 events, by key'
    """
    if record["total"] is None:
        return None
    told = f"{record['total']:,}" + (" events" if record["count"] else "")
    further = [told if not record["repeat"] else f"each {told}"]
    if record.get("by_key"):
        further.append("by key")
    if record.get("every") is not None:
        further.append(f"every {record['every']}")
    if record.get("zone") is not None:
        further.append(f"in {record['zone']}")
    return ", ".join(further)
