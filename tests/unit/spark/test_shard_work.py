"""What the stateful stage does with the rows of shards, without Spark."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

import everquery as eq
from everquery.core import framing
from everquery.errors import SnapshotError
from everquery.shard.layout import notice_schema
from everquery.sharding import references
from everquery.sharding.head import NAME
from everquery.sharding.job import Job
from everquery.sharding.journal import MemoryStore
from everquery.sharding.live import forget_live
from everquery.sharding.spans import Spans
from everquery.sharding.telling import plain_schema
from everquery.spark.partitions import shard_codes
from everquery.spark.rows import SPAN_NAMES
from everquery.spark.shard_work import ShardWork

STREAM = eq.Stream("trades", key="symbol", attributes=["price"])
SHARDS = 3


class Batches(dict):
    """Tables by number."""

    def read(self, name):
        yield self[name]


class Task:
    """All shards of a job that reads for itself, batch by batch."""

    def __init__(self, *, by_reference=True):
        self.batches = Batches()
        self.stores = [MemoryStore() for _ in range(SHARDS)]
        self.by_reference(by_reference)

    def by_reference(self, refers):
        job = Job(STREAM, SHARDS, pa.null(), key_type=pa.string(), by_reference=refers)
        plain = plain_schema(notice_schema(STREAM, pa.null(), pa.string()), pa.schema([]))
        self.work = ShardWork(job, shard_codes(SHARDS), plain, False, self.batches)

    def run(self, *keys):
        number = len(self.batches)
        self.batches[number] = pa.table({"symbol": keys, "price": [1.0] * len(keys)})
        payload = Spans([number]).to_bytes()
        row = SimpleNamespace(source=SPAN_NAMES, first=0, second=0, named=0, payload=payload)
        told = []
        for shard, code in enumerate(self.work.codes):
            told += self.work.run(code, iter([row]), self.stores[shard])
        return told

    def pending(self):
        """Return to how many batches the state of each shard that has one refers."""
        heads = [framing.unpack(store[NAME])[0] for store in self.stores if NAME in store]
        return [
            len(head["journals"].get("references", {"entries": []})["entries"]) for head in heads
        ]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(references, "MOST_BATCHES", 3)
    forget_live()


def test_a_shard_without_events_does_not_need_those_of_long_ago():
    task = Task()
    task.run(*(f"k{i}" for i in range(20)))
    assert task.pending() == [1] * SHARDS
    for _ in range(3):
        task.run("k1")
    assert task.pending() == [0] * SHARDS
    told = task.run("k1")
    assert sorted(task.pending()) == [0, 0, 1]  # the others have nothing to do any more
    assert len(told) == 1
    task.batches.update(dict.fromkeys(range(4)))  # they are gone
    forget_live()
    assert sum(row.events for row in task.run(*(f"k{i}" for i in range(20)))) == 20


def test_one_batch_without_references_is_enough_for_all_shards():
    task = Task()
    task.run(*(f"k{i}" for i in range(20)))
    task.by_reference(False)
    task.run("k1")
    assert task.pending() == [0] * SHARDS


def test_a_shard_without_events_looks_whether_the_checkpoint_is_of_this_job():
    task = Task(by_reference=False)
    task.run(*(f"k{i}" for i in range(20)))
    other = Job(eq.Stream("other", key="symbol", attributes=["price"]), SHARDS, pa.null())
    task.work = ShardWork(other, task.work.codes, task.work.plain, False, task.batches)
    with pytest.raises(SnapshotError, match="another stream"):
        list(task.work.run(task.work.codes[0], iter([]), task.stores[0]))
