"""The embedded runtime as several engines that follow one registry, which another one changes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa

import everquery as eq


class Followers:
    """Engines that see the same events, and are restarted from snapshots in turn.

    All but the last only read: an engine that reports first that a query has ended would end it in
    the others before they have seen why.
    """

    def __init__(self, stream: eq.Stream) -> None:
        self.stream = stream
        self._root = Path(tempfile.mkdtemp(prefix="everquery-followers-"))
        self._url = f"sqlite:///{self._root / 'queries.db'}"
        self.registrar = eq.Engine(stream, registry=self._url, lazy=True, create=True)
        self.engines = [self._open(read_only=True), self._open(read_only=True), self._open()]
        self._turn = 0
        self._snapshot: bytes | None = None

    def _open(self, **options) -> eq.Engine:
        return eq.Engine(self.stream, registry=self._url, all_columns=True, **options)

    def register(self, query, **options) -> None:
        self.registrar.register(query, **options)

    def deregister(self, query_id: str) -> None:
        self.registrar.deregister(query_id)

    def pause(self, query_id: str) -> None:
        self.registrar.pause(query_id)

    def resume(self, query_id: str) -> None:
        self.registrar.resume(query_id)

    def compact(self) -> None:
        self.registrar.compact_registry()

    def process(self, batch: pa.Table, **clock) -> pa.Table:
        return self._step("process", batch, **clock)

    def reset_time(self, time: int) -> None:
        for engine in self.engines:
            engine.reset_time(time)
        self._snapshot = self.engines[0].snapshot()

    def advance(self, time: int) -> pa.Table:
        return self._step("advance", time)

    def flush(self) -> pa.Table:
        return self._step("flush")

    def expire(self, key: str) -> pa.Table:
        return self._step("expire", key)

    def _step(self, method: str, *arguments, **options) -> pa.Table:
        self._restart()
        told = []
        for engine in self.engines:
            engine.refresh()
            told.append(getattr(engine, method)(*arguments, **options))
        rows = [table.to_pylist() for table in told]
        assert rows[0] == rows[1] == rows[2]
        self._turn += 1
        self._snapshot = self.engines[self._turn % 3].snapshot()
        return told[0]

    def _restart(self) -> None:
        """Restore a snapshot that is older than all changes since the last step."""
        if self._snapshot is not None:
            number = self._turn % 3
            engine = self._open(read_only=number < 2)
            engine.restore(self._snapshot)
            self.engines[number].close()
            self.engines[number] = engine

    def close(self) -> None:
        for engine in (*self.engines, self.registrar):
            engine.close()
        shutil.rmtree(self._root, ignore_errors=True)
