"""The live queries of a shard as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.index.flags import PAUSED
from everquery.kinds import KINDS
from everquery.queries.block import QueryBlock
from everquery.queries.numbers import NONE
from everquery.queries.spans import SpanColumn
from everquery.queries.sql.literals import print_span
from everquery.shard import Shard
from everquery.state.rules import SPANS
from everquery.stream import Stream

_TEXTS = ("id", "kind", "key", "attribute", "emit", "state", "owner", "labels")

SKIP = "skip_"  # and an event: the option that a query does not tell of it
_SHOWN = [
    name for kind in KINDS.values() for name in kind.spec.options if not name.startswith(SKIP)
]
_NUMBERS = {
    number.name: pa.from_numpy_dtype(number.dtype)
    for kind in KINDS.values()
    for number in kind.spec.numbers
}


def list_queries(shard: Shard) -> pa.Table:
    """Return all queries in order of registration; `Engine.queries` documents the columns."""
    stream = shard.stream
    parts = []
    for block, slots in shard.blocks():
        n = len(block)
        paused = shard.catalog.flags[slots] & PAUSED != 0
        columns: dict[str, Any] = {
            "slot": slots,
            "id": block.ids,
            "kind": pa.repeat(block.kind, n),
            "key": pa.nulls(n, pa.string()) if block.keys is None else block.keys,
            "attribute": _attribute(block, stream),
            "emit": _emitted(block),
            "state": pa.array(["live", "paused"]).take(pa.array(paused.astype(np.int8))),
            "owner": pa.nulls(n, pa.string()) if block.owner is None else block.owner,
            "labels": pa.nulls(n, pa.string()) if block.labels is None else block.labels,
            **{name: pa.nulls(n, pa.bool_()) for name in _SHOWN},
            **{name: pa.nulls(n, kind) for name, kind in _NUMBERS.items()},
            **{name: _spans(block, name) for name in SPANS},
        }
        options = {name: values for name, values in block.options.items() if name in _SHOWN}
        columns.update({name: pa.array(values) for name, values in options.items()})
        columns.update(
            {name: pa.array(values, mask=values == NONE) for name, values in block.numbers.items()}
        )
        for a, name in enumerate(stream.attributes):
            low, high = np.full(n, -np.inf), np.full(n, np.nan)
            if a in block.attributes:
                low = block.low[block.attributes.index(a)]
                high = block.high[block.attributes.index(a)]
            columns[f"{name}_lo"] = pa.array(low, mask=low == -np.inf)
            columns[f"{name}_hi"] = pa.array(high, mask=np.isnan(high))
        parts.append(pa.table(columns))
    if not parts:
        names = [f"{name}_{end}" for name in stream.attributes for end in ("lo", "hi")]
        return pa.schema(
            [
                *((name, pa.string()) for name in _TEXTS),
                *((name, pa.bool_()) for name in _SHOWN),
                *_NUMBERS.items(),
                *((name, pa.string()) for name in SPANS),
                *((name, pa.float64()) for name in names),
            ]
        ).empty_table()
    if shard.keys.type == pa.int64():
        parts = [_with_integer_keys(part) for part in parts]
    return pa.concat_tables(parts).sort_by("slot").drop_columns("slot")


def _attribute(block: QueryBlock, stream: Stream) -> pa.Array:
    """Return the attribute that queries name in place of a box."""
    if KINDS[block.kind].spec.boxed:
        return pa.nulls(len(block), pa.string())
    return pa.repeat(stream.attributes[block.attributes[0]], len(block))


def _emitted(block: QueryBlock) -> pa.Array:
    """Return which events each query of a block tells of."""
    events = list(dict.fromkeys(outcome.event for outcome in KINDS[block.kind].index.outcomes))
    code = np.zeros(len(block), np.int64)
    for i, event in enumerate(events):
        told = ~block.options.get(SKIP + event, np.zeros(len(block), np.bool_))
        code |= told.astype(np.int64) << i
    words = [
        ",".join(event for i, event in enumerate(events) if each >> i & 1)
        for each in range(1 << len(events))
    ]
    return pa.array(words, pa.string()).take(pa.array(code))


def _with_integer_keys(part: pa.Table) -> pa.Table:
    place = part.schema.get_field_index("key")
    return part.set_column(place, "key", part.column("key").cast(pa.int64()))


def _spans(block: QueryBlock, name: str) -> pa.Array:
    """Return a span of queries as SQL writes it; each distinct one is written once."""
    column = block.spans.get(name)
    if column is None:
        return pa.nulls(len(block), pa.string())
    pairs, places = np.unique(
        np.stack([column.amount, column.unit.astype(np.int64)]), axis=1, return_inverse=True
    )
    distinct = SpanColumn(pairs[0], pairs[1].astype(np.uint8))
    spans = (distinct.span(row) for row in range(distinct.amount.size))
    texts = [None if span is None else print_span(span) for span in spans]
    return pa.array(texts, pa.string()).take(pa.array(places.ravel()))


def filtered(
    table: pa.Table,
    *,
    like: str | None = None,
    owner: str | None = None,
    labels: Mapping[str, str] | None = None,
    kind: str | None = None,
) -> pa.Table:
    """Return the queries of a listing that all of these hold for."""
    if like is not None:
        table = table.filter(pc.match_like(table["id"], like))
    for name, wanted in (("owner", owner), ("kind", kind)):
        if wanted is not None:
            table = table.filter(pc.equal(table[name], wanted))
    return table.filter(_has_labels(table["labels"], labels)) if labels else table


def _has_labels(column: pa.ChunkedArray, wanted: Mapping[str, str]) -> pa.Array:
    """Tell which labels (JSON) include the wanted ones; each distinct text is read once."""
    distinct = column.combine_chunks().dictionary_encode()
    if isinstance(distinct, pa.ChunkedArray):
        distinct = distinct.combine_chunks()
    fits = [wanted.items() <= json.loads(text).items() for text in distinct.dictionary.to_pylist()]
    return pa.array(fits, pa.bool_()).take(distinct.indices).fill_null(False)
