"""State that refers to the events of batches: what is written, replayed, and found to be gone."""

import copy
import os
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everquery as eq
from everquery.core import framing
from everquery.core.parts import pack_parts
from everquery.errors import EventsGoneError, SnapshotError
from everquery.kinds.range.index import RangeIndex
from everquery.queries.changes import Deregister, Pause, Register, Resume
from everquery.registry.codec import encode_change
from everquery.registry.rows import LogRow
from everquery.sharding import durable, replayed_events, steps
from everquery.sharding.durable import DurableShard
from everquery.sharding.head import NAME
from everquery.sharding.job import Job
from everquery.sharding.journal import MemoryStore
from everquery.sharding.live import LIVE, forget_live
from everquery.sharding.operator import Input, run_batch
from everquery.sharding.packing import Packer
from everquery.sharding.replayed_events import ReplayedEvents
from everquery.sharding.span_events import SpanEvents
from everquery.sharding.spans import Spans
from everquery.sharding.steps import Counts, Step
from everquery.sources.section_events import read_section
from everquery.sources.sections import Section, sections_of
from tests.attack.snapshots import EVERY, STREAMS, batch, queries
from tests.conformance.sharded import ShardedRunner

STREAM = eq.Stream("trades", key="symbol", time="t", attributes=["price"])
WIDE = 1  # the shard that takes queries of all kinds


@pytest.fixture(autouse=True)
def _small(monkeypatch, tmp_path):
    monkeypatch.setattr(steps, "MOST_STEPS", 4)
    monkeypatch.setattr(durable, "SHARED", 20_000)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "host"))
    forget_live()


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
    header, _, _ = framing.unpack(shards.store[NAME])
    return len(header["journals"].get("steps", {"entries": []})["entries"])


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


@pytest.mark.parametrize("kinds", KINDS, ids="+".join)
def test_a_shard_that_is_built_anew_is_the_one_that_was_kept(kinds):
    """Of every kind, at every batch, with queries that come, go and pause in between."""
    kept = Shards(STREAMS[0], wide=1)
    plain = Shards(STREAMS[0], wide=1, by_reference=False)
    most = 0
    for changes, events in history(0, kinds):
        wanted = told(plain.run(*changes, events=events))
        assert told(kept.run(*changes, events=events)) == wanted
        most = max(most, pending(kept))
        frame, found, position = kept.state()
        assert found == "kept"
        forget_live()
        assert kept.state() == (frame, "rebuilt", position)
        # The next batch finds a shard that was built anew, and every third one that was kept.
        if kept.given % 3 == 0:
            kept.state()
        forget_live()
    assert most == 4  # so some were replayed, and some bases written


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
    stale = copy.deepcopy(dict(LIVE))
    shards.run(Register((eq.Threshold("two", {}, total=2, key="IBM"),)))
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
        assert written.keys() == {f"steps.{number}.0", NAME}
        assert written[f"steps.{number}.0"] < 500
    written = written_by(shards, events=batch(0, 60, 400, 5))
    assert {"keys.base.0", "quantile.base.0", "window.base.0"} <= written.keys()
    assert not any(name.startswith(("steps", "queries")) for name in written)
    assert pending(shards) == 0
    written = written_by(shards, events=batch(0, 70, 400, 6))
    assert written.keys() == {"steps.0.0", NAME}


def test_many_events_are_not_replayed(monkeypatch):
    monkeypatch.setattr(steps, "MOST_EVENTS", 70)
    shards = Shards()
    table = rows(*(("IBM", i, 1.0) for i in range(40)))
    found = []
    for number in range(5):
        shards.run(events=table.set_column(1, "t", pa.array(np.arange(40) + 40 * number)))
        found.append(pending(shards))
        forget_live()  # who replays them counts them too
    assert found == [1, 2, 0, 1, 2]


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
        at += [row["seq"] for row in told(shards.run(events=rows(("IBM", number, 1.0))))]
        assert (pending(shards) > 0) == shards.job.by_reference
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
        assert pending(shards) == number  # the first writes everything


def test_events_are_refused_by_the_stream_as_it_was():
    shards = Shards(replace(STREAM, max_ahead=100))
    shards.run(Register((eq.Range("all", {}),)), events=rows(("IBM", 50, 1.0)), clock=0)
    shards.job = replace(shards.job, stream=replace(STREAM, max_ahead=5))
    forget_live()
    output = shards.run(events=rows(("IBM", 60, 1.0), ("IBM", 70, 1.0)), clock=60)
    assert output.found == "rebuilt"
    assert [row["seq"] for row in told(output)] == [1]
    assert output.letters["reason"].to_pylist() == ["ahead"]


# -- what is gone ------------------------------------------------------------------------------


class SectionReader:
    """Reads sections of files, as `read_files` does."""

    schema = pa.schema([("symbol", pa.string()), ("t", pa.int64()), ("price", pa.float64())])

    def read(self, name):
        yield from read_section(Section(**name), STREAM, self.schema)


class FileShards(Shards):
    """Shards whose batches are files."""

    def __init__(self, folder):
        super().__init__(reader=SectionReader())
        self.folder = folder

    def input(self, *changes, events=None, clock=None):
        path = self.folder / f"{self.given}.parquet"
        self.given += 1
        pq.write_table(events, path)
        return self.log(*changes), Spans([asdict(section) for section in sections_of(path)])


def remove(path):
    path.unlink()


def touch(path):
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1_000))


def rewrite(path):
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("change", "said"), [(remove, "it is gone"), (touch, "has changed"), (rewrite, "has changed")]
)
def test_a_file_that_is_not_what_it_was_is_an_error_that_says_what_to_do(tmp_path, change, said):
    shards = FileShards(tmp_path)
    shards.run(Register((eq.Range("all", {}),)), events=rows(("IBM", 1, 1.0)))
    shards.run(events=rows(("IBM", 2, 1.0)))
    first = tmp_path / "0.parquet"
    content, status = first.read_bytes(), first.stat()
    change(first)
    assert len(told(shards.run(events=rows(("IBM", 3, 1.0))))) == 1  # live arrays need it not
    forget_live()
    store = copy.copy(shards.store)
    given = shards.input(events=rows(("IBM", 4, 1.0)))
    with pytest.raises(
        EventsGoneError, match=rf"(?s)shard 0 .*{first} .*{said}.*put it back.*new checkp"
    ):
        shards.take(given)
    assert shards.store == store
    first.write_bytes(content)
    os.utime(first, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert [row["seq"] for row in told(shards.take(given))] == [3]


def test_files_before_the_last_whole_state_are_not_needed(tmp_path):
    shards = FileShards(tmp_path)
    for number in range(7):
        shards.run(events=rows(("IBM", number, 1.0)))
    assert pending(shards) == 2
    for number in range(5):
        Path(tmp_path / f"{number}.parquet").unlink()
    forget_live()
    output = shards.run(Register((eq.Border("in", {}),)), events=rows(("IBM", 8, 1.0)))
    assert output.found == "rebuilt"
    assert [row["seq"] for row in told(output)] == [6]


def test_other_events_than_before_are_found_out():
    shards = Shards()
    shards.run(Register((eq.Range("low", {"price": (0, 5)}),)), events=rows(("IBM", 1, 1.0)))
    shards.reader[0] = rows(("IBM", 1, 1.0), ("IBM", 2, 1.0))
    forget_live()
    with pytest.raises(EventsGoneError, match=r"came to 1 arrived, now 2; .*1 notices, now 2"):
        shards.run(events=rows(("IBM", 3, 1.0)))


def test_a_source_without_spans_is_an_error_that_says_what_to_do():
    shards = Shards()
    shards.run(events=rows(("IBM", 1, 1.0)))
    forget_live()
    with pytest.raises(EventsGoneError, match="give the source that it was written with"):
        run_batch(shards.job, 0, Input([], []), shards.store)


def test_a_poison_query_stays_out_of_a_replay(monkeypatch):
    plain = RangeIndex.process

    def process(self, step):
        for part in self.rows(step.flags):
            if np.any(part.low[0] == 13.0):
                raise ZeroDivisionError("a box at 13")
        return plain(self, step)

    monkeypatch.setattr(RangeIndex, "process", process)
    shards = Shards()
    shards.run(events=rows(("IBM", 1, 14.0)))
    many = tuple(eq.Range(f"q{i}", {"price": (float(i), 100.0)}) for i in range(11, 16))
    output = shards.run(Register(many), events=rows(("IBM", 2, 14.5)))
    assert list(output.quarantined) == [("range", "q13")]
    forget_live()
    again = shards.run(events=rows(("IBM", 3, 12.5)))
    assert again.found == "rebuilt"
    assert [row["query_id"] for row in told(again)] == ["q11", "q12"]


# -- steps and their events --------------------------------------------------------------------


def test_spans_are_read_once_for_all_shards_that_are_built_anew():
    reader = Batches()
    for number in range(3):
        reader[number] = rows(("IBM", number, 1.0), ("AAPL", number, 2.0))
    past = ReplayedEvents(reader, Packer(STREAM, 1, wide=2))
    found = [past.of_shard(Spans([0, 1]), shard, STREAM) for shard in range(3)]
    assert [[len(part.arrivals) for _, part in parts] for parts in found] == [[2, 2]] * 3
    assert reader.read_so_far == [0, 1]
    past.of_shard(Spans([0, 1]), 0, STREAM)  # tried again
    assert reader.read_so_far == [0, 1, 0, 1]


def test_events_that_wait_for_other_shards_are_not_too_many(monkeypatch):
    monkeypatch.setattr(replayed_events, "KEPT_EVENTS", 2)
    reader = Batches()
    for number in range(3):
        reader[number] = rows(("IBM", number, 1.0))
    past = ReplayedEvents(reader, Packer(STREAM, 1, wide=2))
    for shard in range(3):
        assert len(past.of_shard(Spans([0, 1, 2]), shard, STREAM)) == 3
    assert reader.read_so_far == [0, 1, 2, 1, 2, 1, 2]


STEP = Step(Spans([{"path": "é"}], (), 7), 2, Counts(5, 4, 3, 2, 1))


def test_a_step_is_read_as_it_was_written():
    assert Step.from_bytes(STEP.to_bytes()) == STEP
    assert Step.from_bytes(replace(STEP, spans=Spans([])).to_bytes()).spans.clock is None


@pytest.mark.parametrize(
    "changes",
    [
        {"holds": "head"},
        {"names": "all"},
        {"clock": "noon"},
        {"changes": -1},
        {"changes": 3},
        {"counts": {}},
        {"counts": {**asdict(STEP.counts), "keys": -1}},
    ],
)
def test_forged_steps_are_refused(changes):
    shards = Shards()
    shards.run(events=rows(("IBM", 1, 1.0)))
    header, _, _ = framing.unpack(shards.store["steps.0.0"])
    shards.store["steps.0.0"] = framing.pack({**header, **changes}, {})
    forget_live()
    with pytest.raises(SnapshotError, match="start with a new checkpoint"):
        shards.run()


@pytest.mark.parametrize("forge", [lambda entries: entries[1:], lambda entries: entries * 2])
def test_steps_that_lead_elsewhere_are_refused(forge):
    shards = Shards()
    for number in range(3):
        shards.run(events=rows(("IBM", number, 1.0)))
    header, _, _ = framing.unpack(shards.store[NAME])
    journal = header["journals"]["steps"]
    journal["entries"] = forge(journal["entries"][:-1])
    shards.store[NAME] = framing.pack(header, {})
    forget_live()
    with pytest.raises(SnapshotError, match="start with a new checkpoint"):
        shards.run()
