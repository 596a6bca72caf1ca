"""All parts of a shard: its own, and those of its kinds of query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from everquery.core.arrays import Int32s
from everquery.core.invariants import refuse
from everquery.core.parts import Part, Saved
from everquery.shard.parts.keys import KeysPart
from everquery.shard.parts.letters import LettersPart
from everquery.shard.parts.predecessors import PredecessorsPart
from everquery.shard.parts.queries import QueriesPart
from everquery.shard.parts.rules import RulesPart, WaitingPart
from everquery.shard.parts.untold import UntoldPart
from everquery.shard.shard import Shard


def parts_of(shard: Shard) -> list[Part]:
    """Return the parts of a shard, each behind those that it refers to."""
    parts = own_parts(shard)
    for kind, index in shard.contents.indexes.items():
        parts += index.parts(partial(live_of_kind, shard, kind), partial(len, shard.contents.keys))
    assert len({part.name for part in parts}) == len(parts)
    return parts


def own_parts(shard: Shard) -> list[Part]:
    """Return the parts that no kind of query brings."""
    return [
        KeysPart(shard),
        QueriesPart(shard),
        RulesPart(shard),
        WaitingPart(shard),
        LettersPart(shard),
        PredecessorsPart(shard),
        UntoldPart(shard),
    ]


def live_of_kind(shard: Shard, kind: str) -> Int32s:
    """Return the live queries of a kind, in order of registration."""
    shard.queries.settle()
    catalog = shard.contents.catalog
    n, number = len(catalog), shard.contents.number_of(kind)
    live = (catalog.kind[:n] == number) & (catalog.flags[:n] != 0)
    return np.flatnonzero(live).astype(np.int32)


def load_parts(parts: Sequence[Part], saved: Mapping[str, Saved]) -> None:
    """Let parts of a new shard take over what was saved of all of them.

    Raises
    ------
    DamagedError, NewerError
        If it can't be; the shard is of no use any more.
    """
    for part in parts:
        found = saved.get(part.name)
        if found is None:
            if not part.may_be_missing():
                refuse(f"it has no part {part.name!r}")
            continue
        if not found.whole:
            refuse(f"it has only changes of part {part.name!r}")
        part.load(found)
