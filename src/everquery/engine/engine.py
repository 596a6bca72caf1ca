"""The embedded runtime: standing queries in one Python process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from functools import partial
from types import TracebackType
from typing import Any, Literal, cast

import pyarrow as pa

from everquery.core.arrays import Bools
from everquery.core.memory import release_freed_memory
from everquery.core.names import repeated
from everquery.engine.administration import Administration
from everquery.engine.arguments import (
    check_choice,
    check_label_columns,
    ids_of,
    keys_of,
    listed,
    time_in_units,
)
from everquery.engine.batch_like import ArrowStream, BatchLike, as_batch, as_table
from everquery.engine.merging import Merging
from everquery.engine.quotas import rows_beyond
from everquery.engine.replacing import (
    OTHER_KIND,
    Replacement,
    cannot_replace,
    replace_blocks,
    replace_queries,
)
from everquery.engine.results import Registered
from everquery.engine.statements import execute
from everquery.errors import InvalidQueryError, InvalidStreamError
from everquery.kinds.reference import described
from everquery.queries import Query
from everquery.queries.changes import Change, Deregister, Pause, Register, RegisterBlocks, Resume
from everquery.queries.known import known_specs, spec_of
from everquery.queries.spec import Key
from everquery.queries.sql import read_sql
from everquery.queries.table import TAKEN, CheckedTable, check_table
from everquery.registry import Registry
from everquery.registry.away import AwayRegistry
from everquery.shard import Shard
from everquery.shard.snapshots import shard_of, snapshot_of
from everquery.state.dead_letters import Example
from everquery.stream import Stream

BULK = 100_000  # rows of a table after which freed memory is given back


class Engine(Administration):
    """Standing queries over one stream, in this process.

    Its methods may be called from several threads. Notices of changes (keys that are inside a new
    query already) come with the next `process`.

    Parameters
    ----------
    stream : Stream or str
        With a registry, the name of a stream in it is enough.
    registry : str or Registry, optional
        Where queries outlive the process: a URL such as ``sqlite:///queries.db`` or
        ``postgresql://user@host/database``. What other processes register is live here after the
        next `process` or `refresh`.
    lazy : bool
        Index queries in front of the first batch, and not as soon as they are registered or read:
        for programs that only change the query set.
    labels : bool
        Whether notices tell the owner and the labels (JSON) of their queries.
    read_only : bool
        Follow the registry, and never write to it: not even that a query ended by its ``ttl``.
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

    def __init__(
        self,
        stream: Stream | str,
        *,
        registry: str | Registry | None = None,
        lazy: bool = False,
        labels: bool = False,
        read_only: bool = False,
        snapshot: bytes | None = None,
    ) -> None:
        if snapshot is not None and isinstance(stream, Stream) and isinstance(registry, str):
            registry = cast("Registry", AwayRegistry(registry, stream, Registry))
        opened = Registry(registry) if isinstance(registry, str) else registry
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
        super().__init__(Shard(stream, labelled=labels), opened, lazy=lazy, read_only=read_only)
        self._lazy = lazy
        self._merging = Merging()
        if snapshot is None:
            self.refresh()
        else:
            self.restore(snapshot)
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
            if not self._state.torn:
                self._merging.install(self._state)

    # -- queries ------------------------------------------------------------------------------

    def register(self, query: Query | Iterable[Query], *, replace: bool = False) -> None:
        """Register a query, or several: all of them or, on an error, none.

        Parameters
        ----------
        query : Query, or several
        replace : bool
            Let each take the place of the live query with its id, if there is one of its kind; see
            docs/howto.md, "Change rules in a running job". What says the same as before goes on
            undisturbed, with the new owner and labels.

        Examples
        --------
        >>> import everquery as eq, pyarrow as pa
        >>> engine = eq.Engine(eq.Stream("trades", key="symbol", attributes=["price"]))
        >>> engine.register(eq.Border("band", {"price": (40, 50)}))
        >>> notices = engine.process(pa.table({"symbol": ["IBM", "HP"], "price": [41.0, 45.0]}))
        >>> engine.register(eq.Border("band", {"price": (42, 52)}), replace=True)
        >>> nothing = pa.table({"symbol": pa.array([], "string"), "price": pa.array([], "double")})
        >>> engine.process(nothing).select(["query_id", "event", "key", "reason"]).to_pylist()
        [{'query_id': 'band', 'event': 'leave', 'key': 'IBM', 'reason': 'replaced'}]
        """
        queries = listed(query, Query)
        for each in queries:
            if not isinstance(each, Query) or type(each) is Query:
                kinds = ", ".join(spec.__name__ for spec in known_specs())
                raise InvalidQueryError(f"{each!r} is no standing query; give one of {kinds}")
        if replace:
            with self._lock:
                self._log.transact(
                    lambda shard: replace_queries(shard, queries).changes, together=True
                )
            return
        parts = tuple(part for each in queries for part in each.parts())
        with self._lock:
            self._log.apply(Register(parts))

    @described
    def register_table(
        self,
        table: pa.Table | pa.RecordBatch | ArrowStream,
        *,
        kind: str,
        on_error: Literal["raise", "skip"] = "raise",
        on_conflict: Literal["raise", "replace"] = "raise",
        unwanted: Iterable[str] = (),
        dry_run: bool = False,
    ) -> Registered:
        """Register a table of queries of one kind.

        Parameters
        ----------
        table : pyarrow.Table, or what has Arrow's PyCapsule interface, such as a DataFrame
            ``id``; ``key`` (optional, null for none); ``<attribute>_lo`` and ``<attribute>_hi`` for
            each attribute (null for no limit); ``closed`` (optional: left, right, both, neither);
            ``owner``, ``labels`` (a JSON object), ``ttl``, ``throttle`` (optional; spans are
            texts such as ``5s``, durations, or numbers in the unit of the time column). Queries
            with an ``attribute`` have no ranges.
            {columns}
        kind : str
            {kinds}
        on_error : {"raise", "skip"}
            What bad rows do: refuse the table, or stay out of it.
        on_conflict : {"raise", "replace"}
            What a row does whose id is that of a live query: it is bad, or it replaces that query
            as ``register(..., replace=True)`` does.
        unwanted : ids of queries, optional
            They end with the same change, if they are live. Only where rows replace others.
        dry_run : bool
            Change nothing: only return what would be. Only where rows replace others.

        Raises
        ------
        InvalidTableError
            If rows are bad (its ``errors`` lists them all), or a column is.
        QuotaError
            If an owner has no room for its rows; when they may be skipped, they are bad rows.
        """
        spec = spec_of(kind)
        check_choice("on_error", on_error, ("raise", "skip"))
        check_choice("on_conflict", on_conflict, ("raise", "replace"))
        replacing = on_conflict == "replace"
        ids = ids_of(unwanted)
        if (len(ids) or dry_run) and not replacing:
            raise InvalidQueryError("unwanted and dry_run are for on_conflict='replace' only")
        with self._lock:
            self.refresh()
            checked = check_table(
                as_table(table),
                spec,
                self.stream,
                already_live=partial(cannot_replace, self._shard, kind)
                if replacing
                else self._shard.queries.live,
                taken=OTHER_KIND if replacing else TAKEN,
                repeated=repeated,
                beyond_quota=None if on_error == "raise" or replacing else self._beyond_quota(),
                time_type=self._shard.time_type,
            )
            if on_error == "raise":
                checked.raise_errors()
            if replacing:
                done = self._replace(checked, ids, dry_run=dry_run)
            else:
                self._log.apply(RegisterBlocks(checked.blocks))
                done = Registered(sum(map(len, checked.blocks)), checked.errors)
            if not self._lazy:
                self._shard.queries.settle()  # here, not in front of the next batch
        del checked
        if done.registered >= BULK:
            release_freed_memory()
        return done

    def _beyond_quota(self) -> Callable[..., dict[str, Bools]]:
        return partial(rows_beyond, quotas=self.quotas(), live_of=self._shard.queries.live_of)

    def _replace(self, checked: CheckedTable, unwanted: pa.Array, *, dry_run: bool) -> Registered:
        planned: list[Replacement] = []

        def plan(shard: Shard) -> tuple[Change, ...]:
            planned[:] = [replace_blocks(shard, checked.blocks, unwanted)]
            return planned[0].changes

        if dry_run:
            plan(self._shard)
        else:
            self._log.transact(plan, together=False)
        found = planned[0]
        total = found.added + found.changed + found.unchanged
        return Registered(total, checked.errors, found.changed, found.unchanged, found.dropped)

    def deregister(self, query_id: str | Iterable[str]) -> None:
        """End a query, or several; an unknown id raises, and then none is ended.

        Here, and where queries are paused and resumed, the id of a composite stands for its parts.
        """
        ids = ids_of(query_id)
        with self._lock:
            self._log.apply(Deregister(ids))

    def pause(self, query_id: str | Iterable[str]) -> None:
        """Let a query, or several, emit nothing until it is resumed."""
        ids = ids_of(query_id)
        with self._lock:
            self._log.apply(Pause(ids))

    def resume(self, query_id: str | Iterable[str]) -> None:
        """Let a paused query, or several, emit again.

        A border query first reports the keys that are inside now, with reason ``resumed``, unless
        it is silent.
        """
        ids = ids_of(query_id)
        with self._lock:
            self._log.apply(Resume(ids))

    def sql(self, text: str, parameters: Mapping[str, Any] | None = None) -> pa.Table | None:
        """Run SQL statements, and return what the last one shows; see docs/sql.md.

        Examples
        --------
        >>> import everquery as eq
        >>> engine = eq.Engine(eq.Stream("trades", key="symbol", attributes=["price"]))
        >>> engine.sql("CREATE STANDING QUERY ibm AS SELECT * FROM trades"
        ...            " WHERE symbol = :s AND price >= 40 AND price < 50 EMIT ENTER, LEAVE",
        ...            {"s": "IBM"})
        >>> engine.sql("SHOW STANDING QUERIES")["id"].to_pylist()
        ['ibm']
        """
        shown = None
        for statement in read_sql(text, parameters=parameters, stream_of=self._log.stream_of):
            shown = execute(self, self._log.registry, statement)
        return shown

    # -- events -------------------------------------------------------------------------------

    def process(self, batch: BatchLike) -> pa.Table:
        """Take in a batch of events, and return the notices.

        Parameters
        ----------
        batch : Arrow table, DataFrame, list of dicts or dict of columns
            Anything with Arrow's PyCapsule interface is fine: of pandas, Polars, DuckDB, or a
            reader, which is read to its end. In a list of dicts a field that is absent is null;
            a value of a wrong type makes its row a dead letter, not the batch an error.

        While the registry is away or damaged, events go on with the queries that are here: a
        warning (logger ``everquery.registry``) and ``stats()["registry"]`` say so, and the next
        batch looks again.
        """
        if not isinstance(batch, (pa.Table, pa.RecordBatch)):
            # Before the lock: a reader or a relation may take its time.
            with self._lock:
                key_type, time_type = self._shard.key_type, self._shard.time_type
            batch = as_batch(batch, self.stream, key_type=key_type, time_type=time_type)
        with self._lock:
            self._log.follow()
            self._merging.install(self._shard)
            self._shard.upkeep.compact(keys=True)
            notices = self._stepped(self._shard.process(batch))
            self._merging.start(self._shard)
            return notices

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
            return self._stepped(self._shard.advance(time_in_units(time, kind)))

    def flush(self) -> pa.Table:
        """Let out all events that the grace holds back, as at the end of a stream."""
        with self._lock:
            return self._stepped(self._shard.flush())

    def expire(self, keys: Key | Iterable[Key]) -> pa.Table:
        """Forget keys now, and return their leaves (reason ``expired``)."""
        wanted = keys_of(keys)
        with self._lock:
            return self._stepped(self._shard.expire(wanted))

    def _stepped(self, notices: pa.Table) -> pa.Table:
        self._log.report_later()
        return notices

    # -- what it knows ------------------------------------------------------------------------

    def dead_letters(self) -> pa.Table:
        """Return the latest refused events: position, reason, detail, key, time, attributes."""
        with self._lock:
            return self._shard.dead_letters.table()

    def refused_examples(self) -> dict[str, list[Example]]:
        """Return the first three refused values of each reason: row, column, value as it was read.

        Rows are counted from 0, over all batches. A snapshot does not hold them.
        """
        with self._lock:
            return self._shard.dead_letters.examples()

    def stats(self) -> dict[str, Any]:
        """Return counts of queries by kind, bytes by structure, events, notices, dead letters.

        ``ended`` counts the queries that ended by themselves since this engine was opened: once
        thresholds that fired, and queries whose ``ttl`` passed. ``last_failed_merge`` is why the
        last merge of segments failed, or None; answers do not depend on merges, and one that
        failed is tried again (logger ``everquery.engine``). ``registry`` is None without one;
        else it has the ``position`` that its log has been followed to, and as ``trouble`` why the
        last batch could not follow it further, or None.
        """
        with self._lock:
            shard = self._shard
            return {
                **shard.stats(),
                "ended": self._log.reported + len(shard.queries.ended),
                "failed_merges": self._merging.failed.count,
                "last_failed_merge": self._merging.failed.last,
                "registry": self._log.stats(),
            }

    def snapshot(self) -> bytes:
        """Return queries and state as bytes, for `restore`."""
        with self._lock:
            return snapshot_of(self._shard, self._log.position)

    def restore(self, snapshot: bytes) -> None:
        """Become the engine that a snapshot was taken of; on an error, stay as it is."""
        restored, position = shard_of(self.stream, snapshot, labelled=self._state.labelled)
        with self._lock:
            self._merging.forget()
            self._state = restored
            self._log.go_on_with(restored, position)
