"""Connections to a registry's database: transactions, and its errors in our own words."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from everquery.errors import RegistryError
from everquery.registry import sqlite
from everquery.registry.addresses import Address

CONNECT_SECONDS = 10
UNWRITTEN = ". Nothing of this change is written"
_UNSURE = (
    ". The change was about to be committed, so it may be written or not: look before you try again"
)


class Connections:
    """Opens transactions that read or write.

    Parameters
    ----------
    url : str

    Attributes
    ----------
    shown : str
        The URL without secrets.
    database : sqlalchemy.Engine
    address : sqlalchemy.URL
    is_file : bool
        Whether it is a SQLite database that other processes may open too.
    """

    def __init__(self, url: str) -> None:
        try:
            self.address = make_url(url)
            self._address = Address(self.address)
            self.shown = self._address.shown
            self.database = create_engine(_with_driver(self.address), **_options(self.address))
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError) as error:
            raise _unopened(url, error) from None
        dialect = self.database.dialect.name
        self._writes = self.database.execution_options(everquery_writes=True)
        self._reads = self.database
        if dialect == "postgresql":  # else each statement sees a newer state
            self._reads = self.database.execution_options(isolation_level="REPEATABLE READ")
        # Connections end with this object, also where nobody closes it.
        weakref.finalize(self, self.database.dispose)
        self._watch: sqlite.FileWatch | None = None
        if dialect == "sqlite":
            sqlite.prepare(self.database)
        # In memory, a database is one connection.
        self.is_file = dialect == "sqlite" and isinstance(self.database.pool, QueuePool)

    def watch(self) -> None:
        """Notice from now on that a database's file has been replaced."""
        if self.database.dialect.name == "sqlite":
            self._watch = sqlite.FileWatch(self.address)

    def close(self) -> None:
        """Give up all connections."""
        self.database.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that sees the database as of one moment."""
        with self.explained(), self._reads.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self, *, failed: str = UNWRITTEN) -> Iterator[Connection]:
        """Yield a connection in a transaction, which is committed at the end."""
        with ExitStack() as stack:
            with self.explained(failed):
                connection = stack.enter_context(self._writes.connect())
                transaction = stack.enter_context(connection.begin())
                yield connection
            with self.explained(UNWRITTEN if self.is_file else _UNSURE):
                transaction.commit()

    @contextmanager
    def explained(self, consequence: str = "") -> Iterator[None]:
        """Turn the database's errors into ours: one line, without password."""
        if self._watch is not None:
            self._watch.check(self.shown)
        try:
            yield
        except (DBAPIError, sqlite.Error) as error:
            reason = getattr(error, "orig", None) or error
            raise self._address.without_secrets(
                f"the registry {self.shown} does not answer as it should:"
                f" {_first_line(reason)}{consequence}"
            ) from self._address.shown_cause(error)
        except SQLAlchemyError as error:
            raise RegistryError(f"the registry {self.shown}: {_first_line(error)}") from error


def _unopened(url: str, error: Exception) -> RegistryError:
    reason = _first_line(error)
    if isinstance(error, ValueError):  # which shows what may be part of a password
        reason = "the port in its URL is no number (a / in a password is written %2F)"
    elif url and url in reason:
        reason = "its URL can't be read"
    return RegistryError(
        f"can't open the registry: {reason};"
        " give a URL such as sqlite:///queries.db or postgresql://user@host/database"
        " (pip install 'everquery[postgres]')"
    )


def _with_driver(address: URL) -> URL:
    if address.drivername == "postgresql":
        return address.set(drivername="postgresql+psycopg")
    return address


def _options(address: URL) -> dict[str, Any]:
    """Return how connections are made: none waits for ever, none is used that a server has lost."""
    if address.get_backend_name() == "sqlite":
        return {}
    options: dict[str, Any] = {"pool_pre_ping": True}
    if address.get_backend_name() == "postgresql" and "connect_timeout" not in address.query:
        options["connect_args"] = {"connect_timeout": CONNECT_SECONDS}
    return options


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
