"""What a window is at any time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from everquery.errors import InvalidQueryError
from everquery.kinds.answer import NOWHERE, Asked, AskedQuery
from everquery.kinds.window.families import COUNT, DISTINCT, L1, L2, MAX, MIN, SUM, UNCOUNTED
from everquery.kinds.window.index import WindowIndex
from everquery.queries.spec import Key


@dataclass(frozen=True, slots=True)
class WindowAnswer:
    """The answer to a window query.

    Attributes
    ----------
    value : float or None
        None where an empty window has none: the mean of nothing.
    low, high : float or None
        Bounds of the value, which hold; of distinct values and norms that are estimates, but for
        one answer in a billion.
    n : int or None
        How many events it is of; None where that is not kept, as of a minimum.
    epsilon : float
        How far off the value may be, as a share; of estimates, in 99 of 100 answers.
    whole : bool
        Whether all of the window is known. A query that begins later than its events, or asks for a
        longer window than was held, fills as they come.
    whole_from : int, float or None
        From when on it will be whole: a time, or for windows of rows the number of rows to come.
        None where it is whole, and for a key without events since the query began.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int | None
    epsilon: float
    whole: bool
    whole_from: int | float | None


def answer(asked: Asked, query: AskedQuery, *, key: Key | None = None) -> WindowAnswer:
    """Return what a live window is now; see `Engine.answer`."""
    each = query.options["by_key"]
    if each and key is None:
        raise InvalidQueryError(
            f"query {query.id!r} has an answer for each key; say of which: key=..."
        )
    if key is not None and not each:
        raise InvalidQueryError(f"query {query.id!r} has one answer; ask for it without key")
    index = cast("WindowIndex", asked.index)
    number = NOWHERE if key is None else asked.number_of(key)
    statistic, _, epsilon = index.asked(query.slot)
    found = None
    if not each or number != NOWHERE:
        found = index.current(query.slot, number, asked.time_type, asked.said, asked.now)
    if found is None:
        value = 0.0 if statistic in (COUNT, SUM, DISTINCT, L1, L2) else None
        n = None if statistic in (MIN, MAX, DISTINCT) else 0
        return WindowAnswer(value, value, value, n, epsilon, False, None)
    *figures, counted, missing = found
    value, low, high = (None if math.isnan(each) else float(each) for each in figures)
    n = None if counted == UNCOUNTED else int(counted)
    return WindowAnswer(value, low, high, n, epsilon, missing is None, missing)


def shown_window(record: Mapping[str, Any]) -> str | None:
    """Return a statistic, and of which window."""
    if record["statistic"] is None:
        return None
    of = "" if record["attribute"] is None else f" of {record['attribute']}"
    extent = f"{record['last']:,} rows" if record["last"] is not None else str(record["span"])
    parts = [f"{record['statistic']}{of}, last {extent}"]
    if record["epsilon"]:
        parts.append(f"± {record['epsilon']:.10g}")
    if record["by_key"]:
        parts.append("by key")
    return ", ".join(parts)
