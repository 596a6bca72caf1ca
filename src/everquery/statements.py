"""SQL statements, run on an engine."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from everquery.errors import InvalidQueryError, InvalidStreamError
from everquery.queries import Query
from everquery.queries.sql import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    DropQuery,
    ExplainQuery,
    ShowQueries,
    ShowStreams,
    Statement,
    print_stream,
)
from everquery.registry import Registry
from everquery.results import Explanation
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

    def explain(self, query_id: str) -> Explanation:
        """Return how a query is evaluated."""

    def refresh(self) -> int:
        """Follow the registry."""

    def queries(self) -> pa.Table:
        """Return all live queries."""


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
            explained = engine.explain(query_id)
            return pa.table({"id": [query_id], "explanation": [str(explained)]})
        case ShowQueries(like):
            engine.refresh()
            table = engine.queries()
            return table if like is None else table.filter(pc.match_like(table["id"], like))
        case ShowStreams():
            streams = {engine.stream.name: engine.stream}
            if registry is not None:
                streams = registry.streams()
            definitions = [print_stream(stream) for stream in streams.values()]
            return pa.table({"name": list(streams), "definition": definitions})
    return None
