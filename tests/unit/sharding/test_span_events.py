"""Spans of events that a worker reads for itself: once, again where it must, ahead where it can."""

import threading
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.sharding import span_events as module
from everquery.sharding.packing import CLOCK, Packer
from everquery.sharding.span_events import SpanEvents, span_events, with_clock
from everquery.sharding.spans import Spans

STREAM = eq.Stream("trades", key="k", attributes=["x"])
SHARDS = 3
KEYS = [f"k{i}" for i in range(20)]


class Reader:
    """Reads spans that are numbers: two tables each, with the number as the attribute."""

    def __init__(self):
        self.read_so_far = []
        self.broken = set()
        self.hold = None  # an event for which threads wait

    def read(self, name):
        self.read_so_far.append(name)
        if self.hold is not None:
            assert self.hold.wait(60)
        if name in self.broken:
            raise OSError(f"span {name} is broken")
        for part in (KEYS[:10], KEYS[10:]):
            yield pa.table({"k": part, "x": [float(name)] * len(part)})


@pytest.fixture
def reader():
    return Reader()


@pytest.fixture
def here(reader):
    return SpanEvents(reader, Packer(STREAM, SHARDS, wide=1))


def told(here, spans):
    """Return the events of all shards: key and attribute."""
    found = []
    for shard in range(SHARDS):
        parts = here.of_shard(spans, shard)
        assert [place for place, _ in parts] == sorted(place for place, _ in parts)
        for _, part in parts:
            keys = part.arrivals.key.to_pylist()
            found += list(zip(keys, part.arrivals.values[0].tolist(), strict=True))
    return sorted(found)


def rows(*numbers):
    return sorted((key, float(number)) for key in KEYS for number in numbers)


def finished(here):
    """Wait for all that is being read; errors are left where they are."""
    for future in here._read.values():
        future.exception(60)


def test_every_shard_gets_its_events_of_one_reading(here, reader):
    spans = Spans([0, 1])
    assert told(here, spans) == rows(0, 1)
    wide = here.of_shard(spans, SHARDS)
    assert [place for place, _ in wide] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [len(part.arrivals.key) for _, part in wide] == [10, 10, 10, 10]
    assert sorted(reader.read_so_far) == [0, 1]


def test_what_was_read_ahead_is_used_once(here, reader):
    assert told(here, Spans([0], ahead=[1, 2])) == rows(0)
    finished(here)
    assert sorted(reader.read_so_far) == [0, 1, 2]
    assert told(here, Spans([1, 2], ahead=[3])) == rows(1, 2)
    finished(here)
    assert sorted(reader.read_so_far) == [0, 1, 2, 3]
    assert told(here, Spans([1, 2])) == rows(1, 2)  # done again: it was given away
    assert sorted(reader.read_so_far) == [0, 1, 1, 2, 2, 3]


def test_what_a_shard_has_taken_is_read_again_for_a_task_that_is_tried_again(here, reader):
    spans = Spans([0], ahead=[1])
    first = here.of_shard(spans, 0)
    again = here.of_shard(spans, 0)
    assert reader.read_so_far.count(0) == 2
    for (_, one), (_, other) in zip(first, again, strict=True):
        assert one.arrivals.key.equals(other.arrivals.key)
        np.testing.assert_array_equal(one.arrivals.values, other.arrivals.values)
    assert told(here, Spans([1])) == rows(1)
    assert reader.read_so_far.count(1) == 1  # that was not in doubt


def test_other_spans_than_those_read_ahead_may_come(here, reader):
    told(here, Spans([0], ahead=[1]))
    assert told(here, Spans([5, 1])) == rows(1, 5)
    finished(here)
    assert sorted(reader.read_so_far) == [0, 1, 5]
    assert [*map(module.json.loads, (name for name, _ in here._read))] == [5, 1]  # nothing else


def test_a_span_that_is_still_being_read_is_waited_for(here, reader):
    told(here, Spans([0]))
    reader.hold = threading.Event()
    here._begin(Spans([], ahead=[1]), [])
    threading.Timer(0.05, reader.hold.set).start()
    assert told(here, Spans([1])) == rows(1)
    assert reader.read_so_far == [0, 1]


def test_an_error_ahead_is_raised_in_its_own_batch_only(here, reader):
    reader.broken = {1}
    assert told(here, Spans([0], ahead=[1])) == rows(0)
    finished(here)
    with pytest.raises(OSError, match="span 1 is broken"):
        here.of_shard(Spans([1], ahead=[2]), 0)
    with pytest.raises(OSError, match="span 1 is broken"):  # another attempt
        here.of_shard(Spans([1], ahead=[2]), 0)
    reader.broken = set()
    assert told(here, Spans([1], ahead=[2])) == rows(1)
    assert told(here, Spans([2])) == rows(2)


def test_an_error_ahead_that_has_passed_is_none(here, reader):
    reader.broken = {1}
    told(here, Spans([0], ahead=[1]))
    finished(here)
    reader.broken = set()
    assert told(here, Spans([1])) == rows(1)


def test_an_empty_span_is_no_error(here, reader, monkeypatch):
    monkeypatch.setattr(Reader, "read", lambda self, name: iter(()))
    assert told(here, Spans([0])) == []
    assert told(here, Spans([])) == []


class TimedReader(Reader):
    def read(self, name):
        for table in super().read(name):
            second = pa.scalar(name, pa.timestamp("s", "UTC"))
            yield table.append_column("t", pa.repeat(second, table.num_rows))


def refused(here, spans):
    return [
        int(each)
        for shard in range(SHARDS)
        for _, part in here.of_shard(spans, shard)
        for each in part.arrivals.refused
    ]


def test_the_clock_of_the_batch_judges_and_nothing_is_read_ahead():
    stream = eq.Stream(
        "trades", key="k", time="t", attributes=["x"], max_ahead=timedelta(seconds=5)
    )
    reader = TimedReader()
    here = SpanEvents(reader, Packer(stream, SHARDS, time_type=pa.timestamp("us", "UTC")))
    late, early = Spans([10], ahead=[20], clock=5_000_000), Spans([10], clock=4_999_999)
    assert not any(refused(here, late))
    assert reader.read_so_far == [10]
    assert all(refused(here, early))  # by another clock it is another batch
    assert reader.read_so_far == [10, 10]


def test_the_clock_is_a_column():
    table = pa.table({"x": [1.0, 2.0]})
    assert with_clock(table, None) is table
    clocked = with_clock(table, 1_500_000)
    assert clocked.schema.field(CLOCK).type == pa.timestamp("us", "UTC")
    assert clocked.column(CLOCK).cast(pa.int64()).to_pylist() == [1_500_000] * 2


def test_spans_travel_without_their_clock():
    spans = Spans([{"path": "é", "begin": 0}], ahead=[{"path": "b"}], clock=7)
    assert Spans.from_bytes(spans.to_bytes(), 7) == spans
    assert Spans.from_bytes(spans.to_bytes()).clock is None


def test_a_process_keeps_the_spans_of_a_few_jobs(monkeypatch, reader):
    monkeypatch.setattr(module, "_JOBS", module.OrderedDict())
    packer = Packer(STREAM, SHARDS)
    kept = [span_events(f"job {i}", reader, packer) for i in range(module.MOST)]
    assert span_events("job 0", reader, packer) is kept[0]
    span_events("another", reader, packer)
    assert span_events("job 0", reader, packer) is kept[0]
    assert span_events("job 1", reader, packer) is not kept[1]  # it was the longest without use
    assert len(module._JOBS) == module.MOST
