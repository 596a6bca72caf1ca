"""Compaction: the log up to a position is replaced by a base that leads to the same query set."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from everquery.errors import RegistryBehindError
from everquery.queries.changes import Change
from everquery.registry import readers
from everquery.registry.appending import stored_head
from everquery.registry.bases import write_base
from everquery.registry.codec import encode_change
from everquery.stream import Stream

_DROP_BASE = text("DELETE FROM everquery_bases WHERE stream = :name")
_DROP_LOG = text("DELETE FROM everquery_changes WHERE stream = :name AND first < :kept")
_SET_BASE = text("UPDATE everquery_streams SET base = head WHERE name = :name")


def compact(
    connection: Connection, stream: Stream, changes: Sequence[Change], *, head: int
) -> None:
    """Replace the log up to a position, which must be the head, within a transaction."""
    name = {"name": stream.name}
    if stored_head(connection, stream.name) != head:
        raise RegistryBehindError(f"position {head} of {stream.name!r} is not the last")
    kept = readers.keep(connection, stream.name, head)
    connection.execute(_DROP_BASE, name)
    rows = (row for change in changes for row in encode_change(change, stream))
    write_base(connection, stream.name, head, rows)
    connection.execute(_DROP_LOG, {**name, "kept": kept})
    connection.execute(_SET_BASE, name)
