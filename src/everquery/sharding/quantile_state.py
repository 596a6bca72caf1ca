"""What a shard's quantile queries know, as a base and what each batch adds to it.

A summary changes all over with every row, so a batch adds its rows, not the summaries that they
make; what members were told and the values of cells come along. Queries and keys go by their names.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from everquery.core.arrays import Array, Int32s
from everquery.core.names import load_names
from everquery.errors import SnapshotError
from everquery.kinds.quantile.feed import Feed
from everquery.kinds.quantile.index import QuantileIndex, by_feed, label_of
from everquery.kinds.quantile.rank_cells import NONE
from everquery.kinds.quantile.spec import Quantile
from everquery.shard import Shard
from everquery.sharding.journal import Journal
from everquery.state.snapshot import pack, unpack

MOST_ENTRIES = 64
# Entries may be so much larger than their base: who has followed so far reads only the last ones,
# but a new base is written by one worker and read by all others.
MOST_BYTES = 4
LEAST_BYTES = 1 << 20


def commit_quantiles(shard: Shard, journal: Journal, version: int) -> None:
    """Write what a batch changed, or everything where that is less in the long run."""
    index = _index(shard)
    contents = journal.contents
    if not index.feeds and contents.base < 0:
        return
    index.place_all()
    entries = sum(size for _, _, size in contents.entries)
    limit = max(MOST_BYTES * contents.base_bytes, LEAST_BYTES)
    short = entries <= limit and len(contents.entries) < MOST_ENTRIES
    if contents.base >= 0 and short and index.is_followed():
        changes = {feed: feed.changes() for feed in index.feeds.values()}
        if any(_is_news(arrays) for arrays in changes.values()):
            journal.append(version, _packed(shard, changes))
        return
    index.follow()
    journal.rebase(version, _packed(shard, {feed: feed.whole() for feed in index.feeds.values()}))


def follow_quantiles(shard: Shard, journal: Journal, version: int) -> None:
    """Take over all that a journal holds beyond a version; the queries are here already."""
    if version < journal.contents.base:
        _load(shard, journal.base())
    for entry in journal.after(max(version, journal.contents.base)):
        _load(shard, entry)
    if journal.contents.base >= 0:
        _index(shard).has_loaded()
        _index(shard).follow()


def _index(shard: Shard) -> QuantileIndex:
    return cast("QuantileIndex", shard.indexes[Quantile.kind])


def _is_news(changes: dict[str, Array]) -> bool:
    parts = ("ended", "rows.lane", "summary", "cell.code", "member.slot")
    return any(changes[part].size for part in parts)


def _packed(shard: Shard, feeds: dict[Feed, dict[str, Array]]) -> bytes:
    slots = np.unique(
        np.concatenate([np.empty(0, np.int32), *(part["member.slot"] for part in feeds.values())])
    )
    arrays: dict[str, Array] = {}
    shard.catalog.names.save("ids", arrays, slots)
    for feed, saved in feeds.items():
        label = label_of(feed.name)
        saved["member.slot"] = np.searchsorted(slots, saved["member.slot"])
        if feed.name.keyed:
            shard.keys.save_names(f"{label} keys", saved["lanes"], arrays)
        arrays.update({f"{label} {part}": array for part, array in saved.items()})
    return pack({}, arrays)


def _load(shard: Shard, data: bytes) -> None:
    _, arrays = unpack(data)
    slots = _live_slots(shard, arrays)
    for name, saved in by_feed(arrays).items():
        lanes = saved["lanes"]
        if name.keyed:
            lanes = shard.keys.find_names(f"{label_of(name)} keys", lanes.size, arrays)
            if (lanes < 0).any():
                raise SnapshotError("the state has quantiles of keys that it lacks; it is damaged")
        present = {"lanes": lanes, "member.slot": slots[saved["member.slot"]]}
        _index(shard).load(name, {**saved, **present})


def _live_slots(shard: Shard, arrays: dict[str, Array]) -> Int32s:
    """Return the slots of the queries that are named, `NONE` for those that are no more."""
    slots = shard.catalog.names.find(load_names("ids", arrays))
    live = (slots >= 0) & (shard.catalog.flags[slots] != 0)
    live &= np.isin(slots, shard.of_kind(slots[live], Quantile.kind))
    found: Int32s = np.where(live, slots, NONE).astype(np.int32)
    return found
