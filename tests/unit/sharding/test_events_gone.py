"""State that refers to events: those that are gone, or others, and references that are forged."""

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
from everquery.errors import EventsGoneError, RecordsLostError, SnapshotError
from everquery.kinds.range.index import RangeIndex
from everquery.queries.changes import Register
from everquery.sharding import durable, references, replayed_events
from everquery.sharding.head import NAME
from everquery.sharding.live import forget_live
from everquery.sharding.operator import Input, run_batch
from everquery.sharding.packing import Packer
from everquery.sharding.references import Counts, Reference
from everquery.sharding.replayed_events import ReplayedEvents
from everquery.sharding.spans import Spans
from everquery.sources.section_events import read_section
from everquery.sources.sections import Section, sections_of
from tests.unit.sharding.referring import (
    STREAM,
    Batches,
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


def test_records_that_kafka_has_deleted_are_such_an_error_too(monkeypatch):
    shards = Shards()
    shards.run(events=rows(("IBM", 1, 1.0)))
    given = shards.input(events=rows(("IBM", 2, 1.0)))
    forget_live()

    def read(self, name):
        raise RecordsLostError("offsets 0 to 1 are gone; give the topic a longer retention")

    with monkeypatch.context() as patch:
        patch.setattr(ReplayedEvents, "_span", lambda self, name, *_: read(self, name))
        with pytest.raises(EventsGoneError, match=r"longer retention.*begin a new checkpoint"):
            shards.take(given)
    shards.take(given)


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


# -- references and their events ---------------------------------------------------------------


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


REFERENCE = Reference(Spans([{"path": "é"}], (), 7), 2, Counts(5, 4, 3, 2, 1))


def test_a_reference_is_read_as_it_was_written():
    assert Reference.from_bytes(REFERENCE.to_bytes()) == REFERENCE
    assert Reference.from_bytes(replace(REFERENCE, spans=Spans([])).to_bytes()).spans.clock is None


@pytest.mark.parametrize(
    "changes",
    [
        {"holds": "head"},
        {"names": "all"},
        {"clock": "noon"},
        {"changes": -1},
        {"changes": 3},
        {"counts": {}},
        {"counts": {**asdict(REFERENCE.counts), "keys": -1}},
    ],
)
def test_forged_references_are_refused(changes):
    shards = Shards()
    shards.run(events=rows(("IBM", 1, 1.0)))
    header, _, _ = framing.unpack(shards.store["references.0.0"])
    shards.store["references.0.0"] = framing.pack({**header, **changes}, {})
    forget_live()
    with pytest.raises(SnapshotError, match="start with a new checkpoint"):
        shards.run()


@pytest.mark.parametrize("forge", [lambda entries: entries[1:], lambda entries: entries * 2])
def test_references_that_lead_elsewhere_are_refused(forge):
    shards = Shards()
    for number in range(3):
        shards.run(events=rows(("IBM", number, 1.0)))
    header, _, _ = framing.unpack(shards.store[NAME])
    journal = header["journals"]["references"]
    journal["entries"] = forge(journal["entries"][:-1])
    shards.store[NAME] = framing.pack(header, {})
    forget_live()
    with pytest.raises(SnapshotError, match="start with a new checkpoint"):
        shards.run()
