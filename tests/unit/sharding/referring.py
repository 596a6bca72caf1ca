"""Shards whose state refers to the events of batches, for tests."""

import numpy as np
import pyarrow as pa

import everquery as eq
from everquery.core import framing
from everquery.core.parts import pack_parts
from everquery.registry.codec import encode_change
from everquery.registry.rows import LogRow
from everquery.sharding.durable import DurableShard
from everquery.sharding.head import NAME
from everquery.sharding.job import Job
from everquery.sharding.journal import MemoryStore
from everquery.sharding.operator import Input, run_batch
from everquery.sharding.packing import Packer
from everquery.sharding.replayed_events import ReplayedEvents
from everquery.sharding.span_events import SpanEvents
from everquery.sharding.spans import Spans

STREAM = eq.Stream("trades", key="symbol", time="t", attributes=["price"])
WIDE = 1  # the shard that takes queries of all kinds


class Batches(dict):
    """Tables by number, which can be read again while they are there."""

    def __init__(self):
        super().__init__()
        self.read_so_far = []

    def read(self, name):
        self.read_so_far.append(name)
        yield self[name]


class Shards:
    """Shards that are told changes and events, batch by batch."""

    def __init__(self, stream=STREAM, *, wide=0, reader=None, **options):
        options = {"by_reference": True, **options}
        self.job = Job(stream, 1, pa.int64(), wide=wide, **options)
        self.store = MemoryStore()
        self.reader = Batches() if reader is None else reader
        self.position = self.given = 0
        self.number = wide and WIDE

    def packer(self):
        job = self.job
        named = tuple(job.carried.names)
        return Packer(job.stream, 1, named, wide=job.wide, time_type=job.time_type)

    def log(self, *changes):
        rows = []
        for change in changes:
            for operation, count, payload in encode_change(change, self.job.stream):
                rows.append(LogRow(self.position, 0, count, operation, payload))
                self.position += count
        return rows

    def input(self, *changes, events=None, clock=None):
        names = []
        if events is not None:
            names, self.given = [self.given], self.given + 1
            self.reader[names[0]] = events
        return self.log(*changes), Spans(names, (), clock)

    def take(self, given, store=None):
        log, spans = given
        events = SpanEvents(self.reader, self.packer()).of_shard(spans, self.number)
        past = ReplayedEvents(self.reader, self.packer())
        store = self.store if store is None else store
        return run_batch(self.job, self.number, Input(log, events, spans), store, past)

    def run(self, *changes, events=None, clock=None):
        return self.take(self.input(*changes, events=events, clock=clock))

    def state(self):
        """Return all parts of the shard, whole, wherever they come from; and how it was found."""
        past = ReplayedEvents(self.reader, self.packer())
        here = DurableShard.open(self.job, self.number, MemoryStore(self.store), past)
        frame = pack_parts({}, [(part, part.whole()) for part in here._parts])
        return unordered(frame), here.found, here.position


def unordered(frame):
    """Return all that is in saved parts, the queries of segments and cells in no order."""
    header, arrays, strings = framing.unpack(frame)
    found, tables = {}, {}
    for name, array in arrays.items():
        table, _, column = name.rpartition(".")
        if table.startswith("queries.rows") or table.endswith(" member"):
            tables.setdefault(table, {})[column] = array
        else:
            found[name] = array.shape, array.tobytes()
    for table, columns in tables.items():
        lines = zip(*(np.atleast_2d(array).T.tolist() for array in columns.values()), strict=True)
        found[table] = list(columns), sorted(map(repr, lines))
    return header["parts"], found, strings


def rows(*given):
    columns = zip(*given, strict=True)
    return pa.table(dict(zip(("symbol", "t", "price"), map(list, columns), strict=True)))


def told(output):
    return output.notices.to_pylist()


def pending(shards):
    if NAME not in shards.store:
        return 0
    header, _, _ = framing.unpack(shards.store[NAME])
    return len(header["journals"].get("references", {"entries": []})["entries"])
