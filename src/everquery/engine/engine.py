"""The embedded runtime: standing queries in one Python process."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import date, datetime
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa

from everquery.core.memory import release_freed_memory
from everquery.core.names import repeated
from everquery.engine.answers import answer_of, quantiles_of
from everquery.engine.calls import WholeCall
from everquery.engine.composites import reach_parts, with_parts
from everquery.engine.listing import filtered, list_queries
from everquery.engine.quarantined import SCHEMA as QUARANTINED
from everquery.engine.quarantined import given_back, list_quarantined
from everquery.engine.quotas import check_quota, check_room, owners_of, rows_beyond
from everquery.engine.rebasing import rebase
from everquery.engine.results import Answer, Explanation, Registered
from everquery.engine.statements import execute
from everquery.errors import (
    InvalidBatchError,
    InvalidQueryError,
    InvalidStreamError,
    RegistryBehindError,
    RegistryDamagedError,
    RegistryError,
    TornEngineError,
    UnknownQueryError,
    UnknownStreamError,
)
from everquery.kinds import KINDS
from everquery.queries import Query
from everquery.queries.changes import (
    Change,
    Deregister,
    Pause,
    Register,
    RegisterBlocks,
    Resume,
)
from everquery.queries.spec import LONGEST_KEY, Key, bad_text
from everquery.queries.sql import read_sql
from everquery.queries.table import check_table
from everquery.registry import Base, Entry, Registry
from everquery.registry.away import AwayRegistry
from everquery.registry.damage import Damage
from everquery.registry.outage import Outage
from everquery.registry.rows import damaged
from everquery.shard import DueMerge, Shard
from everquery.shard.failed_merges import FailedMerges
from everquery.shard.snapshots import shard_of, snapshot_of
from everquery.state.dead_letters import Example
from everquery.stream import OWNER_COLUMNS, ROLES, Stream

log = logging.getLogger("everquery.engine")

BULK = 100_000  # rows of a table after which freed memory is given back


class Engine:
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
        self._lazy = lazy
        if snapshot is not None and isinstance(stream, Stream) and isinstance(registry, str):
            registry = cast("Registry", AwayRegistry(registry, stream, open_registry))
        self._registry = open_registry(registry) if isinstance(registry, str) else registry
        if isinstance(stream, Stream):
            self._stream = stream
            if self._registry is not None and snapshot is None:
                self._registry.create_stream(stream)
        elif self._registry is not None:
            self._stream = self._registry.stream(stream)
        else:
            raise InvalidStreamError(f"{stream!r} is no stream; without a registry give a Stream")
        if labels:
            _check_label_columns(self._stream)
        self._labelled = labels
        self._read_only = read_only
        self._state = Shard(self._stream, labelled=labels)
        self._position = 0
        self._lock = WholeCall()
        self._merger: ThreadPoolExecutor | None = None
        self._merging: tuple[DueMerge, Future[Any]] | None = None
        self._failed_merges = FailedMerges(log)
        self._reported = 0  # queries that ended by themselves, and no longer are in the registry
        self._outage = Outage(self._stream.name)
        if snapshot is None:
            self.refresh()
        else:
            self.restore(snapshot)
            self._follow()

    @property
    def stream(self) -> Stream:
        """The stream that the queries are about."""
        return self._stream

    @property
    def _shard(self) -> Shard:
        """All queries and state; an error if a call failed in the middle of a change of them."""
        if self._state.torn:
            raise TornEngineError(
                "an earlier call failed while it was changing this engine, and what it knows of"
                f" {self._stream.name!r} is not whole any more; restore a snapshot, and go on with"
                " the events after it"
            )
        return self._state

    @property
    def read_only(self) -> bool:
        """Whether the registry is only read."""
        return self._read_only

    @property
    def key_type(self) -> pa.DataType | None:
        """Of keys: strings or 64-bit integers; None before a query or an event has told it."""
        with self._lock:
            return self._shard.keys.type

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
            if self._merger is not None:
                self._merger.shutdown()
                if not self._state.torn:
                    self._install_merged()
                self._merger = None

    # -- the registry -------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The version of the query set: how far the registry's log has been followed."""
        return self._position

    def refresh(self) -> int:
        """Follow the registry's log to its end; return how many queries its changes name.

        Raises
        ------
        RegistryError
            If the registry is away, damaged (`RegistryDamagedError`), or older than this engine
            (`RegistryLostError`).
        """
        if self._registry is None:
            return 0
        with self._lock:
            before = self._position
            head = self._registry.head(self._stream.name)
            self._outage.check(head, before)
            if head > before:
                with contextlib.closing(self._registry.read(self._stream, before)) as entries:
                    for entry in entries:
                        self._take(entry)
                if not self._lazy:
                    self._shard.settle()
            return self._position - before

    def _take(self, entry: Entry | Base) -> None:
        """Apply a change that was read from the log, or what a compaction left of it."""
        try:
            if isinstance(entry, Base):
                self._check_columns()
                rebase(self._shard, entry.changes)
                self._position = entry.position
            else:
                self._shard.apply(entry.change, following=True)
                self._position = entry.position + entry.count
        except (InvalidQueryError, UnknownQueryError) as error:
            damaged(self._stream.name, entry.position, None, f"it can't be applied: {error}")

    def _check_columns(self) -> None:
        """Raise if the registry has another stream of this name by now."""
        assert self._registry is not None
        stored = self._registry.stream(self._stream.name)
        if any(getattr(stored, role) != getattr(self._stream, role) for role in ROLES):
            raise RegistryError(
                f"stream {stored.name!r} was dropped, and another one is there in its place:"
                f" {stored}. Open a new engine on it"
            )

    def _follow(self) -> None:
        """Follow the log; while the registry is away or damaged, go on with the queries here."""
        if not self._outage.is_over():
            return
        began = monotonic()
        try:
            self.refresh()
        except (RegistryError, UnknownStreamError) as error:
            self._outage.note(error, monotonic() - began)
        else:
            self._outage.end()

    def compact_registry(self) -> None:
        """Replace the registry's log by the queries that are live: reopening takes less time."""
        if self._registry is None:
            return
        with self._lock:
            self._check_writable()
            while True:
                self.refresh()
                self._report_ended()
                blocks = tuple(block.in_order() for block, _ in self._shard.blocks())
                changes: list[Change] = [RegisterBlocks(blocks), Pause(self._shard.paused_ids())]
                try:
                    self._registry.compact(self._stream, changes, head=self._position)
                except RegistryBehindError:
                    self._catch_up()
                    continue
                return

    # -- queries ------------------------------------------------------------------------------

    def register(self, query: Query | Iterable[Query]) -> None:
        """Register a query, or several: all of them or, on an error, none."""
        queries = _listed(query, Query)
        for each in queries:
            if not isinstance(each, Query) or type(each) is Query:
                kinds = ", ".join(kind.spec.__name__ for kind in KINDS.values())
                raise InvalidQueryError(f"{each!r} is no standing query; give one of {kinds}")
        self._apply(Register(tuple(part for each in queries for part in each.parts())))

    def register_table(
        self,
        table: pa.Table | pa.RecordBatch,
        *,
        kind: str,
        on_error: Literal["raise", "skip"] = "raise",
    ) -> Registered:
        """Register a table of queries of one kind.

        Parameters
        ----------
        table : pyarrow.Table
            ``id``; ``key`` (optional, null for none); ``<attribute>_lo`` and ``<attribute>_hi`` for
            each attribute (null for no limit); ``closed`` (optional: left, right, both, neither);
            ``owner``, ``labels`` (a JSON object), ``ttl``, ``throttle`` (optional; spans are
            numbers in the unit of the time column, or durations). For borders, all optional:
            ``emit`` (``enter``, ``leave`` or ``enter,leave``; null for both), ``silent``,
            ``dwell``; the flags ``skip_enter`` and ``skip_leave`` say the same as ``emit``. For
            thresholds ``total``, and ``repeat``, ``count`` (optional). Quantiles have no ranges,
            but ``attribute``, ``phi``, ``epsilon``, and ``last``, ``by_key`` (optional).
        kind : str
            ``range``, ``border``, ``threshold`` or ``quantile``.
        on_error : {"raise", "skip"}
            What bad rows do: refuse the table, or stay out of it.

        Raises
        ------
        InvalidTableError
            If rows are bad (its ``errors`` lists them all), or a column is.
        QuotaError
            If an owner has no room for its rows; when they may be skipped, they are bad rows.
        """
        if kind not in KINDS:
            raise InvalidQueryError(f"kind is {kind!r}; it takes one of {', '.join(KINDS)}")
        if on_error not in ("raise", "skip"):
            raise InvalidQueryError(f"on_error is {on_error!r}; it takes 'raise' or 'skip'")
        with self._lock:
            self.refresh()
            beyond_quota = None
            if on_error == "skip":
                beyond_quota = partial(
                    rows_beyond, quotas=self.quotas(), live_of=self._shard.live_of
                )
            checked = check_table(
                table,
                KINDS[kind].spec,
                self._stream,
                already_live=self._shard.live,
                repeated=repeated,
                beyond_quota=beyond_quota,
                time_type=self._shard.admission.time_type,
            )
            if on_error == "raise":
                checked.raise_errors()
            self._apply(RegisterBlocks(checked.blocks))
            if not self._lazy:
                self._shard.settle()  # here, not in front of the next batch
            registered, errors = sum(map(len, checked.blocks)), checked.errors
        del checked
        if registered >= BULK:
            release_freed_memory()
        return Registered(registered, errors)

    def deregister(self, query_id: str | Iterable[str]) -> None:
        """End a query, or several; an unknown id raises, and then none is ended.

        Here, and where queries are paused and resumed, the id of a composite stands for its parts.
        """
        self._apply(Deregister(_ids(query_id)))

    def pause(self, query_id: str | Iterable[str]) -> None:
        """Let a query, or several, emit nothing until it is resumed."""
        self._apply(Pause(_ids(query_id)))

    def resume(self, query_id: str | Iterable[str]) -> None:
        """Let a paused query, or several, emit again.

        A border query first reports the keys that are inside now, with reason ``resumed``, unless
        it is silent.
        """
        self._apply(Resume(_ids(query_id)))

    def quarantined(self) -> pa.Table:
        """Return the live queries that Spark jobs run without: id, kind, reason, position, ...

        One row for each ``job`` and ``shard`` that has taken a query out. The embedded runtime
        takes out none.
        """
        if self._registry is None:
            return QUARANTINED.empty_table()
        with self._lock:
            self.refresh()
            return list_quarantined(self._registry, self._stream.name, self._shard)

    def give_back(self, query_id: str | Iterable[str]) -> None:
        """Let Spark jobs try a quarantined query, or several, again.

        For every runtime it ends and is registered anew, as it was.

        Raises
        ------
        UnknownQueryError
            If one of them is not quarantined; nothing has changed then.
        """
        ids = _ids(query_id).to_pylist()
        with self._lock:
            self._check_writable()
            while True:
                quarantined = self.quarantined()
                changes = given_back(self._shard, ids, quarantined)
                assert self._registry is not None  # or none would be quarantined
                try:
                    end = self._registry.append(self._stream, *changes, head=self._position)
                except RegistryBehindError:
                    self._catch_up()
                    continue
                for change in changes:
                    self._shard.apply(change)
                self._position = end
                self._registry.quarantine(self._stream.name).forget(ids)
                return

    def parts(self, query_id: str | Iterable[str]) -> list[str]:
        """Return the ids of the live queries that an id, or several, stands for.

        Its own; or, if no live query has it, those of the quantile queries that were registered
        together as one composite with this id, and are still live.

        Raises
        ------
        UnknownQueryError
            If there is none.

        Examples
        --------
        >>> import everquery as eq
        >>> engine = eq.Engine(eq.Stream("calls", attributes=["ms"]))
        >>> engine.register(eq.Quantile("slow", "ms", phi=[0.5, 0.99], epsilon=0.005))
        >>> engine.parts("slow")
        ['slow[0.5]', 'slow[0.99]']
        >>> engine.deregister("slow")
        """
        with self._lock:
            ids = with_parts(self._shard, _ids(query_id))
            self._shard.check(Deregister(ids))
            found: list[str] = ids.to_pylist()
            return found

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
        for statement in read_sql(text, parameters=parameters, stream_of=self._stream_of):
            shown = execute(self, self._registry, statement)
        return shown

    def queries(
        self,
        *,
        like: str | None = None,
        owner: str | None = None,
        labels: Mapping[str, str] | None = None,
        kind: str | None = None,
    ) -> pa.Table:
        """Return live queries in order of registration: all, or those that all filters hold for.

        Columns: id, kind, key, attribute (of quantiles), emit (the events that it tells of:
        ``enter,leave``), state (``live`` or ``paused``), owner, labels (a JSON object), the kinds'
        options, total (of thresholds), phi, epsilon and last (of quantiles), ttl, dwell and
        throttle as SQL writes them, and for each attribute its half-open range, null where there is
        no limit.

        Parameters
        ----------
        like : str, optional
            A pattern for the id: ``%`` is anything, ``_`` one character.
        owner, kind : str, optional
        labels : mapping, optional
            Labels that a query has, perhaps among others.
        """
        for what, value in (("like", like), ("owner", owner), ("kind", kind)):
            reason = value and bad_text(value, what, LONGEST_KEY)
            if reason:
                raise InvalidQueryError(reason)
        with self._lock:
            table = list_queries(self._shard)
        return filtered(table, like=like, owner=owner, labels=labels, kind=kind)

    # -- quotas -------------------------------------------------------------------------------

    def set_quota(self, owner: str | None, limit: int | None) -> None:
        """Say how many live queries an owner may have.

        Parameters
        ----------
        owner : str or None
            None is the default, for all owners without a quota of their own.
        limit : int or None
            None removes the quota. Queries that are live already stay.

        Examples
        --------
        >>> import everquery as eq
        >>> engine = eq.Engine(eq.Stream("trades", attributes=["price"]))
        >>> engine.set_quota("ann", 1)
        >>> engine.register(eq.Range("a", {"price": (0, 10)}, owner="ann"))
        >>> engine.register(eq.Range("b", {"price": (0, 10)}, owner="ann"))
        Traceback (most recent call last):
        everquery.errors.QuotaError: owner 'ann' has 1 live queries and a quota of 1, ...
        """
        check_quota(owner, limit)
        with self._lock:
            if self._registry is not None:
                self._check_writable()
                self._registry.set_quota(self._stream.name, owner, limit)
            elif limit is None:
                self._shard.quotas.pop(owner, None)
            else:
                self._shard.quotas[owner] = limit

    def quotas(self) -> dict[str | None, int]:
        """Return how many live queries each owner may have; None is the default for all others."""
        if self._registry is not None:
            return self._registry.quotas(self._stream.name)
        with self._lock:
            return dict(self._shard.quotas)

    def live_of(self, owner: str) -> int:
        """Return how many live queries an owner has."""
        with self._lock:
            return self._shard.live_of(owner)

    def _check_room(self, change: Change) -> None:
        """Raise if a change would give an owner more queries than its quota."""
        wanted = owners_of(change)
        if wanted:  # quotas may be in a database
            check_room(wanted, self.quotas(), self._shard.live_of)

    def progress(self, query_id: str) -> int:
        """Return how much weight a threshold query has seen since it began, or last fired.

        Raises
        ------
        UnknownQueryError
            If no live query has this id: one that has fired, and does not repeat, has ended.
        InvalidQueryError
            If the query is of another kind.

        Examples
        --------
        >>> import everquery as eq, pyarrow as pa
        >>> engine = eq.Engine(eq.Stream("trades", attributes=["price"], weight="shares"))
        >>> engine.register(eq.Threshold("sold", {"price": (100, 105)}, total=500))
        >>> notices = engine.process(pa.table({"price": [101.0, 99.0], "shares": [300, 300]}))
        >>> engine.progress("sold")
        300
        """
        _ids(query_id)
        with self._lock:
            return self._shard.progress(query_id)

    def answer(self, query_id: str, *, key: Key | None = None) -> Answer:
        """Return what a quantile query is answered now.

        Parameters
        ----------
        key : str or int, optional
            Of which key, where the query asks for that of each.

        Raises
        ------
        UnknownQueryError
            If no live query has this id.
        InvalidQueryError
            If the query is of another kind, or the key is missing or one too many.

        Examples
        --------
        >>> import everquery as eq, pyarrow as pa
        >>> engine = eq.Engine(eq.Stream("calls", attributes=["ms"]))
        >>> engine.register(eq.Quantile("median", "ms", phi=0.5, epsilon=0.01))
        >>> notices = engine.process(pa.table({"ms": [12.0, 48.0, 7.0]}))
        >>> engine.answer("median").value
        12.0
        """
        _ids(query_id)
        with self._lock:
            return answer_of(self._shard, query_id, key)

    def quantiles(
        self,
        attribute: str | None = None,
        *,
        phi: Iterable[float],
        key: Key | None = None,
        last: int | None = None,
    ) -> list[Answer]:
        """Return any quantiles of rows that a standing quantile query is about.

        Parameters
        ----------
        attribute : str, optional
            Needed where queries are about several.
        phi : numbers above 0 and up to 1
        key : str or int, optional
            Of one key's rows; else of all keys' together.
        last : int, optional
            Of the last so many rows, as a query has it.

        Raises
        ------
        InvalidQueryError
            If no live query keeps a summary of such rows, or a phi can't be.

        Examples
        --------
        >>> import everquery as eq, pyarrow as pa
        >>> engine = eq.Engine(eq.Stream("calls", attributes=["ms"]))
        >>> engine.register(eq.Quantile("median", "ms", phi=0.5, epsilon=0.01))
        >>> notices = engine.process(pa.table({"ms": [12.0, 48.0, 7.0]}))
        >>> [answer.value for answer in engine.quantiles(phi=[0.25, 0.5, 1])]
        [7.0, 12.0, 48.0]
        """
        with self._lock:
            return quantiles_of(self._shard, attribute, phi, key, last)

    def explain(self, query_id: str) -> Explanation:
        """Return how a query is evaluated, and what it is expected to cost."""
        _ids(query_id)
        with self._lock:
            kind, found = self._shard.explain(query_id)
        return Explanation(
            query_id=query_id,
            kind=kind,
            path=found.path,
            attributes=tuple(self._stream.attributes[a] for a in found.attributes),
            candidate_share=found.share,
            cost_ns=found.nanoseconds,
            lane_queries=found.lane,
            segment_queries=found.segment,
        )

    # -- events -------------------------------------------------------------------------------

    def process(self, batch: pa.RecordBatch | pa.Table) -> pa.Table:
        """Take in a batch of events, and return the notices.

        While the registry is away or damaged, events go on with the queries that are here: a
        warning (logger ``everquery.registry``) and ``stats()["registry"]`` say so, and the next
        batch looks again.
        """
        with self._lock:
            self._follow()
            self._install_merged()
            self._shard.compact()
            notices = self._stepped(self._shard.process(batch))
            self._start_merge()
            return notices

    def advance(self, time: int | float | date | datetime) -> pa.Table:
        """Say that time has come this far without an event, and return the notices.

        Events that the grace held back are let out, and keys that have been silent expire. Before
        the first batch there is nothing to let out, and the call changes nothing.

        Raises
        ------
        InvalidBatchError
            If it is no time of the stream's type.
        """
        with self._lock:
            kind = self._shard.admission.time_type
            if kind is None:
                return self._shard.schema().empty_table()
            return self._stepped(self._shard.advance(_in_units(time, kind)))

    def flush(self) -> pa.Table:
        """Let out all events that the grace holds back, as at the end of a stream."""
        with self._lock:
            return self._stepped(self._shard.flush())

    def expire(self, keys: Key | Iterable[Key]) -> pa.Table:
        """Forget keys now, and return their leaves (reason ``expired``)."""
        wanted = _listed(keys, str)
        for key in wanted:
            if isinstance(key, bool) or not isinstance(key, (str, int)):
                raise InvalidQueryError(f"key {key!r} is no string or integer")
            reason = isinstance(key, str) and key and bad_text(key, "key", LONGEST_KEY)
            if reason:
                raise InvalidQueryError(reason)
        wanted = [key for key in wanted if isinstance(key, str) or -(2**63) <= key < 2**63]
        with self._lock:
            numbers = {self._shard.keys.find(key) for key in wanted} - {-1}
            return self._stepped(self._shard.expire(np.array(sorted(numbers), np.int32)))

    def _stepped(self, notices: pa.Table) -> pa.Table:
        """Tell the registry which queries have ended; if it does not answer, a step later."""
        if self._shard.ended and self._outage.is_over():
            began = monotonic()
            try:
                self._report_ended()
            except (RegistryError, UnknownStreamError) as error:
                self._outage.note(error, monotonic() - began)
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
            shard.settle()
            by_reason = shard.dead_letters.by_reason()
            return {
                "queries": {kind: shard.catalog.count(i) for i, kind in enumerate(shard.indexes)},
                "paused": shard.catalog.paused,
                "ended": self._reported + len(shard.ended),
                "keys": len(shard.keys),
                "bytes": {
                    **{f"{kind} index": index.nbytes() for kind, index in shard.indexes.items()},
                    "catalog": shard.catalog.nbytes(),
                    "query ids": shard.catalog.names.name_bytes(),
                    "keys": shard.keys.nbytes(),
                    "hygiene": shard.hygiene.nbytes(),
                },
                "failed_merges": self._failed_merges.count,
                "last_failed_merge": self._failed_merges.last,
                "events": shard.events,
                "held": 0 if shard.admission.held is None else len(shard.admission.held),
                "notices": shard.notices,
                "throttled": shard.hygiene.throttled,
                "undone": shard.hygiene.undone,
                "waiting": len(shard.hygiene.pairs),
                "dead_letters": sum(by_reason.values()),
                "dead_letters_by_reason": by_reason,
                "registry": self._followed(),
            }

    def _followed(self) -> dict[str, Any] | None:
        if self._registry is None:
            return None
        return {"position": self._position, "trouble": self._outage.reason}

    def snapshot(self) -> bytes:
        """Return queries and state as bytes, for `restore`."""
        with self._lock:
            return snapshot_of(self._shard, self._position)

    def restore(self, snapshot: bytes) -> None:
        """Become the engine that a snapshot was taken of; on an error, stay as it is."""
        restored, position = shard_of(self._stream, snapshot, labelled=self._labelled)
        with self._lock:
            self._merging = None
            self._state = restored
            self._position = position
            self._outage = Outage(self._stream.name)

    def _stream_of(self, name: str) -> Stream:
        """Return a stream that SQL names."""
        if name == self._stream.name:
            return self._stream
        if self._registry is None:
            raise UnknownStreamError(f"there is no stream {name!r}; here is {self._stream.name!r}")
        return self._registry.stream(name)

    # -- upkeep -------------------------------------------------------------------------------

    def _apply(self, change: Change) -> None:
        with self._lock:
            if self._registry is None:
                self._check_room(change)
                reach_parts(self._shard, change, self._shard.apply)
                return
            self._check_writable()
            self._report_ended()
            asked = change
            while True:
                try:
                    change = reach_parts(self._shard, asked, self._shard.check)
                    self._check_room(change)
                except (InvalidQueryError, UnknownQueryError):
                    if not self.refresh():  # so it is not because we are behind
                        raise
                    continue
                try:
                    end = self._registry.append(self._stream, change, head=self._position)
                except RegistryBehindError:
                    self._catch_up()
                    continue
                self._shard.apply(change)
                self._position = end
                return

    def _check_writable(self) -> None:
        if self._read_only and self._registry is not None:
            raise RegistryError("this engine only reads its registry; open one without read_only")

    def _report_ended(self) -> None:
        """Write into the registry that queries have ended by themselves."""
        if self._registry is None:
            self._reported += len(self._shard.ended)
            self._shard.ended.clear()
        if self._registry is None or self._read_only:
            return
        while self._shard.ended:
            ended = pa.array(sorted(self._shard.ended), pa.string())
            try:
                end = self._registry.append(self._stream, Deregister(ended), head=self._position)
            except RegistryBehindError:
                self._catch_up()  # another engine may have been first: then there is nothing to do
                continue
            self._reported += len(ended)
            self._shard.ended.clear()
            self._position = end

    def _catch_up(self) -> None:
        """Read what another writer wrote; raise if nobody did."""
        if not self.refresh():
            raise self._outage.lost(self._position)

    def _install_merged(self) -> None:
        """Put a merge that is done in its place; one that failed is tried again."""
        if self._merging is not None and self._merging[1].done():
            due, future = self._merging
            self._merging = None
            error = future.exception()
            if error is None:
                self._shard.install(due, future.result())
            else:
                self._failed_merges.note(due.kind, error)
                self._shard.abandon(due)

    def _start_merge(self) -> None:
        """Start a merge that is due in another thread."""
        if self._merging is not None:
            return
        due = self._shard.due_merge()
        if due is not None:
            if self._merger is None:
                self._merger = ThreadPoolExecutor(1, thread_name_prefix="everquery-merge")
            self._merging = due, self._merger.submit(due.run)


def open_registry(url: str) -> Registry:
    """Return the registry at a URL."""
    return Registry(url, {name: kind.spec for name, kind in KINDS.items()})


def damaged_registry(url: str) -> Registry:
    """Return the registry at a URL however it is, to be checked and repaired."""
    return Registry(url, {name: kind.spec for name, kind in KINDS.items()}, damaged=True)


def unreadable_streams(url: str) -> list[Damage]:
    """Return why queries of streams can't be taken together, though every row is whole."""
    found = []
    registry = open_registry(url)
    for stream in registry.streams().values():
        try:
            Engine(stream, registry=registry, lazy=True, read_only=True).close()
        except RegistryDamagedError as error:
            found.append(Damage(stream.name, error.position, "change", error.reason))
    registry.close()
    return found


def open_engine(
    url: str,
    stream: str | None = None,
    *,
    lazy: bool = False,
    labels: bool = False,
    read_only: bool = False,
) -> Engine:
    """Return an engine on a registry that exists; the stream's name is needed if it has several.

    `lazy`, `labels` and `read_only` are those of `Engine`.

    Examples
    --------
    >>> import everquery as eq
    >>> engine = eq.Engine(eq.Stream("t", attributes=["x"]), registry="sqlite://")
    >>> engine.stream.name
    't'
    """
    registry = open_registry(url)
    return Engine(
        registry.stream(stream),
        registry=registry,
        lazy=lazy,
        labels=labels,
        read_only=read_only,
    )


def _check_label_columns(stream: Stream) -> None:
    for name in OWNER_COLUMNS:
        if name in stream.attributes:
            raise InvalidStreamError(
                f"stream {stream.name!r}: attribute {name!r} has the name of a notice column;"
                " rename it in the events, or do without labels"
            )


def _in_units(time: int | float | date | datetime, kind: pa.DataType) -> int | float:
    """Return a time as a number in the unit of the stream's times, rounded down."""
    try:
        if isinstance(time, date):
            moment = pa.scalar(time).cast(kind, safe=False)
            whole = pa.int32() if pa.types.is_date32(kind) else pa.int64()
            number: int = moment.cast(whole).as_py()
            return number
        if pa.types.is_floating(kind) and math.isfinite(time):
            return float(time)
        if int(time) == time and -(2**62) < time < 2**62:
            return int(time)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    raise InvalidBatchError(f"{time!r} is no time of type {kind}, which the stream's times have")


def _listed(given: Any, one: type) -> list[Any]:  # noqa: ANN401 - it is here to find out
    """Return what was given, one or several, as a list."""
    several = isinstance(given, Iterable) and not isinstance(given, one)
    return list(given) if several else [given]


def _ids(query_id: str | Iterable[str]) -> pa.Array:
    """Return query ids, given as one, as several or as an Arrow column, as an Arrow array."""
    ids = [query_id] if isinstance(query_id, str) else query_id
    try:
        if isinstance(ids, pa.ChunkedArray):
            ids = ids.combine_chunks()
        if not isinstance(ids, pa.Array):
            return pa.array(ids, pa.string())
        if pa.types.is_dictionary(ids.type):
            ids = ids.dictionary_decode()
        if _is_text(ids.type):
            ids.validate(full=True)
            return ids.cast(pa.string())
    except (pa.ArrowException, TypeError, UnicodeError) as error:
        raise InvalidQueryError(f"query ids are strings: {error}") from None
    raise InvalidQueryError(f"query ids are strings; these are of type {ids.type}")


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
