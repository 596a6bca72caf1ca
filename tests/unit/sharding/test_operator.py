"""One batch of one shard: carried columns, dead letters, quarantine, and lasting state."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.core import framing
from everquery.core.parts import Part
from everquery.errors import InvalidBatchError, SnapshotError
from everquery.index import layers, merge_rules
from everquery.kinds import KINDS
from everquery.kinds.range.index import RangeIndex
from everquery.queries.block import blocks_of_queries
from everquery.queries.changes import Deregister, Register, RegisterBlocks
from everquery.registry.codec import encode_change
from everquery.registry.rows import LogRow
from everquery.shard.layout import notice_schema
from everquery.shard.parts.keys import KeysPart
from everquery.shard.step import Stepper
from everquery.sharding import durable, head
from everquery.sharding.job import Job
from everquery.sharding.journal import PIECE, Contents, Journal, MemoryStore
from everquery.sharding.live import forget_live
from everquery.sharding.logged_queries import LoggedQueries
from everquery.sharding.operator import Input, run_batch
from everquery.sharding.packing import Packer, unpack
from everquery.sharding.places import order_of
from everquery.sharding.telling import plain_letters, plain_schema
from everquery.state import dead_letters
from tests.conformance.toy.kind import KIND as NTH

STREAM = eq.Stream("trades", key="symbol", time="t", attributes=["price"])
SPECS = {name: kind.spec for name, kind in KINDS.items()}
VENUE = pa.schema([("venue", pa.string())])


@pytest.fixture(autouse=True)
def _few_files(monkeypatch):
    """Share files of the host only where a test says so: others may have changed that."""
    monkeypatch.setattr(durable, "SHARED", 20_000)


@pytest.fixture(autouse=True)
def host(tmp_path, monkeypatch):
    """Return the folder of files that workers share."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    forget_live()
    return tmp_path / "everquery"


class OneShard:
    """A shard that is told changes and events, batch by batch."""

    def __init__(self, stream=STREAM, carried=VENUE):
        self.job = Job(stream, 1, pa.int64(), carried)
        self.store = MemoryStore()
        self.position = 0

    def run(self, *changes, rows=()):
        log = []
        for change in changes:
            for operation, count, payload in encode_change(change, self.job.stream):
                log.append(LogRow(self.position, 0, count, operation, payload))
                self.position += count
        packed = []
        if rows:
            columns = ["symbol", "t", "price", "venue"]
            table = pa.table(
                dict(zip(columns, (list(c) for c in zip(*rows, strict=True)), strict=True))
            )
            packer = Packer(self.job.stream, 1, tuple(self.job.carried.names))
            blobs = packer.pack(table.to_batches())
            packed = [((0, number), blob) for number, _, blob in blobs]
        return run_batch(self.job, 0, Input(log, packed), self.store)


def told(output):
    notices = output.notices.select(["query_id", "event", "seq"]).to_pylist()
    return [tuple(row.values()) for row in notices]


def test_carried_columns_are_those_of_the_event_that_a_notice_names():
    shard = OneShard()
    shard.run(rows=[("IBM", 1, 45.0, "early"), ("AAPL", 1, 10.0, "early")])
    forget_live()
    # Registered when IBM is inside already: the notice names IBM's last event, of the batch before.
    output = shard.run(
        Register((eq.Border("band", {"price": (40, 50)}),)),
        rows=[("AAPL", 2, 41.0, "now"), ("IBM", 3, 60.0, "late")],
    )
    assert told(output) == [("band", "enter", 0), ("band", "enter", 1), ("band", "leave", 1)]
    assert output.carried["venue"].to_pylist() == ["early", "now", "late"]


def test_carried_columns_of_earlier_events_that_know_more():
    shard = OneShard(eq.Stream("trades", key="symbol", time="t", attributes=["price", "size"]))
    shard.run(rows=[("IBM", 1, 45.0, "known"), ("IBM", 2, None, "lacking")])
    forget_live()
    shard.run(rows=[("IBM", 3, None, "lacking too")])
    forget_live()
    output = shard.run(Register((eq.Border("band", {"price": (40, 50)}), eq.Border("all", {}))))
    assert told(output) == [("band", "enter", 0), ("all", "enter", 2)]
    assert output.carried["venue"].to_pylist() == ["known", "lacking too"]
    output = shard.run(rows=[("IBM", 4, 60.0, "gone")])
    assert told(output) == [("band", "leave", 3)]
    assert output.partial.by_column == {"size": 1}


def test_a_checkpoint_knows_what_queries_saw_last():
    """Changes since the last commit have the earlier events of changed keys, and of no others."""
    stream = eq.Stream("trades", key="symbol", time="t", attributes=["price", "size"])
    shard = OneShard(stream)
    shard.run(rows=[(f"K{i}", 1, float(i), "") for i in range(9)])
    for time in (2, 3):
        shard.run(rows=[("K1", time, None, ""), ("K2", time, None, "")])
        forget_live()
    shard.run(rows=[("K2", 4, 50.0, "")])
    forget_live()
    output = shard.run(Register((eq.Border("low", {"price": (0, 3)}),)))
    assert told(output) == [("low", "enter", 0)] * 2
    assert output.notices["price"].to_pylist() == [0.0, 1.0]


def test_carried_columns_of_events_that_the_grace_held_back():
    stream = eq.Stream("trades", key="symbol", time="t", attributes=["price"], grace=10)
    shard = OneShard(stream)
    everything = Register((eq.Range("all", {}),))
    assert told(shard.run(everything, rows=[("IBM", 5, 1.0, "b"), ("IBM", 4, 2.0, "a")])) == []
    forget_live()
    output = shard.run(rows=[("AAPL", 20, 3.0, "c")])
    assert told(output) == [("all", "match", 0), ("all", "match", 1)]
    assert output.carried["venue"].to_pylist() == ["a", "b"]


def test_carried_columns_of_a_stream_without_key():
    shard = OneShard(eq.Stream("trades", time="t", attributes=["price"]))
    output = shard.run(
        Register((eq.Range("low", {"price": (0, 2)}),)),
        rows=[("x", 1, 1.0, "a"), ("y", 2, 5.0, "b"), ("z", 3, 1.5, "c")],
    )
    assert told(output) == [("low", "match", 0), ("low", "match", 2)]
    assert output.carried["venue"].to_pylist() == ["a", "c"]


class TestCounts:
    """How far thresholds are, in the store."""

    ROWS = ([("IBM", i, float(i % 10), "x") for i in range(40)], [("IBM", 50, 1.0, "x")])

    def queries(self, n=40, **options):
        return tuple(
            eq.Threshold(f"t{i}", {"price": (i % 10, i % 10 + 3)}, total=100 + i, **options)
            for i in range(n)
        )

    def lefts(self, shard):
        here = durable.DurableShard.open(shard.job, 0, shard.store)
        contents = here.shard.contents
        slots = contents.of_kind(contents.catalog.kept().astype(np.int32), "threshold")
        left = contents.indexes["threshold"].state(slots)["left"]
        ids = contents.catalog.names.strings().take(pa.array(slots)).to_pylist()
        return dict(zip(ids, left.tolist(), strict=True))

    @pytest.mark.parametrize("keyed", [False, True])
    def test_rebuilt_counts_are_those_that_were_kept(self, keyed):
        stream = STREAM if keyed else eq.Stream("trades", time="t", attributes=["price"])
        shard = OneShard(stream)
        shard.run(Register(self.queries(key="IBM" if keyed else None)), rows=self.ROWS[0])
        shard.run(rows=self.ROWS[1])  # changes a few: an entry behind the base
        kept = self.lefts(shard)
        assert len(kept) == 40
        assert len(set(kept.values())) > 20
        forget_live()
        assert self.lefts(shard) == kept
        shard.run(rows=[("IBM", 60, 2.0, "x")])
        shard.run(Deregister(pa.array(["t3", "t4"])))  # others have another place now
        kept = self.lefts(shard)
        assert len(kept) == 38
        forget_live()
        assert self.lefts(shard) == kept

    def test_all_gone_and_some_back(self):
        shard = OneShard()
        shard.run(Register(self.queries(2, key="IBM")), rows=self.ROWS[0])
        shard.run(Deregister(pa.array(["t0", "t1"])))
        forget_live()
        assert self.lefts(shard) == {}
        shard.run(Register(self.queries(1, key="IBM")))
        forget_live()
        assert self.lefts(shard) == {"t0": 100}

    def test_without_wide_shards_a_threshold_for_all_keys_is_quarantined(self):
        shard = OneShard()
        both = Register(
            (eq.Threshold("all", {}, total=2), eq.Threshold("ibm", {}, total=2, key="IBM"))
        )
        output = shard.run(both, rows=self.ROWS[0])
        assert list(output.quarantined) == [("threshold", "all")]
        assert "wide_shards=1" in output.quarantined["threshold", "all"]
        assert told(output) == [("ibm", "fire", 1)]

    def test_a_wide_shard_tells_of_no_refused_event(self):
        job = Job(STREAM, 1, pa.int64(), wide=1)
        prices = [None, 1.0, 1.0]
        table = pa.table({"symbol": ["IBM", None, "A"], "t": [1, 2, 3], "price": prices})
        outputs = {}
        query = Register((eq.Threshold("all", {}, total=2),))
        ((operation, count, payload),) = encode_change(query, STREAM)
        for _, number, blob in Packer(STREAM, 1, wide=1).pack(table.to_batches()):
            log = [LogRow(0, 0, count, operation, payload)] if number else []
            given = Input(log, [((0, 0), blob)])
            outputs[number] = run_batch(job, number, given, MemoryStore())
        assert [outputs[number].letters.num_rows for number in (0, 1)] == [1, 0]
        assert [outputs[number].events for number in (0, 1)] == [2, 0]
        assert [outputs[number].partial.events for number in (0, 1)] == [1, 0]
        assert outputs[1].notices.select(["key", "seq", "total"]).to_pylist() == [
            {"key": "A", "seq": 0, "total": 2}
        ]

    def test_another_number_of_wide_shards_is_refused(self):
        shard = OneShard()
        shard.run(rows=self.ROWS[0])
        shard.job = replace(shard.job, wide=1)
        with pytest.raises(SnapshotError, match="0 wide shards, and this run has 1"):
            shard.run(rows=self.ROWS[1])


def test_letters_come_once_and_are_counted():
    shard = OneShard()
    output = shard.run(rows=[(None, 1, 1.0, ""), (None, 5, None, ""), ("IBM", 5, 1.0, "")])
    assert output.letters["reason"].to_pylist() == ["null_key", "null_key"]
    late = shard.run(rows=[("IBM", 3, 1.0, "")])
    assert late.letters["reason"].to_pylist() == ["late"]
    assert shard.run().letters.num_rows == 0
    assert framing.unpack(shard.store["head"])[0]["shard"] == 0


@pytest.fixture
def poison(monkeypatch):
    """Let every range whose box begins at 13 make the index raise."""
    plain = RangeIndex.process

    def process(self, step):
        for rows in self.rows(step.flags):
            if np.any(rows.low[0] == 13.0):
                raise ZeroDivisionError("a box at 13")
        return plain(self, step)

    monkeypatch.setattr(RangeIndex, "process", process)


def test_a_poison_query_is_taken_out_and_the_others_go_on(poison):
    shard = OneShard()
    queries = [eq.Range(f"q{i}", {"price": (float(i), 100.0)}) for i in range(40)]
    output = shard.run(Register(tuple(queries)), rows=[("IBM", 1, 20.5, "x")])
    assert output.quarantined == {("range", "q13"): "ZeroDivisionError: a box at 13"}
    assert [query_id for query_id, _, _ in told(output)] == [f"q{i}" for i in range(21) if i != 13]
    forget_live()
    again = shard.run(rows=[("IBM", 2, 2.5, "x")])
    assert again.quarantined == {}
    assert again.found == "rebuilt"
    assert [query_id for query_id, _, _ in told(again)] == ["q0", "q1", "q2"]
    assert again.queries == 39


def test_a_query_may_turn_to_poison_later(poison, monkeypatch):
    shard = OneShard()
    with monkeypatch.context() as patch:
        patch.setattr(RangeIndex, "process", lambda self, step: [])
        shard.run(
            Register((eq.Range("good", {"price": (0, 9)}), eq.Range("bad", {"price": (13, 20)})))
        )
    output = shard.run(rows=[("IBM", 1, 5.0, "x")])
    assert list(output.quarantined) == [("range", "bad")]
    assert told(output) == [("good", "match", 0)]
    # Its id is free again.
    output = shard.run(
        Deregister(pa.array(["bad"])),
        Register((eq.Range("bad", {"price": (0, 20)}),)),
        rows=[("IBM", 2, 15.0, "x")],
    )
    assert told(output) == [("bad", "match", 1)]


def test_what_is_no_querys_fault_is_raised(monkeypatch):
    shard = OneShard()

    def answer(self, accepted):
        raise RuntimeError("always")

    monkeypatch.setattr(Stepper, "answer", answer)
    with pytest.raises(RuntimeError, match="always"):
        shard.run(Register((eq.Range("q", {}),)), rows=[("IBM", 1, 5.0, "x")])
    assert "head" not in shard.store  # nothing was written


def test_a_merge_that_fails_stops_nothing_and_is_warned_of_14(monkeypatch, caplog):
    monkeypatch.setattr(merge_rules, "MERGED_AT_ONCE", 4)
    shard = OneShard()
    run = layers.Merge.run

    def broken(merge):
        raise MemoryError("no room")

    for wave in range(5):
        monkeypatch.setattr(layers.Merge, "run", broken if wave < 4 else run)
        queries = tuple(eq.Range(f"w{wave}q{i}", {"price": (i, i + 1)}) for i in range(8))
        output = shard.run(Register(queries), rows=[("IBM", wave, 0.5, "x")])
        assert len(told(output)) == wave + 1
        assert not output.quarantined
    assert "a merge of range queries failed" in caplog.text
    assert "in broken" in caplog.text  # the traceback
    here = durable.DurableShard.open(shard.job, 0, shard.store)
    assert len(list(here.shard.contents.indexes["range"].layers)) <= 2


def test_a_key_of_another_type_is_refused():
    shard = OneShard(carried=pa.schema([]))
    shard.run(Register((eq.Range("q", {}, key="IBM"),)))
    packer = Packer(STREAM, 1)
    table = pa.table({"symbol": [1], "t": [1], "price": [1.0]})
    blobs = [((0, number), blob) for number, _, blob in packer.pack(table.to_batches())]
    with pytest.raises(InvalidBatchError, match="keys of this stream are strings"):
        run_batch(shard.job, 0, Input([], blobs), shard.store)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (Job(eq.Stream("other", key="k", attributes=["x"]), 1, pa.null()), "another stream"),
        (Job(STREAM, 4, pa.int64()), "of 1 shards, and this run has 4"),
    ],
)
def test_state_of_another_job_is_refused(job, words):
    shard = OneShard()
    shard.run(rows=[("IBM", 1, 1.0, "x")])
    with pytest.raises(SnapshotError, match=words):
        run_batch(job, 0, Input([], []), shard.store)


def test_state_of_a_newer_everquery_is_refused(monkeypatch):
    shard = OneShard()
    with monkeypatch.context() as patch:
        patch.setattr(head, "VERSION", 2)
        shard.run(rows=[("IBM", 1, 1.0, "x")])
    with pytest.raises(SnapshotError, match=r"version 2, .* reads up to 1; upgrade everquery"):
        shard.run()


def test_a_part_of_a_newer_everquery_is_refused(monkeypatch):
    shard = OneShard()
    with monkeypatch.context() as patch:
        patch.setattr(KeysPart, "version", 2)
        shard.run(rows=[("IBM", 1, 1.0, "x")])
    forget_live()
    with pytest.raises(SnapshotError, match=r"part 'keys' in version 2, .* upgrade everquery"):
        shard.run()


def test_a_part_that_nobody_knows_is_refused():
    shard = OneShard()
    shard.run(rows=[("IBM", 1, 1.0, "x")])
    header, _, _ = framing.unpack(shard.store["head"])
    header["journals"]["future"] = header["journals"]["keys"]
    shard.store["head"] = framing.pack(header, {})
    with pytest.raises(SnapshotError, match=r"part 'future', .* upgrade everquery"):
        shard.run()


def test_state_before_there_were_parts_is_refused():
    shard = OneShard()
    shard.store["head"] = json.dumps({"layout": 5}).encode()
    with pytest.raises(SnapshotError, match="start with a new checkpoint"):
        shard.run()


def test_live_arrays_of_a_failed_attempt_are_not_used():
    shard = OneShard()
    shard.run(Register((eq.Border("band", {"price": (40, 50)}),)), rows=[("IBM", 1, 45.0, "x")])
    committed = MemoryStore(shard.store)
    shard.run(rows=[("IBM", 2, 60.0, "x")])  # its state is lost, its live arrays are not
    shard.store = committed
    output = shard.run(rows=[("IBM", 2, 44.0, "x")])
    assert output.found == "rebuilt"
    assert told(output) == []  # still inside


def test_journals_become_a_new_base(monkeypatch):
    monkeypatch.setattr(LoggedQueries, "most_entries", 5)
    monkeypatch.setattr(Part, "most_entries", 3)
    shard = OneShard(carried=pa.schema([]))
    for i in range(30):
        shard.run(
            Register((eq.Border(f"q{i}", {"price": (i, i + 10)}, key=f"k{i}"),)),
            rows=[(f"k{i}", i, 1.0 * i, "x")],
        )
    journals = framing.unpack(shard.store["head"])[0]["journals"]
    assert 0 < journals["queries"]["base"] <= 30
    assert len(journals["queries"]["entries"]) <= 6
    assert journals["keys"]["base"] >= journals["queries"]["base"]
    forget_live()
    output = shard.run(rows=[(f"k{i}", 100, 0.0 if i else 99.0, "x") for i in range(30)])
    assert output.queries == 30
    assert sorted(told(output)) == sorted((f"q{i}", "leave", 1) for i in range(30))


def test_large_values_are_cut_into_pieces_that_are_removed_again():
    store = MemoryStore()
    journal = Journal("x", store, Contents())
    large = bytes(range(256)) * (3 * PIECE // 256) + b"end"
    journal.append(0, large)
    journal.append(1, b"small")
    assert list(journal.after(-1)) == [(0, large), (1, b"small")]
    assert list(journal.after(0)) == [(1, b"small")]
    assert max(map(len, store.values())) == PIECE
    journal.rebase(2, large)
    assert journal.base() == large
    journal.rebase(3, b"tiny")
    assert journal.base() == b"tiny"
    assert sum(map(len, store.values())) < PIECE
    del store["x.base.0"]
    with pytest.raises(SnapshotError, match=r"lacks x\.base\.0"):
        journal.base()


def bands(numbers):
    return Register(tuple(eq.Border(f"b{i}", {"price": (i, i + 1.5)}) for i in numbers))


def test_workers_of_a_host_share_a_file(host, monkeypatch):
    monkeypatch.setattr(durable, "SHARED", 10)
    shard = OneShard()
    shard.run(bands(range(20)), rows=[("IBM", 1, 5.2, "x")])
    (first,) = host.glob("*.arrays")
    shard.run(bands(range(20, 23)), rows=[("IBM", 2, 9.8, "x")])
    forget_live()
    output = shard.run(rows=[("IBM", 3, 21.2, "x")])
    assert output.found == "mapped"
    assert told(output) == [("b9", "leave", 2), ("b20", "enter", 2), ("b21", "enter", 2)]
    # Enough that is new makes a new file, and the old one goes.
    shard.run(bands(range(30, 60)))
    (second,) = host.glob("*.arrays")
    assert second != first
    second.unlink()  # a file is a short cut, nothing more
    forget_live()
    output = shard.run(rows=[("IBM", 4, 31.2, "x")])
    assert output.found == "rebuilt"
    assert output.queries == 53


def test_a_file_that_cannot_be_written_is_done_without(host, monkeypatch):
    monkeypatch.setattr(durable, "SHARED", 10)
    host.parent.joinpath("everquery").write_text("no folder")
    shard = OneShard()
    assert shard.run(bands(range(20)), rows=[("IBM", 1, 5.2, "x")]).queries == 20
    forget_live()
    assert shard.run(rows=[("IBM", 2, 5.1, "x")]).found == "rebuilt"


@pytest.mark.parametrize("folder", ["", "others"])
def test_a_folder_that_others_can_write_to_is_not_used(host, monkeypatch, folder):
    monkeypatch.setattr(durable, "SHARED", 10)
    if folder:
        host.mkdir()
        host.chmod(0o777)
    else:
        monkeypatch.delenv("SPARK_LOCAL_DIRS")
    shard = OneShard()
    assert shard.run(bands(range(20))).queries == 20
    forget_live()
    assert shard.run().found == "rebuilt"
    assert not list(host.glob("*"))


def test_mapped_arrays_change_for_one_worker_only(host, monkeypatch):
    monkeypatch.setattr(durable, "SHARED", 10)
    shard = OneShard()
    shard.run(bands(range(20)), rows=[("IBM", 1, 5.2, "x")])
    before = next(host.glob("*.arrays")).read_bytes()
    forget_live()
    shard.run(Deregister(pa.array(["b5"])), rows=[("IBM", 2, 9.2, "x"), ("AAPL", 2, 9.2, "x")])
    assert next(host.glob("*.arrays")).read_bytes() == before


@pytest.mark.parametrize("at", [0, 1, -1])
def test_a_store_that_fails_is_no_querys_fault(monkeypatch, at):
    shard = OneShard()
    shard.run(Register((eq.Border("old", {"price": (40, 50)}),)), rows=[("IBM", 1, 45.0, "x")])
    before = MemoryStore(shard.store)
    log = shard.position
    written = []

    def put(store, name, value):
        store[name] = value
        written.append(name)
        if name == "head" if at < 0 else len(written) > at:
            raise RuntimeError("no answer")  # the value is there, and the writer does not know

    given = (Register((eq.Border("new", {"price": (40, 50)}),)),)
    rows = [("IBM", 2, 60.0, "x"), ("IBM", 3, 44.0, "x")]
    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "put", put)
        with pytest.raises(RuntimeError, match="no answer"):
            shard.run(*given, rows=rows)
    assert written.count("head") <= 1
    shard.store, shard.position = before, log  # what a runtime does after a failure
    output = shard.run(*given, rows=rows)
    assert output.quarantined == {}
    assert told(output) == [
        ("new", "enter", 0), ("old", "leave", 1), ("new", "leave", 1),
        ("old", "enter", 2), ("new", "enter", 2),
    ]  # fmt: skip


def test_refused_events_keep_their_columns_and_get_ids(monkeypatch):
    monkeypatch.setattr(dead_letters, "KEPT", 3)  # of a batch that leaves at once, all are kept
    shard = OneShard()
    rows = [(None, 1, 1.0, f"v{i}") for i in range(5)]
    output = shard.run(rows=[("IBM", 5, 1.0, "first"), *rows])
    output = shard.run(rows=[("IBM", 4, 1.0, "late"), *rows])
    assert output.letters["reason"].to_pylist() == [*5 * ["null_key"], "late"]
    carried = output.letters_carried["venue"].to_pylist()
    assert carried == ["v0", "v1", "v2", "v3", "v4", "late"]
    plain = plain_schema(notice_schema(STREAM, pa.int64(), pa.string()), VENUE)
    told = plain_letters(output.letters, 0, 0, plain, output.letters_carried)
    other = plain_letters(output.letters, 1, 0, plain, output.letters_carried)
    assert told["venue"].to_pylist() == carried
    assert len({*told["notice_id"].to_pylist(), *other["notice_id"].to_pylist()}) == 12


@pytest.mark.parametrize("seed", range(5))
def test_events_are_taken_by_their_places_wherever_they_were_packed_12(seed):
    stream = eq.Stream("ticks", attributes=["price"])
    rng = np.random.default_rng(seed)
    places = [(a, b, c) for a in ("x", "y", None) for b in (-5, 7, 40) for c in range(6)]
    given = rng.permutation(len(places))
    packer = Packer(stream, 1, blob_rows=9)
    events = []
    for partition, rows in enumerate(np.array_split(given, 4)):
        table = pa.table(
            {
                "price": rows.astype(float),
                "everquery source 0": [places[row][0] for row in rows],
                "everquery source 1": [places[row][1] for row in rows],
                "everquery offset": [places[row][2] for row in rows],
            }
        )
        for number, _, blob in packer.pack(table.to_batches(5)):
            events.append(((partition, number), blob))
    job = Job(stream, 1, pa.null())
    log = [
        LogRow(0, 0, count, operation, payload)
        for operation, count, payload in encode_change(Register((eq.Range("r", {}),)), stream)
    ]
    output = run_batch(job, 0, Input(log, events), MemoryStore())
    null_first = [36, *range(37, 54), *range(36)]
    assert output.notices["price"].to_pylist() == null_first
    assert output.notices["seq"].to_pylist() == list(range(54))


def test_files_are_taken_by_name_and_rows_in_them_as_they_were_read_12():
    stream = eq.Stream("ticks", attributes=["price"])
    files = ["file:/a%20b/2.csv", "file:/a%20b/1.csv", "file:/a!b/9.csv"]
    table = pa.table(
        {
            "price": np.arange(12.0),
            "everquery source path 1": np.repeat(files, 4),
            "everquery source 2": [5, 5, 0, 0] * 3,
        }
    )
    ((_, _, blob),) = Packer(stream, 1).pack(table.to_batches())
    part = unpack(blob, stream, pa.null())
    order = order_of([(part.metadata, 12, part.offset)])
    assert order.tolist() == [6, 7, 4, 5, 2, 3, 0, 1, 10, 11, 8, 9]


@pytest.mark.parametrize("in_bulk", [False, True])
def test_queries_with_keys_of_another_type_are_taken_out(in_bulk):
    job = Job(STREAM, 1, pa.int64(), key_type=pa.string())
    change = Register((eq.Range("r", {"price": (0, 9)}, key=5),))
    if in_bulk:
        change = RegisterBlocks(blocks_of_queries(list(change.queries), STREAM))
    log = [
        LogRow(0, 0, count, operation, payload)
        for operation, count, payload in encode_change(change, STREAM)
    ]
    output = run_batch(job, 0, Input(log, []), MemoryStore())
    reason = "keys of this stream are strings, and its key is none"
    assert output.quarantined == {("range", "r"): reason}
    assert output.queries == 0


def test_state_has_parts_of_the_kinds_of_its_job_alone_14(monkeypatch):
    shard = OneShard()
    with monkeypatch.context() as patch:  # another job of this worker has brought a kind along
        patch.setitem(KINDS, "nth", NTH)
        shard.run(Register((eq.Range("all", {}),)), rows=[("IBM", 1, 0.5, "x")])
    forget_live()
    assert told(shard.run(rows=[("IBM", 2, 0.5, "x")])) == [("all", "match", 1)]
