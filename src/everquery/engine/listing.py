"""The live queries of a shard as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Floats
from everquery.kinds import KINDS
from everquery.queries import Query
from everquery.queries.block import QueryBlock
from everquery.queries.fields import ChoiceField, EventsField, FlagField
from everquery.queries.numbers import NO_NUMBER, NumberField
from everquery.queries.spans import SpanColumn
from everquery.queries.sql.literals import print_span
from everquery.shard import Shard
from everquery.stream import Stream

_TEXTS = ("id", "kind", "key", "attribute", "emit", "state", "owner", "labels")


def list_queries(shard: Shard) -> pa.Table:
    """Return all queries in order of registration; `Engine.queries` documents the columns."""
    stream = shard.stream
    further = _further_columns()
    parts = []
    for block, slots in shard.queries.blocks():
        n = len(block)
        paused = shard.queries.paused(slots)
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
            **{name: _further(block, name, kind, stream) for name, kind in further.items()},
        }
        value_range = KINDS[block.kind].spec.range_as_box
        if value_range is not None:
            ends = _ends(block.low[0], block.high[0])
            columns.update(zip(value_range.columns, ends, strict=True))
        for a, name in enumerate(stream.attributes):
            low, high = np.full(n, -np.inf), np.full(n, np.nan)
            if a in block.attributes and value_range is None:
                low = block.low[block.attributes.index(a)]
                high = block.high[block.attributes.index(a)]
            columns[f"{name}_lo"], columns[f"{name}_hi"] = _ends(low, high)
        parts.append(pa.table(columns))
    if not parts:
        names = [f"{name}_{end}" for name in stream.attributes for end in ("lo", "hi")]
        return pa.schema(
            [
                *((name, pa.string()) for name in _TEXTS),
                *further.items(),
                *((name, pa.float64()) for name in names),
            ]
        ).empty_table()
    if shard.key_type == pa.int64():
        parts = [_with_integer_keys(part) for part in parts]
    return pa.concat_tables(parts).sort_by("slot").drop_columns("slot")


def _further_columns() -> dict[str, pa.DataType]:
    """Return the columns of the fields that kinds have: flags, numbers, spans, then words."""
    specs = [kind.spec for kind in KINDS.values()]
    fields = [field for spec in specs for field in (*spec.fields, *spec.numbers)]
    flags = {field.name: pa.bool_() for field in fields if isinstance(field, FlagField)}
    numbers = {
        field.name: field.shown_type
        for field in fields
        if isinstance(field, NumberField) and field.name not in _TEXTS
    }
    ranges = [name for spec in specs if spec.range_as_box for name in spec.range_as_box.columns]
    numbers |= dict.fromkeys(ranges, pa.float64())
    spans = [name for spec in specs for name in spec.spans if name not in Query.spans]
    first, last = Query.spans
    words = [field.name for field in fields if isinstance(field, ChoiceField)]
    zones = [name for spec in specs for name in spec.zones]
    own = [name for spec in specs for name in spec.texts]
    texts = dict.fromkeys([first, *spans, last, *zones, *own, *words], pa.string())
    return flags | numbers | texts


def _further(block: QueryBlock, name: str, kind: pa.DataType, stream: Stream) -> pa.Array:
    """Return a field of the kinds for queries of a block, null where theirs has it not."""
    if name in block.options:
        return pa.array(block.options[name])
    if name in block.numbers:
        return _number(block, name, stream)
    if name in block.spans:
        return _spans(block, name)
    if name in block.texts():
        return block.texts()[name]
    for field in KINDS[block.kind].spec.fields:
        if isinstance(field, ChoiceField) and field.name == name:
            return _choices(block, field)
    return pa.nulls(len(block), kind)


def _number(block: QueryBlock, name: str, stream: Stream) -> pa.Array:
    """Return a number of queries as people know it."""
    (field,) = (each for each in KINDS[block.kind].spec.numbers if each.name == name)
    names = [stream.places[a] for a in block.attributes]
    return field.shown(block.numbers[name], names)


def _choices(block: QueryBlock, field: ChoiceField) -> pa.Array:
    """Return which word each query of a block has."""
    code = np.zeros(len(block), np.int64)
    for place, option in enumerate(field.options, start=1):
        code[block.options[option]] = place
    return pa.array(field.choices, pa.string()).take(pa.array(code))


def _ends(low: Floats, high: Floats) -> tuple[pa.Array, pa.Array]:
    """Return both ends of half-open ranges, null where there is no limit."""
    return pa.array(low, mask=low == -np.inf), pa.array(high, mask=np.isnan(high))


def _attribute(block: QueryBlock, stream: Stream) -> pa.Array:
    """Return the attribute that queries are about, besides a box or in the place of one."""
    if "attribute" in block.numbers:
        return _number(block, "attribute", stream)
    if not KINDS[block.kind].spec.about_attribute:
        return pa.nulls(len(block), pa.string())
    return pa.repeat(stream.places[block.attributes[0]], len(block))


def _emitted(block: QueryBlock) -> pa.Array:
    """Return which events each query of a block tells of."""
    kind = KINDS[block.kind]
    events = list(dict.fromkeys(outcome.event for outcome in kind.index.outcomes))
    code = np.full(len(block), (1 << len(events)) - 1)
    for field in kind.spec.fields:
        if isinstance(field, EventsField):
            for event, option in zip(field.events, field.options, strict=True):
                code &= ~(block.options[option].astype(np.int64) << events.index(event))
    for event, told in kind.spec.told_if(block.options).items():
        code &= ~((~told).astype(np.int64) << events.index(event))
    if kind.spec.value_range is not None:
        ranged = (block.low[0] != -np.inf) | ~np.isnan(block.high[0])
        if kind.spec.boxed:
            ends = [block.numbers[name] for name in kind.spec.value_range.columns]
            ranged = (ends[0] != NO_NUMBER) | (ends[1] != NO_NUMBER)
        for event, untold in kind.spec.untold(ranged, block.numbers).items():
            code &= ~(untold.astype(np.int64) << events.index(event))
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
    column = block.spans[name]
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
