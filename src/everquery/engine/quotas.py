"""How many live queries owners may have, and who would have more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Bools
from everquery.errors import InvalidQueryError, QuotaError
from everquery.queries.changes import Change, Deregister, Register, RegisterBlocks
from everquery.queries.spec import LONGEST_ID, bad_text

Quotas = Mapping[str | None, int]  # by owner; None is the default for all others
LiveOf = Callable[[str], int]
Counts = Counter[str]

_NO_LIMIT = np.iinfo(np.int64).max


def check_quota(owner: str | None, limit: int | None) -> None:
    """Raise if this can't be an owner's quota."""
    reason = None if owner is None else bad_text(owner, "owner", LONGEST_ID)
    if reason:
        raise InvalidQueryError(reason)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
        raise InvalidQueryError(f"a quota is a number of queries, or None; got {limit!r}")
    if limit is not None and not 0 <= limit <= _NO_LIMIT:
        raise InvalidQueryError(f"a quota is 0 or more; got {limit!r}")


def owners_of(change: Change) -> Counts:
    """Return how many queries a change begins for each owner."""
    owners: Counts = Counter()
    match change:
        case Register():
            for query in change.queries:
                if query.owner is not None:
                    owners[query.owner] += 1
        case RegisterBlocks():
            for block in change.blocks:
                if block.owner is not None:
                    owners.update(_counted(block.owner))
    return owners


def growth(changes: Iterable[Change], owners: Callable[[pa.Array], pa.Array]) -> Counts:
    """Return how many live queries more each owner has after some changes, in their order.

    Parameters
    ----------
    owners : function of ids
        Returns whose live queries these are; null for those without, and for others.
    """
    more: Counts = Counter()
    here: dict[str, str | None] = {}  # owners of single queries that begin or end on the way
    for change in changes:
        ended = _ended_by(change)
        if len(ended):
            known = owners(ended)
            if here:
                names = zip(ended.to_pylist(), known.to_pylist(), strict=True)
                known = pa.array([here.get(name, owner) for name, owner in names], pa.string())
            more.subtract(_counted(known))
            if not isinstance(change, RegisterBlocks):
                here |= dict.fromkeys(ended.to_pylist())
        more.update(owners_of(change))
        if isinstance(change, Register):
            here |= {query.id: query.owner for query in change.queries}
    return more


def _counted(owners: pa.Array) -> dict[str, int]:
    pairs = owners.drop_null().value_counts().to_pylist()
    return {pair["values"]: pair["counts"] for pair in pairs}


def _ended_by(change: Change) -> pa.Array:
    """Return the ids of queries that a change ends, if only for others with their ids."""
    none = pa.array([], pa.string())
    match change:
        case Deregister():
            return change.ids
        case Register(mode="register") | RegisterBlocks(mode="register"):
            return none
        case Register():
            return pa.array([query.id for query in change.queries], pa.string())
        case RegisterBlocks():
            return pa.concat_arrays([none, *(block.ids for block in change.blocks)])
        case _:
            return none


def check_room(wanted: Counts, quotas: Quotas, live_of: LiveOf) -> None:
    """Raise if an owner has no room for the queries that it wants."""
    for owner, more in wanted.items():
        limit = quotas.get(owner, quotas.get(None))
        live = live_of(owner)
        if limit is not None and more > 0 and live + more > limit:
            raise QuotaError(owner, limit, live, more)


def rows_beyond(
    owners: pa.Array | None, good: Bools, quotas: Quotas, live_of: LiveOf
) -> dict[str, Bools]:
    """Return which good rows of a table their owners have no room for, by reason."""
    if owners is None or not quotas:
        return {}
    distinct = owners.dictionary_encode()
    names = distinct.dictionary.to_pylist()
    limits = np.array([quotas.get(name, quotas.get(None, _NO_LIMIT)) for name in names], np.int64)
    room = limits - np.array([live_of(name) for name in names], np.int64)
    codes = np.asarray(distinct.indices.fill_null(-1))
    rows = np.flatnonzero(good & (codes >= 0))
    rows = rows[np.argsort(codes[rows], kind="stable")]
    first = np.searchsorted(codes[rows], np.arange(len(names)))
    beyond = rows[np.arange(rows.size) - first[codes[rows]] >= room[codes[rows]]]
    reasons = {}
    for limit in np.unique(limits[codes[beyond]]).tolist():
        mask = np.zeros(good.size, np.bool_)
        mask[beyond[limits[codes[beyond]] == limit]] = True
        reasons[f"its owner has a quota of {limit:,} live queries, and no room for it"] = mask
    return reasons
