"""What SQLite needs: its pragmas, one connection for single changes, and an eye on the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import URL
from sqlalchemy.engine import Engine as Database

from everquery.errors import RegistryBehindError, RegistryError
from everquery.registry.digests import HashedRow, digest_at

BUSY_SECONDS = 30
Error = sqlite3.Error  # of what is said in the driver's own words
CHECKPOINT_PAGES = 10_000  # 40 MB of log before it is copied into the database's file


def prepare(database: Database) -> None:
    """Let readers read while one writer writes, and writers wait for each other.

    Commits survive a crash of the process at once, and a loss of power with the next checkpoint
    (``synchronous=NORMAL`` in WAL mode).
    """

    @event.listens_for(database, "connect")
    def on_connect(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's
        connection.isolation_level = None  # we say BEGIN ourselves
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1_000}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        cursor.close()

    @event.listens_for(database, "begin")
    def on_begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("everquery_writes")
        # A writer takes the lock at once: one that reads first and then writes may have to fail.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class DirectLog:
    """Appends over one connection that stays open, in the driver's own words.

    SQLAlchemy's pool, transactions and events take twice as long as the database itself, which
    counts where ten thousand queries a second are registered one by one.
    """

    def __init__(self, database: Database, *, head: str, advance: str, insert: str) -> None:
        self._database = database
        self._head, self._advance, self._insert = head, advance, insert
        self._lock = Lock()
        self._connection: Any = None
        self._cursor: Any = None

    def look(self, name: str) -> Any:  # noqa: ANN401 - the driver's row
        """Return what a stream's row has as its head and its digest; None if there is no stream."""
        with self._lock:
            return self._open().execute(self._head, (name,)).fetchone()

    def append(self, name: str, at: int, rows: Iterable[HashedRow]) -> int:
        """Write rows of the log in one transaction; return the position behind them."""
        with self._lock:
            cursor = self._open()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                for row in rows:
                    operation, count, payload, _ = row
                    if cursor.execute(self._advance, (count, name, at)).rowcount != 1:
                        raise RegistryBehindError(f"position {at} of {name!r} is taken")
                    digest = digest_at(row, name, at)
                    cursor.execute(self._insert, (name, at, count, operation, payload, digest))
                    at += count
                cursor.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
            return at

    def close(self) -> None:
        """Give the connection up; the next call takes another."""
        with self._lock:
            if self._connection is not None:
                self._cursor.close()
                self._connection.close()
            self._connection = self._cursor = None

    def _open(self) -> Any:  # noqa: ANN401 - the driver's cursor
        if self._cursor is None:
            self._connection = self._database.raw_connection()
            self._cursor = self._connection.cursor()
        return self._cursor

    def _roll_back(self) -> None:
        # A full disk has rolled it back already.
        if self._connection.driver_connection.in_transaction:
            self._cursor.execute("ROLLBACK")


class FileWatch:
    """Notices that a database's file is gone or another one: SQLite would go on in the old one."""

    def __init__(self, address: URL) -> None:
        name = (address.database or "").removeprefix("file:")
        self._path = Path(name).absolute() if name and not name.startswith(":") else None
        self._identity = self._look()

    def _look(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def check(self, shown: str) -> None:
        """Raise if the file is not the one that was opened."""
        if self._identity is not None and self._look() != self._identity:
            assert self._path is not None
            what = "has been replaced by another" if self._path.exists() else "is gone"
            raise RegistryError(
                f"the registry {shown}: its file {what} since it was opened. Nothing is read or"
                " written; put it back, or open the registry again"
            )
