"""The embedded runtime: standing queries in one Python process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

import everquery.registry as registries
from everquery.core.crew import Crew
from everquery.engine.arguments import (
    check_label_columns,
    clock_of,
    keys_of,
)
from everquery.engine.batch_like import BatchLike, as_batch
from everquery.engine.notice import Notice, notices_of
from everquery.engine.pushing import light_notices, read_plain
from everquery.engine.reporting import Reporting
from everquery.errors import InvalidBatchError, InvalidStreamError
from everquery.queries.spec import Key
from everquery.shard import Shard
from everquery.shard.snapshots import shard_of, snapshot_of
from everquery.state.said_times import time_in_units
from everquery.stream import Stream

if TYPE_CHECKING:
    from everquery.registry import Registry

UPKEEP = 256  # single events between two looks at what there is to merge or to forget


class Engine(Reporting):
    """Standing queries over one stream, in this process.

    Its methods may be called from several threads. Notices of changes (keys that are inside a new
    query already) come with the next `process`.

    Parameters
    ----------
    stream : Stream, str, or a list of them
        With a registry, the name of a stream in it is enough. An engine of several streams has
        each of them as if alone, and queries that join two; say which: ``process(batch,
        stream="quotes")``.
    registry : str or Registry, optional
        Where queries outlive the process: a URL such as ``sqlite:///queries.db`` or
        ``postgresql://user@host/database``. What other processes register is live here after the
        next `process` or `refresh`.
    create : bool
        Make the registry at the URL if it is not there. Without, that is a `RegistryError`: a typo
        in the URL would else be an engine without queries.
    lazy : bool
        Index queries in front of the first batch, and not as soon as they are registered or read:
        for programs that only change the query set.
    labels : bool
        Whether notices tell the owner and the labels (JSON) of their queries.
    all_columns : bool
        Whether notices have the columns of all kinds from the start, and not only of those that
        have had a query here, as a file of one schema wants it.
    read_only : bool
        Follow the registry, and never write to it: not even that a query ended by its ``ttl``.
    threads : int
        How many threads divide the work of large batches; notices, their order and all answers are
        as with one.
    history : str or path, optional
        A folder in which the past that the stream keeps survives a restart, in Parquet files. An
        engine that is opened on one without a snapshot knows keys and time from there. Without a
        folder the past is in memory alone, and gone with the engine.
    snapshot : bytes, optional
        Begin as the engine that a `snapshot` was taken of. The registry, given by its URL, may
        then be away: the engine goes on as `process` does, and follows it as soon as it is back.

    Examples
    --------
    >>> import everquery as eq, pyarrow as pa
    >>> engine = eq.Engine(eq.Stream("trades", key="symbol", attributes=["price"]))
    >>> engine.register(eq.Border("band", {"price": (40, 50)}, key="IBM"))
    >>> batch = pa.table({"symbol": ["IBM", "IBM", "AAPL"], "price": [45.0, 51.0, 45.0]})
    >>> notices = engine.process(batch)
    >>> notices.select(["query_id", "event", "key", "seq"]).to_pylist()
    [{'query_id': 'band', 'event': 'enter', 'key': 'IBM', 'seq': 0},
     {'query_id': 'band', 'event': 'leave', 'key': 'IBM', 'seq': 1}]
    """

    def __new__(cls, stream: Any = None, *_: Any, **__: Any) -> Engine:  # noqa: ANN401 - as `__init__`
        """Make an engine; of several streams, if it is given a list of them."""
        if cls is Engine and isinstance(stream, (list, tuple)):
            from everquery.engine.several import SeveralStreams

            return object.__new__(SeveralStreams)
        return object.__new__(cls)

    def __init__(
        self,
        stream: Stream | str | Sequence[Stream | str],
        *,
        registry: str | Registry | None = None,
        create: bool = False,
        lazy: bool = False,
        labels: bool = False,
        all_columns: bool = False,
        read_only: bool = False,
        threads: int = 1,
        history: str | os.PathLike[str] | Mapping[str, str] | None = None,
        snapshot: bytes | None = None,
    ) -> None:
        if snapshot is not None and isinstance(stream, Stream) and isinstance(registry, str):
            away = registries.AwayRegistry(registry, stream, registries.Registry)
            registry = cast("Registry", away)
        opened = (
            registries.Registry(registry, create=create) if isinstance(registry, str) else registry
        )
        if not isinstance(stream, (Stream, str)) or isinstance(history, Mapping):
            raise InvalidStreamError(f"{stream!r} is no stream, or history no folder")
        if not isinstance(stream, Stream):
            if opened is None:
                raise InvalidStreamError(
                    f"{stream!r} is no stream; without a registry give a Stream"
                )
            stream = opened.stream(stream)
        elif opened is not None and snapshot is None:
            opened.create_stream(stream)
        if labels:
            check_label_columns(stream)
        if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
            raise InvalidStreamError(f"threads is {threads!r}; it takes a whole number from 1 on")
        self._crew = Crew(threads)
        shard = Shard(
            stream, labelled=labels, all_columns=all_columns, crew=self._crew, answering=True
        )
        super().__init__(shard, opened, lazy=lazy, read_only=read_only)
        self._pushes = 0
        if history is not None and stream.keep is None:
            raise InvalidStreamError(
                f"history is {str(history)!r}, and stream {stream.name!r} keeps nothing; give it"
                ' keep, such as "all"'
            )
        if snapshot is None:
            self._keep_history(history)
            self.refresh()
        else:
            self.restore(snapshot)
            self._keep_history(history)
            with self._lock:
                self._log.follow()

    @property
    def key_type(self) -> pa.DataType | None:
        """Of keys: strings or 64-bit integers; None before a query or an event has told it."""
        with self._lock:
            return self._shard.key_type

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Wait for the merge under way and end its thread; a later one starts another."""
        with self._lock:
            self._merging.close()
            self._crew.close()
            if self._history is not None:
                self._history.close()
            if not self._state.torn:
                self._merging.install(self._state)

    # -- events -------------------------------------------------------------------------------

    def process(
        self,
        batch: BatchLike,
        *,
        now: int | float | date | datetime | None = None,
        stream: str | None = None,
    ) -> pa.Table:
        """Take in a batch of events, and return the notices.

        Parameters
        ----------
        batch : Arrow table, DataFrame, list of dicts or dict of columns
            Anything with Arrow's PyCapsule interface is fine: of pandas, Polars, DuckDB, or a
            reader, which is read to its end. In a list of dicts a field that is absent is null;
            a value of a wrong type makes its row a dead letter, not the batch an error.
        now : number, date or datetime, optional
            What the clock says, as `advance` takes it but rounded down, for a stream with
            ``max_ahead``: events that are further ahead are dead letters, with reason ``ahead``.
            Every call is judged by its own `now`. Without one, such events wait until others
            confirm their time; see docs/clocks.md.
        stream : str, optional
            Whose events they are, of an engine of several streams.

        Raises
        ------
        InvalidBatchError
            If a column is missing or of a wrong type, `now` is no time of the stream's type, or
            the stream has no ``max_ahead``. Nothing has changed then.

        Notes
        -----
        While the registry is away or damaged, events go on with the queries that are here: a
        warning (logger ``everquery.registry``) and ``stats()["registry"]`` say so, and the next
        batch looks again.
        """
        if stream not in (None, self.stream.name):
            raise InvalidBatchError(
                f"this engine is on stream {self.stream.name!r}, not {stream!r}. Nothing has"
                " changed"
            )
        if not isinstance(batch, (pa.Table, pa.RecordBatch)):
            # Before the lock: a reader or a relation may take its time.
            with self._lock:
                key_type, time_type = self._shard.key_type, self._shard.time_type
            batch = as_batch(batch, self.stream, key_type=key_type, time_type=time_type)
        with self._lock:
            self._log.follow()
            self._log.warn_if_empty()
            shard = self._shard
            self._merging.install(shard)
            self._upkeep()
            notices = self._stepped(shard.process(batch, clock_of(now, self.stream)))
            self._merging.start(shard)
        return self._told(notices)

    def push(self, event: Mapping[str, Any] | None = None, /, **columns: Any) -> list[Notice]:  # noqa: ANN401
        """Take in one event, and return its notices: what `process` does, for ticks from a socket.

        State, order, ids and dead letters are those of ``process([event])``; it takes a tenth of
        the time. With a registry, what other processes register is live within a tenth of a second.

        Parameters
        ----------
        event : mapping from column to value
        **columns
            The same as keyword arguments, where no mapping is given.

        Returns
        -------
        list of Notice
            Each has the columns as attributes; ``notice_id``, as text, is made when it is read.

        Raises
        ------
        InvalidBatchError
            If it is no mapping. Nothing has changed then.

        Examples
        --------
        >>> import everquery as eq
        >>> engine = eq.Engine(eq.Stream("trades", key="symbol", attributes=["price"]))
        >>> engine.register(eq.Border("band", {"price": (40, 50)}))
        >>> [notice.event for notice in engine.push({"symbol": "IBM", "price": 45.0})]
        ['enter']
        >>> [notice.event for notice in engine.push(symbol="IBM", price=51.0)]
        ['leave']
        """
        if event is None:
            event = columns
        elif columns or not isinstance(event, Mapping):
            raise InvalidBatchError(
                f"stream {self.stream.name!r}: {event!r:.80} is not one event; give a mapping from"
                " column to value, or the columns as keyword arguments. Nothing has changed"
            )
        if not len(self._callbacks):
            with self._lock:
                notices = self._pushed(event)
            if notices is not None:
                return notices
        return notices_of(self.process([event]))

    def _pushed(self, event: Mapping[str, Any]) -> list[Notice] | None:
        """Take in an event that is plain; None, and nothing has changed, where it is not."""
        shard = self._shard
        self._log.follow_now_and_then()
        plain = None if shard.teller.labelled else read_plain(event, self.stream, shard)
        if plain is None:
            return None
        pushed = shard.push(*plain[1:])
        if pushed is None:
            return None
        self._pushes += 1
        if self._pushes % UPKEEP == 0:
            self._merging.install(shard)
            self._upkeep()
            self._merging.start(shard)
        self._log.report_later()
        announced, events, told = pushed
        notices = light_notices(shard, plain, events, told) if told else []
        return notices if announced is None else notices_of(announced) + notices

    def advance(self, time: int | float | date | datetime) -> pa.Table:
        """Say that time has come this far without an event, and return the notices.

        Events that the grace held back are let out, and keys that have been silent expire. Before
        the first batch there is nothing to let out, and the call changes nothing.

        Raises
        ------
        InvalidBatchError
            If it is no time of the stream's type: a number where times are numbers, else a date
            or a datetime, which has a time zone where times have one. Nothing is rounded.
        """
        with self._lock:
            kind = self._shard.time_type
            if kind is None:
                return self._shard.schema().empty_table()
            notices = self._stepped(self._shard.advance(time_in_units(time, kind)))
        return self._told(notices)

    def reset_time(self, time: int | float | date | datetime) -> None:
        """Set the newest time seen back, after a wrong clock has moved it too far.

        Keys go on from this time: their next events are not late. Nothing waits longer than its
        own span from it: a crossing that dwells, a throttle window, the life of a query. Events
        that are held back, or wait, with a later time become dead letters ``ahead``. What has
        been told, and what has ended or expired, stays so. Before the first batch there is nothing
        to set back, and the call changes nothing.

        Raises
        ------
        InvalidBatchError
            If it is no time of the stream's type, or after the newest time seen.
        """
        with self._lock:
            kind = self._shard.time_type
            if kind is not None:
                self._shard.reset_time(time_in_units(time, kind))

    def flush(self) -> pa.Table:
        """Let out all events that the grace holds back, as at the end of a stream.

        Events that wait because of ``max_ahead`` become dead letters ``ahead``: at the end of a
        stream nothing confirms them any more.
        """
        with self._lock:
            notices = self._stepped(self._shard.flush())
        return self._told(notices)

    def expire(self, keys: Key | Iterable[Key]) -> pa.Table:
        """Forget keys now, and return their leaves (reason ``expired``)."""
        wanted = keys_of(keys)
        with self._lock:
            notices = self._stepped(self._shard.expire(wanted))
        return self._told(notices)

    def _stepped(self, notices: pa.Table) -> pa.Table:
        """Do what follows a step, under the lock."""
        self._log.report_later()
        self._callbacks.take(notices, self._shard)
        return notices

    # -- snapshots ----------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return queries and state as bytes, for `restore`.

        The past that the stream keeps is not in them. With a folder for it, it is in files by
        then, and an engine that is restored with that folder has it again.
        """
        with self._lock:
            if self._history is not None:
                self._history.sync()
            return snapshot_of(self._shard, self._log.position)

    def restore(self, snapshot: bytes) -> None:
        """Become the engine that a snapshot was taken of; on an error, stay as it is."""
        before = self._state
        restored, position = shard_of(
            self.stream,
            snapshot,
            labelled=before.teller.labelled,
            all_columns=before.teller.all_columns,
            crew=self._crew,
            answering=True,
        )
        with self._lock:
            self._merging.forget()
            self._state = restored
            self._log.go_on_with(restored, position)
            if self._history is not None:
                self._history.go_on_with(restored)
                self._remember(restored)
