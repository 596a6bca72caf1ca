"""SQL statements against a registry, whatever streams they are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from everquery.engine import Engine
from everquery.engine.statements import execute
from everquery.engine.transactions import ChangeOfQuery, script_of
from everquery.queries.sql import (
    AlterStream,
    CreateQuery,
    DropStream,
    ShowStreams,
    Statement,
    read_sql,
)
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

        All changes of queries are made, or none is. If they are about several streams, those of
        each are one change of the registry; all are checked before the first is made.
        """
        script = script_of(read_sql(text, parameters=parameters, stream_of=self._registry.stream))
        yield from self._show(script.before)
        by_stream: defaultdict[str | None, list[ChangeOfQuery]] = defaultdict(list)
        for change in script.changes:
            named = isinstance(change, CreateQuery)
            by_stream[change.stream_name if named else self._stream_name()].append(change)
        new = {create.stream.name: create.stream for create in script.streams}
        known = self._registry.streams()
        for stream in new.values():
            if stream.name in known:
                self._registry.create_stream(stream)  # it must be the same
        for name, changes in by_stream.items():
            fresh = name in new and name not in known
            engine = Engine(new[str(name)], lazy=True) if fresh else self._engine(name)
            of_here = not script.explained or name == self._stream_name()
            explained = script.explained if of_here else ()
            engine.make_changes(changes, explained=explained, dry_run=True)
        for create in script.streams:
            self._registry.create_stream(create.stream)
        for name, changes in by_stream.items():
            self._engine(name).make_changes(changes)
        yield from self._show(script.after)

    def _stream_name(self) -> str:
        """Return the stream of statements that name none."""
        return self._registry.stream(self._stream).name

    def _show(self, statements: list[Statement]) -> Iterator[pa.Table]:
        for statement in statements:
            shown = self._execute(statement)
            if shown is not None:
                yield shown

    def _execute(self, statement: Statement) -> pa.Table | None:
        match statement:
            case AlterStream(name) | DropStream(name):
                shown = execute(self._engine(name), self._registry, statement)
                self._engines.pop(name).close()  # it is on the stream as it was
                return shown
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
