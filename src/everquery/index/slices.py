"""Many small arrays that grow, in a few large ones: each key owns a slice with room to spare.

A slice that gets too small moves to the end of the pool, into twice the room; what it leaves is
wasted until the pool is full and all slices move into a new one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Int64s, resized, total_bytes
from everquery.core.jit import kernel, part

LEAST_ROOM = 4
ENDLESS = 1 << 62  # room without limit


class Slices(NamedTuple):
    """Where the slice of each key is.

    Attributes
    ----------
    start, room : int64, shape (keys,)
    used : int64, shape (1,)
        How many places of the pool were ever given out.
    """

    start: Int64s
    room: Int64s
    used: Int64s

    @classmethod
    def none(cls) -> Slices:
        """Return no slices."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(1, np.int64))

    @classmethod
    def packed(cls, room: Int64s) -> Slices:
        """Return slices of these rooms, one after the other."""
        start = np.cumsum(room) - room
        return cls(start, room.copy(), np.array([room.sum()], np.int64))

    def with_keys(self, keys: int) -> Slices:
        """Return the same with so many keys."""
        return Slices(resized(self.start, keys), resized(self.room, keys), self.used)

    def places(self, held: Int64s) -> Int64s:
        """Return where the first `held` entries of all slices are, slice by slice."""
        packed = np.cumsum(held) - held
        places: Int64s = np.repeat(self.start - packed, held) + np.arange(held.sum())
        return places

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(*self)


@part
def reserve(slices: Slices, key: int, needed: int, most: int, pool_size: int) -> bool:
    """Give a key a new slice with room for `needed`, and up to `most`; its entries stay behind.

    Returns
    -------
    False if the pool is full; nothing has changed then.
    """
    room = min(most, max(2 * needed, LEAST_ROOM))
    if slices.used[0] + room > pool_size:
        return False
    slices.start[key] = slices.used[0]
    slices.room[key] = room
    slices.used[0] += room
    return True


@part
def make_room(
    slices: Slices, key: int, needed: int, most: int, held: int, pool: Array
) -> bool:  # fmt: skip
    """Do as `reserve` where the room does not do, and take along the `held` first entries."""
    if needed <= slices.room[key]:
        return True
    begin = slices.start[key]
    if not reserve(slices, key, needed, most, pool.size):
        return False
    for i in range(held):
        pool[slices.start[key] + i] = pool[begin + i]
    return True


@kernel
def move_slices(old: Int64s, new: Int64s, held: Int64s, source: Array, target: Array) -> None:
    """Copy the first `held` entries of each slice to its new place."""
    for key in range(old.size):
        for i in range(held[key]):
            target[new[key] + i] = source[old[key] + i]


def repacked(
    slices: Slices, held: Int64s, pools: tuple[Array, ...], needed: int
) -> tuple[Slices, tuple[Array, ...]]:
    """Return all slices in a new pool, with as much room again and `needed` more."""
    fresh = Slices.packed(slices.room)
    size = 2 * int(fresh.used[0]) + 2 * needed + LEAST_ROOM
    larger = tuple(np.empty(size, pool.dtype) for pool in pools)
    for source, target in zip(pools, larger, strict=True):
        move_slices(slices.start, fresh.start, held, source, target)
    return fresh, larger
