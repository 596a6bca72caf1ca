"""SQL statements against a registry, whatever streams they are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import pyarrow as pa

from everquery.engine import Engine
from everquery.engine.statements import execute
from everquery.queries.sql import CreateQuery, CreateStream, ShowStreams, Statement, read_sql
from everquery.queries.sql import print_stream as stream_as_sql
from everquery.registry import Registry


class SqlSession:
    """Runs statements; has an engine for each stream that they name.

    Parameters
    ----------
    registry : Registry
    stream : str, optional
        The stream of statements that name none, if there are several.
    """

    def __init__(self, registry: Registry, stream: str | None = None) -> None:
        self._registry = registry
        self._stream = stream
        self._engines: dict[str, Engine] = {}

    def run(self, text: str, parameters: Mapping[str, Any] | None = None) -> Iterator[pa.Table]:
        """Run statements, and yield what each shows; if one can't be read, none is run.

        Queries that are created one behind the other are one change of the registry.
        """
        read = read_sql(text, parameters=parameters, stream_of=self._registry.stream)
        for (kind, name), group in groupby(read, _together):
            if kind is CreateQuery:
                queries = [each.query for each in group if isinstance(each, CreateQuery)]
                self._engine(name).register(queries)
                continue
            for statement in group:
                shown = self._execute(statement)
                if shown is not None:
                    yield shown

    def _execute(self, statement: Statement) -> pa.Table | None:
        match statement:
            case CreateStream(stream):
                self._registry.create_stream(stream)
                return None
            case ShowStreams():
                streams = self._registry.streams()
                definitions = [stream_as_sql(stream) for stream in streams.values()]
                return pa.table(
                    {
                        "name": pa.array(list(streams), pa.string()),
                        "definition": pa.array(definitions, pa.string()),
                    }
                )
        return execute(self._engine(self._stream), self._registry, statement)

    def _engine(self, name: str | None) -> Engine:
        stream = self._registry.stream(name)
        if stream.name not in self._engines:
            self._engines[stream.name] = Engine(stream, registry=self._registry, lazy=True)
        return self._engines[stream.name]

    def close(self) -> None:
        """End all engines."""
        for engine in self._engines.values():
            engine.close()
        self._registry.close()


def _together(statement: Statement) -> tuple[type, str | None]:
    name = statement.stream_name if isinstance(statement, CreateQuery) else None
    return type(statement), name
