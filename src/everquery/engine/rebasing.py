"""A follower that has fallen behind a compaction: from the queries it has to those of the base.

The log between is gone, but the base says which queries are live. What stayed keeps its state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.queries.block import QueryBlock
from everquery.queries.changes import Change, Deregister, Pause, RegisterBlocks, Resume
from everquery.shard import Shard


def rebase(shard: Shard, base: Sequence[Change]) -> None:
    """Let a shard have the queries of a compacted base, and keep the state of those that stay.

    A query stays if the base has one with its id that answers the same. If the base has another
    one of the kind, that replaces it. One that ended here by itself, before the log said so, does
    not come back.

    Parameters
    ----------
    base : sequence of changes
        What leads from no query to the base: registrations, then which queries are paused.
    """
    registered = [change.blocks for change in base if isinstance(change, RegisterBlocks)]
    paused = {
        name for change in base if isinstance(change, Pause) for name in change.ids.to_pylist()
    }
    ids = [block.ids for blocks in registered for block in blocks]
    if shard.queries.ended:
        shard.queries.ended.intersection_update(name for part in ids for name in part.to_pylist())
    _apply(shard, Deregister(_without(shard.queries.live_ids(), ids)))
    for blocks in registered:
        shard.queries.replace(_not_ended(shard, blocks), rebasing=True)
    was_paused = set(shard.queries.paused_ids().to_pylist())
    # Of those that are not here, one ended by itself, or was lost when the registry was repaired.
    to_pause = pa.array(sorted(paused - was_paused), pa.string())
    _apply(shard, Pause(to_pause.filter(pa.array(shard.queries.live(to_pause)))))
    _apply(shard, Resume(pa.array(sorted(was_paused - paused), pa.string())))


def _not_ended(shard: Shard, blocks: Sequence[QueryBlock]) -> tuple[QueryBlock, ...]:
    """Return blocks without the queries that ended here by themselves."""
    ended = pa.array(sorted(shard.queries.ended), pa.string())
    if not len(ended):
        return tuple(blocks)
    kept = (block.take(np.flatnonzero(~np.asarray(pc.is_in(block.ids, ended)))) for block in blocks)
    return tuple(block for block in kept if len(block))


def _apply(shard: Shard, change: Deregister | Pause | Resume) -> None:
    if len(change.ids):
        shard.apply(change)


def _without(ids: pa.Array, others: Sequence[pa.Array]) -> pa.Array:
    if not others:
        return ids
    return ids.filter(pc.invert(pc.is_in(ids, pa.chunked_array(others, pa.string()))))
