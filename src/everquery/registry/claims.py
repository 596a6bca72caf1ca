"""One run at a time for each reader: a claim that ends with the process that holds it.

A reader in another process is named in its checkpoint, so two runs on one checkpoint are two
processes that follow the log as one reader. The second finds that it is taken. Nothing has to be
cleaned up and no time has to pass after a crash: the operating system, or the database, lets go of
a claim when its process is gone.
"""

from __future__ import annotations

from contextlib import suppress
from errno import ENOSYS
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.engine import Engine as Database
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from filelock import BaseFileLock

_TRY = text("SELECT pg_try_advisory_lock(:number)")
_ALIVE = text("SELECT 1")
# A machine that loses its power does not say goodbye: the server finds out within eleven seconds.
_WATCHFUL = text(
    "SELECT set_config('tcp_keepalives_idle', '5', false),"
    " set_config('tcp_keepalives_interval', '2', false),"
    " set_config('tcp_keepalives_count', '3', false)"
)


class Claim(Protocol):
    """What a process holds of a reader."""

    def holds(self) -> bool:
        """Tell whether it is still held."""

    def release(self) -> None:
        """Let go of it."""


def claim(database: Database, reader: str) -> Claim | None:
    """Return a claim on a reader; None if another process holds it."""
    if database.dialect.name == "postgresql":
        return _ServerClaim.take(database, reader)
    name = database.url.database or ":memory:"
    if database.dialect.name == "sqlite" and not name.startswith((":", "file:")):
        return _FileClaim.take(Path(f"{name}.{reader}.lock"))
    return _NoClaim()


class _NoClaim:
    """Where nothing can be held: no other process sees this registry, or we do not know how."""

    def holds(self) -> bool:
        return True

    def release(self) -> None:
        pass


class _FileClaim:
    """A lock on a file beside the database; the file is only there while it is held."""

    def __init__(self, path: Path, lock: BaseFileLock) -> None:
        self._path, self._lock = path, lock

    @classmethod
    def take(cls, path: Path) -> Claim | None:
        from filelock import FileLock, Timeout  # here: it brings asyncio along

        # A lock that is only a file's existence would outlive a crash: rather none at all.
        lock = FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        except OSError as error:
            if error.errno == ENOSYS:
                return _NoClaim()
            raise
        return cls(path, lock)

    def holds(self) -> bool:
        return True

    def release(self) -> None:
        with suppress(PermissionError):  # Windows: the library removes it
            self._path.unlink(missing_ok=True)
        self._lock.release()


class _ServerClaim:
    """A lock of a PostgreSQL session, on a connection of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    def take(cls, database: Database, reader: str) -> _ServerClaim | None:
        digest = blake2b(reader.encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "little", signed=True)
        connection = database.connect().execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()  # never back to the pool: the lock is the session's
        try:
            connection.execute(_WATCHFUL)
            if connection.execute(_TRY, {"number": number}).scalar():
                return cls(connection)
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def holds(self) -> bool:
        try:
            self._connection.execute(_ALIVE)
        except SQLAlchemyError:
            return False
        return True

    def release(self) -> None:
        self._connection.close()
