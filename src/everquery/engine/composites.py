"""Composites: one id for several queries that were registered together.

Each part knows the id of its composite (`part_of`), which the registry and snapshots hold. What the
ids of the parts look like does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from everquery.errors import UnknownQueryError
from everquery.queries.changes import Change, Deregister, Pause, Resume
from everquery.shard import Shard


def reach_parts(shard: Shard, change: Change, act: Callable[[Change], None]) -> Change:
    """Make a change, or check it, with the parts of a composite in place of its id.

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
    live = shard.queries.live(ids)
    if live.all():
        return ids
    found: dict[str, None] = {}  # in order, each once
    for name, is_live in zip(ids.to_pylist(), live, strict=True):
        parts = [] if is_live or name is None else shard.queries.parts_of(name).to_pylist()
        found.update(dict.fromkeys(parts or [name]))
    return pa.array(found, pa.string())
