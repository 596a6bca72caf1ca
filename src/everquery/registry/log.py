"""The registry: an append-only log of query changes in a SQL database.

The position in a stream's log is the version of its query set: one for each query that a change
names, without gaps. A writer says at which position it stands, and its change is taken only if no
other writer came before it: the row of the stream in ``everquery_streams`` is the lock that orders
them. Readers read what is committed, from any position, while writers write.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from everquery.core.spans import SpanLike
from everquery.errors import RegistryDamagedError, UnknownStreamError
from everquery.queries.changes import Change
from everquery.registry import claims, quotas, readers, reading, streams, tables
from everquery.registry.appending import Appender
from everquery.registry.compaction import compact
from everquery.registry.connections import Connections
from everquery.registry.damage import Damage
from everquery.registry.orphans import orphans
from everquery.registry.presence import expect_registry, is_in_memory
from everquery.registry.quarantined import QuarantineList
from everquery.registry.reading import Base, Entry
from everquery.registry.repair import find_damage, repair
from everquery.registry.upgrade import upgrade
from everquery.stream import Stream


class Registry:
    """Streams and the logs of their queries, in a database.

    Parameters
    ----------
    url : str
        A SQLAlchemy URL: ``sqlite:///queries.db``, ``postgresql+psycopg://user@host/database``.
    damaged : bool
        Open it however it is, to be checked and repaired.
    create : bool
        Make it if it is not there; else that is an error. One in memory is always made.
    """

    def __init__(self, url: str, *, damaged: bool = False, create: bool = True) -> None:
        self._connections = Connections(url)
        self._shown = self._connections.shown
        address = self._connections.address
        create = create or is_in_memory(address)
        if not create:
            expect_registry(address)
        if not damaged:
            with self._connections.writing(failed="") as connection:
                upgrade(connection)
                tables.open_tables(connection, self._shown, create=create)
        self._connections.watch()
        self._appender = Appender(self._connections)

    def __repr__(self) -> str:
        return f"Registry({self._shown!r})"

    @property
    def shown(self) -> str:
        """The URL without secrets."""
        return self._shown

    def close(self) -> None:
        """Give up all connections."""
        self._appender.close()
        self._connections.close()

    # -- streams ------------------------------------------------------------------------------

    def streams(self) -> dict[str, Stream]:
        """Return all streams by name."""
        with self._connections.reading() as connection:
            return streams.read_streams(connection)

    def stream(self, name: str | None = None) -> Stream:
        """Return a stream; the only one if no name is given."""
        known = self.streams()
        if name is None and len(known) == 1:
            return next(iter(known.values()))
        if name not in known:
            self._check_left(name)
            if not known:
                raise UnknownStreamError(f"{self._shown} has no stream yet; create one")
            asked = "several streams; name one" if name is None else f"no stream {name!r}"
            names = ", ".join(map(repr, known))
            raise UnknownStreamError(f"{self._shown} has {asked} (it has {names})")
        return known[name]

    def create_stream(self, stream: Stream) -> None:
        """Add a stream; one that is there already must be the same."""
        with self._connections.writing() as connection:
            streams.create_stream(connection, stream, self._shown)

    def alter_stream(
        self, name: str, *, attributes: Sequence[str] = (), **spans: SpanLike | None
    ) -> Stream:
        """Give a stream other spans and further attributes; return it as it is then.

        An engine that is open goes on with the stream as it was, and says so. A snapshot or a
        checkpoint fits a stream with other spans, but not one with further attributes, and says
        so when it is restored.

        Parameters
        ----------
        attributes : sequence of str
            New ones.
        spans : ``grace``, ``expire_after``, ``max_ahead``
            None for none.

        Raises
        ------
        InvalidStreamError
            If a span or an attribute can't be; nothing has changed then.
        """
        with self._connections.writing() as connection:
            return streams.alter_stream(connection, name, attributes, spans)

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
        with self._connections.writing() as connection:
            streams.drop_stream(connection, name, head)

    def _check_left(self, name: str | None) -> None:
        """Raise if there is a log of a stream that is not there itself."""
        with self._connections.reading() as connection:
            left = [each for each in orphans(connection) if name in (None, each)]
        if left:
            raise RegistryDamagedError(
                f"{self._shown} has a log of stream {left[0]!r}, and the stream itself is missing;"
                " create it again as it was, and its queries are there again",
                stream=left[0],
            )

    def shard_secret(self) -> bytes:
        """Return the secret by which keys are divided into shards; the registry's own for ever."""
        with self._connections.writing() as connection:
            return tables.shard_secret(connection)

    # -- quotas -------------------------------------------------------------------------------

    def quotas(self, name: str) -> dict[str | None, int]:
        """Return how many live queries each owner may have on a stream; None is the default."""
        with self._connections.reading() as connection:
            return quotas.read_quotas(connection, name)

    def set_quota(self, name: str, owner: str | None, limit: int | None) -> None:
        """Set or, without a limit, remove an owner's quota."""
        with self._connections.writing() as connection:
            quotas.set_quota(connection, name, owner, limit)

    # -- changes ------------------------------------------------------------------------------

    def head(self, name: str) -> int:
        """Return the position behind the last change of a stream."""
        return self._appender.look(name)[0]

    def look(self, name: str) -> tuple[int, bytes]:
        """Return the position behind the last change of a stream, and its definition's digest."""
        return self._appender.look(name)

    def append(self, stream: Stream, *changes: Change, head: int, together: bool = False) -> int:
        """Write changes in one transaction; return the position behind them.

        Parameters
        ----------
        together : bool
            No reader takes some of them before the others, however few it takes at a time.

        Raises
        ------
        RegistryBehindError
            If other changes have come since position `head`; nothing is written then.
        """
        return self._appender.append(stream, *changes, head=head, together=together)

    def read(self, stream: Stream, start: int) -> Generator[Entry | Base]:
        """Yield the changes from a position on; it must be one at which a change begins.

        If the log from there on is gone, the base that replaced it comes first, and then the
        changes behind it.
        """
        with self._connections.reading() as connection:
            yield from reading.read(connection, stream, start)

    def find_damage(self) -> list[Damage]:
        """Return all that is wrong with any row."""
        with self._connections.reading() as connection:
            return find_damage(connection, self._shown)

    def repair(self) -> list[Damage]:
        """Make the registry whole, in one transaction, and return what was wrong with it."""
        with self._connections.writing() as connection:
            return repair(connection, self._shown)

    def claim(self, reader: str) -> claims.Claim | None:
        """Return a claim on a reader in this process; None if another process has it."""
        with self._connections.explained():
            return claims.claim(self._connections.database, reader)

    def log_reader(self, name: str) -> readers.LogReader:
        """Return what reads a stream's log row by row, for a reader in another process."""
        return readers.LogReader(
            name, reading=self._connections.reading, writing=self._connections.writing
        )

    def quarantine(self, name: str) -> QuarantineList:
        """Return what jobs have told of queries of a stream that they run without."""
        return QuarantineList(
            name, reading=self._connections.reading, writing=self._connections.writing
        )

    def compact(self, stream: Stream, changes: Sequence[Change], *, head: int) -> None:
        """Replace the log up to a position by changes that lead to the same query set.

        What readers in other processes have yet to read stays; see `everquery.registry.readers`.
        """
        with self._connections.writing() as connection:
            compact(connection, stream, changes, head=head)
