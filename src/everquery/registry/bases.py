"""The base of a log: what compaction puts in the place of its beginning."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, insert

from everquery.registry import tables
from everquery.registry.codec import EncodedRow
from everquery.registry.digests import digest_at, hashed
from everquery.registry.rows import with_end


def write_base(connection: Connection, stream: str, base: int, rows: Iterable[EncodedRow]) -> None:
    """Write what the log holds up to a position."""
    for number, row in enumerate(hashed(with_end(rows))):
        values = {
            "stream": stream,
            "number": number,
            "operation": row[0],
            "payload": row[2],
            "digest": digest_at(row, stream, base, number=number),
        }
        connection.execute(insert(tables.bases), values)
