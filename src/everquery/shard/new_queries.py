"""New queries: what they must be beyond what their specs check, and how they are numbered."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Int32s, Uint64s
from everquery.core.encoded_names import encode
from everquery.errors import DuplicateQueryError, InvalidQueryError
from everquery.queries import Query
from everquery.queries.block import QueryBlock
from everquery.queries.spans import column_of_spans, misfit
from everquery.state.catalog import SEED, Catalog
from everquery.stream import Stream


def check_spans(query: Query, kind: pa.DataType, stream: Stream) -> None:
    """Raise if a query's spans can't be told in times of this type."""
    reason = query.misfit_of_times(kind, stream)
    if reason:
        raise InvalidQueryError(f"query {query.id!r}: {reason}")
    for name in query.spans:
        span = getattr(query, name)
        if span is None:
            continue
        column = column_of_spans([span])
        if column is not None and column.in_units(kind)[1][0]:
            raise InvalidQueryError(f"query {query.id!r}: {misfit(name, span, kind)}")


def already_live(query_id: str) -> DuplicateQueryError:
    """Return the error for an id that is taken."""
    return DuplicateQueryError(
        f"a query with the id {query_id!r} is live already; deregister it first,"
        " choose another id, or replace it"
    )


def slots_for(blocks: tuple[QueryBlock, ...], catalog: Catalog) -> list[Int32s]:
    """Return slots for all rows of all blocks, ascending in the order that they came in."""
    if len(blocks) == 1:
        return [catalog.add(encode(blocks[0].ids))]
    if not blocks:
        return []
    order = np.argsort(np.concatenate([block.row for block in blocks]), kind="stable")
    ids = pa.concat_arrays([block.ids for block in blocks])
    slots = np.empty(order.size, np.int32)
    slots[order] = catalog.add(encode(ids.take(pa.array(order))))
    return np.split(slots, np.cumsum([len(block) for block in blocks])[:-1])


def seeds_of(kind: str, attributes: tuple[int, ...], stream: Stream) -> Uint64s:
    """Return a number for each attribute of queries that stands for its name and the kind."""
    places = stream.places
    return _seeds(kind, tuple(places[a] for a in attributes))


@lru_cache(1_024)  # nobody writes into them
def _seeds(kind: str, names: tuple[str, ...]) -> Uint64s:
    hashes = [blake2b(f"{kind} {name}".encode(), digest_size=8).digest() for name in names]
    return np.array([int.from_bytes(digest) for digest in hashes], np.uint64) ^ SEED


def is_plain(query: Query) -> bool:
    """Tell whether a query has an id, a box and options, perhaps a key, and nothing else."""
    if query.owner is not None or query.labels or query.part_of is not None:
        return False
    if query.numbers or query.zones or query.texts or query.parts()[0] is not query:
        return False
    return all(getattr(query, name) is None for name in query.spans)
