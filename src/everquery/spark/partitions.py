"""Which value of a grouping column brings a shard to a partition of its own.

Spark puts a row into the partition that the hash of its grouping column says. Small integers
collide: shards 0 and 1 would share one of two partitions while the other stands idle. The values
here are such that shard i goes to partition i modulo the number of partitions, for every number
that divides 2520 (all up to 10, and 12, 14, 15, 18, 20, 21, 24, ...). They are part of the layout
of a checkpoint: its state is found by them, whatever the number of partitions is today.
"""

from __future__ import annotations

from functools import cache

from everquery.errors import SparkError

MOST_SHARDS = 256

_CYCLE = 2_520
_MASK = 0xFFFFFFFF
_SEED = 42


def shard_codes(shards: int) -> list[int]:
    """Return the value of the grouping column for each shard."""
    if not 1 <= shards <= MOST_SHARDS:
        raise SparkError(f"shards is {shards}; it takes 1 to {MOST_SHARDS}")
    return _codes(shards)


@cache
def _codes(shards: int) -> list[int]:
    found: dict[int, int] = {}
    code = 0
    while len(found) < shards:
        place = partition_of(code, _CYCLE)
        if place < shards:
            found.setdefault(place, code)
        code += 1
    return [found[shard] for shard in range(shards)]


def partition_of(code: int, partitions: int) -> int:
    """Return the partition that Spark puts a 32-bit integer into (Murmur3, then modulo)."""
    k = (code * 0xCC9E2D51) & _MASK
    k = (((k << 15) | (k >> 17)) * 0x1B873593) & _MASK
    h = _SEED ^ k
    h = ((((h << 13) | (h >> 19)) & _MASK) * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    h ^= h >> 16
    signed = h - (1 << 32) if h >> 31 else h
    return signed % partitions
