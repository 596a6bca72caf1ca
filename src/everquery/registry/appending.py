"""Changes are appended: at the head of a stream's log, or not at all."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Any

from sqlalchemy import Connection, text

from everquery.core.ahead import ahead
from everquery.errors import RegistryBehindError
from everquery.queries.changes import Change, RegisterBlocks
from everquery.registry import sqlite, streams
from everquery.registry.codec import TOGETHER, EncodedRow, encode_change
from everquery.registry.connections import UNWRITTEN, Connections
from everquery.registry.digests import HashedRow, digest_at, hashed
from everquery.registry.rows import as_bytes, whole_number
from everquery.stream import Stream

_ADVANCE = "UPDATE everquery_streams SET head = head + ? WHERE name = ? AND head = ?"
_INSERT = "INSERT INTO everquery_changes VALUES (?, ?, ?, ?, ?, ?)"
_SELECT_HEAD = "SELECT head, digest FROM everquery_streams WHERE name = ?"
_HEAD = text(_SELECT_HEAD.replace("?", ":name"))


class Appender:
    """Writes changes, those of a call in one transaction.

    Parameters
    ----------
    connections : Connections

    Attributes
    ----------
    direct : sqlite.DirectLog or None
        The quicker way, where there is one.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        database = connections.database
        mark = "?" if database.dialect.paramstyle == "qmark" else "%s"
        self._advance = _ADVANCE.replace("?", mark)
        self._insert = _INSERT.replace("?", mark)
        self.direct: sqlite.DirectLog | None = None
        if connections.is_file:
            self.direct = sqlite.DirectLog(
                database, head=_SELECT_HEAD, advance=_ADVANCE, insert=_INSERT
            )
            weakref.finalize(self, self.direct.close)

    def close(self) -> None:
        """Give up the connection that is kept."""
        if self.direct is not None:
            self.direct.close()

    def look(self, name: str) -> tuple[int, bytes]:
        """Return the position behind the last change of a stream, and its definition's digest."""
        if self.direct is not None:
            with self._connections.explained():
                return _known(self.direct.look(name), name)
        with self._connections.reading() as connection:
            return _known(connection.execute(_HEAD, {"name": name}).one_or_none(), name)

    def append(self, stream: Stream, *changes: Change, head: int, together: bool = False) -> int:
        """Write changes; return the position behind them."""
        with ExitStack() as stack:
            encoded = (row for change in changes for row in encode_change(change, stream))
            rows: Iterator[HashedRow] = hashed(joined_up(encoded) if together else encoded)
            if any(isinstance(change, RegisterBlocks) for change in changes):
                # Columns are packed while the database writes those before.
                rows = stack.enter_context(closing(ahead(rows)))
            if self.direct is not None:
                stack.enter_context(self._connections.explained(UNWRITTEN))
                return self.direct.append(stream.name, head, rows)
            connection = stack.enter_context(self._connections.writing())
            return self._append(connection, stream.name, head, rows)

    def _append(self, connection: Connection, name: str, at: int, rows: Iterator[HashedRow]) -> int:
        for row in rows:
            operation, count, payload, _ = row
            step = connection.exec_driver_sql(self._advance, (count, name, at))
            if step.rowcount != 1:
                raise RegistryBehindError(f"position {at} of {name!r} is taken")
            values = name, at, count, operation, payload, digest_at(row, name, at)
            connection.exec_driver_sql(self._insert, values)
            at += count
        return at


def joined_up(rows: Iterable[EncodedRow]) -> Iterator[EncodedRow]:
    """Yield rows of which each but the last says that it is taken together with the next."""
    before: EncodedRow | None = None
    for row in rows:
        if before is not None:
            operation, count, payload = before
            yield f"{operation}{TOGETHER}", count, payload
        before = row
    if before is not None:
        yield before


def stored_head(connection: Connection, name: str) -> object:
    """Return what a stream's row has as its head; None if there is no stream."""
    return connection.execute(_HEAD, {"name": name}).scalar()


def _known(found: Any, name: str) -> tuple[int, bytes]:  # noqa: ANN401 - a row of the driver's
    if found is None:
        raise streams.no_stream(name)
    head, digest = found
    return whole_number(head, name, "head"), as_bytes(digest) or b""
