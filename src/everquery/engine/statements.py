"""SQL statements, run on an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from everquery.engine.results import Explanation
from everquery.errors import InvalidQueryError, InvalidStreamError
from everquery.queries import Query
from everquery.queries.sql import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    DropQuery,
    ExplainQuery,
    SetQuota,
    ShowQueries,
    ShowQuotas,
    ShowStreams,
    Statement,
    print_stream,
)
from everquery.registry import Registry
from everquery.stream import Stream


class Runner(Protocol):
    """What statements are run on; an engine is one."""

    @property
    def stream(self) -> Stream:
        """The stream that the queries are about."""

    def register(self, query: Query) -> None:
        """Register a query."""

    def deregister(self, query_id: str) -> None:
        """End a query."""

    def pause(self, query_id: str) -> None:
        """Let a query emit nothing."""

    def resume(self, query_id: str) -> None:
        """Let a query emit again."""

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


def execute(engine: Runner, registry: Registry | None, statement: Statement) -> pa.Table | None:
    """Run a statement on an engine, and return what it shows."""
    match statement:
        case CreateStream(stream):
            if registry is not None:
                registry.create_stream(stream)
            elif stream != engine.stream:
                raise InvalidStreamError("an engine without a registry has one stream only")
        case CreateQuery(stream_name, query):
            if stream_name != engine.stream.name:
                raise InvalidQueryError(
                    f"this engine is on stream {engine.stream.name!r}; for {stream_name!r} open"
                    " another one"
                )
            engine.register(query)
        case AlterQuery(query_id, action):
            (engine.pause if action == "pause" else engine.resume)(query_id)
        case DropQuery(query_id):
            engine.deregister(query_id)
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
