"""Queries that replace others: which changes of the query set that takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Bools
from everquery.queries import Query
from everquery.queries.block import QueryBlock, blocks_of_queries
from everquery.queries.changes import Change, Deregister, Mode, Register, RegisterBlocks
from everquery.shard import Shard
from everquery.shard.replacing import Compared, other_kind, rows_of

OTHER_KIND = (
    "a live query with this id is of another kind, or a composite; deregister it first, or choose"
    " another id"
)


@dataclass(frozen=True, slots=True)
class Replacement:
    """What it takes to replace queries.

    Attributes
    ----------
    changes : tuple of changes
        None of them depends on the one before.
    added, changed, unchanged, dropped : int
        How many queries are new, say something else (or have another owner or other labels), are
        as they were, and end.
    """

    changes: tuple[Change, ...]
    added: int
    changed: int
    unchanged: int
    dropped: int


def replace_queries(shard: Shard, queries: Sequence[Query]) -> Replacement:
    """Return what it takes to register queries, some of which replace live ones.

    A composite replaces all parts of the one with its id: parts that it has no more are dropped.

    Raises
    ------
    InvalidQueryError
        If a query does not fit, an id occurs twice, or a live query is of another kind.
    """
    parts = tuple(part for each in queries for part in each.parts())
    shard.check(Register(parts, "replace"))
    gone = list(_gone(shard, queries))
    blocks = blocks_of_queries(parts, shard.stream)
    modes = [""] * len(parts)
    for block, each in zip(blocks, shard.queries.compare(blocks), strict=True):
        for mode, rows in _by_mode(each).items():
            for row in block.row[rows].tolist():
                modes[row] = mode
    changes: list[Change] = [Deregister(pa.array(gone, pa.string()))] if gone else []
    for mode in _MODES:
        some = tuple(part for part, has in zip(parts, modes, strict=True) if has == mode)
        if some:
            changes.append(Register(some, mode))
    new, same = modes.count("register"), modes.count("")
    return Replacement(tuple(changes), new, len(parts) - new - same, same, len(gone))


def replace_blocks(
    shard: Shard, blocks: tuple[QueryBlock, ...], unwanted: pa.Array | None
) -> Replacement:
    """Return what it takes to register blocks of queries, some of which replace live ones.

    Parameters
    ----------
    unwanted : ids, optional
        Of queries that end with the same change, if they are live.
    """
    shard.check(RegisterBlocks(blocks, "replace"))
    changes: list[Change] = []
    dropped = 0
    if unwanted is not None:
        unwanted = unwanted.filter(pa.array(shard.queries.live(unwanted)))
        dropped = len(unwanted)
        changes += [Deregister(unwanted)] if dropped else []
    compared = [_by_mode(each) for each in shard.queries.compare(blocks)]
    sizes: dict[Mode, int] = {}
    for mode in _MODES:
        some = rows_of(blocks, [each[mode] for each in compared])
        sizes[mode] = sum(map(len, some))
        if some:
            changes.append(RegisterBlocks(some, mode))
    new, total = sizes.pop("register"), sum(map(len, blocks))
    changed = sum(sizes.values())
    return Replacement(tuple(changes), new, changed, total - new - changed, dropped)


def cannot_replace(shard: Shard, kind: str, ids: pa.Array) -> Bools:
    """Tell which ids are those of live queries that a row of a table of a kind can't replace."""
    contents = shard.contents
    shard.queries.number_waiting()
    slots = contents.catalog.live_slots(ids)
    wrong: Bools = (slots >= 0) & (contents.catalog.kind[slots] != contents.number_of(kind))
    composites = contents.catalog.composites()
    if len(composites):
        wrong |= np.asarray(pc.is_in(ids, composites))
    return wrong


_MODES: tuple[Mode, ...] = ("register", "replace", "move")


def _by_mode(compared: Compared) -> dict[Mode, Bools]:
    """Return which rows of a block begin how; those that change nothing are in none."""
    live, changed = compared.live, compared.live & ~compared.unchanged
    moved = changed & compared.moved & ~compared.same
    return {"register": ~live, "replace": changed & ~moved, "move": moved}


def _gone(shard: Shard, queries: Iterable[Query]) -> Iterable[str]:
    """Yield the ids of live queries that stood for the ids of queries, and are no parts of them."""
    contents = shard.contents
    for query in queries:
        kept = {part.id for part in query.parts()}
        stood = [*shard.queries.parts_of(query.id).to_pylist(), query.id]
        ids = pa.array([each for each in stood if each not in kept], pa.string())
        for name in ids.filter(pa.array(shard.queries.live(ids))).to_pylist():
            kind = contents.kind_of(int(shard.queries.slots_of(pa.array([name]))[0]))
            if kind != query.kind:
                raise other_kind(query.id, kind, query.kind)
            yield name
