"""Queries as columns: how they travel from a user to a shard, one or a million at a time."""

from __future__ import annotations

import difflib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everquery.errors import InvalidQueryError
from everquery.queries.labels import Labels
from everquery.queries.numbers import NumberColumn
from everquery.queries.spans import SpanColumn, column_of_spans
from everquery.queries.spec import Query
from everquery.stream import NAMELESS, Stream

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


TEXTS = ("owner", "labels", "part_of", "zone", "plan")
"""What queries may have as texts, many of them the same."""


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
        Positions in the stream's attributes, ascending. Of empty boxes it is `NAMELESS` alone, with
        a range without limits.
    low, high : float64, shape (attributes, n)
        Half-open; a `high` of NaN has no upper limit.
    options : dict of bool, shape (n,)
    owner, labels, part_of, zone, plan : Arrow arrays of strings; None if no query has any
        Labels are JSON objects; `part_of` is the id of a composite; `zone` is a time zone that a
        kind's span is meant in; `plan` is a text in the kind's own words.
    spans : dict of SpanColumn
        Only those that some query has.
    numbers : dict of int64 or float64, shape (n,)
        0 where a query has no such number.
    """

    kind: str
    row: npt.NDArray[np.int64]
    ids: pa.Array
    keys: pa.Array | None
    attributes: tuple[int, ...]
    low: Floats
    high: Floats
    options: Mapping[str, Bools]
    owner: pa.Array | None = None
    labels: pa.Array | None = None
    part_of: pa.Array | None = None
    zone: pa.Array | None = None
    plan: pa.Array | None = None
    spans: Mapping[str, SpanColumn] = field(default_factory=dict)
    numbers: Mapping[str, NumberColumn] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def texts(self) -> dict[str, pa.Array]:
        """Return those texts of queries that some query has."""
        columns = {name: getattr(self, name) for name in TEXTS}
        return {
            name: column
            for name, column in columns.items()
            if column is not None and column.null_count < len(column)
        }

    def in_order(self) -> QueryBlock:
        """Return the rows in order of registration."""
        return self.take(np.argsort(self.row, kind="stable"))

    def take(self, rows: npt.NDArray[np.int64]) -> QueryBlock:
        """Return the given rows, in that order."""
        picked = pa.array(rows)
        return QueryBlock(
            kind=self.kind,
            row=self.row[rows],
            ids=self.ids.take(picked),
            keys=None if self.keys is None else self.keys.take(picked),
            attributes=self.attributes,
            low=np.ascontiguousarray(self.low[:, rows]),
            high=np.ascontiguousarray(self.high[:, rows]),
            options={name: values[rows] for name, values in self.options.items()},
            **{name: texts.take(picked) for name, texts in self.texts().items()},
            spans={name: column.take(rows) for name, column in self.spans.items()},
            numbers={name: column[rows] for name, column in self.numbers.items()},
        )

    def slice(self, begin: int, end: int) -> QueryBlock:
        """Return the rows from `begin` to before `end`."""
        return QueryBlock(
            kind=self.kind,
            row=self.row[begin:end],
            ids=self.ids[begin:end],
            keys=None if self.keys is None else self.keys[begin:end],
            attributes=self.attributes,
            low=np.ascontiguousarray(self.low[:, begin:end]),
            high=np.ascontiguousarray(self.high[:, begin:end]),
            options={name: values[begin:end] for name, values in self.options.items()},
            **{name: texts[begin:end] for name, texts in self.texts().items()},
            spans={name: column.take(slice(begin, end)) for name, column in self.spans.items()},
            numbers={name: column[begin:end] for name, column in self.numbers.items()},
        )


def check_fit(query: Query, stream: Stream) -> None:
    """Raise `InvalidQueryError` if a query does not fit the stream."""
    for name in query.box:
        if name not in stream.attributes:
            raise InvalidQueryError(f"query {query.id!r}: {unknown_attribute(name, stream)}")
    reason = query.misfit(stream)
    if reason:
        raise InvalidQueryError(f"query {query.id!r}: {reason}")
    if stream.time is None:
        for name in query.spans:
            if getattr(query, name) is not None:
                raise InvalidQueryError(
                    f"query {query.id!r}: {name} needs a stream with a time column, and stream"
                    f" {stream.name!r} has none"
                )
    if query.key is None:
        return
    if stream.key is None:
        raise InvalidQueryError(
            f"query {query.id!r} asks for key {query.key!r}, and stream {stream.name!r} has no key"
        )
    if isinstance(query.key, int) and not -(2**63) <= query.key < 2**63:
        raise InvalidQueryError(
            f"query {query.id!r}: key {query.key!r} can't be; keys are strings or 64-bit integers"
        )


def blocks_of_queries(queries: Sequence[Query], stream: Stream) -> tuple[QueryBlock, ...]:
    """Return queries that fit the stream as blocks.

    Raises
    ------
    InvalidQueryError
        If one is a composite: only its parts have rows.
    """
    groups: defaultdict[tuple[str, bool, tuple[str, ...]], list[int]] = defaultdict(list)
    for row, query in enumerate(queries):
        if query.parts()[0] is not query:
            raise InvalidQueryError(f"query {query.id!r} is a composite; register its parts()")
        groups[query.kind, query.key is not None, tuple(query.box)].append(row)
    position = {name: i for i, name in enumerate(stream.attributes)}
    blocks = []
    for (kind, keyed, names), rows in groups.items():
        members = [queries[row] for row in rows]
        keys = None
        if keyed:
            kind_of_key = pa.string() if isinstance(members[0].key, str) else pa.int64()
            keys = pa.array([query.key for query in members], kind_of_key)
        if names:
            order = sorted(names, key=position.__getitem__)
            ends = np.array([[query.box[name].half_open() for query in members] for name in order])
        else:  # an empty box is found by the value without name
            order = []
            ends = np.array([[(-math.inf, math.nan)] * len(members)])
        blocks.append(
            QueryBlock(
                kind=kind,
                row=np.array(rows),
                ids=pa.array([query.id for query in members], pa.string()),
                keys=keys,
                attributes=tuple(position[name] for name in order) or (NAMELESS,),
                low=np.ascontiguousarray(ends[:, :, 0]),
                high=np.ascontiguousarray(ends[:, :, 1]),
                options={
                    name: np.array([getattr(query, name) for query in members], np.bool_)
                    for name in members[0].options
                },
                owner=_texts([query.owner for query in members]),
                labels=_texts([cast("Labels", query.labels).as_json() for query in members]),
                part_of=_texts([query.part_of for query in members]),
                **{
                    name: _texts([getattr(query, name) for query in members])
                    for name in (*members[0].zones, *members[0].texts)
                },
                spans=_spans(members),
                numbers={
                    number.name: number.column_of(
                        [getattr(each, number.source) for each in members], order
                    )
                    for number in members[0].numbers
                },
            )
        )
    return tuple(blocks)


def box_of_one(query: Query, stream: Stream) -> tuple[tuple[int, ...], Floats, Floats]:
    """Return attributes, lower and upper ends of a query that fits the stream, as in a block."""
    if not query.box:
        return (NAMELESS,), np.array([[-math.inf]]), np.array([[math.nan]])
    place_of = stream.attributes.index
    ranges = sorted((place_of(name), *query.box[name].half_open()) for name in query.box)
    low, high = np.empty((len(ranges), 1)), np.empty((len(ranges), 1))
    for i, (_, begin, end) in enumerate(ranges):
        low[i], high[i] = begin, end
    return tuple(place for place, _, _ in ranges), low, high


def _spans(queries: list[Query]) -> dict[str, SpanColumn]:
    columns = {
        name: column_of_spans([getattr(query, name) for query in queries])
        for name in queries[0].spans
    }
    return {name: column for name, column in columns.items() if column is not None}


def _texts(values: list[str | None]) -> pa.Array | None:
    return pa.array(values, pa.string()) if any(values) else None


def unknown_attribute(name: str, stream: Stream) -> str:
    """Return the sentence for an attribute that the stream does not have."""
    near = difflib.get_close_matches(name, list(stream.attributes), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    known = ", ".join(map(repr, stream.attributes)) or "none"
    return f"stream {stream.name!r} has no attribute {name!r}{hint} (it has {known})"
