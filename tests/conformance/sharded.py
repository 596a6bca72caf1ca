"""The sharded runtime without a cluster: what Spark runs, in this process.

Three shards, whose live arrays are lost or stale in most batches, as happens to Spark's workers.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pyarrow as pa

import everquery as eq
from everquery.engine.replacing import replace_queries
from everquery.queries import Query
from everquery.queries.begin import read_begin
from everquery.queries.changes import Deregister, Pause, Register, RegisterBlocks, Resume
from everquery.registry.codec import encode_change
from everquery.registry.rows import LogRow
from everquery.sharding.job import Job
from everquery.sharding.journal import MemoryStore
from everquery.sharding.live import LIVE
from everquery.sharding.operator import Input, run_batch
from everquery.sharding.packing import CLOCK, Packer
from everquery.sharding.places import OFFSET, SOURCE
from everquery.sharding.replayed_events import ReplayedEvents
from everquery.sharding.routing import Shards, route
from everquery.sharding.span_events import SpanEvents
from everquery.sharding.spans import Spans
from everquery.state.events import decode
from everquery.state.partial import Partial


class KeptBatches(dict):
    """Batches by number: spans that can be read again."""

    def read(self, name):
        half = -(-self[name].num_rows // 2)
        yield self[name].slice(0, half)
        yield self[name].slice(half)


class ShardedRunner:
    """An engine over several shards; queries are checked by an engine that sees no event.

    With `by_reference`, shards read the batches for themselves, and their state refers to them.
    """

    def __init__(
        self,
        stream: eq.Stream,
        *,
        shards: int = 3,
        history: str | None = None,
        by_reference: bool = False,
    ) -> None:
        self.stream = stream
        self.by_reference = by_reference
        self.kept = KeptBatches()
        self.history = history
        self.shards = 1 if stream.key is None else shards
        self.wide = 0 if stream.key is None else 2
        self.store = [MemoryStore() for _ in range(self.shards + self.wide)]
        self.registrar = eq.Engine(stream)
        self.position = 0
        self.waiting: list[LogRow] = []
        self.letters: list[pa.Table] = []
        self.partial = Partial()
        self.time_type = pa.null()
        self.batches = 0
        self.workers: list[dict] = [{}, {}]
        self.found: list[str] = []

    def register(self, query, *, replace: bool = False, begin=None) -> None:
        queries = (query,) if isinstance(query, Query) else tuple(query)
        if not replace:
            self.registrar.register(query)
            self._log(Register(queries, begin=begin and read_begin(begin)))
            return
        changes = replace_queries(self.registrar._shard, queries).changes
        self.registrar.register(query, replace=True)
        for change in changes:
            self._log(change)

    def register_table(self, table, *, kind: str) -> None:
        before = self.registrar.queries()["id"].to_pylist()
        self.registrar.register_table(table, kind=kind)
        blocks = tuple(
            block.take(np.flatnonzero(~np.isin(block.ids.to_pylist(), before))).in_order()
            for block, _ in self.registrar._shard.queries.blocks()
        )
        self._log(RegisterBlocks(tuple(block for block in blocks if len(block))))

    def deregister(self, query_id: str) -> None:
        self.registrar.deregister(query_id)
        self._log(Deregister(pa.array([query_id])))

    def pause(self, query_id: str) -> None:
        self.registrar.pause(query_id)
        self._log(Pause(pa.array([query_id])))

    def resume(self, query_id: str) -> None:
        self.registrar.resume(query_id)
        self._log(Resume(pa.array([query_id])))

    def _log(self, change) -> None:
        for operation, count, payload in encode_change(change, self.stream):
            self.waiting.append(LogRow(self.position, 0, count, operation, payload))
            self.position += count

    def process(self, batch: pa.Table, *, now: int | None = None) -> pa.Table:
        if isinstance(batch, pa.RecordBatch):
            batch = pa.Table.from_batches([batch])
        if now is not None:
            clock = pa.repeat(pa.scalar(now, pa.int64()), batch.num_rows)
            batch = batch.append_column(CLOCK, clock)
        if batch.num_rows and not pa.types.is_null(decode(batch, self.stream).time_type):
            self.time_type = decode(batch, self.stream).time_type
        log: dict[int, list[LogRow]] = {shard: [] for shard in range(len(self.store))}
        for row in self.waiting:
            for shard, part in route(row, self.stream, Shards(self.shards, self.wide)):
                log[shard].insert(0, part)
        self.waiting = []
        return self._run(*(self._read if self.by_reference else self._packed)(batch), log)

    def _read(self, batch: pa.Table):
        """Return what gives a shard its events, and where they are read."""
        spans = Spans([])
        if batch.num_rows:
            spans.names.append(len(self.kept))
            self.kept[len(self.kept)] = batch
        packer = Packer(self.stream, self.shards, wide=self.wide, time_type=self.time_type)
        here = SpanEvents(self.kept, packer)
        return (lambda shard: here.of_shard(spans, shard)), spans, ReplayedEvents(self.kept, packer)

    def _packed(self, batch: pa.Table):
        """Return what gives a shard its events."""
        packed: dict[int, list] = {shard: [] for shard in range(len(self.store))}
        # Two partitions, each read in several batches and packed into several blobs; the rows come
        # in any order, but know their places in two sources.
        n = batch.num_rows
        half = n // 2
        packer = Packer(self.stream, self.shards, blob_rows=half // 2, wide=self.wide)
        number = np.arange(n)
        batch = batch.append_column(f"{SOURCE}0", pa.array(number // (half + 1)))
        batch = batch.append_column(OFFSET, pa.array(number % (half + 1)))
        batch = batch.take(pa.array(np.random.default_rng(self.batches).permutation(n)))
        for partition, part in enumerate((batch.slice(0, half), batch.slice(half))):
            batches = part.to_batches(1 + half // 3)
            for number, shard, blob in packer.pack(batches):
                packed[shard].insert(0, ((partition, number), blob))  # in no order
        return packed.__getitem__, None, None

    def _run(self, events_of, spans, past, log) -> pa.Table:
        told = []
        job = Job(
            self.stream,
            self.shards,
            self.time_type,
            wide=self.wide,
            history=self.history,
            by_reference=self.by_reference,
        )
        for shard in range(len(self.store)):
            self.batches += 1
            # Workers have live arrays of their own; which one gets a shard changes all the time,
            # and now and then a worker dies or an attempt fails after its work is done.
            worker = self.workers[(self.batches * 7 // 3) % 2]
            LIVE.clear()
            LIVE.update(worker)
            if self.batches % 5 == 0:
                given = Input(log[shard], events_of(shard), spans)
                run_batch(job, shard, given, copy.copy(self.store[shard]), past)
            given = Input(log[shard], events_of(shard), spans)
            output = run_batch(job, shard, given, self.store[shard], past)
            assert not output.quarantined
            worker.clear()
            if self.batches % 11:
                worker.update(LIVE)
            self.found.append(output.found)
            told.append(output.notices)
            self.letters.append(output.letters)
            self.partial += output.partial
        return pa.concat_tables(told, promote_options="permissive")

    def dead_letters(self) -> pa.Table:
        return pa.concat_tables(self.letters, promote_options="permissive")

    def stats(self) -> dict:
        reasons = self.dead_letters()["reason"].to_pylist()
        return {
            "queries": self.registrar.stats()["queries"],
            "dead_letters_by_reason": {reason: reasons.count(reason) for reason in set(reasons)},
            "partial": self.partial.events,
            "partial_by_column": self.partial.by_column,
        }

    def queries(self) -> pa.Table:
        return self.registrar.queries()

    def snapshot(self) -> bytes:
        kept = {name: value for name, value in vars(self).items() if name != "registrar"}
        return pickle.dumps((kept, self.registrar.snapshot()))

    def restore(self, snapshot: bytes) -> None:
        kept, registrar = pickle.loads(snapshot)
        vars(self).update(kept, workers=[{}, {}])
        self.registrar.restore(registrar)

    def close(self) -> None:
        self.registrar.close()
