"""How many live queries owners may have, and who would have more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Bools
from everquery.errors import InvalidQueryError, QuotaError
from everquery.queries.changes import Change, Register, RegisterBlocks
from everquery.queries.spec import LONGEST_ID, bad_text

Quotas = Mapping[str | None, int]  # by owner; None is the default for all others
LiveOf = Callable[[str], int]

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


def owners_of(change: Change) -> Counter[str]:
    """Return how many queries a change begins for each owner."""
    owners: Counter[str] = Counter()
    match change:
        case Register():
            owners.update(query.owner for query in change.queries if query.owner is not None)
        case RegisterBlocks():
            for block in change.blocks:
                if block.owner is not None:
                    for pair in block.owner.drop_null().value_counts().to_pylist():
                        owners[pair["values"]] += pair["counts"]
    return owners


def check_room(wanted: Mapping[str, int], quotas: Quotas, live_of: LiveOf) -> None:
    """Raise if an owner has no room for the queries that it wants."""
    for owner, more in wanted.items():
        limit = quotas.get(owner, quotas.get(None))
        live = live_of(owner)
        if limit is not None and live + more > limit:
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
