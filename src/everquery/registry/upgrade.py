"""From version 1 of the registry, whose rows had no digests, to version 2, in one transaction."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.ipc
from sqlalchemy import Connection, inspect, text

from everquery.registry.block_codec import pack_tables
from everquery.registry.digests import digest_of, digest_of_stream
from everquery.registry.rows import END
from everquery.registry.tables import VERSION, make_tables, meta, missing_tables, version_of

_DIGESTED = ("everquery_streams", "everquery_changes", "everquery_bases", "everquery_kept_bases")
_LOCK = text("SELECT value FROM everquery_meta WHERE name = 'version' FOR UPDATE")
_VERSION = text("UPDATE everquery_meta SET value = :version WHERE name = 'version'")


def upgrade(connection: Connection) -> None:
    """Upgrade a registry of version 1; one of another version stays as it is.

    Every row gets its digest, and every base its last row; columns are packed anew. A row that
    can't be read stays as it is: whoever reads it is told.
    """
    if not inspect(connection).has_table(meta.name) or version_of(connection) != "1":
        return
    kind = "BLOB"
    if connection.dialect.name == "postgresql":
        kind = "BYTEA"
        if connection.execute(_LOCK).scalar() != "1":
            return  # another process was first
    for table in set(_DIGESTED) - set(missing_tables(connection)):
        connection.execute(
            text(f"ALTER TABLE {table} ADD COLUMN digest {kind} NOT NULL DEFAULT ''")
        )
    make_tables(connection)
    _streams(connection)
    _changes(connection)
    _bases(connection)
    connection.execute(_VERSION, {"version": str(VERSION)})


def _streams(connection: Connection) -> None:
    for name, definition in connection.execute(
        text("SELECT name, definition FROM everquery_streams")
    ).all():
        connection.execute(
            text("UPDATE everquery_streams SET digest = :digest WHERE name = :name"),
            {"name": name, "digest": digest_of_stream(name, definition)},
        )


def _changes(connection: Connection) -> None:
    places = connection.execute(text("SELECT stream, first FROM everquery_changes")).all()
    for stream, first in places:
        place = {"stream": stream, "first": first}
        count, operation, payload = connection.execute(
            text(
                "SELECT count, operation, payload FROM everquery_changes"
                " WHERE stream = :stream AND first = :first"
            ),
            place,
        ).one()
        payload = _repacked(operation, payload)
        digest = digest_of(stream, first, 0, count, operation, payload)
        connection.execute(
            text(
                "UPDATE everquery_changes SET payload = :payload, digest = :digest"
                " WHERE stream = :stream AND first = :first"
            ),
            {**place, "payload": payload, "digest": digest},
        )


def _bases(connection: Connection) -> None:
    """Write the bases anew, those that are kept too."""
    current = connection.execute(
        text("SELECT name, base FROM everquery_streams WHERE base > 0")
    ).all()
    kept = connection.execute(text("SELECT DISTINCT stream, base FROM everquery_kept_bases")).all()
    for stream, base in current:
        _base(connection, stream, base, "everquery_bases", "")
    for stream, base in kept:
        _base(connection, stream, base, "everquery_kept_bases", " AND base = :base")


def _base(connection: Connection, stream: str, base: int, table: str, which: str) -> None:
    at = {"stream": stream, "base": base}
    rows = connection.execute(
        text(
            f"SELECT operation, payload FROM {table} WHERE stream = :stream{which} ORDER BY number"
        ),
        at,
    ).all()
    connection.execute(text(f"DELETE FROM {table} WHERE stream = :stream{which}"), at)
    columns = ":stream, :base, :number" if which else ":stream, :number"
    for number, (operation, old) in enumerate([*rows, (END, b"")]):
        payload = _repacked(operation, old)
        digest = digest_of(stream, base, number, 0, operation, payload)
        connection.execute(
            text(f"INSERT INTO {table} VALUES ({columns}, :operation, :payload, :digest)"),
            {**at, "number": number, "operation": operation, "payload": payload, "digest": digest},
        )


def _repacked(operation: str, payload: bytes) -> bytes:
    """Return a payload of version 1 as one of version 2: only columns were packed otherwise."""
    if operation != "register blocks":
        return bytes(payload)
    try:
        (count,) = struct.unpack_from("<I", payload)
        at = 4 + 8 * count
        tables = []
        for size in struct.unpack_from(f"<{count}Q", payload, 4):
            with pa.ipc.open_stream(payload[at : at + size]) as reader:
                tables.append(reader.read_all().combine_chunks())
            at += size
        return pack_tables(tables)
    except (pa.ArrowException, ValueError, OSError, struct.error):
        return bytes(payload)
