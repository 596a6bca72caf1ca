"""Queries that begin in the past, and those that are only tried on it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import date, datetime
from typing import TYPE_CHECKING
from weakref import WeakMethod

import numpy as np
import pyarrow as pa

from everquery.core.names import repeated
from everquery.engine.administration import Administration
from everquery.engine.arguments import listed
from everquery.engine.batch_like import ArrowStream, as_table
from everquery.errors import DuplicateQueryError, HistoryError, InvalidQueryError
from everquery.history.backfill import Backfill
from everquery.queries import Query
from everquery.queries.begin import OLDEST, read_begin
from everquery.queries.block import check_fit
from everquery.queries.changes import Register, RegisterBlocks
from everquery.queries.known import known_specs
from everquery.queries.mixed_tables import check_tables
from everquery.shard import Shard

if TYPE_CHECKING:
    from everquery.registry import Registry

log = logging.getLogger("everquery.history")

BeginLike = str | int | float | date | datetime | np.datetime64 | tuple[int, int]
"""Where in the past: "oldest", a time as events have it, or a place."""


class Beginning(Administration):
    """An engine's methods that look at the past."""

    def __init__(
        self, shard: Shard, registry: Registry | None, *, lazy: bool, read_only: bool
    ) -> None:
        super().__init__(shard, registry, lazy=lazy, read_only=read_only)
        fill = WeakMethod(self._fill)  # no cycle: a dropped engine closes its registry at once

        def fill_if_there(change: Register | RegisterBlocks) -> bool:
            call = fill()
            return call is not None and call(change)

        self._log.fill = fill_if_there

    def _register_in_past(self, change: Register | RegisterBlocks) -> None:
        """Register queries that begin in the past; the lock is free while that is replayed."""
        assert change.begin is not None
        with self._lock:
            self.refresh()
        if not (change.queries if isinstance(change, Register) else change.blocks):
            return
        backfill = Backfill(self._lock, self._whole, self._history, change, change.begin)
        backfill.run()
        with self._lock:
            self._log.apply(change, backfill)

    def _whole(self) -> Shard:
        return self._shard

    def _fill(self, change: Register | RegisterBlocks) -> bool:
        """Fill queries that another engine registered in the past from what is kept here."""
        assert change.begin is not None
        backfill = Backfill(self._lock, self._whole, self._history, change, change.begin)
        try:
            backfill.finish()
        except (HistoryError, InvalidQueryError) as error:
            if isinstance(error, DuplicateQueryError):
                raise
            log.warning(
                "%s begin at %s, which is not possible here, and begin now: %s",
                "queries" if isinstance(change, RegisterBlocks) else change.queries[0].id,
                change.begin,
                error,
            )
            return False
        backfill.hand_over()
        return True

    def dry_run(
        self,
        queries: Query | Iterable[Query] | pa.Table | pa.RecordBatch | ArrowStream,
        *,
        begin: BeginLike = OLDEST,
        end: BeginLike | None = None,
        kind: str | None = None,
    ) -> pa.Table:
        """Return the notices that queries would have told; nothing is registered.

        Parameters
        ----------
        queries : Query, several, or a table of queries as `register_table` takes it
        begin : "oldest", a time, or a place (batch, position)
            Where in the kept past they would have been registered.
        end : the same, optional
            Where to stop; without, at the last event.
        kind : str, optional
            That of all rows of a table.

        Raises
        ------
        HistoryError
            If `begin` is before what is kept, or a part of the past since then is lost.

        Examples
        --------
        >>> import everquery as eq, pyarrow as pa
        >>> stream = eq.Stream("trades", key="symbol", attributes=["price"], keep="all")
        >>> engine = eq.Engine(stream)
        >>> notices = engine.process(pa.table({"symbol": ["IBM", "IBM"], "price": [45.0, 51.0]}))
        >>> tried = engine.dry_run(eq.Border("band", {"price": (40, 50)}))
        >>> tried.select(["event", "key", "seq"]).to_pylist()
        [{'event': 'enter', 'key': 'IBM', 'seq': 0}, {'event': 'leave', 'key': 'IBM', 'seq': 1}]
        """
        since = read_begin(begin)
        until = None if end is None else read_begin(end, name="end")
        change = self._tried(queries, kind)
        backfill = Backfill(
            self._lock, self._whole, self._history, change, since, until, tried=True
        )
        backfill.run()
        with self._lock:
            backfill.finish()
        return backfill.table()

    def _tried(
        self,
        queries: Query | Iterable[Query] | pa.Table | pa.RecordBatch | ArrowStream,
        kind: str | None,
    ) -> Register | RegisterBlocks:
        """Return the registration of queries that are only tried: their ids may be taken."""
        if isinstance(queries, (Query, list, tuple)):
            several = [check_query(each) for each in listed(queries, Query)]
            for each in several:
                check_fit(each, self.stream)
            return Register(tuple(part for each in several for part in each.parts()))
        with self._lock:
            time_type = self._shard.time_type
        checked = check_tables(
            as_table(queries),
            kind,
            self.stream,
            live_of=lambda _: lambda ids: np.zeros(len(ids), np.bool_),
            repeated=repeated,
            time_type=time_type,
        )
        checked.raise_errors()
        return RegisterBlocks(checked.blocks)


def check_query(given: object) -> Query:
    """Return a query; raise if it is none."""
    if not isinstance(given, Query) or type(given) is Query:
        kinds = ", ".join(spec.__name__ for spec in known_specs())
        raise InvalidQueryError(f"{given!r} is no standing query; give one of {kinds}")
    return given


def check_past(begin: BeginLike | None, *, silent: bool, replacing: bool) -> None:
    """Raise if queries can't begin in the past like this."""
    if silent and begin is None:
        raise InvalidQueryError("silent is for queries with begin: what lies in the past")
    if begin is not None and replacing:
        raise InvalidQueryError(
            f"begin is {begin!r}, and queries that replace others go on from them; deregister the"
            " old ones, or leave out begin"
        )
