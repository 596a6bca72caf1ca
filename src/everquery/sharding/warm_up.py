"""Compile, or load, the loops that a worker runs, before the first worker needs them.

Compiled loops are cached on disk. Where there is no cache yet, compiling takes some seconds; done
here, once, it is not done by every worker at the same time, in the middle of the first batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa

from everquery.kinds import KINDS, Kind
from everquery.kinds.samples import KEYS
from everquery.queries import Query
from everquery.queries.changes import Change, Deregister, Register, RegisterBlocks
from everquery.registry.codec import encode_change
from everquery.registry.rows import LogRow
from everquery.shard import Shard
from everquery.sharding.job import Job
from everquery.sharding.journal import MemoryStore
from everquery.sharding.live import forget_live
from everquery.sharding.operator import Input, run_batch
from everquery.sharding.packing import Packer
from everquery.sharding.routing import route
from everquery.stream import Stream

ROUNDS = 5


def warm_up(stream: Stream, time_type: pa.DataType, kinds: Collection[Kind] | None = None) -> None:
    """Run a tiny job of a stream in this process: queries come and go, state is read back.

    Parameters
    ----------
    stream : Stream
    time_type : the Arrow type of its times; null without
    kinds : of queries; all unless given
    """
    kinds = KINDS.values() if kinds is None else kinds
    if pa.types.is_temporal(time_type):
        time_type = pa.int64()  # the loops are the same, and the samples' spans are numbers
    shards = 1 if stream.key is None else 2
    job = Job(stream, shards, time_type, wide=0 if stream.key is None else 1)
    store = [MemoryStore() for _ in range(job.units)]
    position = 0
    for number in range(ROUNDS):
        log = []
        for change in _changes(stream, number, kinds):
            for operation, count, payload in encode_change(change, stream):
                row = LogRow(position, 0, count, operation, payload)
                log.append(row.sealed(stream.name))
                position += count
        if number % 2:
            forget_live()
        _run(job, store, log, _events(stream, time_type, number))


def _run(job: Job, store: list[MemoryStore], log: list[LogRow], events: pa.Table) -> None:
    routed = [part for row in log for part in route(row, job.stream, job.division)]
    packed = list(Packer(job.stream, job.shards, wide=job.wide).pack(events.to_batches()))
    for shard, state in enumerate(store):
        changes = [row for there, row in routed if there == shard]
        blobs = [((0, number), blob) for number, there, blob in packed if there == shard]
        run_batch(job, shard, Input(changes, blobs), state)


def _changes(stream: Stream, number: int, kinds: Collection[Kind]) -> Iterator[Change]:
    """Yield changes of all sorts; the first queries come as columns."""
    queries = tuple(_queries(stream, number, kinds))
    if number:
        yield Register(queries)
        before = _queries(stream, number - 1, kinds)
        yield Deregister(pa.array([query.id for query in before][::2]))
        return
    shard = Shard(stream)
    shard.apply(Register(queries))
    shard.queries.settle()
    yield RegisterBlocks(tuple(block.in_order() for block, _ in shard.queries.blocks()))


def _queries(stream: Stream, number: int, kinds: Collection[Kind]) -> Iterator[Query]:
    for kind in kinds:
        yield from kind.sample(stream, number)


def _events(stream: Stream, time_type: pa.DataType, number: int) -> pa.Table:
    size = 10 * KEYS
    place = np.arange(size)
    columns = {name: pa.array((place * 7 + number) % 11 / 1.5) for name in stream.attributes}
    if stream.key is not None:
        columns[stream.key] = pa.array([f"key-{i % KEYS}" for i in range(size)])
    if stream.time is not None:
        columns[stream.time] = pa.array(place + size * number + 1, pa.int64()).cast(time_type)
    if stream.weight is not None:
        columns[stream.weight] = pa.array(np.ones(size, np.int64))
    return pa.table(columns)
