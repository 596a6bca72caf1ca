"""An engine of several streams: one engine each, and queries that look at two of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import everquery.registry as registries
from everquery.core.framing import DamagedError, pack, unpack
from everquery.engine.arguments import ids_of, listed
from everquery.engine.engine import Engine
from everquery.engine.joining import Joining
from everquery.engine.notice import notices_of
from everquery.engine.results import Registered
from everquery.errors import (
    InvalidBatchError,
    InvalidQueryError,
    InvalidStreamError,
    SnapshotError,
    UnknownQueryError,
    UnknownStreamError,
)
from everquery.queries import Query
from everquery.queries.sql import read_sql
from everquery.queries.sql.errors import nearest
from everquery.queries.sql.statements import CreateQuery, DropQuery, ExplainQuery, Statement
from everquery.stream import Stream

if TYPE_CHECKING:
    from everquery.engine.notice import Notice
    from everquery.history import Place
    from everquery.registry import Registry

HOLDS = "several streams"


class SeveralStreams(Engine):
    """Standing queries over several streams, in this process: what `Engine` returns for a list.

    Each stream has its own keys, time, order and dead letters, as in an engine of its own. Methods
    that take events or a time say of which stream: ``stream="quotes"``. Ids of queries are unique
    among all streams.
    """

    def __init__(
        self,
        stream: Sequence[Stream | str],
        *,
        registry: str | Registry | None = None,
        create: bool = False,
        history: Mapping[str, str | Path] | str | Path | None = None,
        **options: Any,  # noqa: ANN401 - those of `Engine`
    ) -> None:
        if options.pop("snapshot", None) is not None:
            raise InvalidStreamError("an engine of several streams is restored by `restore`")
        if not stream:
            raise InvalidStreamError("an engine has at least one stream; the list is empty")
        opened = (
            registries.Registry(registry, create=create) if isinstance(registry, str) else registry
        )
        self._engines: dict[str, Engine] = {}
        for each in stream:
            name = each.name if isinstance(each, Stream) else each
            if name in self._engines:
                raise InvalidStreamError(f"stream {name!r} is given twice")
            folder = _folder_of(history, name)
            engine = Engine(each, registry=opened, history=folder, **options)
            self._engines[name] = engine
        first = next(iter(self._engines.values()))
        self._lock = first._lock
        self._state = first._state
        self._joining = Joining(self._engines)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - it never returns
        if name in ("_log", "_history", "_callbacks"):  # what only the engine of one stream has
            known = ", ".join(map(repr, self._engines))
            raise InvalidStreamError(f"an engine of several streams ({known}) can't tell that")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # -- which stream -------------------------------------------------------------------------

    @property
    def streams(self) -> dict[str, Stream]:
        """The streams, by name."""
        return {name: engine.stream for name, engine in self._engines.items()}

    @property
    def stream(self) -> Stream:
        """The first stream."""
        return next(iter(self._engines.values())).stream

    def _of(self, stream: str | None) -> Engine:
        """Return the engine of a stream, which must be said."""
        known = ", ".join(map(repr, self._engines))
        if stream is None:
            raise InvalidBatchError(
                f"this engine has the streams {known}; say which: stream=... Nothing has changed"
            )
        if stream not in self._engines:
            raise UnknownStreamError(
                f"this engine has no stream {stream!r}{nearest(stream, self._engines)} (it has"
                f" {known}). Nothing has changed"
            )
        return self._engines[stream]

    def _holding(self, query_id: str) -> Engine:
        """Return the engine that a live query is in."""
        found = []
        for engine in self._engines.values():
            try:
                engine.parts(query_id)
            except UnknownQueryError:
                continue
            found.append(engine)
        if not found:
            raise UnknownQueryError(f"no live query has the id {query_id!r}")
        if len(found) > 1:
            names = " and ".join(repr(engine.stream.name) for engine in found)
            raise InvalidQueryError(f"{query_id!r} is a query of {names}; ids must differ here")
        return found[0]

    def _everywhere(
        self, query_id: str | Iterable[str], act: Callable[[Engine, Any], None]
    ) -> None:
        """Do something with queries, each in the engine that it is in; all are there, or none."""
        by_engine: dict[str, list[str]] = {}
        for each in ids_of(query_id).to_pylist():
            by_engine.setdefault(self._holding(each).stream.name, []).append(each)
        for name, ids in by_engine.items():
            act(self._engines[name], ids)

    # -- events -------------------------------------------------------------------------------

    def process(self, batch: Any, *, now: Any = None, stream: str | None = None) -> pa.Table:  # noqa: ANN401 - as `Engine.process`
        """Take in a batch of events of a stream, and return the notices."""
        engine = self._of(stream)
        return self._called(engine, lambda: engine.process(batch, now=now))

    def _called(self, engine: Engine, act: Callable[[], pa.Table]) -> pa.Table:
        """Return the notices of a call on a stream, and of joins that tell of it."""
        return self._joining.call(engine, act)

    def push(
        self,
        event: Mapping[str, Any] | None = None,
        /,
        *,
        stream: str | None = None,
        **columns: Any,  # noqa: ANN401 - as `Engine.push`
    ) -> list[Notice]:
        """Take in one event of a stream, and return its notices."""
        engine = self._of(stream)
        if self._joining.beside[engine.stream.name]:
            given = columns if event is None else event
            return notices_of(self.process([given], stream=stream))
        told = engine.push(event, **columns)
        self._joining.look_again()
        return told

    def advance(self, time: Any, *, stream: str | None = None) -> pa.Table:  # noqa: ANN401 - as `Engine.advance`
        """Say that the time of a stream has come this far."""
        engine = self._of(stream)
        return self._called(engine, lambda: engine.advance(time))

    def reset_time(self, time: Any, *, stream: str | None = None) -> None:  # noqa: ANN401 - as above
        """Set the newest time of a stream back."""
        self._of(stream).reset_time(time)

    def flush(self, *, stream: str | None = None) -> pa.Table:
        """Let out all events of a stream that the grace holds back."""
        engine = self._of(stream)
        return self._called(engine, engine.flush)

    def expire(self, keys: Any, *, stream: str | None = None) -> pa.Table:  # noqa: ANN401 - as `Engine.expire`
        """Forget keys of a stream now, and return their leaves."""
        engine = self._of(stream)
        return self._called(engine, lambda: engine.expire(keys))

    # -- queries ------------------------------------------------------------------------------

    def register(
        self,
        query: Query | Iterable[Query],
        *,
        replace: bool = False,
        stream: str | None = None,
        **further: Any,  # noqa: ANN401 - as `Engine.register`
    ) -> None:
        """Register a query, or several, on a stream; one that names its streams says it itself."""
        queries = listed(query, Query)
        for each in queries:
            self._check_free(each.id, replace=replace)
        named = {str(name) for each in queries for name in each.streams[:1]}
        engine = self._of(stream or (named.pop() if len(named) == 1 else None))
        for each in queries:
            self._check_others(each, engine.stream)
        engine.register(queries, replace=replace, **further)
        self._joining.look()

    def _check_others(self, query: Query, first: Stream) -> None:
        """Raise if a query can't be on the other streams that it names."""
        for name in query.streams[1:]:
            other = self._of(name)
            reason = query.misfit_of_other(other.stream, first)
            kind = other._shard.time_type
            if reason is None and kind is not None:
                reason = query.misfit_of_times(kind, other.stream)
            if reason:
                raise InvalidQueryError(f"query {query.id!r}: {reason}")

    def _check_free(self, query_id: str, *, replace: bool) -> None:
        for engine in self._engines.values():
            if not replace and engine.is_live(query_id):
                raise InvalidQueryError(
                    f"query {query_id!r} is live already, on {engine.stream.name!r};"
                    " deregister it first. Nothing is registered"
                )

    def register_table(self, table: Any, *, stream: str | None = None, **said: Any) -> Registered:  # noqa: ANN401 - as `Engine`
        """Register a table of queries on a stream."""
        done = self._of(stream).register_table(table, **said)
        self._joining.look()
        return done

    def deregister(self, query_id: str | Iterable[str]) -> None:
        """End a query, or several."""
        self._everywhere(query_id, Engine.deregister)
        self._joining.look()

    def pause(self, query_id: str | Iterable[str]) -> None:
        """Let a query, or several, emit nothing until it is resumed."""
        self._everywhere(query_id, Engine.pause)

    def resume(self, query_id: str | Iterable[str]) -> None:
        """Let a paused query, or several, emit again."""
        self._everywhere(query_id, Engine.resume)

    def sql(self, text: str, parameters: Mapping[str, Any] | None = None) -> pa.Table | None:
        """Run SQL statements, each on the engine of its stream; see `Engine.sql`.

        Statements of one stream are made together; those of several, stream by stream.
        """
        statements = read_sql(text, parameters=parameters, stream_of=self._known_stream)
        names = {self._stream_of(each) for each in statements}
        if len(names - {None}) > 1:
            raise InvalidQueryError(
                "the statements are about several streams; give those of each in a text of its own."
                " Nothing has changed"
            )
        for each in statements:
            if isinstance(each, CreateQuery):
                self._check_free(each.query.id, replace=each.replace)
                self._check_others(each.query, self._of(each.stream_name).stream)
        name = next((each for each in names if each is not None), None)
        if name is None:
            found = [engine.sql(text, parameters) for engine in self._engines.values()]
            self._joining.look()
            shown = [each for each in found if each is not None]
            return pa.concat_tables(shown, promote_options="permissive") if shown else None
        engine = self._engines[name]
        shown_table = engine.run(statements)
        self._joining.look()
        return shown_table

    def _known_stream(self, name: str) -> Stream:
        return self._of(name).stream

    def _stream_of(self, statement: Statement) -> str | None:
        if isinstance(statement, CreateQuery):
            return statement.stream_name
        if isinstance(statement, (DropQuery, ExplainQuery)):
            return self._holding(statement.query_id).stream.name
        found = getattr(statement, "query_id", None)
        return None if found is None else self._holding(found).stream.name

    # -- questions ----------------------------------------------------------------------------

    def invoke(self, query_id: str, **said: Any) -> pa.Table:  # noqa: ANN401 - as `Engine.invoke`
        """Return the answer of a select query over its window, as of now; see `Engine.invoke`."""
        engine = self._holding(query_id)
        with ExitStack() as locks:
            for each in self._engines.values():  # always in this order
                locks.enter_context(each._lock)
            others = engine.ask_streams(query_id)[1:]
            if others:
                said["other"] = self._of(others[0])._shard.asked("invoke")
            return engine.ask_invoke(query_id, said)

    def answer(self, query_id: str, **said: Any) -> Any:  # noqa: ANN401 - as `Engine.answer`
        """Return the current answer to a query; see `Engine.answer`."""
        return self._holding(query_id).answer(query_id, **said)

    def progress(self, query_id: str, **said: Any) -> int:  # noqa: ANN401 - as above
        """Return how much weight a threshold query has seen."""
        return self._holding(query_id).progress(query_id, **said)

    def explain(self, query_id: str) -> Any:  # noqa: ANN401 - as `Engine.explain`
        """Return how a query is evaluated, and at what cost."""
        return self._holding(query_id).explain(query_id)

    def parts(self, query_id: str | Iterable[str]) -> list[str]:
        """Return the ids of the live queries that an id, or several, stands for."""
        ids = ids_of(query_id).to_pylist()
        return [part for each in ids for part in self._holding(each).parts(each)]

    def queries(self, **filters: Any) -> pa.Table:  # noqa: ANN401 - as `Engine.queries`
        """Return live queries of all streams; the first column says of which each is."""
        tables = []
        for name, engine in self._engines.items():
            table = engine.queries(**filters)
            tables.append(table.add_column(0, "stream", pa.repeat(pa.scalar(name), len(table))))
        return pa.concat_tables(tables, promote_options="permissive")

    def stats(self) -> dict[str, Any]:
        """Return what `Engine.stats` does, by stream."""
        return {name: engine.stats() for name, engine in self._engines.items()}

    def history(self, *, check: bool = False) -> dict[str, Any]:
        """Return what `Engine.history` does, by stream."""
        return {name: engine.history(check=check) for name, engine in self._engines.items()}

    def compact_history(self) -> None:
        """Join small files of the past of all streams."""
        for engine in self._engines.values():
            engine.compact_history()

    def dry_run(self, queries: Any, *, stream: str | None = None, **said: Any) -> pa.Table:  # noqa: ANN401 - as `Engine.dry_run`
        """Return the notices that queries would have told of a stream; see `Engine.dry_run`."""
        return self._of(stream).dry_run(queries, **said)

    @property
    def place(self) -> Place:
        """Each stream has places of its own: `history` tells the newest of each."""
        raise InvalidStreamError("each stream has places of its own; history() tells them")

    def dead_letters(self, *, stream: str | None = None) -> pa.Table:
        """Return the latest refused events of a stream."""
        return self._of(stream).dead_letters()

    def refresh(self) -> int:
        """Follow the registry's log to its end; return how many queries its changes name."""
        found = sum(engine.refresh() for engine in self._engines.values())
        self._joining.look()
        return found

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return queries and state of all streams as bytes, for `restore`."""
        with ExitStack() as locks:
            for each in self._engines.values():
                locks.enter_context(each._lock)
            saved = {name: engine.snapshot() for name, engine in self._engines.items()}
        names = json.dumps(list(saved)).encode()
        parts = {f"stream {place}": part for place, part in enumerate(saved.values())}
        return pack({"holds": HOLDS}, {"names": names, **parts})

    def restore(self, snapshot: bytes) -> None:
        """Become the engine that a snapshot was taken of; on an error, stay as it is."""
        try:
            header, _, strings = unpack(memoryview(snapshot))
            names = json.loads(strings["names"]) if header.get("holds") == HOLDS else None
        except (DamagedError, KeyError, TypeError, ValueError) as error:
            raise SnapshotError(
                f"these bytes are no snapshot of several streams: {error}"
            ) from None
        if names != list(self._engines):
            raise SnapshotError(
                f"the snapshot is of {names}, and this engine of {list(self._engines)}; restore it"
                " into an engine of the same streams. The engine is as it was"
            )
        before = {name: engine.snapshot() for name, engine in self._engines.items()}
        try:
            for place, engine in enumerate(self._engines.values()):
                engine.restore(bytes(strings[f"stream {place}"]))
        except BaseException:
            for name, engine in self._engines.items():
                engine.restore(before[name])
            raise
        self._joining.look()

    def close(self) -> None:
        """Close the engines of all streams."""
        for engine in self._engines.values():
            engine.close()


def _folder_of(
    history: Mapping[str, str | Path] | str | Path | None, name: str
) -> str | Path | None:
    """Return the folder of a stream: its own, or the one with its name in that of all."""
    if history is None or isinstance(history, Mapping):
        return None if history is None else history.get(name)
    return Path(history) / name
