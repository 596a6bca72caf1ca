"""The id of one notice, by which a consumer can drop repeats: what `write_columns` writes."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from everquery.core.hashing import DIGEST_WORDS
from everquery.queries.spec import Key

_MASK = 2**64 - 1
_PRIMES = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
_SALT = 0xD6E8FEB86659FD93
_QUERY, _TEXT, _NUMBER = (
    word.ljust(16, b"\0") for word in (b"everquery query", b"everquery key", b"everquery number")
)


def notice_id(
    query_id: str,
    fingerprint: int | np.uint64,
    key: Key | None,
    seq: int,
    outcome: int | np.uint64,
) -> str:
    """Return the id of a notice about an event, as text.

    Parameters
    ----------
    fingerprint : int
        A hash of what the query says: see `Catalog`.
    key : str, int or None
        That of the event; None for a stream without keys.
    outcome : int
        What the outcome adds: see `OutcomeTable.hashes`.
    """
    salt = int(fingerprint).to_bytes(8, "little")
    query = _words(blake2b(query_id.encode(), digest_size=16, salt=salt, person=_QUERY).digest())
    known: tuple[int, ...] = (0, 0)
    if isinstance(key, str):
        known = _words(blake2b(key.encode(), digest_size=16, person=_TEXT).digest())
    elif key is not None:
        data = key.to_bytes(8, "little", signed=True)
        known = _words(blake2b(data, digest_size=16, person=_NUMBER).digest())
    event = _scramble(seq ^ _SALT) ^ int(outcome)
    halves = event, _scramble(event ^ _SALT)
    mixed = (
        _scramble(_scramble(half ^ of_key) ^ of_query)
        for half, of_key, of_query in zip(halves, known, query, strict=True)
    )
    return b"".join(half.to_bytes(8, "little") for half in mixed).hex()


def _words(digest: bytes) -> tuple[int, ...]:
    return tuple(int.from_bytes(digest[8 * i : 8 * i + 8], "little") for i in range(DIGEST_WORDS))


def _scramble(word: int) -> int:
    """Return what `everquery.core.mixing.scramble` does."""
    for shift, prime in zip((32, 29), _PRIMES, strict=True):
        word = (word ^ (word >> shift)) * prime & _MASK
    return word ^ (word >> 32)
