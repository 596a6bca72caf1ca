"""Queries that take the place of others with their ids: what differs, and what is handed on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Bools, Int32s, Int64s
from everquery.errors import InvalidQueryError
from everquery.index.flags import NEW, PAUSED
from everquery.kinds import KINDS
from everquery.queries.block import QueryBlock
from everquery.queries.sameness import BY_LABEL, answer_the_same, have_same_texts
from everquery.shard.contents import Contents

ABSENT = -1


@dataclass(frozen=True, slots=True)
class Compared:
    """How the queries of a block stand to the live ones with their ids.

    Attributes
    ----------
    slot : int32
        Of the live query, or `ABSENT`.
    same : bool
        Whether that one says the same in all that answers depend on.
    labelled : bool
        Whether it has the same owner and labels.
    moved : bool
        Whether the new one may belong to other shards.
    """

    slot: Int32s
    same: Bools
    labelled: Bools
    moved: Bools

    @property
    def live(self) -> Bools:
        """Whether a query with the id is live."""
        live: Bools = self.slot != ABSENT
        return live

    @property
    def unchanged(self) -> Bools:
        """Whether there is nothing to do."""
        unchanged: Bools = self.same & self.labelled
        return unchanged


def compare(
    block: QueryBlock, slot: Int32s, found: Iterable[tuple[QueryBlock, Int32s]]
) -> Compared:
    """Compare the queries of a block with those that are live.

    Parameters
    ----------
    slot : int32
        Of the live query with the id of each row, or `ABSENT`.
    found : pairs of blocks and their slots
        The live queries of the block's kind that have these slots.
    """
    n = len(block)
    same, labelled, moved = np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    order = np.argsort(slot, kind="stable")
    for ours, slots in found:
        rows = order[np.searchsorted(slot[order], slots)]
        theirs = block.take(rows)
        same[rows] = answer_the_same(ours, theirs)
        labelled[rows] = have_same_texts(ours, theirs, BY_LABEL)
        if (ours.keys is None) != (theirs.keys is None):
            moved[rows] = True
        elif ours.keys is not None:
            moved[rows] = ~have_same_texts(ours, theirs, ["keys"])
        else:
            moved[rows] = KINDS[block.kind].spec.across_keys
    return Compared(slot, same, labelled, moved)


def check_kinds(blocks: Sequence[QueryBlock], contents: Contents) -> None:
    """Raise if a query would take the place of one of another kind."""
    for block in blocks:
        slot = contents.catalog.live_slots(block.ids)
        wrong = (slot != ABSENT) & (contents.catalog.kind[slot] != contents.number_of(block.kind))
        if wrong.any():
            row = int(np.argmax(wrong))
            kind = contents.kind_of(int(slot[row]))
            raise other_kind(block.ids[row].as_py(), kind, block.kind)


def other_kind(query_id: str, live: str, given: str) -> InvalidQueryError:
    """Return the error for a query that would take the place of one of another kind."""
    return InvalidQueryError(
        f"query {query_id!r} is a {live} query, and can't become a {given} query; deregister it"
        " first, or choose another id. Nothing has changed"
    )


def check_once(blocks: Sequence[QueryBlock]) -> None:
    """Raise if an id occurs twice."""
    ids = pa.chunked_array([block.ids for block in blocks], pa.string())
    if len(ids.unique()) < len(ids):
        counts = ids.value_counts()
        names, number = counts.field("values"), np.asarray(counts.field("counts"))
        name = names[int(np.argmax(number > 1))].as_py()
        raise InvalidQueryError(f"the id {name!r} occurs twice; nothing has changed")


def hand_on(contents: Contents, kind: str, old: Int32s, new: Int32s) -> None:
    """Let the index of a kind know what queries have replaced, while the old ones are there.

    What an old query had told is where keys are and, of those whose last crossing still waits to
    count, the opposite. One that was paused had told nothing of it any more.
    """
    index = contents.indexes[kind]
    before = index.predecessors
    if before is None or not old.size:
        return
    flags = contents.catalog.flags[old]
    before.hand_on(*_pick(flags & (PAUSED | NEW) == NEW, old, new))
    old, new = _pick(flags & (PAUSED | NEW) == 0, old, new)
    order = np.argsort(old)
    old, new = old[order], new[order]
    key, slot = contents.hygiene.pairs.crossing(old)
    for rows in index.layers.find(old):
        slots = new[np.searchsorted(old, rows.slot)]
        before.add(rows, slots, key, new[np.searchsorted(old, slot)].astype(np.int64))
        key, slot = key[:0], slot[:0]


def _pick(picked: Bools, old: Int32s, new: Int32s) -> tuple[Int32s, Int32s]:
    return old[picked], new[picked]


def rows_of(blocks: Sequence[QueryBlock], picked: Sequence[Bools]) -> tuple[QueryBlock, ...]:
    """Return the blocks of the picked rows, without empty ones."""
    taken = (
        block if here.all() else block.take(_places(here))
        for block, here in zip(blocks, picked, strict=True)
    )
    return tuple(block for block in taken if len(block))


def _places(here: Bools) -> Int64s:
    return np.flatnonzero(here)
