"""SQL statements against a registry, whatever streams they are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from everquery.cli.sql_answers import answers
from everquery.engine import Engine
from everquery.engine.statements import execute
from everquery.engine.transactions import ChangeOfQuery, Script, script_of
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
from everquery.stream import Stream


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

    def run(
        self, text: str, parameters: Mapping[str, Any] | None = None
    ) -> Iterator[pa.Table | str]:
        """Run statements, and yield what each shows or, as a line, what those before it did.

        If one can't be read, none is run.

        All changes of queries are made, or none is. If they are about several streams, those of
        each are one change of the registry; all are checked before the first is made.
        """
        script = script_of(read_sql(text, parameters=parameters, stream_of=self._registry.stream))
        yield from self._show(script.before)
        new = {create.stream.name: create.stream for create in script.streams}
        by_stream = self._by_stream(script, new)
        self._check(by_stream, new, script.explained)
        for stream in new.values():
            self._registry.create_stream(stream)
        for name, changes in by_stream.items():
            self._engine(name).make_changes(changes)
        yield from answers([*script.streams, *script.changes])
        yield from self._show(script.after)

    def _by_stream(
        self, script: Script, new: Mapping[str, Stream]
    ) -> dict[str, list[ChangeOfQuery]]:
        """Return the changes of each stream, and none for the one of queries to be explained."""
        found: defaultdict[str, list[ChangeOfQuery]] = defaultdict(list)
        for change in script.changes:
            named = change.stream_name if isinstance(change, CreateQuery) else self._default(new)
            found[named].append(change)
        if script.changes and script.explained:
            found[self._default(new)] += []
        return found

    def _default(self, new: Mapping[str, Stream]) -> str:
        """Return the stream of statements that name none; some streams are still to be created."""
        known = {**self._registry.streams(), **new}
        if self._stream is None and len(known) == 1:
            return next(iter(known))
        if self._stream is not None and self._stream in new:
            return self._stream
        return self._registry.stream(self._stream).name

    def _check(
        self,
        by_stream: Mapping[str, list[ChangeOfQuery]],
        new: Mapping[str, Stream],
        explained: list[str],
    ) -> None:
        """Raise what changes would raise, before any of them is made."""
        known = self._registry.streams()
        for stream in new.values():
            if stream.name in known:
                self._registry.create_stream(stream)  # it must be the same
        for name, changes in by_stream.items():
            engine = self._engine(name) if name in known else Engine(new[name], lazy=True)
            shown = explained if explained and name == self._default(new) else []
            engine.make_changes(changes, explained=shown, dry_run=True)

    def _show(self, statements: list[Statement]) -> Iterator[pa.Table | str]:
        for statement in statements:
            shown = self._execute(statement)
            if shown is None:
                yield from answers([statement])
            else:
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
