"""The live shards of this process, kept from batch to batch."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everquery.sharding.durable import DurableShard

MOST = 16

LIVE: OrderedDict[tuple[str, int], DurableShard] = OrderedDict()
"""By lineage and number. A shard that is in use is not here: a batch that fails leaves nothing."""


def take(lineage: str, number: int) -> DurableShard | None:
    """Return a live shard, which is the caller's alone from now on; None if there is none."""
    return LIVE.pop((lineage, number), None)


def keep(shard: DurableShard) -> None:
    """Keep a shard for the next batch; the one that was kept longest may have to go."""
    LIVE[shard.lineage, shard.number] = shard
    while len(LIVE) > MOST:
        LIVE.popitem(last=False)


def forget_live() -> None:
    """Drop all live shards of this process; their store has everything."""
    LIVE.clear()
