"""A follower that has fallen behind a compaction: from the queries it has to those of the base.

The log between is gone, but the base says which queries are live. What stayed keeps its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Bools, Int32s, Int64s
from everquery.queries.block import TEXTS, QueryBlock
from everquery.queries.changes import Change, Deregister, Pause, RegisterBlocks, Resume
from everquery.queries.spans import NO_SPAN, no_spans
from everquery.shard import Shard


def rebase(shard: Shard, base: Sequence[Change]) -> None:
    """Let a shard have the queries of a compacted base, and keep the state of those that stay.

    A query stays if the base has one with its id that says the same. One that ended here by
    itself, before the log said so, does not come back.

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
    known = _Known(shard)
    stays = [[known.stays(block) for block in blocks] for blocks in registered]
    flags = [here for parts in stays for here in parts]
    kept = [part.filter(pa.array(here)) for part, here in zip(ids, flags, strict=True)]
    _apply(shard, Deregister(_without(shard.queries.live_ids(), kept)))
    for blocks, here in zip(registered, stays, strict=True):
        _register(shard, blocks, here)
    was_paused = set(shard.queries.paused_ids().to_pylist())
    # Of those that are not here, one ended by itself, or was lost when the registry was repaired.
    to_pause = pa.array(sorted(paused - was_paused), pa.string())
    _apply(shard, Pause(to_pause.filter(pa.array(shard.queries.live(to_pause)))))
    _apply(shard, Resume(pa.array(sorted(was_paused - paused), pa.string())))


def _register(shard: Shard, blocks: Sequence[QueryBlock], stays: Sequence[Bools]) -> None:
    """Register what does not stay; together, for the blocks share one order of registration."""
    ended = list(shard.queries.ended)
    fresh = []
    for block, here in zip(blocks, stays, strict=True):
        new = ~here & ~np.isin(block.ids.to_pylist(), ended) if ended else ~here
        if new.any():
            fresh.append(block.take(np.flatnonzero(new)))
    shard.apply(RegisterBlocks(tuple(fresh)))


def _apply(shard: Shard, change: Deregister | Pause | Resume) -> None:
    if len(change.ids):
        shard.apply(change)


def _without(ids: pa.Array, others: Sequence[pa.Array]) -> pa.Array:
    if not others:
        return ids
    return ids.filter(pc.invert(pc.is_in(ids, pa.chunked_array(others, pa.string()))))


class _Known:
    """The live queries of a shard, to be looked up by id."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._blocks = [block for block, _ in shard.queries.blocks()]
        self._block: Int32s = np.full(len(shard.queries), -1, np.int32)  # of each slot
        self._row: Int64s = np.zeros(len(shard.queries), np.int64)
        for number, block in enumerate(self._blocks):
            slots = block.row
            self._block[slots] = number
            self._row[slots] = np.arange(slots.size)

    def stays(self, block: QueryBlock) -> Bools:
        """Tell of each query of a block whether it is here, and says the same."""
        same = np.zeros(len(block), np.bool_)
        here = np.flatnonzero(self._shard.queries.live(block.ids))
        slots = self._shard.queries.slots_of(block.ids.take(pa.array(here)))
        for number in np.unique(self._block[slots]):
            picked = self._block[slots] == number
            rows = here[picked]
            ours = self._blocks[number].take(self._row[slots[picked]])
            same[rows] = say_the_same(ours, block.take(rows))
        return same


def say_the_same(ours: QueryBlock, theirs: QueryBlock) -> Bools:
    """Tell which rows of two blocks of one length are the same query but for the id."""
    n = len(ours)
    same = np.ones(n, np.bool_)
    shapes = [(block.kind, block.attributes, block.keys is None) for block in (ours, theirs)]
    if shapes[0] != shapes[1]:
        return ~same
    for ends in ("low", "high"):
        same &= _equal(getattr(ours, ends), getattr(theirs, ends)).all(axis=0)
    for columns in ("options", "numbers"):
        for name, values in getattr(ours, columns).items():
            same &= _equal(values, getattr(theirs, columns)[name])
    for texts in ("keys", *TEXTS):
        same &= _equal_texts(getattr(ours, texts), getattr(theirs, texts), n)
    for name in ours.spans.keys() | theirs.spans.keys():
        a, b = (block.spans.get(name, no_spans(n)) for block in (ours, theirs))
        same &= (a.unit == b.unit) & ((a.unit == NO_SPAN) | (a.amount == b.amount))
    return same


def _equal(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Bools:
    """Compare numbers; NaN is equal to itself."""
    equal: Bools = (a == b) | ((a != a) & (b != b))
    return equal


def _equal_texts(a: pa.Array | None, b: pa.Array | None, n: int) -> Bools:
    """Compare keys, owners or labels; null, or no column at all, is equal to itself."""
    if a is None and b is None:
        return np.ones(n, np.bool_)
    kind = pa.string() if a is None else a.type
    a, b = (pa.nulls(n, kind) if texts is None else texts for texts in (a, b))
    if a.type != b.type:
        return np.zeros(n, np.bool_)
    both_null = pc.and_(a.is_null(), b.is_null())
    return np.asarray(pc.or_(pc.equal(a, b).fill_null(False), both_null))
