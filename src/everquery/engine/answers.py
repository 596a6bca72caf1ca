"""Questions that standing quantile queries have answers to at any time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

import numpy as np
import pyarrow as pa

from everquery.engine.results import Answer
from everquery.errors import InvalidQueryError
from everquery.kinds.quantile.feed import Feed
from everquery.kinds.quantile.index import BY_KEY, QuantileIndex
from everquery.kinds.quantile.rank_cells import NONE
from everquery.queries import Quantile
from everquery.queries.block import unknown_attribute
from everquery.queries.quantile import LAST, PHI
from everquery.queries.spec import LONGEST_KEY, Key, bad_text
from everquery.shard import Shard


def answer_of(shard: Shard, query_id: str, key: Key | None = None) -> Answer:
    """Return what a live quantile query is answered now; see `Engine.answer`."""
    shard.settle()
    slots = shard.catalog.slots(pa.array([str(query_id)], pa.string()))
    slot = int(slots[0])
    if not shard.of_kind(slots, Quantile.kind).size:
        raise InvalidQueryError(f"query {query_id!r} is no quantile query; only those have answers")
    each = bool(shard.catalog.flags[slot] & BY_KEY)
    if each and key is None:
        raise InvalidQueryError(
            f"query {query_id!r} has an answer for each key; say of which: key=..."
        )
    if key is not None and not each:
        raise InvalidQueryError(f"query {query_id!r} has one answer; ask for it without key")
    index = _index(shard)
    rows = next(index.layers.find(slots))
    lane = int(rows.key[0]) if rows.shape.keyed else 0
    if key is not None:
        lane = _lane_of(shard, key)
    value, low, high, n, epsilon = index.answer(slot, lane)
    return Answer(None if math.isnan(value) else value, low, high, n, epsilon)


def quantiles_of(
    shard: Shard, attribute: str | None, phi: Iterable[float], key: Key | None, last: int | None
) -> list[Answer]:
    """Return any quantiles of rows that are summed up; see `Engine.quantiles`."""
    shard.settle()
    if not isinstance(phi, Iterable):
        raise InvalidQueryError(f"phi is {phi!r}; give several, or one in a list")
    ranks = [float(PHI.read(each)) for each in phi]
    if last is not None:
        last = int(LAST.read(last))
    feed = _feed(shard, attribute, keyed=key is not None, last=last)
    lane = 0 if key is None else _lane_of(shard, key)
    n = feed.rows(lane) if lane != NONE else 0
    if not n or feed.error is None:
        return [Answer(None, 0, 0, 0, feed.error or 0.0)] * len(ranks)
    found = (feed.answer(lane, each, feed.error, np.nan) for each in ranks)
    return [Answer(value, low, high, n, feed.error) for value, low, high in found]


def _lane_of(shard: Shard, key: Key) -> int:
    """Return the number of a key; `NONE` if it has not been seen."""
    if isinstance(key, bool) or not isinstance(key, (str, int, np.integer)):
        raise InvalidQueryError(f"key is {key!r}; a key is a string or an integer")
    if isinstance(key, str):
        reason = key and bad_text(key, "key", LONGEST_KEY)
        if reason:
            raise InvalidQueryError(reason)
    elif not -(2**63) <= key < 2**63:
        return NONE
    return shard.keys.find(key if isinstance(key, str) else int(key))


def _index(shard: Shard) -> QuantileIndex:
    return cast("QuantileIndex", shard.indexes[Quantile.kind])


def _feed(shard: Shard, attribute: str | None, *, keyed: bool, last: int | None) -> Feed:
    """Return the feed of such rows."""
    stream, feeds = shard.stream, _index(shard).feeds
    if attribute is not None and attribute not in stream.attributes:
        raise InvalidQueryError(unknown_attribute(attribute, stream))
    found = [
        feed
        for name, feed in feeds.items()
        if name.keyed == keyed
        and name.window == (last or 0)
        and attribute in (None, stream.attributes[name.attribute])
    ]
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
