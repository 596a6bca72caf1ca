"""Composites: one id for several quantile queries that were registered together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.errors import UnknownQueryError
from everquery.kinds import KINDS
from everquery.queries import Quantile
from everquery.queries.changes import Change, Deregister, Pause, Resume
from everquery.shard import Shard

_KIND = list(KINDS).index(Quantile.kind)


def reach_parts(shard: Shard, change: Change, act: Callable[[Change], None]) -> Change:
    """Make a change, or check it, with the parts of a composite in place of its id.

    An id that is not live is that of a composite if there are live parts of it: quantile queries
    with that id and a number behind it, ``latency[0.99]``. They are looked for only then.

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
    every = _quantile_ids(shard)
    found: dict[str, None] = {}  # in order, each once
    for name, is_live in zip(ids.to_pylist(), live, strict=True):
        parts = [] if is_live or name is None else _parts_of(name, every)
        found.update(dict.fromkeys(parts or [name]))
    return pa.array(found, pa.string())


def _quantile_ids(shard: Shard) -> pa.Array:
    """Return the ids of all live quantile queries, in order of registration."""
    catalog = shard.catalog
    n = len(catalog)
    wanted = (catalog.kind[:n] == _KIND) & (catalog.flags[:n] != 0)
    return catalog.names.strings().take(pa.array(np.flatnonzero(wanted)))


def _parts_of(name: str, ids: pa.Array) -> list[str]:
    """Return which ids are a name and a number in brackets."""
    likely: list[str] = ids.filter(pc.starts_with(ids, name + "[")).to_pylist()
    return [each for each in likely if _is_number(each[len(name) + 1 :])]


def _is_number(text: str) -> bool:
    """Tell whether a text is a number as Python prints it, and a closing bracket."""
    try:
        return f"{float(text[:-1])!r}]" == text
    except ValueError:
        return False
