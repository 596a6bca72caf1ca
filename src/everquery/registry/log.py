"""The registry: an append-only log of query changes in a SQL database.

The position in a stream's log is the version of its query set: one for each query that a change
names, without gaps. A writer says at which position it stands, and its change is taken only if no
other writer came before it: the row of the stream in ``everquery_streams`` is the lock that orders
them. Readers read what is committed, from any position, while writers write.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    delete,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from everquery.ahead import ahead
from everquery.errors import (
    InvalidStreamError,
    RegistryBehindError,
    RegistryError,
    UnknownStreamError,
)
from everquery.queries import Query
from everquery.queries.changes import Change, RegisterBlocks
from everquery.registry import claims, readers, sqlite
from everquery.registry.codec import EncodedRow, decode_change, encode_change
from everquery.registry.definitions import stream_as_json, stream_of_json
from everquery.stream import Span, Stream

VERSION = 1
CONNECT_SECONDS = 10

_tables = MetaData()
_meta = Table(
    "everquery_meta", _tables, Column("name", String(64), primary_key=True), Column("value", Text)
)
_streams = Table(
    "everquery_streams",
    _tables,
    Column("name", String(255), primary_key=True),
    Column("definition", Text, nullable=False),
    Column("head", BigInteger, nullable=False),
    Column("base", BigInteger, nullable=False),
)
_changes = Table(
    "everquery_changes",
    _tables,
    Column("stream", String(255), primary_key=True),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
    Column("operation", String(32), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
# What the log held up to a stream's `base`, without what is gone: the result of a compaction.
_bases = Table(
    "everquery_bases",
    _tables,
    Column("stream", String(255), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("operation", String(32), nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
# How many live queries owners may have; the empty name stands for all without a quota of their own.
_quotas = Table(
    "everquery_quotas",
    _tables,
    Column("stream", String(255), primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("most", BigInteger, nullable=False),
)

_ADVANCE = "UPDATE everquery_streams SET head = head + ? WHERE name = ? AND head = ?"
_INSERT = "INSERT INTO everquery_changes VALUES (?, ?, ?, ?, ?)"
_SELECT_HEAD = "SELECT head FROM everquery_streams WHERE name = ?"
_HEAD = text(_SELECT_HEAD.replace("?", ":name"))
_QUOTAS = text("SELECT owner, most FROM everquery_quotas WHERE stream = :name")
_READ = text(
    "SELECT first, count, operation, payload FROM everquery_changes"
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
    kinds : mapping from name to spec
        The kinds of query that may be in the log.
    """

    def __init__(self, url: str, kinds: dict[str, type[Query]]) -> None:
        self._kinds = kinds
        try:
            address = make_url(url)
            self._shown = address.render_as_string(hide_password=True)
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
        self._open()
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
            rows = connection.execute(
                select(_streams.c.name, _streams.c.definition).order_by(_streams.c.name)
            )
            return {row.name: stream_of_json(row.definition) for row in rows}

    def stream(self, name: str | None = None) -> Stream:
        """Return a stream; the only one if no name is given."""
        streams = self.streams()
        if name is None and len(streams) == 1:
            return next(iter(streams.values()))
        if name not in streams:
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
            known = connection.execute(
                select(_streams.c.definition).where(_streams.c.name == stream.name)
            ).scalar()
            if known is None:
                start = _first_position(connection, stream.name)
                row = {"name": stream.name, "definition": definition, "head": start, "base": start}
                connection.execute(insert(_streams).values(**row))
            elif stream_of_json(known) != stream:
                raise InvalidStreamError(
                    f"{self._shown} has another stream {stream.name!r}: {stream_of_json(known)};"
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
        unknown = set(spans) - {"grace", "expire_after"}
        if unknown:
            raise InvalidStreamError(
                f"of stream {name!r} only grace and expire_after can be altered, not"
                f" {', '.join(sorted(unknown))}; create another stream"
            )
        with self._writing() as connection:
            chosen = _streams.c.name == name
            definition = connection.execute(
                select(_streams.c.definition).where(chosen).with_for_update()
            ).scalar()
            if definition is None:
                raise _no_stream(name)
            stream = stream_of_json(definition)
            altered = replace(
                stream,
                grace=spans.get("grace", stream.grace),
                expire_after=spans.get("expire_after", stream.expire_after),
            )
            connection.execute(
                update(_streams).where(chosen).values(definition=stream_as_json(altered))
            )
            return altered

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
            chosen = _streams.c.name == name
            last = connection.execute(
                select(_streams.c.head).where(chosen).with_for_update()
            ).scalar()
            if head is not None and _known(last, name) != head:
                raise RegistryBehindError(
                    f"the queries of stream {name!r} have changed meanwhile; it is not dropped."
                    " Look at them and try again"
                )
            _note_dropped(connection, name, _known(last, name))
            connection.execute(delete(_streams).where(chosen))
            for table in (_changes, _bases, _quotas, *readers.tables.sorted_tables):
                connection.execute(delete(table).where(table.c.stream == name))

    # -- quotas -------------------------------------------------------------------------------

    def quotas(self, name: str) -> dict[str | None, int]:
        """Return how many live queries each owner may have on a stream; None is the default."""
        with self._reading() as connection:
            rows = connection.execute(_QUOTAS, {"name": name})
            return {row.owner or None: int(row.most) for row in rows}

    def set_quota(self, name: str, owner: str | None, limit: int | None) -> None:
        """Set or, without a limit, remove an owner's quota."""
        row = {"stream": name, "owner": owner or ""}
        with self._writing() as connection:
            connection.execute(
                text("DELETE FROM everquery_quotas WHERE stream = :stream AND owner = :owner"), row
            )
            if limit is not None:
                connection.execute(insert(_quotas).values(**row, most=limit))

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
            rows: Iterator[EncodedRow] = encode_change(change, stream)
            if isinstance(change, RegisterBlocks):
                # Columns are packed while the database writes those before.
                rows = stack.enter_context(closing(ahead(rows)))
            if self._direct is not None:
                stack.enter_context(self._explained(_UNWRITTEN))
                return self._direct.append(stream.name, head, rows)
            return self._append(stack.enter_context(self._writing()), stream.name, head, rows)

    def _append(
        self, connection: Connection, name: str, at: int, rows: Iterator[EncodedRow]
    ) -> int:
        for operation, count, payload in rows:
            step = connection.exec_driver_sql(self._advance, (count, name, at))
            if step.rowcount != 1:
                raise RegistryBehindError(f"position {at} of {name!r} is taken")
            connection.exec_driver_sql(self._insert, (name, at, count, operation, payload))
            at += count
        return at

    def read(self, stream: Stream, start: int) -> Iterator[Entry | Base]:
        """Yield the changes from a position on; it must be one at which a change begins.

        If the log from there on is gone, the base that replaced it comes first, and then the
        changes behind it.
        """
        with self._reading() as connection:
            base = connection.execute(
                select(_streams.c.base).where(_streams.c.name == stream.name)
            ).scalar()
            base = _known(base, stream.name)
            if start < base and not (start and readers.reaches(connection, stream.name, start)):
                yield self._read_base(connection, stream, base)
                start = base
            rows = connection.execute(_READ, {"name": stream.name, "start": start})
            for first, count, operation, payload in rows:
                change = decode_change(operation, bytes(payload), stream, self._kinds)
                yield Entry(first, count, change)

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
            for number, (operation, _, payload) in enumerate(rows):
                row = {
                    "stream": stream.name,
                    "number": number,
                    "operation": operation,
                    "payload": payload,
                }
                connection.execute(insert(_bases), row)
            connection.execute(
                text("DELETE FROM everquery_changes WHERE stream = :name AND first < :kept"),
                {**name, "kept": kept},
            )
            connection.execute(
                text("UPDATE everquery_streams SET base = head WHERE name = :name"), name
            )

    def _read_base(self, connection: Connection, stream: Stream, base: int) -> Base:
        """Return the compacted changes that lead to the position `base`."""
        rows = connection.execute(
            select(_bases.c.operation, _bases.c.payload)
            .where(_bases.c.stream == stream.name)
            .order_by(_bases.c.number)
        )
        changes = (
            decode_change(operation, bytes(payload), stream, self._kinds)
            for operation, payload in rows
        )
        return Base(base, tuple(changes))

    # -- the database -------------------------------------------------------------------------

    def _open(self) -> None:
        """Make the tables, or check that they are of a version that we know."""
        with self._writing(failed="") as connection:
            _tables.create_all(connection)
            readers.tables.create_all(connection)
            version = connection.execute(
                select(_meta.c.value).where(_meta.c.name == "version")
            ).scalar()
            if version is None:
                if inspect(connection).has_table(_meta.name):
                    connection.execute(insert(_meta).values(name="version", value=str(VERSION)))
            elif int(version) > VERSION:
                raise RegistryError(
                    f"{self._shown} has version {version}, and this everquery knows up to"
                    f" {VERSION}; upgrade everquery"
                )

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
            raise RegistryError(
                f"the registry {self._shown} does not answer as it should:"
                f" {_first_line(reason)}{consequence}"
            ) from error
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


def _known(value: int | None, name: str) -> int:
    if value is None:
        raise _no_stream(name)
    return int(value)


def _no_stream(name: str) -> UnknownStreamError:
    return UnknownStreamError(f"the registry has no stream {name!r}; create it first")


def _dropped(name: str) -> str:
    """Return under which name it is noted where the log of a dropped stream ended."""
    return f"dropped {blake2b(name.encode(), digest_size=16).hexdigest()}"


def _note_dropped(connection: Connection, name: str, head: int) -> None:
    """Note where a stream's log ends that is about to be dropped."""
    connection.execute(delete(_meta).where(_meta.c.name == _dropped(name)))
    connection.execute(insert(_meta).values(name=_dropped(name), value=str(head)))


def _first_position(connection: Connection, name: str) -> int:
    """Return where the log of a new stream begins: behind all that one of its name has had."""
    noted = connection.execute(select(_meta.c.value).where(_meta.c.name == _dropped(name))).scalar()
    return 0 if noted is None else int(noted) + 1


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
