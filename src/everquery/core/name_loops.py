"""The loops of tables of names: open addressing by keyed hashes, the names in one heap of bytes."""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Bools, Bytes, Int32s, Int64s, Uint64s
from everquery.core.hashing import siphash, whole_word
from everquery.core.jit import kernel

ABSENT = -1
BLOCK = 64  # names whose cache misses overlap


@kernel
def same_bytes(left: Bytes, a: int, right: Bytes, b: int, size: int) -> bool:
    """Tell whether `size` bytes from `a` and from `b` on are equal."""
    whole = size & ~7
    for i in range(0, whole, 8):
        if whole_word(left, a + i) != whole_word(right, b + i):
            return False
    for i in range(whole, size):
        if left[a + i] != right[b + i]:
            return False
    return True


@kernel
def intern_names(
    data: Bytes,
    starts: Int64s,
    valid: Bools,
    first: int,
    adding: bool,
    renewing: bool,
    table: Int32s,
    hashes: Uint64s,
    offsets: Int32s,
    heap: Bytes,
    count: int,
    key: Uint64s,
    out: Int32s,
) -> tuple[int, int]:
    """Find the numbers of names in an open-addressing table, and add those that are not there.

    Parameters
    ----------
    data, starts, valid : the names, one behind the other; where each begins; false for null
    first : the first name to look at
    adding, renewing : whether absent names are added, and present ones added anew
    table : numbers by hash, `ABSENT` in free places; a power of two of places
    hashes, offsets, heap, count : what is known of the names already numbered
    key : the secret of the table, for `siphash`
    out : the numbers; `ABSENT` for null, and for absent names when not adding

    Returns
    -------
    The first name that found no more room (or their number when all did), and the new count.
    """
    mask = np.uint64(table.size - 1)
    for i in range(first, out.size):
        if not valid[i]:
            out[i] = ABSENT
            continue
        begin = starts[i]
        size = starts[i + 1] - begin
        mixed = siphash(data, begin, begin + size, key)
        place = np.int64(mixed & mask)
        number = table[place]
        while number != ABSENT:
            known = offsets[number]
            if (
                hashes[number] == mixed
                and offsets[number + 1] - known == size
                and same_bytes(data, begin, heap, known, size)
            ):
                break
            place = np.int64((np.uint64(place) + np.uint64(1)) & mask)
            number = table[place]
        if number == ABSENT or renewing:
            if not adding:
                out[i] = ABSENT
                continue
            known = offsets[count]
            if count == hashes.size or 2 * count >= table.size or known + size > heap.size:
                return i, count
            for byte in range(size):
                heap[known + byte] = data[begin + byte]
            offsets[count + 1] = known + size
            hashes[count] = mixed
            table[place] = count
            number = count
            count += 1
        out[i] = number
    return out.size, count


@kernel
def hash_names(data: Bytes, starts: Int64s, key: Uint64s, out: Uint64s) -> None:
    """Write the keyed hash of each name."""
    for i in range(out.size):
        out[i] = siphash(data, starts[i], starts[i + 1], key)


@kernel
def fill_names(
    data: Bytes, starts: Int64s, heap: Bytes, key: Uint64s, table: Int32s, hashes: Uint64s
) -> int:
    """Give distinct names numbers, in an empty table; return how many come before a repeated one.

    In blocks, and in stages: all hashes, then all first places, then the names, because the cache
    misses of a block overlap.

    Parameters
    ----------
    data, starts, heap : the names, where each begins, and the table's copy of them
    table : `ABSENT` everywhere; at least twice as many places as there are names
    hashes : room for the names' hashes
    """
    mask = np.uint64(table.size - 1)
    met = np.empty(BLOCK, np.int32)
    for begin in range(0, hashes.size, BLOCK):
        end = min(begin + BLOCK, hashes.size)
        for i in range(begin, end):
            hashes[i] = siphash(data, starts[i], starts[i + 1], key)
        for i in range(begin, end):
            met[i - begin] = table[np.int64(hashes[i] & mask)]
        for i in range(begin, end):
            place = np.int64(hashes[i] & mask)
            number = met[i - begin]
            if number == ABSENT:
                number = table[place]  # one of this block may be there by now
            while number != ABSENT:
                known, size = starts[number], starts[i + 1] - starts[i]
                if (
                    hashes[number] == hashes[i]
                    and starts[number + 1] - known == size
                    and same_bytes(data, starts[i], heap, known, size)
                ):
                    return i
                place = np.int64((np.uint64(place) + np.uint64(1)) & mask)
                number = table[place]
            table[place] = i
    return hashes.size


@kernel
def refill(table: Int32s, hashes: Uint64s, count: int, old: Int32s) -> None:
    """Put the numbers that stand in the old table into a larger, empty one."""
    mask = np.uint64(table.size - 1)
    for i in range(old.size):
        if old[i] != ABSENT:
            place = np.int64(hashes[old[i]] & mask)
            while table[place] != ABSENT:
                place = np.int64((np.uint64(place) + np.uint64(1)) & mask)
            table[place] = old[i]
