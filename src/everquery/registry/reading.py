"""Changes are read: those of the log, behind the base that replaced what came before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from sqlalchemy import Connection, text

from everquery.queries.changes import Change
from everquery.registry import readers
from everquery.registry.rows import base_rows, expect_end, log_rows, logged_change
from everquery.stream import Stream

_BASE = text(
    "SELECT number, operation, payload, digest FROM everquery_bases"
    " WHERE stream = :name ORDER BY number"
)
_READ = text(
    "SELECT first, count, operation, payload, digest FROM everquery_changes"
    " WHERE stream = :name AND first >= :start ORDER BY first"
)


@dataclass(frozen=True, slots=True)
class Base:
    """What a compaction put in the place of the log up to a position.

    Attributes
    ----------
    position : int
    changes : tuple of changes
        They lead from no query at all to those that were live.
    """

    position: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A change in the log.

    Attributes
    ----------
    position : int
        The version of the query set before it.
    count : int
        How many queries it names; the next change is that much further.
    change : Change
    """

    position: int
    count: int
    change: Change


def read(connection: Connection, stream: Stream, start: int) -> Iterator[Entry | Base]:
    """Yield the changes from a position on, and first the base if they are gone."""
    head, base = readers.head_and_base(connection, stream.name)
    if start < base and not (start and readers.reaches(connection, stream.name, start)):
        yield _read_base(connection, stream, base)
        start = base
    yield from _read_log(connection, stream, start, head)


def _read_log(connection: Connection, stream: Stream, start: int, head: int) -> Iterator[Entry]:
    """Yield the changes from a position to the head, without a gap."""
    end = start
    at = {"name": stream.name, "start": start}
    # Closed even if a row is bad: SQLite would read on from the log as it was then.
    with closing(connection.execute(_READ, at)) as found:
        for row in log_rows(stream.name, found, start):
            yield Entry(row.position, row.count, logged_change(row, stream))
            end = row.position + row.count
    expect_end(stream.name, end, head)


def _read_base(connection: Connection, stream: Stream, base: int) -> Base:
    """Return the compacted changes that lead to the position `base`."""
    with closing(connection.execute(_BASE, {"name": stream.name})) as found:
        rows = base_rows(stream.name, base, found)
        return Base(base, tuple(logged_change(row, stream) for row in rows))
