"""Queries that Spark jobs run without: list them, and give them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.errors import UnknownQueryError
from everquery.queries.changes import Change, Deregister, Pause, RegisterBlocks
from everquery.shard import Shard

if TYPE_CHECKING:
    from everquery.registry import Registry

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("kind", pa.string()),
        ("reason", pa.string()),
        ("position", pa.int64()),
        ("job", pa.string()),
        ("shard", pa.int32()),
    ]
)


def list_quarantined(registry: Registry, stream: str, shard: Shard) -> pa.Table:
    """Return what jobs run without, of the queries that are live."""
    rows = [
        {**query._asdict(), "job": job, "shard": number}
        for (job, number), queries in registry.quarantine(stream).read().items()
        for query in queries
    ]
    table = pa.Table.from_pylist(rows, SCHEMA)
    live = shard.queries.live(table["id"].combine_chunks())
    return table.filter(pa.array(live)).sort_by([("position", "ascending"), ("id", "ascending")])


def given_back(shard: Shard, ids: Sequence[str], quarantined: pa.Table) -> list[Change]:
    """Return the changes that give queries back: they end, and begin anew as they were.

    Raises
    ------
    UnknownQueryError
        If one of them is not quarantined.
    """
    known = set(quarantined["id"].to_pylist())
    for query_id in ids:
        if query_id not in known:
            raise UnknownQueryError(
                f"query {query_id!r} is not quarantined; nothing has changed"
                f" ({len(known):,} queries are)"
            )
    wanted = pa.array(sorted(set(ids)), pa.string())
    blocks = []
    for block, _ in shard.queries.blocks():
        rows = np.flatnonzero(np.asarray(pc.is_in(block.ids, wanted)))
        if rows.size:
            blocks.append(block.take(rows))
    changes: list[Change] = [Deregister(wanted), RegisterBlocks(tuple(blocks))]
    paused = shard.queries.paused_ids()
    paused = paused.filter(pc.is_in(paused, wanted))
    return [*changes, Pause(paused)] if len(paused) else changes
