"""Hashes of names that come from outside: keyed ones for tables and shards, strong ones for ids.

Who sends events chooses their keys. With a hash that anybody can compute, they could choose keys
that share a place in a table, or a shard, or the ids of another key's notices. So tables and shards
use SipHash with a secret key, and notice ids are made of BLAKE2b digests.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from everquery.core.arrays import Array, Bytes, Int32s, Int64s, Uint64s
from everquery.core.jit import kernel, part

KEY_BYTES = 16
DIGEST_WORDS = 2  # 128 bits

_BLOCK = 128  # bytes of a BLAKE2b block
_ROUNDS = 12
_IV = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
)  # fmt: skip
_SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.int64,
)


def random_key() -> Uint64s:
    """Return a secret key for `siphash`, two numbers of 64 bits."""
    return key_of_bytes(secrets.token_bytes(KEY_BYTES))


def key_of_bytes(key: bytes) -> Uint64s:
    """Return a key of 16 bytes as `siphash` takes it."""
    return np.frombuffer(key, "<u8").astype(np.uint64)


@part
def rotated(word: Any, left: Any) -> Any:  # noqa: ANN401 - uint64
    """Return a word with its bits moved left in a circle."""
    return (word << left) | (word >> (np.uint64(64) - left))


@part
def word_at(data: Bytes, begin: int, end: int) -> Any:  # noqa: ANN401 - uint64
    """Return up to eight bytes as a little-endian word."""
    word = np.uint64(0)
    for i in range(end - 1, begin - 1, -1):
        word = (word << np.uint64(8)) | np.uint64(data[i])
    return word


@kernel
def siphash(data: Bytes, begin: int, end: int, key: Uint64s) -> np.uint64:
    """Return SipHash-1-3 of ``data[begin:end]`` under a key of two words."""
    a = key[0] ^ np.uint64(0x736F6D6570736575)
    b = key[1] ^ np.uint64(0x646F72616E646F6D)
    c = key[0] ^ np.uint64(0x6C7967656E657261)
    d = key[1] ^ np.uint64(0x7465646279746573)
    size = end - begin
    blocks = size // 8
    # The words of the name, the last with its length; then three rounds more, with nothing.
    for block in range(blocks + 4):
        word = np.uint64(0)
        if block < blocks:
            word = word_at(data, begin + 8 * block, begin + 8 * block + 8)
        elif block == blocks:
            word = word_at(data, begin + 8 * block, end) | np.uint64(size & 0xFF) << np.uint64(56)
        elif block == blocks + 1:
            c ^= np.uint64(0xFF)
        d ^= word
        a += b
        c += d
        b = rotated(b, np.uint64(13)) ^ a
        d = rotated(d, np.uint64(16)) ^ c
        a = rotated(a, np.uint64(32))
        c += b
        a += d
        b = rotated(b, np.uint64(17)) ^ c
        d = rotated(d, np.uint64(21)) ^ a
        c = rotated(c, np.uint64(32))
        a ^= word
    mixed: np.uint64 = a ^ b ^ c ^ d
    return mixed


@part
def compress(h: Uint64s, m: Uint64s, v: Uint64s, counted: Any, last: bool) -> None:  # noqa: ANN401
    """Take a block of 16 words into the state of BLAKE2b."""
    for i in range(8):
        v[i] = h[i]
        v[i + 8] = _IV[i]
    v[12] ^= counted
    if last:
        v[14] = ~v[14]
    for turn in range(_ROUNDS):
        line = turn % 10
        for i in range(8):
            # Columns first, then diagonals.
            a = i & 3
            shift = i >> 2
            b = 4 + ((a + shift) & 3)
            c = 8 + ((a + 2 * shift) & 3)
            d = 12 + ((a + 3 * shift) & 3)
            v[a] += v[b] + m[_SIGMA[line, 2 * i]]
            v[d] = rotated(v[d] ^ v[a], np.uint64(32))
            v[c] += v[d]
            v[b] = rotated(v[b] ^ v[c], np.uint64(40))
            v[a] += v[b] + m[_SIGMA[line, 2 * i + 1]]
            v[d] = rotated(v[d] ^ v[a], np.uint64(48))
            v[c] += v[d]
            v[b] = rotated(v[b] ^ v[c], np.uint64(1))
    for i in range(8):
        h[i] ^= v[i] ^ v[i + 8]


@kernel
def fill_digests(
    wanted: Int64s, heap: Bytes, offsets: Int32s, salts: Uint64s, person: Uint64s, digests: Uint64s
) -> None:
    """Write the BLAKE2b-128 digests of names that have none yet.

    Cost: a look a name that has one; some hundred nanoseconds a name that has none.

    Parameters
    ----------
    wanted : which names; negative ones stand for none
    heap, offsets : the names, one behind the other
    salts : by name, what its digest depends on besides; empty for nothing
    person : two words that tell what the digests are of
    digests : shape (names, 2); zeros where there is none
    """
    h = np.empty(8, np.uint64)
    m = np.empty(16, np.uint64)
    v = np.empty(16, np.uint64)
    for at in range(wanted.size):
        name = wanted[at]
        if name < 0 or digests[name, 0] != 0 or digests[name, 1] != 0:
            continue
        for i in range(8):
            h[i] = _IV[i]
        h[0] ^= np.uint64(0x01010010)  # 16 bytes of digest, no key, no tree
        if salts.size:
            h[4] ^= salts[name]
        h[6] ^= person[0]
        h[7] ^= person[1]
        begin, end = int(offsets[name]), int(offsets[name + 1])
        done = 0
        while True:
            here = min(end - begin - done, _BLOCK)
            for i in range(16):
                first = begin + done + min(8 * i, here)
                m[i] = word_at(heap, first, min(first + 8, begin + done + here))
            done += here
            last = done == end - begin
            compress(h, m, v, np.uint64(done), last)
            if last:
                break
        digests[name, 0] = h[0]
        digests[name, 1] = h[1]


def person_of(word: str) -> Uint64s:
    """Return a word of at most 16 letters as what tells digests of one purpose from others."""
    return np.frombuffer(word.encode().ljust(16, b"\0"), "<u8").astype(np.uint64)


def no_digests(names: int) -> Array:
    """Return room for the digests of so many names; memory is taken as they are written."""
    return np.zeros((names, DIGEST_WORDS), np.uint64)
