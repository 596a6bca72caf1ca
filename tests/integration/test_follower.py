"""A reader in another process follows the log: exactly, whatever compaction and failures do."""

import logging
import sqlite3
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from sqlalchemy import text

import everquery as eq
from everquery.errors import ReaderBusyError, RegistryError, RegistryLostError
from everquery.kinds import KINDS
from everquery.registry import codec, follower, readers
from everquery.registry.codec import decode_change
from everquery.registry.follower import Follower, Place
from everquery.shard import Shard

STREAM = eq.Stream("trades", key="symbol", attributes=["price"])
SPECS = {name: kind.spec for name, kind in KINDS.items()}


def table(size, prefix):
    low = np.arange(size, dtype=float)
    return pa.table(
        {"id": [f"{prefix}{i}" for i in range(size)], "price_lo": low, "price_hi": low + 5}
    )


def query(name):
    return eq.Range(name, {"price": (1, 2)})


def ids(rows):
    """Apply rows in their order, as a shard does, and return the live and the paused queries."""
    shard = Shard(STREAM)
    at = None
    for row in sorted(rows, key=lambda row: (row.position, row.number)):
        assert at is None or row.position == at
        at = row.position + row.count
        shard.apply(decode_change(row.operation, row.payload, STREAM))
    shard.queries.settle()
    live = [i for block, _ in shard.queries.blocks() for i in block.ids.to_pylist()]
    return sorted(live), sorted(shard.queries.paused_ids().to_pylist())


@pytest.fixture
def engine(registry_url):
    with eq.Engine(STREAM, registry=registry_url) as engine:
        yield engine


def ended(reader):
    reader.close()
    reader._thread.shutdown(wait=True)


@pytest.fixture
def follow(registry_url):
    made = []

    def make(**options):
        while made:  # only one process at a time is a reader
            ended(made.pop())
        made.append(Follower(registry_url, "trades", **{"start_seconds": 5.0, **options}))
        return made[-1]

    yield make
    for each in made:
        ended(each)


def settled(reader):
    """Wait until the reader's thread has done all it was told."""
    reader._thread.submit(int).result(30)


def readers_of(engine):
    with engine._log.registry._connections.reading() as connection:
        return connection.execute(text("SELECT position, base FROM everquery_readers")).all()


def test_an_empty_log_has_no_news(engine, follow):
    reader = follow()
    assert reader.latest(Place(), queries=10) == Place()
    assert reader.head == 0
    assert readers_of(engine) == []


def test_a_new_reader_gets_all_there_is_and_then_what_comes(engine, follow):
    engine.register_table(table(500, "a"), kind="range")
    engine.register(query("b"))
    reader = follow()
    first = reader.latest(Place(), queries=10)
    assert first.position == 501
    assert len(ids(reader.rows(Place(), first))[0]) == 501
    assert reader.latest(first, queries=10) == first
    engine.deregister("b")
    second = reader.latest(first, queries=10)
    assert (second.position, second.reader) == (502, first.reader)
    assert [row.operation for row in reader.rows(first, second)] == ["deregister"]


def test_a_batch_names_no_more_queries_than_allowed(engine, follow, monkeypatch):
    monkeypatch.setattr(codec, "CHUNK", 40)
    engine.register(query("first"))
    reader = follow()
    place = reader.latest(Place(), queries=10)
    engine.register_table(table(100, "t"), kind="range")  # entries of 40, 40 and 20
    for i in range(25):
        engine.register(query(f"s{i}"))
    steps = []
    while (end := reader.latest(place, queries=30)) != place:
        rows = reader.rows(place, end)
        assert sum(row.count for row in rows) == end.position - place.position
        steps.append(end.position - place.position)
        place = end
    assert steps == [40, 40, 30, 15]
    assert place.position == engine.position


def test_a_batch_has_no_more_entries_than_allowed(engine, follow, monkeypatch):
    monkeypatch.setattr(follower, "MAX_ENTRIES", 4)
    engine.register(query("first"))
    reader = follow()
    place = reader.latest(Place(), queries=100)
    for i in range(10):
        engine.register(query(f"s{i}"))
    steps = []
    while (end := reader.latest(place, queries=100)) != place:
        steps.append(len(reader.rows(place, end)))
        place = end
    assert steps == [4, 4, 2]


def test_not_beyond_the_furthest(engine, follow):
    engine.register(query("a"))
    reader = follow()
    target = reader.target()
    engine.register(query("b"))
    place = reader.latest(Place(), queries=10, furthest=target)
    assert place.position == 1
    assert reader.latest(place, queries=10, furthest=target) == place
    assert reader.latest(place).position == 2


def test_a_range_reads_the_same_again_whatever_is_compacted(engine, follow):
    engine.register_table(table(20, "a"), kind="range")
    engine.deregister("a3")
    engine.pause("a4")
    engine.compact_registry()
    engine.register(query("b"))
    reader = follow()
    first = reader.latest(Place(), queries=100)
    assert first.base == 22
    rows = reader.rows(Place(), first)
    assert [(row.position, row.number, row.count) for row in rows] == [
        (22, -2, 0),
        (22, -1, 0),
        (22, 0, 1),
    ]
    expected = sorted([f"a{i}" for i in range(20) if i != 3] + ["b"]), ["a4"]
    assert ids(rows) == expected
    # The process ends before the batch is done; two compactions later it is read again.
    engine.deregister(["a5", "a6"])
    engine.compact_registry()
    engine.register(query("c"))
    engine.compact_registry()
    again = follow()
    assert again.rows(Place(), first) == rows
    # What comes after is there too, and the same for a batch that is read twice.
    second = again.latest(first, queries=100)
    after = again.rows(first, second)
    assert [row.operation for row in after] == ["deregister", "register"]
    assert ids(rows + after)[0] == sorted(engine.queries()["id"].to_pylist())
    engine.compact_registry()
    again = follow()
    assert again.rows(first, second) == after
    # When it has come further, what it needed goes with the next compaction.
    again.commit(second)
    settled(again)
    engine.compact_registry()
    with engine._log.registry._connections.reading() as connection:
        for name in ("changes", "kept_bases"):
            count = connection.execute(text(f"SELECT count(*) FROM everquery_{name}")).scalar()
            assert count == 0
    with pytest.raises(RegistryLostError, match="compacted away"):
        follow().rows(Place(), first)
    with pytest.raises(RegistryLostError, match="from position 23 to 26 has been compacted away"):
        follow().rows(first, second)
    # Another one begins with what there is.
    fresh = follow()
    place = fresh.latest(Place(), queries=1)
    assert ids(fresh.rows(Place(), place))[0] == sorted(engine.queries()["id"].to_pylist())


def test_a_base_without_queries(engine, follow):
    engine.register(query("a"))
    engine.deregister("a")
    engine.compact_registry()
    first = follow().latest(Place(), queries=100)
    engine.register(query("b"))
    engine.compact_registry()
    assert follow().rows(Place(), first) == []
    assert ids(follow().rows(first, Place(3, first.reader, first.base))) == (["b"], [])


def test_an_engine_that_is_behind_goes_on_where_the_log_was_kept(engine, follow, registry_url):
    engine.register(query("a"))
    slow = eq.Engine("trades", registry=registry_url)
    reader = follow()
    reader.latest(Place(), queries=100)
    engine.register(query("b"))
    engine.compact_registry()  # the reader has not said yet that it is past "a"
    assert slow.refresh() == 1
    assert slow.queries()["id"].to_pylist() == ["a", "b"]
    assert eq.Engine("trades", registry=registry_url).queries()["id"].to_pylist() == ["a", "b"]


def test_a_reader_is_forgotten_after_a_week(engine, follow, monkeypatch):
    engine.register(query("a"))
    reader = follow()
    first = reader.latest(Place(), queries=100)
    reader.rows(Place(), first)
    reader.commit(first)
    settled(reader)
    assert readers_of(engine) == [(1, readers.NO_BASE)]
    engine.register(query("b"))
    now = readers.time.time()
    monkeypatch.setattr(readers.time, "time", lambda: now + readers.FORGET_SECONDS - 60)
    engine.compact_registry()
    reader = follow()
    assert reader.rows(first, Place(2, first.reader, 0))[0].count == 1
    monkeypatch.setattr(readers.time, "time", lambda: now + readers.FORGET_SECONDS + 60)
    engine.compact_registry()
    assert readers_of(engine) == []
    with pytest.raises(RegistryLostError, match="not seen for 7 days"):
        reader.latest(first, queries=100)
    # One that is not behind and comes back is entered again.
    reader.commit(Place(2, first.reader, 0))
    settled(reader)
    assert readers_of(engine) == [(2, readers.NO_BASE)]


def test_a_registry_that_is_older_than_its_reader_is_refused(engine, follow):
    engine.register(query("a"))
    reader = follow()
    place = reader.latest(Place(), queries=100)
    with pytest.raises(RegistryLostError, match="ends at position 1, and a reader has come to 7"):
        reader.latest(Place(7, place.reader, 0), queries=100)


def test_an_unknown_stream_is_an_error_for_a_new_reader(engine, registry_url):
    reader = Follower(registry_url, "trade", start_seconds=5)
    with pytest.raises(eq.UnknownStreamError, match="no stream 'trade'"):
        reader.latest(Place(), queries=1)
    reader.close()


def test_many_changes_from_two_writers_come_once_each(engine, follow, registry_url):
    other = eq.Engine("trades", registry=registry_url)

    def write(one, prefix):
        for i in range(60):
            one.register(query(f"{prefix}{i}"))

    threads = [threading.Thread(target=write, args=args) for args in ((engine, "x"), (other, "y"))]
    reader, place, rows = follow(), Place(), []
    for thread in threads:
        thread.start()
    while place.position < 120:
        end = reader.latest(place, queries=7)
        if end != place:
            rows += reader.rows(place, end)
            reader.commit(place)
        place = end
    for thread in threads:
        thread.join()
    assert [row.position for row in rows] == list(range(120))
    assert len(ids(rows)[0]) == 120


# -- a registry that goes away -------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    """A SQLite registry with one query, and a reader of it that has read that."""
    path = tmp_path / "queries.db"
    engine = eq.Engine(STREAM, registry=f"sqlite:///{path}", create=True)
    engine.register(query("a"))
    reader = Follower(f"sqlite:///{path}", "trades", answer_seconds=0.2, start_seconds=0.5)
    place = reader.latest(Place(), queries=10)
    yield path, engine, reader, place
    reader.close()


def test_a_file_that_is_moved_away_and_comes_back(file, caplog):
    path, engine, reader, place = file
    engine.register(query("b"))
    engine.close()
    away = path.with_suffix(".away")
    for suffix in ("", "-wal", "-shm"):
        if path.with_name(path.name + suffix).exists():
            path.with_name(path.name + suffix).rename(away.with_name(away.name + suffix))
    # A registry that is opened again looks at the file; one that was open may still know it.
    reader._dropped()
    with caplog.at_level(logging.WARNING, "everquery.registry"):
        for _ in range(3):
            assert reader.latest(place, queries=10) == place
        assert [record.getMessage() for record in caplog.records] == [
            "the queries on 'trades' stay as they are until their registry is back:"
            f" there is no file {path}"
        ]
        assert not path.exists()
        for suffix in ("", "-wal", "-shm"):
            if away.with_name(away.name + suffix).exists():
                away.with_name(away.name + suffix).rename(path.with_name(path.name + suffix))
        end = reader.latest(place, queries=10)
        assert caplog.records[-1].getMessage() == "the registry of 'trades' answers again"
    assert [row.position for row in reader.rows(place, end)] == [1]


def test_a_reader_that_begins_anew_waits_for_its_first_answer(file, monkeypatch):
    path, engine, reader, place = file
    engine.register(query("b"))
    reader._thread.submit(reader._drop).result()  # the claim is free
    again = Follower(f"sqlite:///{path}", "trades", answer_seconds=0.01)
    slow = threading.Event()
    look = again._look
    monkeypatch.setattr(again, "_look", lambda *given: slow.wait(0.3) or look(*given))
    assert again.latest(place, queries=10).position == 2
    engine.register(query("c"))
    assert again.latest(replace(place, position=2), queries=10).position == 2
    ended(again)


def test_what_was_read_already_needs_no_registry(file):
    path, engine, reader, place = file
    engine.register(query("b"))
    end = reader.latest(place, queries=10)
    path.unlink()
    reader._dropped()
    assert [row.position for row in reader.rows(place, end)] == [1]
    with pytest.raises(RegistryError, match="can't be read for 0 seconds now: there is no file"):
        reader.rows(Place(), place)


def test_a_locked_file_holds_nobody_up(file):
    path, engine, reader, place = file
    engine.register(query("b"))
    engine._log.registry.close()
    reader._dropped()
    settled(reader)
    with sqlite3.connect(path) as lock:
        lock.execute("PRAGMA locking_mode = EXCLUSIVE")
        lock.execute("BEGIN EXCLUSIVE")
        answers = [reader.latest(place, queries=10) for _ in range(3)]
    lock.close()
    assert answers == [place] * 3
    for _ in range(500):
        if (end := reader.latest(place, queries=10)) != place:
            break
    assert [row.position for row in reader.rows(place, end)] == [1]


def test_a_server_that_stops_and_starts_again(own_postgres, caplog):
    engine = eq.Engine(STREAM, registry=own_postgres.url, create=True)
    engine.register(query("a"))
    reader = Follower(own_postgres.url, "trades", start_seconds=5)
    place = reader.latest(Place(), queries=10)
    assert reader.rows(Place(), place)
    engine.register(query("b"))
    own_postgres.stop()
    with caplog.at_level(logging.WARNING, "everquery.registry"):
        assert [reader.latest(place, queries=10) for _ in range(5)] == [place] * 5
        reader.commit(place)  # nobody hears it, and nobody minds
        settled(reader)
        assert len(caplog.records) == 1
        own_postgres.start()
        engine.register(query("c"))
        end = reader.latest(place, queries=10)
    assert [row.position for row in reader.rows(place, end)] == [1, 2]
    assert len(caplog.records) == 2
    reader.close()
    engine._log.registry.close()


def test_one_process_at_a_time_is_a_reader(engine, registry_url, follow, monkeypatch):
    monkeypatch.setattr(follower, "BUSY_SECONDS", 0.2)
    engine.register(query("a"))
    first = follow()
    place = first.latest(Place(), queries=10)
    second = Follower(registry_url, "trades")
    for ask in (lambda: second.latest(place, queries=10), lambda: second.rows(Place(), place)):
        with pytest.raises(ReaderBusyError, match="runs on it already"):
            ask()
    engine.register(query("b"))
    assert first.latest(place, queries=10).position == 2  # and nothing happened to this one
    monkeypatch.setattr(follower, "BUSY_SECONDS", 30)
    threading.Timer(0.5, first._dropped).start()
    assert second.latest(place, queries=10).position == 2
    ended(second)


def test_a_claim_lost_with_its_connection_is_taken_again(own_postgres, monkeypatch):
    monkeypatch.setattr(follower, "BUSY_SECONDS", 0.2)
    engine = eq.Engine(STREAM, registry=own_postgres.url, create=True)
    engine.register(query("a"))
    first, second = (Follower(own_postgres.url, "trades") for _ in range(2))
    place = first.latest(Place(), queries=10)
    own_postgres.stop()
    own_postgres.start()
    assert second.latest(place, queries=10) == place  # it came first
    settled(first)
    with pytest.raises(ReaderBusyError):
        [first.latest(place, queries=10) for _ in range(10)]
    ended(first)
    ended(second)
    engine._log.registry.close()
