"""Which value of a grouping column brings a shard to a partition of its own.

Spark puts a row into the partition that the hash of its grouping column says. Small integers
collide: shards 0 and 1 would share one of two partitions while the other stands idle.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_SEED = 42


def shard_codes(shards: int, partitions: int) -> list[int]:
    """Return a number for each shard so that their partitions follow each other, from 0 on."""
    codes: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
    wanted = [shard % partitions for shard in range(shards)]
    room = {partition: wanted.count(partition) for partition in codes}
    code = 0
    while any(room.values()):
        partition = partition_of(code, partitions)
        if room[partition]:
            room[partition] -= 1
            codes[partition].append(code)
        code += 1
    return [codes[partition].pop(0) for partition in wanted]


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
