"""SQL statements, run on an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from everquery.engine.results import Explanation
from everquery.engine.transactions import ChangeOfQuery
from everquery.errors import InvalidStreamError
from everquery.queries.sql import (
    AlterQuery,
    AlterStream,
    CreateQuery,
    CreateStream,
    DropQuery,
    DropStream,
    ExplainQuery,
    SetQuota,
    ShowQueries,
    ShowQuotas,
    ShowStreams,
    Statement,
    print_stream,
)
from everquery.stream import Stream

if TYPE_CHECKING:
    from everquery.registry import Registry


class Runner(Protocol):
    """What statements are run on; an engine is one."""

    @property
    def stream(self) -> Stream:
        """The stream that the queries are about."""

    @property
    def position(self) -> int:
        """How far the registry has been followed."""

    @property
    def left_out(self) -> list[str]:
        """Live queries that are not here."""

    def make_changes(self, statements: Sequence[ChangeOfQuery]) -> None:
        """Change queries as statements say."""

    def parts(self, query_id: str) -> list[str]:
        """Return the ids of the live queries that an id stands for."""

    def explain(self, query_id: str) -> Explanation | tuple[Explanation, ...]:
        """Return how a query is evaluated."""

    def refresh(self) -> int:
        """Follow the registry."""

    def queries(
        self,
        *,
        like: str | None,
        owner: str | None,
        labels: Mapping[str, str] | None,
        kind: str | None,
    ) -> pa.Table:
        """Return live queries."""

    def set_quota(self, owner: str | None, limit: int | None) -> None:
        """Say how many live queries an owner may have."""

    def quotas(self) -> dict[str | None, int]:
        """Return all quotas."""

    def live_of(self, owner: str) -> int:
        """Return how many live queries an owner has."""


def check_stream(engine: Runner, registry: Registry | None, stream: Stream) -> None:
    """Raise if a stream can't be created, because another one of its name is there."""
    if registry is None:
        if stream != engine.stream:
            raise InvalidStreamError("an engine without a registry has one stream only")
        return
    known = registry.streams().get(stream.name)
    if known is not None and known != stream:
        registry.create_stream(stream)  # says what differs


def show_quotas(engine: Runner) -> pa.Table:
    """Return quotas, and how much of each is used; the owner of the default is null."""
    quotas = sorted(engine.quotas().items(), key=lambda item: (item[0] is not None, item[0]))
    owners = [owner for owner, _ in quotas]
    return pa.table(
        {
            "owner": pa.array(owners, pa.string()),
            "quota": pa.array([limit for _, limit in quotas], pa.int64()),
            "live": pa.array(
                [None if owner is None else engine.live_of(owner) for owner in owners], pa.int64()
            ),
        }
    )


def _needed(registry: Registry | None) -> Registry:
    if registry is None:
        raise InvalidStreamError(
            "an engine without a registry keeps its stream as it is; make another engine, of the"
            " stream as it should be"
        )
    return registry


def _position_without_queries(engine: Runner, name: str) -> int:
    """Return the position at which a stream has no live queries; raise if it has some."""
    if name != engine.stream.name:
        raise InvalidStreamError(
            f"this engine is on stream {engine.stream.name!r}, and does not know whether {name!r}"
            " has live queries; DROP STREAM ... CASCADE drops it with them"
        )
    engine.refresh()
    live = engine.queries(like=None, owner=None, labels=None, kind=None).num_rows
    live += len(engine.left_out)
    if live:
        queries = "a live query" if live == 1 else f"{live:,} live queries"
        raise InvalidStreamError(
            f"stream {name!r} has {queries}; DROP STREAM ... CASCADE drops it with them"
        )
    return engine.position


def execute(engine: Runner, registry: Registry | None, statement: Statement) -> pa.Table | None:
    """Run a statement on an engine, and return what it shows."""
    match statement:
        case CreateStream(stream):
            check_stream(engine, registry, stream)
            if registry is not None:
                registry.create_stream(stream)
        case AlterStream(name, spans, attributes):
            _needed(registry).alter_stream(name, attributes=attributes, **dict(spans))
        case DropStream(name, cascade):
            head = None if cascade else _position_without_queries(engine, name)
            _needed(registry).drop_stream(name, head=head)
        case CreateQuery() | AlterQuery() | DropQuery():
            engine.make_changes([statement])
        case ExplainQuery(query_id):
            ids = engine.parts(query_id)
            texts = [str(engine.explain(each)) for each in ids]
            return pa.table({"id": ids, "explanation": texts})
        case ShowQueries(like, owner, labels, kind):
            engine.refresh()
            return engine.queries(like=like, owner=owner, labels=labels, kind=kind)
        case SetQuota(owner, limit):
            engine.set_quota(owner, limit)
        case ShowQuotas():
            engine.refresh()
            return show_quotas(engine)
        case ShowStreams():
            streams = {engine.stream.name: engine.stream}
            if registry is not None:
                streams = registry.streams()
            definitions = [print_stream(stream) for stream in streams.values()]
            return pa.table({"name": list(streams), "definition": definitions})
    return None
