"""The registry: an append-only log of query changes in a SQL database.

The position in a stream's log is the version of its query set: one for each query that a change
names, without gaps. A writer says at which position it stands, and its change is taken only if no
other writer came before it: the row of the stream in ``everquery_streams`` is the lock that orders
them. Readers read what is committed, from any position, while writers write.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, create_engine, insert, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from everquery.core.ahead import ahead
from everquery.errors import (
    InvalidStreamError,
    RegistryBehindError,
    RegistryDamagedError,
    RegistryError,
    UnknownStreamError,
)
from everquery.queries.changes import Change, RegisterBlocks
from everquery.registry import claims, readers, sqlite, stream_changes, tables
from everquery.registry.addresses import Address
from everquery.registry.codec import EncodedRow, encode_change
from everquery.registry.damage import Damage
from everquery.registry.definitions import stored_stream, stream_as_json
from everquery.registry.digests import HashedRow, digest_at, digest_of_stream, hashed
from everquery.registry.orphans import left_log, orphans
from everquery.registry.repair import find_damage, repair
from everquery.registry.rows import (
    base_rows,
    change_of,
    expect_end,
    log_rows,
    whole_number,
    with_end,
)
from everquery.registry.upgrade import upgrade
from everquery.stream import Span, Stream

CONNECT_SECONDS = 10

_ADVANCE = "UPDATE everquery_streams SET head = head + ? WHERE name = ? AND head = ?"
_INSERT = "INSERT INTO everquery_changes VALUES (?, ?, ?, ?, ?, ?)"
_SELECT_HEAD = "SELECT head FROM everquery_streams WHERE name = ?"
_HEAD = text(_SELECT_HEAD.replace("?", ":name"))
_QUOTAS = text("SELECT owner, most FROM everquery_quotas WHERE stream = :name")
_STREAMS = text("SELECT name, definition, digest FROM everquery_streams ORDER BY name")
_STREAM = text("SELECT definition, digest FROM everquery_streams WHERE name = :name")
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


class Registry:
    """Streams and the logs of their queries, in a database.

    Parameters
    ----------
    url : str
        A SQLAlchemy URL: ``sqlite:///queries.db``, ``postgresql+psycopg://user@host/database``.
    damaged : bool
        Open it however it is, to be checked and repaired.
    """

    def __init__(self, url: str, *, damaged: bool = False) -> None:
        try:
            address = make_url(url)
            self._address = Address(address)
            self._shown = self._address.shown
            self._database = create_engine(_with_driver(address), **_options(address))
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError) as error:
            reason = _first_line(error)
            if isinstance(error, ValueError):  # which shows what may be part of a password
                reason = "the port in its URL is no number (a / in a password is written %2F)"
            elif url and url in reason:
                reason = "its URL can't be read"
            raise RegistryError(
                f"can't open the registry: {reason};"
                " give a URL such as sqlite:///queries.db or postgresql://user@host/database"
                " (pip install 'everquery[postgres]')"
            ) from None
        self._writes = self._database.execution_options(everquery_writes=True)
        self._reads = self._database
        if self._database.dialect.name == "postgresql":  # else each statement sees a newer state
            self._reads = self._database.execution_options(isolation_level="REPEATABLE READ")
        mark = "?" if self._database.dialect.paramstyle == "qmark" else "%s"
        self._advance = _ADVANCE.replace("?", mark)
        self._insert = _INSERT.replace("?", mark)
        # Connections end with the registry, also where nobody closes it.
        weakref.finalize(self, self._database.dispose)
        self._direct: sqlite.DirectLog | None = None
        self._watch: sqlite.FileWatch | None = None
        if self._database.dialect.name == "sqlite":
            sqlite.prepare(self._database)
        if not damaged:
            with self._writing(failed="") as connection:
                upgrade(connection)
                tables.open_tables(connection, self._shown)
        if self._database.dialect.name == "sqlite":
            self._watch = sqlite.FileWatch(address)
            if isinstance(self._database.pool, QueuePool):  # not in memory: that is one connection
                self._direct = sqlite.DirectLog(
                    self._database, head=_SELECT_HEAD, advance=_ADVANCE, insert=_INSERT
                )
                weakref.finalize(self, self._direct.close)

    def __repr__(self) -> str:
        return f"Registry({self._shown!r})"

    def close(self) -> None:
        """Give up all connections."""
        if self._direct is not None:
            self._direct.close()
        self._database.dispose()

    # -- streams ------------------------------------------------------------------------------

    def streams(self) -> dict[str, Stream]:
        """Return all streams by name."""
        with self._reading() as connection:
            rows = connection.execute(_STREAMS)
            return {name: stored_stream(name, *row) for name, *row in rows}

    def stream(self, name: str | None = None) -> Stream:
        """Return a stream; the only one if no name is given."""
        streams = self.streams()
        if name is None and len(streams) == 1:
            return next(iter(streams.values()))
        if name not in streams:
            self._check_left(name)
            if not streams:
                raise UnknownStreamError(f"{self._shown} has no stream yet; create one")
            asked = "several streams; name one" if name is None else f"no stream {name!r}"
            known = ", ".join(map(repr, streams))
            raise UnknownStreamError(f"{self._shown} has {asked} (it has {known})")
        return streams[name]

    def create_stream(self, stream: Stream) -> None:
        """Add a stream; one that is there already must be the same."""
        definition = stream_as_json(stream)
        with self._writing() as connection:
            row = connection.execute(_STREAM, {"name": stream.name}).one_or_none()
            if row is None:
                first = stream_changes.first_position(connection, stream.name)
                head, base = left_log(connection, stream.name) or (first, first)
                digest = digest_of_stream(stream.name, definition)
                values = (stream.name, definition, head, base, digest)
                connection.execute(insert(tables.streams).values(values))
                if base == first and first:
                    _write_base(connection, stream.name, base, ())
                return
            known = stored_stream(stream.name, *row)
            if known != stream:
                raise InvalidStreamError(
                    f"{self._shown} has another stream {stream.name!r}: {known};"
                    f" here it is {stream}. Choose another name"
                )

    def alter_stream(self, name: str, **spans: Span | None) -> Stream:
        """Give a stream another ``grace`` or ``expire_after``; return it as it is then.

        An engine that is open goes on as it was. A snapshot or a checkpoint of the stream as it
        was does not fit the altered one, and says so when it is restored.

        Raises
        ------
        InvalidStreamError
            If a span can't be; nothing has changed then.
        """
        with self._writing() as connection:
            return stream_changes.alter_stream(connection, name, spans)

    def drop_stream(self, name: str, *, head: int | None = None) -> None:
        """Forget a stream, its queries and quotas, and whoever reads its log.

        If a stream of this name is created again, its log goes on behind this one's, so that what
        has read this one finds out.

        Parameters
        ----------
        head : int, optional
            The position up to which the caller knows the queries that go.

        Raises
        ------
        RegistryBehindError
            If changes have come since position `head`; nothing is dropped then.
        """
        with self._writing() as connection:
            stream_changes.drop_stream(connection, name, head)

    def _check_left(self, name: str | None) -> None:
        """Raise if there is a log of a stream that is not there itself."""
        with self._reading() as connection:
            left = [each for each in orphans(connection) if name in (None, each)]
        if left:
            raise RegistryDamagedError(
                f"{self._shown} has a log of stream {left[0]!r}, and the stream itself is missing;"
                " create it again as it was, and its queries are there again",
                stream=left[0],
            )

    def shard_secret(self) -> bytes:
        """Return the secret by which keys are divided into shards; the registry's own for ever."""
        with self._writing() as connection:
            return tables.shard_secret(connection)

    # -- quotas -------------------------------------------------------------------------------

    def quotas(self, name: str) -> dict[str | None, int]:
        """Return how many live queries each owner may have on a stream; None is the default."""
        with self._reading() as connection:
            rows = connection.execute(_QUOTAS, {"name": name})
            return {
                row.owner or None: whole_number(row.most, name, f"quota of {row.owner!r}")
                for row in rows
            }

    def set_quota(self, name: str, owner: str | None, limit: int | None) -> None:
        """Set or, without a limit, remove an owner's quota."""
        row = {"stream": name, "owner": owner or ""}
        with self._writing() as connection:
            connection.execute(
                text("DELETE FROM everquery_quotas WHERE stream = :stream AND owner = :owner"), row
            )
            if limit is not None:
                connection.execute(insert(tables.quotas).values(**row, most=limit))

    # -- changes ------------------------------------------------------------------------------

    def head(self, name: str) -> int:
        """Return the position behind the last change of a stream."""
        if self._direct is not None:
            with self._explained():
                return _known(self._direct.head(name), name)
        with self._reading() as connection:
            return _known(connection.execute(_HEAD, {"name": name}).scalar(), name)

    def append(self, stream: Stream, change: Change, *, head: int) -> int:
        """Write a change in one transaction; return the position behind it.

        Raises
        ------
        RegistryBehindError
            If other changes have come since position `head`; nothing is written then.
        """
        with ExitStack() as stack:
            rows: Iterator[HashedRow] = hashed(encode_change(change, stream))
            if isinstance(change, RegisterBlocks):
                # Columns are packed while the database writes those before.
                rows = stack.enter_context(closing(ahead(rows)))
            if self._direct is not None:
                stack.enter_context(self._explained(_UNWRITTEN))
                return self._direct.append(stream.name, head, rows)
            return self._append(stack.enter_context(self._writing()), stream.name, head, rows)

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

    def read(self, stream: Stream, start: int) -> Generator[Entry | Base]:
        """Yield the changes from a position on; it must be one at which a change begins.

        If the log from there on is gone, the base that replaced it comes first, and then the
        changes behind it.
        """
        with self._reading() as connection:
            head, base = readers.span_of(connection, stream.name)
            if start < base and not (start and readers.reaches(connection, stream.name, start)):
                yield self._read_base(connection, stream, base)
                start = base
            yield from self._read_log(connection, stream, start, head)

    def find_damage(self) -> list[Damage]:
        """Return all that is wrong with any row."""
        with self._reading() as connection:
            return find_damage(connection, self._shown)

    def repair(self) -> list[Damage]:
        """Make the registry whole, in one transaction, and return what was wrong with it."""
        with self._writing() as connection:
            return repair(connection, self._shown)

    def claim(self, reader: str) -> claims.Claim | None:
        """Return a claim on a reader in this process; None if another process has it."""
        with self._explained():
            return claims.claim(self._database, reader)

    def log_reader(self, name: str) -> readers.LogReader:
        """Return what reads a stream's log row by row, for a reader in another process."""
        return readers.LogReader(name, reading=self._reading, writing=self._writing)

    def compact(self, stream: Stream, changes: Sequence[Change], *, head: int) -> None:
        """Replace the log up to a position by changes that lead to the same query set.

        What readers in other processes have yet to read stays; see `everquery.registry.readers`.
        """
        with self._writing() as connection:
            name = {"name": stream.name}
            if connection.execute(_HEAD, name).scalar() != head:
                raise RegistryBehindError(f"position {head} of {stream.name!r} is not the last")
            kept = readers.keep(connection, stream.name, head)
            connection.execute(text("DELETE FROM everquery_bases WHERE stream = :name"), name)
            rows = (row for change in changes for row in encode_change(change, stream))
            _write_base(connection, stream.name, head, rows)
            connection.execute(
                text("DELETE FROM everquery_changes WHERE stream = :name AND first < :kept"),
                {**name, "kept": kept},
            )
            connection.execute(
                text("UPDATE everquery_streams SET base = head WHERE name = :name"), name
            )

    def _read_log(
        self, connection: Connection, stream: Stream, start: int, head: int
    ) -> Iterator[Entry]:
        """Yield the changes from a position to the head, without a gap."""
        end = start
        at = {"name": stream.name, "start": start}
        # Closed even if a row is bad: SQLite would read on from the log as it was then.
        with closing(connection.execute(_READ, at)) as found:
            for row in log_rows(stream.name, found, start):
                yield Entry(row.position, row.count, change_of(row, stream))
                end = row.position + row.count
        expect_end(stream.name, end, head)

    def _read_base(self, connection: Connection, stream: Stream, base: int) -> Base:
        """Return the compacted changes that lead to the position `base`."""
        with closing(connection.execute(_BASE, {"name": stream.name})) as found:
            rows = base_rows(stream.name, base, found)
            return Base(base, tuple(change_of(row, stream) for row in rows))

    # -- the database -------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that sees the database as of one moment."""
        with self._explained(), self._reads.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def _writing(self, *, failed: str | None = None) -> Iterator[Connection]:
        """Yield a connection in a transaction, which is committed at the end."""
        with ExitStack() as stack:
            with self._explained(_UNWRITTEN if failed is None else failed):
                connection = stack.enter_context(self._writes.connect())
                transaction = stack.enter_context(connection.begin())
                yield connection
            with self._explained(_UNSURE if self._direct is None else _UNWRITTEN):
                transaction.commit()

    @contextmanager
    def _explained(self, consequence: str = "") -> Iterator[None]:
        """Turn the database's errors into ours: one line, without password."""
        if self._watch is not None:
            self._watch.check(self._shown)
        try:
            yield
        except (DBAPIError, sqlite.Error) as error:
            reason = getattr(error, "orig", None) or error
            raise self._address.without_secrets(
                f"the registry {self._shown} does not answer as it should:"
                f" {_first_line(reason)}{consequence}"
            ) from self._address.shown_cause(error)
        except SQLAlchemyError as error:
            raise RegistryError(f"the registry {self._shown}: {_first_line(error)}") from error


_UNWRITTEN = ". Nothing of this change is written"
_UNSURE = (
    ". The change was about to be committed, so it may be written or not: look before you try again"
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


def _write_base(connection: Connection, stream: str, base: int, rows: Iterable[EncodedRow]) -> None:
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


def _known(value: object, name: str) -> int:
    if value is None:
        raise stream_changes.no_stream(name)
    return whole_number(value, name, "head")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
