"""Questions that standing quantile queries have answers to at any time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np

from everquery.errors import InvalidQueryError
from everquery.kinds.answer import Answer, Asked, AskedQuery
from everquery.kinds.quantile.feed import Feed
from everquery.kinds.quantile.index import QuantileIndex
from everquery.kinds.quantile.rank_cells import NOWHERE
from everquery.kinds.quantile.spec import LAST, PHI
from everquery.queries.block import unknown_attribute
from everquery.queries.spec import Key


def answer(asked: Asked, query: AskedQuery, *, key: Key | None = None) -> Answer:
    """Return the current answer to a live quantile query; see `Engine.answer`."""
    each = query.options["by_key"]
    if each and key is None:
        raise InvalidQueryError(
            f"query {query.id!r} has an answer for each key; say of which: key=..."
        )
    if key is not None and not each:
        raise InvalidQueryError(f"query {query.id!r} has one answer; ask for it without key")
    index = _index(asked)
    rows = next(index.layers.find(np.array([query.slot], np.int32)))
    lane = int(rows.key[0]) if rows.shape.keyed else 0
    if key is not None:
        lane = asked.number_of(key)
    value, low, high, n, epsilon = index.answer(query.slot, lane)
    return Answer(None if math.isnan(value) else value, low, high, n, epsilon)


def quantiles(
    asked: Asked,
    attribute: str | None,
    *,
    phi: Iterable[float],
    key: Key | None,
    last: int | None,
) -> list[Answer]:
    """Return any quantiles of rows that are summed up; see `Engine.quantiles`."""
    if not isinstance(phi, Iterable):
        raise InvalidQueryError(f"phi is {phi!r}; give several, or one in a list")
    ranks = [float(PHI.read(each)) for each in phi]
    if last is not None:
        last = int(LAST.read(last))
    feed = _feed(asked, attribute, keyed=key is not None, last=last)
    lane = 0 if key is None else asked.number_of(key)
    n = feed.rows(lane) if lane != NOWHERE else 0
    if not n or feed.error is None:
        return [Answer(None, 0, 0, 0, feed.error or 0.0)] * len(ranks)
    found = (feed.answer(lane, each, feed.error, np.nan) for each in ranks)
    return [Answer(value, low, high, n, feed.error) for value, low, high in found]


def _index(asked: Asked) -> QuantileIndex:
    return cast("QuantileIndex", asked.index)


def _feed(asked: Asked, attribute: str | None, *, keyed: bool, last: int | None) -> Feed:
    """Return the feed of such rows."""
    stream, feeds = asked.stream, _index(asked).feeds
    if attribute is not None and attribute not in stream.attributes:
        raise InvalidQueryError(unknown_attribute(attribute, stream))
    found = [
        feed
        for name, feed in feeds.items()
        if name.keyed == keyed
        and name.window == (last or 0)
        and attribute in (None, stream.attributes[name.attribute])
    ]
    # Queries that began in the past have feeds of their own; the plain one is asked first.
    least = min((feed.name.past for feed in found), default=0)
    found = [feed for feed in found if feed.name.past == least]
    if len(found) == 1:
        return found[0]
    rows = "of a key's rows" if keyed else "of the rows of all keys together"
    window = "" if last is None else f", the last {last:,}"
    if found:
        names = ", ".join(repr(stream.attributes[feed.name.attribute]) for feed in found)
        raise InvalidQueryError(f"quantile queries are about {names}; say which attribute")
    raise InvalidQueryError(
        f"no live query keeps a summary {rows}{window}; register a Quantile that does"
    )


def shown_quantile(record: Mapping[str, Any]) -> str | None:
    """Return a rank and how far off it may be, with what it is among."""
    if record["phi"] is None:
        return None
    among = [record["attribute"]]
    if record["last"] is not None:
        among.append(f"last {record['last']:,}")
    if record["by_key"]:
        among.append("by key")
    if record["by"] is not None:
        among.append(f"moved by {record['by']:.10g}")
    return f"{record['phi']:.10g} ± {record['epsilon']:.10g} of {', '.join(among)}"
