"""Queries as columns: how they travel from a user to a shard, one or a million at a time."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everquery.errors import InvalidQueryError
from everquery.queries.box import Box
from everquery.queries.interval import from_half_open
from everquery.queries.spec import Query
from everquery.stream import Stream

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class QueryBlock:
    """Queries of one kind that restrict the same attributes, and all or none of which have a key.

    Attributes
    ----------
    kind : str
    row : int64, shape (n,)
        The order of registration among all queries that are registered together.
    ids : Arrow array of strings, none null
    keys : Arrow array of strings or int64, none null; None for queries without key
    attributes : tuple of int
        Positions in the stream's attributes, ascending; never empty.
    low, high : float64, shape (attributes, n)
        Half-open; a `high` of NaN has no upper limit.
    options : dict of bool, shape (n,)
    """

    kind: str
    row: npt.NDArray[np.int64]
    ids: pa.Array
    keys: pa.Array | None
    attributes: tuple[int, ...]
    low: Floats
    high: Floats
    options: Mapping[str, Bools]

    def __len__(self) -> int:
        return len(self.ids)


def block_of_query(query: Query, stream: Stream, row: int = 0) -> QueryBlock:
    """Return a query as a block of one, the `row`-th of those that are registered together.

    Raises
    ------
    InvalidQueryError
        If the query does not fit the stream.
    """
    names = tuple(stream.attributes)
    for name in query.box:
        if name not in names:
            raise InvalidQueryError(f"query {query.id!r}: {unknown_attribute(name, stream)}")
    if query.key is not None and stream.key is None:
        raise InvalidQueryError(
            f"query {query.id!r} asks for key {query.key!r}, and stream {stream.name!r} has no key"
        )
    attributes = tuple(i for i, name in enumerate(names) if name in query.box)
    box = query.box if isinstance(query.box, Box) else Box(query.box)
    ends = [box[names[i]].half_open() for i in attributes]
    if not ends:
        attributes, ends = (0,), [(-math.inf, math.nan)]
    return QueryBlock(
        kind=query.kind,
        row=np.array([row]),
        ids=pa.array([query.id], pa.string()),
        keys=None if query.key is None else key_array(query.id, query.key),
        attributes=attributes,
        low=np.array([[low] for low, _ in ends], np.float64),
        high=np.array([[high] for _, high in ends], np.float64),
        options={name: np.array([getattr(query, name)], np.bool_) for name in query.options},
    )


def key_array(query_id: str, key: Any) -> pa.Array:  # noqa: ANN401 - a Key, as the spec checked
    """Return one key as an Arrow array."""
    try:
        return pa.array([key], pa.string() if isinstance(key, str) else pa.int64())
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise InvalidQueryError(f"query {query_id!r}: key {key!r} can't be: {error}") from None


def unknown_attribute(name: str, stream: Stream) -> str:
    """Return the sentence for an attribute that the stream does not have."""
    near = difflib.get_close_matches(name, list(stream.attributes), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"stream {stream.name!r} has no attribute {name!r}{hint}"
        f" (it has {', '.join(map(repr, stream.attributes))})"
    )


def query_of_row(
    spec: type[Query], block: QueryBlock, row: int, stream: Stream, key: str | int | None
) -> Query:
    """Return one row of a block as a user would write it."""
    ranges = {
        stream.attributes[attribute]: from_half_open(
            float(block.low[a, row]), float(block.high[a, row])
        )
        for a, attribute in enumerate(block.attributes)
    }
    options = {name: bool(values[row]) for name, values in block.options.items()}
    return spec(block.ids[row].as_py(), Box(ranges), key=key, **options)
