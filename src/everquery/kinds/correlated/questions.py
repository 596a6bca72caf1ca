"""Questions that standing correlated queries have answers to at any time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from everquery.errors import InvalidQueryError
from everquery.index.rows import NO_KEY
from everquery.kinds.answer import NOWHERE, Asked, AskedQuery
from everquery.kinds.correlated.index import CorrelatedIndex
from everquery.kinds.correlated.spec import WITHIN
from everquery.queries.spec import Key


@dataclass(frozen=True, slots=True)
class CorrelatedAnswer:
    """The answer to a correlated query.

    Attributes
    ----------
    value : float or None
        None before the first event, and for the average of no events.
    low, high : float or None
        Bounds of the true value, which hold; equal where epsilon is 0. None where nothing is known.
    n : int
        How many events its reference is of; of an approximate window of time, about.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int


def answer(asked: Asked, query: AskedQuery, *, key: Key | None = None) -> CorrelatedAnswer:
    """Return the current answer to a live correlated query; see `Engine.answer`."""
    each = query.options["by_key"]
    if each and key is None:
        raise InvalidQueryError(
            f"query {query.id!r} has an answer for each key; say of which: key=..."
        )
    if key is not None and not each:
        raise InvalidQueryError(f"query {query.id!r} has one answer; ask for it without key")
    index = cast("CorrelatedIndex", asked.index)
    rows = next(index.layers.find(np.array([query.slot], np.int32)))
    lane = int(rows.key[0]) if rows.shape.keyed else int(NO_KEY)
    if key is not None:
        lane = asked.number_of(key)
    known = key is None or lane != NOWHERE
    found = index.answer(query.slot, lane) if known else None
    if found is None:
        return CorrelatedAnswer(None, None, None, 0)
    value, low, high = (None if math.isnan(each) else float(each) for each in found[:3])
    return CorrelatedAnswer(value, low, high, int(found[3]))


def shown_correlated(record: Mapping[str, Any]) -> str | None:
    """Return what is aggregated where, in a few words."""
    if record["aggregate"] is None or record["where"] is None:
        return None
    of = "" if record["of"] is None else f"({record['of']})"
    factor, to = record["factor"], record["to"]
    if record["compared"] == WITHIN:
        relation = f"within {factor:.10g} of {to}"
    else:
        relation = f"{record['compared']} {'' if factor == 1 else f'{factor:.10g} '}{to}"
    words = [f"{record['aggregate']}{of} where {record['where']} {relation}"]
    if record["last"] is not None:
        words.append(f"last {record['last']:,}")
    if record.get("span") is not None:
        words.append(f"last {record['span']}")
    if record["by_key"]:
        words.append("by key")
    return ", ".join(words)
