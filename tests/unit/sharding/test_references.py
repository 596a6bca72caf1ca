"""State that refers to the events of batches: what is written, and what is replayed."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.queries.changes import Deregister, Pause, Register, Resume
from everquery.sharding import durable, references
from everquery.sharding.head import NAME
from everquery.sharding.journal import MemoryStore
from everquery.sharding.live import LIVE, forget_live
from everquery.sharding.operator import Input, run_batch
from tests.attack.snapshots import EVERY, STREAMS, batch, queries
from tests.conformance.sharded import ShardedRunner
from tests.unit.sharding.referring import (
    STREAM,
    Shards,
    pending,
    rows,
    told,
)


@pytest.fixture(autouse=True)
def _small(monkeypatch, tmp_path):
    monkeypatch.setattr(references, "MOST_BATCHES", 4)
    monkeypatch.setattr(durable, "SHARED", 20_000)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "host"))
    forget_live()


# -- the same, whatever happens ----------------------------------------------------------------


def history(which, kinds):
    """Yield what happens to queries of some kinds, batch by batch: changes and events."""

    def ids(*names):
        found = [query.id for query in queries(which, "old", kinds) + queries(which, "new", kinds)]
        return pa.array([name for name in names if name in found], pa.string())

    def new(tag):
        return Register(
            tuple(part for query in queries(which, tag, kinds) for part in query.parts())
        )

    yield [new("old")], batch(which, 0, 60, 1, bad=True)
    yield [], batch(which, 12, 40, 2)
    yield [new("new")], batch(which, 20, 30, 3)
    yield [], batch(which, 10, 8, 4)  # late
    yield [Deregister(ids("old range", "new median", "old sum"))], batch(which, 30, 40, 5)
    yield [Pause(ids("old border", "old count", "new gone"))], None
    yield [Resume(ids("old border", "new gone"))], batch(which, 40, 1, 6)
    yield [new("later")], batch(which, 44, 50, 7)
    yield [], batch(which, 58, 50, 8)
    yield [Deregister(ids("old all"))], batch(which, 70, 90, 9)
    yield [], batch(which, 95, 20, 10)


KINDS = [*((kind,) for kind in EVERY), EVERY]


every_kind = pytest.mark.parametrize("kinds", KINDS, ids="+".join)


@every_kind
def test_a_shard_that_is_built_anew_tells_what_the_kept_one_does(kinds):
    """Of every kind, at every batch, with queries that come, go and pause in between."""
    plain, refers = (Shards(STREAMS[0], wide=1, by_reference=by) for by in (False, True))
    replayed = set()
    for changes, events in history(0, kinds):
        wanted = told(plain.run(*changes, events=events))
        replayed.add(pending(refers))
        given = refers.input(*changes, events=events)
        kept = dict(LIVE)
        forget_live()
        other = refers.take(given, MemoryStore(refers.store))
        assert (other.found, told(other)) == ("rebuilt" if replayed != {0} else "new", wanted)
        forget_live()
        LIVE.update(kept)
        assert told(refers.take(given)) == wanted
    assert replayed == {0, 1, 2, 3, 4}


@every_kind
def test_a_shard_that_is_built_anew_is_the_one_that_was_kept(kinds):
    """Bit by bit, where a replay begins with what the kept one began with."""
    shards = Shards(STREAMS[0], wide=1)
    for changes, events in history(0, kinds):
        shards.run(*changes, events=events)
        state, found, position = shards.state()
        assert found == "kept"
        forget_live()
        assert shards.state() == (state, "rebuilt", position)
        forget_live()


@pytest.mark.parametrize("seed", range(3))
def test_it_is_exact_wherever_a_batch_is_cut_off(seed):
    """Between any two writes; whoever does it again has the store as it was."""
    plain, broken = (Shards(STREAMS[0], wide=1, by_reference=by) for by in (False, True))
    chance = np.random.default_rng(seed)
    for changes, events in history(0, EVERY):
        wanted = told(plain.run(*changes, events=events))
        given = broken.input(*changes, events=events)
        writes = 0
        while True:
            store = CutOff(broken.store, writes)
            if chance.random() < 0.5:
                forget_live()
            try:
                output = broken.take(given, store)
            except CutOffError:
                writes += 1
                continue
            break
        assert writes >= 2 or output.found == "new"
        assert told(output) == wanted
        broken.store = MemoryStore(store)


class CutOffError(Exception):
    """The worker dies."""


class CutOff(MemoryStore):
    """A store that takes so many writes and no more."""

    def __init__(self, store, writes):
        super().__init__(store)
        self.left = writes

    def put(self, name, value):
        if not self.left:
            raise CutOffError
        self.left -= 1
        super().put(name, value)


def test_a_worker_that_is_behind_takes_in_only_what_it_lacks():
    shards = Shards()
    shards.run(Register((eq.Range("all", {}),)), events=rows(("IBM", 1, 1.0)))
    shards.run(events=rows(("IBM", 2, 1.0)))
    stale = dict(LIVE)
    forget_live()  # another worker goes on
    assert shards.run(Register((eq.Threshold("two", {}, total=2, key="IBM"),))).found == "rebuilt"
    assert pending(shards) == 0
    shards.run(events=rows(("IBM", 3, 1.0)))
    LIVE.clear()
    LIVE.update(stale)
    shards.reader.read_so_far.clear()
    output = shards.run(events=rows(("IBM", 4, 1.0)))
    assert output.found == "caught up"
    assert sorted(shards.reader.read_so_far) == [2, 3]
    assert [(row["query_id"], row["seq"]) for row in told(output)] == [("all", 3), ("two", 3)]


def test_a_file_of_the_host_is_where_a_replay_begins(monkeypatch):
    monkeypatch.setattr(durable, "SHARED", 3)
    shards = Shards()
    many = Register(tuple(eq.Range(f"q{i}", {"price": (i, i + 2)}) for i in range(5)))
    shards.run(events=rows(("IBM", 1, 1.0)))
    shards.run(many, events=rows(("IBM", 2, 1.0)))
    shards.run(events=rows(("IBM", 3, 1.0)))
    forget_live()
    shards.reader.read_so_far.clear()
    output = shards.run(events=rows(("IBM", 4, 3.5)))
    assert output.found == "mapped"
    assert sorted(shards.reader.read_so_far) == [2, 3]
    assert [(row["query_id"], row["seq"]) for row in told(output)] == [("q2", 3), ("q3", 3)]


def test_queries_that_end_by_themselves_end_again_and_may_come_back():
    shards = Shards()
    once = Register((eq.Threshold("two", {}, total=2, key="IBM"),))
    shards.run(once, events=rows(("IBM", 1, 1.0)))
    assert len(told(shards.run(events=rows(("IBM", 2, 1.0), ("IBM", 3, 1.0))))) == 1
    shards.run(once, events=rows(("IBM", 4, 1.0)))
    forget_live()
    output = shards.run(events=rows(("IBM", 5, 1.0)))
    assert output.found == "rebuilt"
    assert [(row["query_id"], row["seq"], row["total"]) for row in told(output)] == [("two", 4, 2)]


def test_carried_columns_are_replayed():
    carried = pa.schema([("venue", pa.string())])
    shards = Shards(replace(STREAM, grace=10), carried=carried)
    events = rows(("IBM", 1, 45.0), ("AAPL", 4, 1.0))
    shards.run(events=events.append_column("venue", [["early", "held"]]))
    forget_live()
    late = rows(("AAPL", 30, 41.0)).append_column("venue", [["now"]])
    output = shards.run(Register((eq.Border("band", {"price": (40, 50)}),)), events=late)
    assert output.carried["venue"].to_pylist() == ["early"]


def test_the_clock_of_a_batch_is_that_of_its_replay():
    shards = Shards(replace(STREAM, max_ahead=10))
    shards.run(Register((eq.Range("all", {}),)), events=rows(("IBM", 110, 1.0)), clock=100)
    shards.run(events=rows(("IBM", 111, 1.0)), clock=100)  # ahead
    shards.run(events=rows(("IBM", 112, 1.0)), clock=102)
    forget_live()
    output = shards.run(events=rows(("IBM", 113, 2.0)), clock=103)
    assert [row["seq"] for row in told(output)] == [2]


# -- what is written ---------------------------------------------------------------------------


class Noting(MemoryStore):
    """A store that notes how much is written of what."""

    def __init__(self, store):
        super().__init__(store)
        self.written = {}

    def put(self, name, value):
        self.written[name] = len(value)
        super().put(name, value)


def written_by(shards, **given):
    shards.store = Noting(shards.store)
    shards.run(*given.pop("changes", ()), **given)
    return shards.store.written


def test_a_batch_writes_where_its_events_are_and_all_state_now_and_then():
    shards = Shards(STREAMS[0], wide=1)
    (changes, events), *_ = history(0, ("quantile", "window"))
    shards.run(*changes, events=events)
    for number in range(1, 4):
        written = written_by(shards, events=batch(0, 12 * number, 400, number))
        assert written.keys() == {f"references.{number}.0", NAME}
        assert written[f"references.{number}.0"] < 500
    written = written_by(shards, events=batch(0, 60, 400, 5))
    assert {"keys.base.0", "quantile.base.0", "window.base.0"} <= written.keys()
    assert not any(name.startswith(("references", "queries")) for name in written)
    assert pending(shards) == 0
    written = written_by(shards, events=batch(0, 70, 400, 6))
    assert written.keys() == {"references.0.0", NAME}


def test_many_events_are_not_replayed(monkeypatch):
    monkeypatch.setattr(references, "MOST_EVENTS", 70)
    shards = Shards()
    table = rows(*(("IBM", i, 1.0) for i in range(40)))
    found = []
    for number in range(5):
        shards.run(events=table.set_column(1, "t", pa.array(np.arange(40) + 40 * number)))
        found.append(pending(shards))
    assert found == [1, 2, 0, 1, 2]
    forget_live()
    shards.run(events=table.set_column(1, "t", pa.array(np.arange(40) + 200)))
    assert pending(shards) == 0  # what was taken in again once is not to be a second time


def test_events_that_can_not_be_read_again_are_written_as_what_they_changed():
    shards = Shards()
    everything = Register((eq.Threshold("three", {}, total=3, key="IBM"),))
    shards.run(everything, events=rows(("IBM", 1, 1.0)))
    assert pending(shards) == 1
    packed = shards.packer().pack(rows(("IBM", 2, 1.0)).to_batches())
    given = Input([], [((0, number), blob) for number, _, blob in packed])
    run_batch(shards.job, 0, given, shards.store)
    assert pending(shards) == 0
    shards.reader.clear()
    forget_live()
    assert [row["seq"] for row in told(shards.run(events=rows(("IBM", 3, 1.0))))] == [2]


def test_queries_that_are_filled_from_the_past_are_written(tmp_path):
    """A replay would find more of the past than there was."""
    stream = replace(STREAM, keep="all")
    runner = ShardedRunner(stream, history=str(tmp_path / "past"), by_reference=True)
    plain = ShardedRunner(stream, history=str(tmp_path / "other"))
    total = eq.Threshold("total", {"price": (0, 9)}, total=11, repeat=True, key="IBM")
    for number in range(6):
        events = rows(*(("IBM", 5 * number + i, float(i)) for i in range(5)))
        for each in (runner, plain):
            if number == 3:
                each.register(total, begin="oldest")
        found, wanted = (each.process(events).to_pylist() for each in (runner, plain))
        assert found == wanted
        runner.workers = [{}, {}]
    assert set(runner.found) == {"new", "rebuilt"}


def test_a_job_may_go_over_to_the_other_way_and_back():
    shards = Shards()
    three = Register((eq.Threshold("three", {}, total=3, repeat=True, key="IBM"),))
    shards.run(three, events=rows(("IBM", 1, 1.0)))
    at = []
    for number in range(2, 12):
        shards.job = replace(shards.job, by_reference=number % 4 < 2)
        output = shards.run(events=rows(("IBM", number, 1.0)))
        at += [row["seq"] for row in told(output)]
        assert pending(shards) == 0 or shards.job.by_reference
        assert pending(shards) > 0 or not shards.job.by_reference or output.found == "rebuilt"
        if number % 3:
            forget_live()
    assert at == [2, 5, 8]


# -- streams that change -----------------------------------------------------------------------


@pytest.mark.parametrize("kept", [True, False])
def test_a_replay_is_by_the_stream_as_it_was(kept):
    before, after = STREAM, replace(STREAM, grace=20, expire_after=100)
    shards, plain = Shards(before), Shards(before, by_reference=False)
    bands = Register((eq.Border("band", {"price": (40, 50)}), eq.Range("all", {})))
    for each in (shards, plain):
        each.run(bands, events=rows(("IBM", 1, 45.0), ("IBM", 9, 60.0)))
        each.run(events=rows(("IBM", 5, 45.0)))  # late: there is no grace
        each.run(events=rows(("IBM", 10, 41.0)))
        each.job = replace(each.job, stream=after)
    for number in range(3):
        if not kept:
            forget_live()
        events = rows(("IBM", 40 + 9 * number, 60.0))
        assert told(shards.run(events=events)) == told(plain.run(events=events))
        # The first writes everything, and so does who has taken something in again.
        assert pending(shards) == (number if kept else number % 2)


def test_events_are_refused_by_the_stream_as_it_was():
    shards = Shards(replace(STREAM, max_ahead=100))
    shards.run(Register((eq.Range("all", {}),)), events=rows(("IBM", 50, 1.0)), clock=0)
    shards.job = replace(shards.job, stream=replace(STREAM, max_ahead=5))
    forget_live()
    output = shards.run(events=rows(("IBM", 60, 1.0), ("IBM", 70, 1.0)), clock=60)
    assert output.found == "rebuilt"
    assert [row["seq"] for row in told(output)] == [1]
    assert output.letters["reason"].to_pylist() == ["ahead"]
