"""Readers in other processes: what they have read, and what compaction keeps for them.

A reader reads ranges of positions and must be able to read the last one again, row for row, after
a failure. So it says how far it has come, and compaction keeps the log from there on; and a reader
that began with a compacted base keeps that base until it has come further. One that has not been
seen for a week is forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from sqlalchemy import Connection, text

from everquery.errors import RegistryLostError, UnknownStreamError
from everquery.registry.codec import TOGETHER
from everquery.registry.rows import (
    LogRow,
    base_rows,
    expect_end,
    is_whole,
    log_rows,
    whole_number,
)

FORGET_SECONDS = 7 * 24 * 3_600
SEEN_SECONDS = 3_600  # how often a reader without news says that it is there
NO_BASE = -1

_STREAM = text("SELECT head, base FROM everquery_streams WHERE name = :stream")
_BEHIND_HEAD = text(
    "SELECT head, max(first + count) AS last FROM everquery_changes"
    " JOIN everquery_streams ON name = stream"
    " WHERE stream = :stream AND first >= head GROUP BY head"
)
_BEGINS = text("SELECT 1 FROM everquery_changes WHERE stream = :stream AND first = :at")
_LAST_WITHIN = text(
    "SELECT max(first) FROM everquery_changes"
    " WHERE stream = :stream AND first > :start AND first <= :furthest"
)
_NEXT = text(
    "SELECT min(first) FROM everquery_changes WHERE stream = :stream AND first > :start"
)  # fmt: skip
_NTH = text(
    "SELECT first FROM everquery_changes WHERE stream = :stream AND first > :start"
    " ORDER BY first LIMIT 1 OFFSET :entries"
)
# The rows of some changes are taken together; the operation of each but the last says so.
_WHOLE_END = text(
    "SELECT min(first + count) FROM everquery_changes WHERE stream = :stream"
    " AND first >= (SELECT max(first) FROM everquery_changes"
    " WHERE stream = :stream AND first < :end) AND operation NOT LIKE :together"
)
_ROWS = text(
    "SELECT first, count, operation, payload, digest FROM everquery_changes"
    " WHERE stream = :stream AND first >= :start AND first < :end ORDER BY first"
)
# One statement, so that a compaction beside it can't move the base away in between.
_BASE_ROWS = text(
    "SELECT number, operation, payload, everquery_bases.digest FROM everquery_bases"
    " JOIN everquery_streams ON name = stream"
    " WHERE stream = :stream AND base = :base UNION ALL"
    " SELECT number, operation, payload, digest FROM everquery_kept_bases"
    " WHERE stream = :stream AND base = :base ORDER BY number"
)
_INSERT = text("INSERT INTO everquery_readers VALUES (:stream, :reader, :position, :base, :seen)")
_UPDATE = text(
    "UPDATE everquery_readers SET position = :position, base = :base, seen = :seen"
    " WHERE stream = :stream AND reader = :reader"
)
_FORGET = text("DELETE FROM everquery_readers WHERE stream = :stream AND seen < :seen")
_NEEDED = text("SELECT min(position) FROM everquery_readers WHERE stream = :stream")
_BEGAN = text("SELECT 1 FROM everquery_readers WHERE stream = :stream AND base = :base")
_KEEP_BASE = text(
    "INSERT INTO everquery_kept_bases SELECT stream, :base, number, operation, payload,"
    " digest FROM everquery_bases WHERE stream = :stream"
)
_DROP_BASES = text(
    "DELETE FROM everquery_kept_bases WHERE stream = :stream AND base NOT IN"
    " (SELECT base FROM everquery_readers WHERE stream = :stream)"
)


class LogReader:
    """Reads a stream's log by ranges of positions, each of them as often as need be.

    Parameters
    ----------
    stream : str
        Its name.
    reading, writing : functions
        Return a transaction of the registry.
    """

    def __init__(
        self,
        stream: str,
        *,
        reading: Callable[[], AbstractContextManager[Connection]],
        writing: Callable[[], AbstractContextManager[Connection]],
    ) -> None:
        self._stream = stream
        self._reading = reading
        self._writing = writing

    def head(self) -> int:
        """Return the position behind the last change."""
        with self._reading() as connection:
            return self._look(connection)[0]

    def begin(self, reader: str) -> tuple[int, int]:
        """Enter a new reader; return the base that it begins with, and the head."""
        with self._writing() as connection:
            head, base = self._look(connection)
            hidden = connection.execute(_BEHIND_HEAD, {"stream": self._stream}).one_or_none()
            if hidden is not None:
                last = hidden.last if is_whole(hidden.last) else hidden.head + 1
                expect_end(self._stream, last, hidden.head)
            connection.execute(_INSERT, self._entry(reader, base, base))
            return base, head

    def commit(self, reader: str, position: int) -> None:
        """Note that a reader will not ask for anything before a position again."""
        entry = self._entry(reader, position, NO_BASE)
        with self._writing() as connection:
            if connection.execute(_UPDATE, entry).rowcount == 0:  # it had been forgotten
                self._look(connection)  # or the stream has been dropped
                connection.execute(_INSERT, entry)

    def end_within(self, start: int, *, queries: int, entries: int) -> int:
        """Return where to end so that few enough changes are in between, but one at least."""
        with self._reading() as connection:
            head, _ = self._look(connection)
            at = {"stream": self._stream, "start": start}
            end = head
            if end - start > entries:
                nth = connection.execute(_NTH, {**at, "entries": entries - 1}).scalar()
                end = head if nth is None else min(int(nth), head)
            if end - start > queries:
                limit = {**at, "furthest": start + queries}
                within = connection.execute(_LAST_WITHIN, limit).scalar()
                if within is None:  # the next entry alone names more
                    within = connection.execute(_NEXT, at).scalar()
                end = head if within is None else min(int(within), end)
            if end == head:
                return head
            whole = {"stream": self._stream, "end": end, "together": f"%{TOGETHER}"}
            found = connection.execute(_WHOLE_END, whole).scalar()
            return head if found is None else min(int(found), head)

    def rows(self, start: int, end: int, *, base: int | None = None) -> list[LogRow]:
        """Return the log from one position to another.

        Parameters
        ----------
        start, end : int
            Positions at which a change begins.
        base : int, optional
            Of a reader that begins: what was compacted up to there comes first, in place of
            the log before.

        Raises
        ------
        RegistryLostError
            If not all of it is there any more.
        """
        at = {"stream": self._stream}
        name = self._stream
        found: list[LogRow] = []
        with self._reading() as connection:
            head, compacted = self._look(connection)
            if end > head:
                raise RegistryLostError(
                    f"the log of {name!r} ends at position {head}, and a reader has come to {end}:"
                    " the registry is older than the reader, or the checkpoint is of another"
                    " stream or registry. Start the query again with a new checkpoint"
                )
            if base:
                if connection.execute(_BEGAN, {**at, "base": base}).first() is None:
                    raise self._lost(base, end)
                kept = connection.execute(_BASE_ROWS, {**at, "base": base}).all()
                stored = list(base_rows(name, base, kept))
                for number, row in enumerate(stored, -len(stored)):
                    found.append(replace(row, number=number).sealed(name))
                start = base
            rows = connection.execute(_ROWS, {**at, "start": start, "end": end}).all()
        begins = rows[0].first if rows else end
        if start < compacted and begins != start:
            raise self._lost(start, end)
        found += log_rows(name, rows, start)
        expect_end(name, found[-1].position + found[-1].count if rows else start, end)
        return found

    def _lost(self, start: int, end: int) -> RegistryLostError:
        return RegistryLostError(
            f"the log of {self._stream!r} from position {start} to {end} has been compacted"
            f" away: this reader was not seen for {FORGET_SECONDS // 86_400} days. Start the"
            " query again with a new checkpoint"
        )

    def _look(self, connection: Connection) -> tuple[int, int]:
        """Return a stream's head and base."""
        return head_and_base(connection, self._stream)

    def _entry(self, reader: str, position: int, base: int) -> dict[str, object]:
        entry: dict[str, object] = {"stream": self._stream, "reader": reader}
        return {**entry, "position": position, "base": base, "seen": time.time()}


def head_and_base(connection: Connection, stream: str) -> tuple[int, int]:
    """Return the head and the base of a stream's log."""
    found = connection.execute(_STREAM, {"stream": stream}).one_or_none()
    if found is None:
        raise UnknownStreamError(f"the registry has no stream {stream!r}; create it first")
    head = whole_number(found.head, stream, "head")
    base = whole_number(found.base, stream, "base")
    if base > head:
        whole_number(f"{base}, behind its head {head}", stream, "base")
    return head, base


def reaches(connection: Connection, stream: str, position: int) -> bool:
    """Tell whether the log still has the change that begins at a position."""
    return connection.execute(_BEGINS, {"stream": stream, "at": position}).scalar() is not None


def keep(connection: Connection, stream: str, head: int) -> int:
    """Before a compaction, keep the base if a reader began with it; return what else to keep.

    That is a position: readers need the log from there on.
    """
    at = {"stream": stream}
    connection.execute(_FORGET, {**at, "seen": time.time() - FORGET_SECONDS})
    base = {**at, "base": connection.execute(_STREAM, at).one().base}
    if connection.execute(_BEGAN, base).first() is not None:
        connection.execute(_KEEP_BASE, base)
    connection.execute(_DROP_BASES, at)
    needed = connection.execute(_NEEDED, at).scalar()
    return head if needed is None else min(int(needed), head)
