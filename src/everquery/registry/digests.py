"""Digests: a row of the registry that was cut, changed or moved is found out when it is read.

They are no signatures: who can write to the database can write a digest too, and what a row holds
is checked all the same when it is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import _Hash

    from everquery.registry.codec import EncodedRow

SIZE = 16  # bytes
STREAM_ROW = "stream"

HashedRow = tuple[str, int, bytes, "_Hash"]
"""Operation, how many queries it names, payload, and the hash of the payload so far."""


def hashed(rows: Iterable[EncodedRow]) -> Iterator[HashedRow]:
    """Yield rows with their payload hashed, which takes time; where they go is known later."""
    for operation, count, payload in rows:
        yield operation, count, payload, sha256(payload)


def digest_at(row: HashedRow, stream: str, position: int, *, number: int = 0) -> bytes:
    """Return the digest of a row that goes to a place in a stream's log or base.

    Examples
    --------
    >>> row = ("register", 1, b"[]", sha256(b"[]"))
    >>> digest_at(row, "trades", 7) == digest_of("trades", 7, 0, 1, "register", b"[]")
    True
    """
    operation, count, payload, begun = row
    place = f"\0{position} {number} {count} {len(payload)} {operation!r} {stream!r}"
    begun.update(place.encode())
    return begun.digest()[:SIZE]


def digest_of(
    stream: str, position: int, number: int, count: int, operation: str, payload: bytes
) -> bytes:
    """Return the digest of a row of a stream's log (number 0) or compacted base (count 0)."""
    row = operation, count, payload, sha256(payload)
    return digest_at(row, stream, position, number=number)


def digest_of_stream(name: str, definition: str) -> bytes:
    """Return the digest of a stream's definition."""
    return digest_of(name, 0, 0, 0, STREAM_ROW, definition.encode(errors="surrogatepass"))
