"""Logs whose stream is missing: they are taken up again by a stream of the same name."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text

from everquery.registry.digests import digest_of
from everquery.registry.rows import END, as_bytes, is_whole

_NAMED = text(
    "SELECT stream FROM everquery_changes WHERE stream NOT IN (SELECT name FROM everquery_streams)"
    " UNION SELECT stream FROM everquery_bases"
    " WHERE stream NOT IN (SELECT name FROM everquery_streams)"
)
_ROWS = text("SELECT first, count FROM everquery_changes WHERE stream = :stream ORDER BY first")
_END = text(
    "SELECT number, digest FROM everquery_bases WHERE stream = :stream AND operation = :operation"
)


def orphans(connection: Connection) -> list[Any]:
    """Return the names of streams that have a log and are missing; what is there may be no text."""
    return sorted((row.stream for row in connection.execute(_NAMED)), key=str)


def left_log(connection: Connection, stream: Any) -> tuple[int, int] | None:  # noqa: ANN401 - as stored
    """Return the head and the base of the log that a stream left behind; None if there is none.

    The base is the position that the digest of its last row is right with.
    """
    at = {"stream": stream}
    rows = [row for row in connection.execute(_ROWS, at) if is_whole(row.first)]
    ended = connection.execute(_END, {**at, "operation": END}).first()
    if not rows and ended is None:
        return None
    firsts = [row.first for row in rows]
    head = firsts[-1] + rows[-1].count if rows and is_whole(rows[-1].count) else 0
    base = 0
    if ended is not None:
        for position in [*firsts, head]:
            known = digest_of(stream, position, ended.number, 0, END, b"")
            if known == as_bytes(ended.digest):
                base = position
    return max(head, base), base
