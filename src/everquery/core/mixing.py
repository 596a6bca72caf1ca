"""Plain hashes, which anybody can compute: for pairs of our own numbers, and what an owner says.

Names that come from outside have hashes of ``hashing``.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Bytes
from everquery.core.jit import kernel

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(29)
_SHIFT_2 = np.uint64(32)
_BYTE = np.uint64(8)


@kernel
def scramble(word: np.uint64) -> np.uint64:
    """Return a number in which every bit depends on all bits of `word`."""
    word = (word ^ (word >> _SHIFT_2)) * _PRIME
    word = (word ^ (word >> _SHIFT)) * _PRIME_2
    return word ^ (word >> _SHIFT_2)


@kernel
def hash_bytes(data: Bytes, begin: int, end: int, seed: np.uint64) -> np.uint64:
    """Return a 64-bit hash of ``data[begin:end]``; the same on every machine and in every run.

    Anybody can find names with equal hashes: it is for what one owner says of one query.
    """
    mixed = seed ^ (np.uint64(end - begin) * _PRIME)
    while begin < end:
        word = np.uint64(0)
        stop = min(begin + 8, end)
        for i in range(stop - 1, begin - 1, -1):
            word = (word << _BYTE) | np.uint64(data[i])
        mixed = (mixed ^ word) * _PRIME
        mixed ^= mixed >> _SHIFT
        begin = stop
    return scramble(mixed)
