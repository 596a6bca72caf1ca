"""Statements of one SQL text: which may stand together, and the changes that they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import pyarrow as pa

from everquery.engine.replacing import replace_queries
from everquery.errors import UnknownQueryError
from everquery.queries import Query
from everquery.queries.changes import Change, Deregister, Mode, Pause, Register, Resume
from everquery.queries.sql import (
    AlterQuery,
    AlterStream,
    CreateQuery,
    CreateStream,
    DropQuery,
    DropStream,
    ExplainQuery,
    InvalidSqlError,
    SetQuota,
    Statement,
)
from everquery.shard import Shard
from everquery.shard.new_queries import already_live
from everquery.shard.replacing import other_kind

ChangeOfQuery = CreateQuery | AlterQuery | DropQuery


@dataclass(frozen=True, slots=True)
class Script:
    """The statements of a text, by when they run.

    Attributes
    ----------
    before, after : lists of statements
        What runs before the changes of queries, and behind them: one after the other.
    streams : list of CreateStream
        They come first of all.
    changes : list of changes of queries
        All are made, or none is.
    """

    before: list[Statement] = field(default_factory=list)
    streams: list[CreateStream] = field(default_factory=list)
    changes: list[ChangeOfQuery] = field(default_factory=list)
    after: list[Statement] = field(default_factory=list)

    @property
    def explained(self) -> list[str]:
        """The ids of queries that are explained behind the changes."""
        return [each.query_id for each in self.after if isinstance(each, ExplainQuery)]


def script_of(statements: Sequence[Statement]) -> Script:
    """Return statements by when they run.

    Raises
    ------
    InvalidSqlError
        If changes of queries stand with quotas, or have something between them that shows; or if
        a stream is altered or dropped beside other changes.
    """
    script = Script()
    _check_streams(statements)
    last = max(
        (n for n, each in enumerate(statements) if isinstance(each, ChangeOfQuery)), default=-1
    )
    for number, statement in enumerate(statements):
        if isinstance(statement, ChangeOfQuery):
            script.changes.append(statement)
        elif isinstance(statement, CreateStream):
            script.streams.append(statement)
        elif isinstance(statement, SetQuota) and last >= 0:
            raise InvalidSqlError(
                "changes of queries are made together or not at all, and a quota can't be one of"
                " them; set it in a text of its own. Nothing has changed"
            )
        elif script.changes and number < last:
            raise InvalidSqlError(
                "changes of queries are made together or not at all, so there is nothing to show"
                " between them; put SHOW and EXPLAIN first or last. Nothing has changed"
            )
        else:
            (script.after if number > last else script.before).append(statement)
    return script


def _check_streams(statements: Sequence[Statement]) -> None:
    """Raise if a stream is altered or dropped beside other changes."""
    changes = [
        each
        for each in statements
        if isinstance(each, (AlterStream, DropStream, CreateStream, SetQuota, ChangeOfQuery))
    ]
    if len(changes) > 1 and any(isinstance(each, (AlterStream, DropStream)) for each in changes):
        raise InvalidSqlError(
            "a text of SQL is run as a whole or not at all, and a stream that is altered or dropped"
            " can't be a part of it; do that in a text of its own. Nothing has changed"
        )


def changes_of(
    statements: Iterable[ChangeOfQuery], shard: Shard, explained: Iterable[str] = ()
) -> list[Change]:
    """Return the changes that statements are, each on what the ones before it lead to.

    Parameters
    ----------
    explained : ids of queries that are to be explained after them

    Raises
    ------
    InvalidQueryError, UnknownQueryError
        If one of them can't be made, or explained; none has been.
    """
    plan = _Plan(shard)
    for statement in statements:
        match statement:
            case CreateQuery(query=query, replace=replaces):
                plan.begin(query, replaces=replaces)
            case DropQuery(query_id):
                plan.by_id(Deregister, query_id)
            case AlterQuery(query_id, action):
                plan.by_id(Pause if action == "pause" else Resume, query_id)
    plan.flush()
    for query_id in explained:
        plan.stands_for(query_id)
    return plan.changes


class _Named(NamedTuple):
    """What is known of a query that the statements before have begun."""

    kind: str
    part_of: str | None


class _Plan:
    """Changes, and what they lead to: queries that have begun, or ended (None), by id.

    Queries that follow each other and have nothing to do with the statements before wait, and are
    planned together.
    """

    def __init__(self, shard: Shard) -> None:
        self.changes: list[Change] = []
        self._shard = shard
        self._then: dict[str, _Named | None] = {}
        self._parts: defaultdict[str, set[str]] = defaultdict(set)  # begun, by composite
        self._waiting: list[Query] = []
        self._replaces = False  # those that wait
        self._keyed: Query | None = None  # one of those before that have a key

    def begin(self, query: Query, *, replaces: bool) -> None:
        """Let a query begin, or replace another one."""
        parts = query.parts()
        touched = query.id in self._then or query.id in self._parts
        if touched or any(part.id in self._then for part in parts):
            self.flush()
            self._begin_anew(query, replaces=replaces)
        else:
            if self._replaces != replaces:
                self.flush()
            self._replaces = replaces
            self._waiting.append(query)
        self.note(parts)

    def flush(self) -> None:
        """Plan the queries that wait."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        self._check_keys(waiting)
        if not self._replaces:
            begun = Register(tuple(part for each in waiting for part in each.parts()))
            self._shard.check(begun)
            self.changes.append(begun)
            return
        found = replace_queries(self._shard, waiting)
        self.changes += found.changes
        for change in found.changes:
            if isinstance(change, Deregister):
                self.end(change.ids.to_pylist())

    def _check_keys(self, queries: Iterable[Query]) -> None:
        """Raise if queries can't be here with those that have begun before."""
        keyed = next((each for each in queries if each.key is not None), None)
        if keyed is not None and self._keyed is not None and keyed.id != self._keyed.id:
            self._shard.queries.check_fit((*self._keyed.parts(), *keyed.parts()))
        self._keyed = self._keyed or keyed

    def _begin_anew(self, query: Query, *, replaces: bool) -> None:
        """Let a query begin, or replace another one, that the statements before were about."""
        parts = query.parts()
        self._check_keys([query])
        self._shard.queries.check_fit(parts)
        kept = [part.id for part in parts]
        live = [name for name in kept if self._is_live(name)]
        if live and not replaces:
            raise already_live(live[0])
        if replaces:
            gone = [name for name in self._standing(query.id) if name not in kept]
            for name in (*gone, *live):
                self._check_kind(query, name)
            if gone:
                self._by_ids(Deregister, gone)
        for mode, some in (
            ("register", [part for part in parts if part.id not in live]),
            ("move", [part for part in parts if part.id in live]),
        ):
            if some:
                self.changes.append(Register(tuple(some), cast("Mode", mode)))

    def _check_kind(self, query: Query, name: str) -> None:
        known = self._then.get(name)
        if known is None:
            contents = self._shard.contents
            slot = int(contents.catalog.live_slots(pa.array([name], pa.string()))[0])
            known = _Named(contents.kind_of(slot), None)
        if known.kind != query.kind:
            raise other_kind(query.id, known.kind, query.kind)

    def by_id(self, change: type[Deregister | Pause | Resume], query_id: str) -> None:
        """End, pause or resume a query, or the parts of a composite."""
        self.flush()
        self._by_ids(change, self.stands_for(query_id))

    def _by_ids(self, change: type[Deregister | Pause | Resume], ids: list[str]) -> None:
        self.changes.append(change(pa.array(ids, pa.string())))
        if change is Deregister:
            self.end(ids)

    def note(self, queries: Iterable[Query]) -> None:
        """Take note that queries have begun."""
        for query in queries:
            self._then[query.id] = _Named(query.kind, query.part_of)
            if query.part_of is not None:
                self._parts[query.part_of].add(query.id)

    def end(self, ids: Iterable[str]) -> None:
        """Take note that queries have ended."""
        self._then |= dict.fromkeys(ids)

    def stands_for(self, query_id: str) -> list[str]:
        """Return the ids of the live queries that an id stands for; raise if there are none."""
        found = self._standing(query_id)
        if not found:
            self._shard.check(Deregister(pa.array([query_id], pa.string())))  # says what is wrong
            raise UnknownQueryError(f"query {query_id!r} is dropped above; nothing has changed")
        return [query_id] if query_id in found else found

    def _standing(self, query_id: str) -> list[str]:
        """Return the ids of live queries that have an id, or are parts of a composite with it."""
        parts = self._shard.queries.parts_of(query_id).to_pylist()
        begun = sorted(self._parts.get(query_id, ()))
        found = dict.fromkeys([query_id, *parts, *begun])
        return [name for name in found if self._is_live(name)]

    def _is_live(self, query_id: str) -> bool:
        if query_id in self._then:
            return self._then[query_id] is not None
        return bool(self._shard.queries.live(pa.array([query_id], pa.string()))[0])
