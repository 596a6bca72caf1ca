"""Events that a worker reads for itself.

The worker that holds the shards reads spans once for all of its shards, and those that come next
while the present ones are worked on.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from everquery.sharding.packing import CLOCK, Packer, Unpacked
from everquery.sharding.spans import SpanReader, Spans

READERS = 2  # threads, of each worker
MOST = 4  # jobs of which a worker keeps spans

Divided = dict[int, list[Unpacked]]  # by shard
_Key = tuple[str, int | None]  # what names a span, and what the clock said


@dataclass(frozen=True, slots=True)
class ClockedReader:
    """Reads what another one reads, and takes a column for what the clock said."""

    reader: SpanReader
    name: str

    def read(self, name: Any) -> Iterator[pa.Table]:  # noqa: ANN401 - the reader's
        """Yield the events of a span."""
        for table in self.reader.read(name):
            yield table.append_column(CLOCK, table.column(self.name))


class SpanEvents:
    """The events of the spans of one job, as far as this process has read them.

    Parameters
    ----------
    reader : SpanReader
    packer : Packer
    """

    def __init__(self, reader: SpanReader, packer: Packer) -> None:
        self._reader, self._packer = reader, packer
        self._read: dict[_Key, Future[Divided]] = {}
        self._batch: list[_Key] = []

    def of_shard(self, spans: Spans, shard: int) -> list[tuple[tuple[int, ...], Unpacked]]:
        """Return a shard's events of a batch, each part with its place in the order.

        They are given away: what is asked for again is read again.
        """
        keys = [_key(name, spans.clock) for name in spans.names]
        if keys != self._batch or not all(self._has(key, shard) for key in keys):
            self._begin(spans, keys)
        found = [self._read[key].result().pop(shard) for key in keys]
        return [((i, j), part) for i, parts in enumerate(found) for j, part in enumerate(parts)]

    def _has(self, key: _Key, shard: int) -> bool:
        known = self._read.get(key)
        if known is None or not known.done() or known.exception() is not None:
            return False
        return shard in known.result()

    def _begin(self, spans: Spans, keys: list[_Key]) -> None:
        """Read a batch, and begin with the one behind it."""
        before, self._read, self._batch = self._read, {}, keys
        for name, key in zip(spans.names, keys, strict=True):
            known = before.get(key)
            if known is None or _is_spent(known, self._packer.units):
                known = self._begin_to_read(name, spans.clock)
            self._read[key] = known
        for key in keys:
            self._read[key].result()
        if spans.clock is None:  # else nobody knows yet what it will say
            for name in spans.ahead:
                key = _key(name, None)
                self._read[key] = before.get(key) or self._begin_to_read(name, None)

    def _begin_to_read(self, name: Any, clock: int | None) -> Future[Divided]:  # noqa: ANN401 - the reader's
        return _threads().submit(divided, self._reader, self._packer, name, clock)


def divided(reader: SpanReader, packer: Packer, name: Any, clock: int | None) -> Divided:  # noqa: ANN401 - the reader's
    """Return the events of a span, by shard."""
    found: Divided = {shard: [] for shard in range(packer.units)}
    for table in reader.read(name):
        for shard, part in packer.divide(with_clock(table, clock)):
            found[shard].append(part)
    return found


def with_clock(table: pa.Table, clock: int | None) -> pa.Table:
    """Return events with what the clock said, if it did."""
    if clock is None:
        return table
    said = pa.scalar(clock, pa.timestamp("us", "UTC"))
    return table.append_column(CLOCK, pa.repeat(said, table.num_rows))


def _key(name: Any, clock: int | None) -> _Key:  # noqa: ANN401
    return json.dumps(name), clock


def _is_spent(known: Future[Divided], units: int) -> bool:
    """Tell whether a span must be read again: it failed, or its events have been given away."""
    return known.done() and (known.exception() is not None or len(known.result()) < units)


@cache
def _threads() -> ThreadPoolExecutor:
    """Return the threads of this process that read."""
    return ThreadPoolExecutor(READERS, thread_name_prefix="everquery-spans")


_JOBS: OrderedDict[str, SpanEvents] = OrderedDict()


def span_events(token: str, reader: SpanReader, packer: Packer) -> SpanEvents:
    """Return what this process has read of a job; `token` names the job."""
    if token not in _JOBS:
        _JOBS[token] = SpanEvents(reader, packer)
        while len(_JOBS) > MOST:
            _JOBS.popitem(last=False)
    _JOBS.move_to_end(token)
    return _JOBS[token]
