"""The queries of an engine: registered, replaced, paused, resumed and dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from everquery.core.arrays import Bools
from everquery.core.memory import release_freed_memory
from everquery.core.names import repeated
from everquery.engine.arguments import check_choice, ids_of, listed
from everquery.engine.batch_like import ArrowStream, as_table
from everquery.engine.beginning import BeginLike, Beginning, check_past, check_query
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
from everquery.engine.statements import check_stream, execute
from everquery.engine.transactions import ChangeOfQuery, changes_of, script_of
from everquery.errors import InvalidQueryError
from everquery.kinds.reference import described
from everquery.queries import Query
from everquery.queries.begin import read_begin
from everquery.queries.changes import Change, Deregister, Pause, Register, RegisterBlocks, Resume
from everquery.queries.mixed_tables import check_tables
from everquery.queries.sql import CreateQuery, Statement, read_sql
from everquery.queries.table import TAKEN
from everquery.queries.table_problems import CheckedTable
from everquery.shard import Shard

if TYPE_CHECKING:
    from everquery.registry import Registry

BULK = 100_000  # rows of a table after which freed memory is given back


class Registration(Beginning):
    """An engine's methods that change its queries."""

    def __init__(
        self, shard: Shard, registry: Registry | None, *, lazy: bool, read_only: bool
    ) -> None:
        super().__init__(shard, registry, lazy=lazy, read_only=read_only)
        self._lazy = lazy
        self._merging = Merging()

    def register(
        self,
        query: Query | Iterable[Query],
        *,
        replace: bool = False,
        begin: BeginLike | None = None,
        silent: bool = False,
    ) -> None:
        """Register a query, or several: all of them or, on an error, none.

        Parameters
        ----------
        query : Query, or several
        replace : bool
            Let each take the place of the live query with its id, if there is one of its kind; see
            docs/howto-changing-rules.md. What says the same as before goes on undisturbed, with the
            new owner and labels.
        begin : "oldest", a time, or a place (batch, position), optional
            Let queries have begun there, in the past that the stream keeps: they know what they
            would know if they had been registered then, and go on from now without gap or overlap.
            What they would have told comes with the next step, with reason ``backfill``. See
            docs/past-and-future.md.
        silent : bool
            Do not tell what lies in the past.

        Raises
        ------
        HistoryError
            If `begin` is before what is kept, or a part of the past since then is lost.

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
            check_query(each)
        check_past(begin, silent=silent, replacing=replace)
        if replace:
            with self._lock:
                self._log.transact(
                    lambda shard: replace_queries(shard, queries).changes, together=True
                )
            return
        parts = tuple(part for each in queries for part in each.parts())
        if begin is not None:
            self._register_in_past(Register(parts, begin=read_begin(begin, silent=silent)))
            return
        with self._lock:
            self._log.apply(Register(parts))

    @described
    def register_table(
        self,
        table: pa.Table | pa.RecordBatch | ArrowStream,
        *,
        kind: str | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        on_conflict: Literal["raise", "replace"] = "raise",
        unwanted: Iterable[str] = (),
        dry_run: bool = False,
        begin: BeginLike | None = None,
        silent: bool = False,
    ) -> Registered:
        """Register a table of queries, of one kind or of several.

        Parameters
        ----------
        table : pyarrow.Table, or what has Arrow's PyCapsule interface, such as a DataFrame
            ``id``; ``key`` (optional, null for none); ``<attribute>_lo`` and ``<attribute>_hi`` for
            each attribute (null for no limit); ``closed`` (optional: left, right, both, neither);
            ``owner``, ``labels`` (a JSON object), ``ttl``, ``throttle`` (optional; spans are
            texts such as ``5s``, durations, or numbers in the unit of the time column). Queries
            with an ``attribute`` have no ranges.
            {columns}
        kind : str, optional
            That of all rows. Without, the column ``kind`` says it, row by row; columns that only
            other kinds have are then null. Kinds are
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
        begin, silent
            Let all queries have begun in the past, as `register` does. Not where rows replace
            others.

        Raises
        ------
        InvalidTableError
            If rows are bad (its ``errors`` lists them all), or a column is.
        QuotaError
            If an owner has no room for its rows; when they may be skipped, they are bad rows,
            unless rows replace queries: then an owner needs room only for what it has more.
        """
        check_choice("on_error", on_error, ("raise", "skip"))
        check_choice("on_conflict", on_conflict, ("raise", "replace"))
        replacing = on_conflict == "replace"
        ids = ids_of(unwanted)
        if (len(ids) or dry_run) and not replacing:
            raise InvalidQueryError("unwanted and dry_run are for on_conflict='replace' only")
        check_past(begin, silent=silent, replacing=replacing)
        with self._lock:
            self.refresh()
            live = self._shard.queries.live
            checked = check_tables(
                as_table(table),
                kind,
                self.stream,
                live_of=partial(partial, cannot_replace, self._shard)
                if replacing
                else lambda _: live,
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
                done = Registered(sum(map(len, checked.blocks)), checked.errors)
            if not replacing and begin is None:
                self._log.apply(RegisterBlocks(checked.blocks))
            if begin is None:
                self._settle()
        if begin is not None:
            past = read_begin(begin, silent=silent)
            self._register_in_past(RegisterBlocks(checked.blocks, begin=past))
            with self._lock:
                self._settle()
        del checked
        if done.registered >= BULK:
            release_freed_memory()
        return done

    def _settle(self) -> None:
        """Index what was registered here, not in front of the next batch, unless lazy."""
        if not self._lazy:
            self._shard.queries.settle()
            self._merging.go_on(self._shard)

    def _beyond_quota(self) -> Callable[..., dict[str, Bools]]:
        return partial(rows_beyond, quotas=self.quotas(), live_of=self._shard.queries.live_of)

    def _replace(self, checked: CheckedTable, unwanted: pa.Array, *, dry_run: bool) -> Registered:
        planned: list[Replacement] = []

        def plan(shard: Shard) -> tuple[Change, ...]:
            planned[:] = [replace_blocks(shard, checked.blocks, unwanted)]
            return planned[0].changes

        self._log.transact(plan, together=False, dry_run=dry_run)
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
        return self.run(read_sql(text, parameters=parameters, stream_of=self._log.stream_of))

    def run(self, statements: Sequence[Statement]) -> pa.Table | None:
        """Run statements that have been read, and return what the last one shows."""
        for each in statements:
            if isinstance(each, CreateQuery) and each.begin is not None:
                self._create_in_past(each, len(statements))
                return None
        script = script_of(statements)
        for create in script.streams:
            check_stream(self, self._log.registry, create.stream)
        self._show(script.before)
        with self._lock:
            if script.streams:
                self.make_changes(script.changes, explained=script.explained, dry_run=True)
                self._show(script.streams)
            self.make_changes(script.changes, explained=script.explained)
        return self._show(script.after)

    def _create_in_past(self, statement: CreateQuery, statements: int) -> None:
        """Create a query that begins in the past; its statement is the only one."""
        if statements > 1:
            raise InvalidQueryError(
                f"query {statement.query.id!r} has a BEGIN; give its statement alone: a text of"
                " several is run as a whole or not at all, and the past takes its time"
            )
        self._check_stream_of(statement)
        begin = statement.begin
        assert begin is not None
        self._register_in_past(Register(statement.query.parts(), begin=begin))

    def _check_stream_of(self, statement: CreateQuery) -> None:
        if statement.stream_name != self.stream.name:
            raise InvalidQueryError(
                f"this engine is on stream {self.stream.name!r}; for"
                f" {statement.stream_name!r} open another one"
            )

    def _show(self, statements: Iterable[Statement]) -> pa.Table | None:
        shown = None
        for statement in statements:
            shown = execute(self, self._log.registry, statement)
        return shown

    def make_changes(
        self,
        statements: Sequence[ChangeOfQuery],
        *,
        explained: Sequence[str] = (),
        dry_run: bool = False,
    ) -> None:
        """Make the changes of queries that statements ask for: all of them or, on an error, none.

        Parameters
        ----------
        explained : ids of queries
            They must be live after the changes.
        dry_run : bool
            Change nothing: only raise what would be raised.
        """
        for statement in statements:
            if isinstance(statement, CreateQuery):
                self._check_stream_of(statement)
        if statements or dry_run:
            with self._lock:
                self._log.transact(
                    lambda shard: changes_of(statements, shard, explained),
                    together=True,
                    dry_run=dry_run,
                )
