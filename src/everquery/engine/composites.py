"""Composites: one id for several queries that were registered together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.errors import UnknownQueryError
from everquery.kinds import KINDS, Kind
from everquery.queries.changes import Change, Deregister, Pause, Resume
from everquery.shard import Shard


def reach_parts(shard: Shard, change: Change, act: Callable[[Change], None]) -> Change:
    """Make a change, or check it, with the parts of a composite in place of its id.

    An id that is not live is that of a composite if there are live parts of it. They are looked
    for only then.

    Parameters
    ----------
    act : a method of the shard
        It raises `UnknownQueryError`, and changes nothing, if an id is not live.

    Returns
    -------
    the change as it was made
    """
    try:
        act(change)
    except UnknownQueryError:
        if not isinstance(change, Deregister | Pause | Resume):
            raise
    else:
        return change
    change = replace(change, ids=with_parts(shard, change.ids))
    act(change)
    return change


def with_parts(shard: Shard, ids: pa.Array) -> pa.Array:
    """Return ids, and for those that are not live the ids of their parts, if there are any."""
    live = shard.live(ids)
    if live.all():
        return ids
    kinds = [KINDS[name] for name in shard.indexes if KINDS[name].spec.composites]
    every = [(kind, _ids_of_kind(shard, kind)) for kind in kinds]
    found: dict[str, None] = {}  # in order, each once
    for name, is_live in zip(ids.to_pylist(), live, strict=True):
        parts: list[str] = []
        if not is_live and name is not None:
            parts = [each for kind, known in every for each in _parts_of(name, kind, known)]
        found.update(dict.fromkeys(parts or [name]))
    return pa.array(found, pa.string())


def _ids_of_kind(shard: Shard, kind: Kind) -> pa.Array:
    """Return the ids of all live queries of a kind, in order of registration."""
    catalog = shard.catalog
    live = np.flatnonzero(catalog.flags[: len(catalog)]).astype(np.int32)
    return catalog.names.strings().take(pa.array(shard.of_kind(live, kind.name)))


def _parts_of(name: str, kind: Kind, ids: pa.Array) -> list[str]:
    """Return which ids are those of parts of a composite with this id."""
    likely: list[str] = ids.filter(pc.starts_with(ids, name)).to_pylist()
    return [each for each in likely if kind.spec.composite_of(each) == name]
