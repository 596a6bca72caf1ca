"""A sharded runtime whose stream is altered, and clocks there."""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import RegistryError, SnapshotError
from everquery.queries.block import blocks_of_queries
from everquery.queries.changes import Register, RegisterBlocks
from everquery.registry.codec import encode_change
from everquery.registry.rows import LogRow
from everquery.sharding.job import Job
from everquery.sharding.journal import MemoryStore
from everquery.sharding.live import forget_live
from everquery.sharding.operator import Input, run_batch
from everquery.sharding.packing import CLOCK, Packer
from everquery.sharding.routing import Shards, route

STREAM = eq.Stream("trades", key="symbol", time="t", attributes=["price"])
WIDE = STREAM.altered(attributes=["volume"])


def run(job, store, *, log=(), rows=(), clock=None):
    """Run a batch of the only shard."""
    blobs = []
    if rows:
        table = pa.Table.from_pylist(
            [{"symbol": key, "t": time, "price": 1.0, "volume": 1.0} for key, time in rows]
        )
        if clock is not None:
            table = table.append_column(CLOCK, pa.repeat(clock, len(rows)))
        packed = Packer(job.stream, 1).pack(table.to_batches())
        blobs = [((0, number), blob) for number, _, blob in packed]
    parts = [part for row in log for _, part in route(row, job.stream, Shards(1))]
    return run_batch(job, 0, Input(parts, blobs), store)


def rows_of(change, stream):
    return [
        LogRow(0, 0, count, operation, payload)
        for operation, count, payload in encode_change(change, stream)
    ]


def told(output):
    return [(row["query_id"], row["event"]) for row in output.notices.to_pylist()]


@pytest.mark.parametrize("in_bulk", [False, True])
def test_queries_about_new_attributes_are_quarantined_and_the_others_go_on(in_bulk):
    queries = (eq.Range("large", {"volume": (0, None)}), eq.Range("all", {}))
    change = Register(queries)
    if in_bulk:
        change = RegisterBlocks(tuple(blocks_of_queries(queries, WIDE)))
    store, job = MemoryStore(), Job(STREAM, 1, pa.int64())
    output = run(job, store, log=rows_of(change, WIDE), rows=[("IBM", 1)])
    assert told(output) == [("all", "match")]
    [(found, reason)] = output.quarantined.items()
    assert found == ("range", "large")
    assert "added to the stream since" in reason
    assert [each.id for each in output.held_out] == ["large"]
    forget_live()
    assert told(run(job, store, rows=[("IBM", 2)])) == [("all", "match")]


def test_what_is_damaged_is_damaged_all_the_same():
    row = LogRow(0, 0, 1, "register", b'[{"kind": "range", "id": "q", "box": {"x": 1}}]')
    with pytest.raises(RegistryError, match="damaged"):
        list(route(row, STREAM, Shards(1)))


def test_a_checkpoint_goes_on_with_other_spans_whoever_has_the_live_arrays():
    store = MemoryStore()
    change = Register((eq.Border("q", {}),))
    run(Job(STREAM, 1, pa.int64()), store, log=rows_of(change, STREAM), rows=[("IBM", 1)])
    altered = Job(replace(STREAM, expire_after=10), 1, pa.int64())
    output = run(altered, store, rows=[("AAPL", 50)])
    assert sorted(told(output)) == [("q", "enter"), ("q", "leave")]
    forget_live()
    assert told(run(altered, store, rows=[("AAPL", 51)])) == []


def test_a_checkpoint_from_before_an_attribute_is_refused_and_says_what_to_do():
    store = MemoryStore()
    run(Job(STREAM, 1, pa.int64()), store, rows=[("IBM", 1)])
    with pytest.raises(SnapshotError, match=r"before 'volume' was added.*new checkpoint"):
        run(Job(WIDE, 1, pa.int64()), store, rows=[("IBM", 2)])


class TestClock:
    """The clock is a column of the events: Spark writes the timestamp of the batch into it."""

    def letters(self, stream, kind, time, clock):
        store = MemoryStore()
        output = run(Job(stream, 1, kind), store, rows=[("IBM", time)], clock=clock)
        return output.letters["reason"].to_pylist()

    @pytest.mark.parametrize(("time", "refused"), [(110, []), (111, ["ahead"])])
    def test_numbers(self, time, refused):
        stream = STREAM.altered(max_ahead=10)
        assert self.letters(stream, pa.int64(), time, pa.scalar(100)) == refused

    def test_a_clock_that_is_null_refuses_nothing(self):
        stream = STREAM.altered(max_ahead=10)
        assert self.letters(stream, pa.int64(), 10**12, pa.scalar(None, pa.int64())) == []

    @pytest.mark.parametrize(
        "kind", [pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.date32()]
    )
    def test_times_with_and_without_a_zone(self, kind):
        stream = STREAM.altered(max_ahead=timedelta(days=1))
        now = pa.scalar(1_714_600_000_000_000, pa.timestamp("us", tz="Asia/Tokyo"))
        day = 86_400_000_000
        for after, refused in ((0, []), (day // 2, []), (3 * day, ["ahead"])):
            time = pa.scalar(now.value + after, pa.timestamp("us")).cast(kind, safe=False)
            assert self.letters(stream, kind, time.as_py(), now) == refused
