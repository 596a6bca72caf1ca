"""The live queries of a shard as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from everquery.index.arrays import OPTION_FLAGS, PAUSED
from everquery.kinds import KINDS
from everquery.queries.block import QueryBlock
from everquery.shard import Shard

SKIP = "skip_"  # and an event: the option that a query does not tell of it
_SHOWN = [name for name in OPTION_FLAGS if not name.startswith(SKIP)]


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
            "emit": _emitted(block),
            "state": pa.array(["live", "paused"]).take(pa.array(paused.astype(np.int8))),
            "owner": pa.nulls(n, pa.string()) if block.owner is None else block.owner,
            "labels": pa.nulls(n, pa.string()) if block.labels is None else block.labels,
            **{name: pa.nulls(n, pa.bool_()) for name in _SHOWN},
        }
        options = {name: values for name, values in block.options.items() if name in _SHOWN}
        columns.update({name: pa.array(values) for name, values in options.items()})
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
        texts = ("id", "kind", "key", "emit", "state", "owner", "labels")
        text = [(name, pa.string()) for name in texts]
        ranges = [(name, pa.float64()) for name in names]
        return pa.schema([*text, *((name, pa.bool_()) for name in _SHOWN), *ranges]).empty_table()
    if shard.keys.type == pa.int64():
        parts = [_with_integer_keys(part) for part in parts]
    return pa.concat_tables(parts).sort_by("slot").drop_columns("slot")


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
