"""Queries outlive the process, whoever registers them and however it ends."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from sqlalchemy import text

import everquery as eq
from everquery.errors import RegistryBehindError, RegistryLostError
from everquery.queries.changes import Deregister, Register
from everquery.registry import codec
from everquery.registry.digests import digest_of

STREAM = eq.Stream(
    "trades", key="symbol", time="ts", attributes=["price", "volume"], grace=timedelta(seconds=5)
)
EMPTY = pa.table(
    {
        "symbol": pa.array([], pa.string()),
        "ts": pa.array([], pa.timestamp("us")),
        "price": pa.array([], pa.float64()),
        "volume": pa.array([], pa.float64()),
    }
)


def table(size, prefix="q"):
    low = np.arange(size, dtype=float)
    return pa.table(
        {
            "id": [f"{prefix}{i}" for i in range(size)],
            "key": ["IBM" if i % 3 else None for i in range(size)],
            "price_lo": low,
            "price_hi": low + 5,
            "volume_lo": pa.array(low, mask=np.arange(size) % 2 == 0),
            "owner": ["ann" if i % 5 == 0 else None for i in range(size)],
            "labels": ['{"team": "fx"}' if i % 4 == 0 else None for i in range(size)],
        }
    )


def test_queries_are_there_after_reopening(registry_url, monkeypatch):
    monkeypatch.setattr(codec, "CHUNK", 64)  # several rows of the log, and cuts inside blocks
    with eq.Engine(STREAM, registry=registry_url) as engine:
        engine.register(
            eq.Border(
                "b'\"; \n\0🎈",
                {"price": eq.Interval(40, 50, closed="both"), "volume": (None, np.inf)},
                key="IBM",
                owner="ann",
                labels={"team": "fx"},
                silent=True,
            )
        )
        engine.register_table(table(200), kind="border")
        engine.register_table(table(50, "r"), kind="range")
        engine.deregister(["q7", "r3"])
        engine.pause(["q8", "q9"])
        engine.resume("q9")
        expected = engine.queries()
        assert engine.position == 1 + 200 + 50 + 2 + 2 + 1
    reopened = eq.open(registry_url)
    assert reopened.stream == STREAM
    assert reopened.position == engine.position
    assert reopened.queries().equals(expected)
    reopened.compact_registry()
    again = eq.open(registry_url, "trades")
    assert again.queries().equals(expected)
    assert again.position == engine.position


def test_a_lazy_engine_indexes_in_front_of_the_first_batch(registry_url):
    eager = eq.Engine(STREAM, registry=registry_url)
    lazy = eq.Engine(STREAM, registry=registry_url, lazy=True)
    lazy.register_table(table(100), kind="border")
    lazy.register(eq.Range("one", {"price": (50, 60)}))
    eager.register_table(table(20, "r"), kind="range")
    assert not any(len(index.layers) for index in lazy._shard.contents.indexes.values())
    events = pa.table(
        {
            "symbol": ["IBM", "IBM"],
            "ts": pa.array([1, 2], pa.timestamp("us")),
            "price": [55.0, 3.0],
            "volume": [60.0, 4.0],
        }
    )
    assert lazy.process(events).equals(eager.process(events))
    told = lazy.flush()
    assert told.num_rows > 10
    assert told.equals(eager.flush())
    assert lazy.queries().equals(eq.open(registry_url, lazy=True).queries())


def test_a_query_of_another_process_is_live_with_the_next_batch(registry_url):
    here = eq.Engine(STREAM, registry=registry_url)
    there = eq.Engine("trades", registry=registry_url)
    there.register(eq.Range("theirs", {"price": (0, 10)}))
    assert here.queries().num_rows == 0
    here.process(EMPTY)
    assert here.queries()["id"].to_pylist() == ["theirs"]
    there.deregister("theirs")
    assert here.refresh() == 1
    assert here.queries().num_rows == 0


def test_an_id_that_another_process_took_or_gave_up(registry_url):
    here = eq.Engine(STREAM, registry=registry_url)
    there = eq.Engine(STREAM, registry=registry_url)
    there.register(eq.Range("id", {}))
    with pytest.raises(eq.DuplicateQueryError):
        here.register(eq.Range("id", {}))
    there.deregister("id")
    here.register(eq.Range("id", {"price": (1, 2)}))  # it knows by then that the id is free
    with pytest.raises(eq.InvalidTableError, match="1 of 2 rows are bad"):
        there.register_table(pa.table({"id": ["other", "id"]}), kind="range", on_error="raise")
    assert there.queries()["id"].to_pylist() == ["id"]


def test_positions_have_no_gaps_with_two_writers_at_once(registry_url):
    engines = [eq.Engine(STREAM, registry=registry_url) for _ in range(2)]
    errors = []

    def write(number):
        try:
            for i in range(40):
                engines[number].register(eq.Range(f"w{number}q{i}", {"price": (i, i + 1)}))
                if i % 10 == 9:
                    engines[number].deregister(f"w{number}q{i - 1}")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    registry = engines[0]._log.registry
    at = 0
    for entry in registry.read(STREAM, 0):
        assert entry.position == at
        at += entry.count
    assert at == registry.head("trades") == 88
    fresh = eq.open(registry_url)
    for engine in engines:
        engine.refresh()
        assert engine.queries().equals(fresh.queries())
    assert fresh.stats()["queries"]["range"] == 72


def test_a_change_at_a_position_that_is_taken_is_refused(registry_url):
    engine = eq.Engine(STREAM, registry=registry_url)
    engine.register(eq.Range("a", {}))
    registry = engine._log.registry
    with pytest.raises(RegistryBehindError):
        registry.append(STREAM, Register((eq.Range("b", {}),)), head=0)
    assert registry.head("trades") == 1


def test_readers_from_a_compacted_position_get_the_base(registry_url):
    engine = eq.Engine(STREAM, registry=registry_url)
    engine.register([eq.Range(f"q{i}", {}) for i in range(5)])
    engine.deregister("q1")
    engine.compact_registry()
    (base,) = engine._log.registry.read(STREAM, 5)
    assert base.position == 6
    assert base.changes[0].blocks[0].ids.to_pylist() == ["q0", "q2", "q3", "q4"]
    engine.register(eq.Range("later", {}))
    assert [entry.change for entry in engine._log.registry.read(STREAM, 6)] == [
        Register((eq.Range("later", {}),))
    ]
    assert eq.open(registry_url).queries()["id"].to_pylist() == ["q0", "q2", "q3", "q4", "later"]


def test_a_stream_that_is_there_with_another_schema(registry_url):
    eq.Engine(STREAM, registry=registry_url)
    with pytest.raises(eq.InvalidStreamError, match="another stream 'trades'"):
        eq.Engine(eq.Stream("trades", attributes=["price"]), registry=registry_url)
    with pytest.raises(eq.UnknownStreamError, match="no stream 'quotes'"):
        eq.open(registry_url, "quotes")
    eq.Engine(eq.Stream("quotes", attributes=["bid"]), registry=registry_url)
    with pytest.raises(eq.UnknownStreamError, match="several streams; name one"):
        eq.open(registry_url)


def test_a_snapshot_goes_on_from_its_position(registry_url):
    engine = eq.Engine(STREAM, registry=registry_url)
    engine.register(eq.Range("before", {}))
    snapshot = engine.snapshot()
    engine.register(eq.Range("after", {}))
    other = eq.Engine(STREAM, registry=registry_url)
    other.restore(snapshot)
    assert other.queries()["id"].to_pylist() == ["before"]
    assert other.refresh() == 1
    assert other.queries()["id"].to_pylist() == ["before", "after"]


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2, 0.5])
def test_sigkill_in_a_bulk_load_leaves_all_or_nothing(registry_url, delay):
    eq.Engine(STREAM, registry=registry_url).register(eq.Range("first", {}))
    script = textwrap.dedent(
        """
        import sys
        import pyarrow as pa
        import everquery as eq
        from everquery.registry import codec
        codec.CHUNK = 2_000
        engine = eq.open(sys.argv[1])
        table = pa.table({"id": [f"q{i}" for i in range(200_000)]})
        print("ready", flush=True)
        engine.register_table(table, kind="range")
        print("done", flush=True)
        """
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, registry_url], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "ready\n"
        try:
            child.wait(timeout=delay)
        except subprocess.TimeoutExpired:
            os.kill(child.pid, signal.SIGKILL)
        finished = child.stdout.read() == "done\n"
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    engine = eq.open(registry_url)
    count = engine.stats()["queries"]["range"]
    assert count in (1, 200_001)
    assert not finished or count == 200_001
    engine.register(eq.Range("last", {}))
    assert eq.open(registry_url).stats()["queries"]["range"] == count + 1


class TestBadRegistries:
    def test_a_file_that_is_no_database(self, tmp_path):
        path = tmp_path / "notes.db"
        path.write_text("dear diary " * 100)
        with pytest.raises(eq.RegistryError, match="not a database"):
            eq.open(f"sqlite:///{path}")
        assert path.read_text().startswith("dear diary")

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(eq.RegistryError, match="there is no registry"):
            eq.open(f"sqlite:///{tmp_path}/no/where.db")

    def test_a_server_that_does_not_answer(self):
        url = "postgresql://ann:secret@127.0.0.1:1/db"
        with pytest.raises(eq.RegistryError) as caught:
            eq.open(url)
        assert "secret" not in str(caught.value)
        assert "ann:***@127.0.0.1:1" in str(caught.value)

    @pytest.mark.parametrize("url", ["", "queries.db", "oracle9://x", "nosuch://x"])
    def test_a_url_that_is_none(self, url):
        with pytest.raises(eq.RegistryError, match="give a URL such as sqlite"):
            eq.open(url)

    def test_a_newer_version(self, registry_url):
        engine = eq.Engine(STREAM, registry=registry_url)
        from sqlalchemy import text

        with engine._log.registry._connections.writing() as connection:
            connection.execute(text("UPDATE everquery_meta SET value = '99'"))
        with pytest.raises(eq.RegistryError, match=r"has version 99, .* upgrade everquery"):
            eq.open(registry_url)

    def test_a_read_only_file(self, tmp_path):
        url = f"sqlite:///{tmp_path / 'q.db'}"
        eq.Engine(STREAM, registry=url, create=True).register(eq.Range("a", {}))
        read_only = f"sqlite:///file:{tmp_path / 'q.db'}?mode=ro&uri=true"
        engine = eq.open(read_only)
        assert engine.queries()["id"].to_pylist() == ["a"]
        with pytest.raises(eq.RegistryError, match="readonly"):
            engine.register(eq.Range("b", {}))
        assert engine.queries()["id"].to_pylist() == ["a"]

    def test_a_change_of_an_unknown_operation(self, registry_url):
        engine = eq.Engine(STREAM, registry=registry_url)
        engine.register(eq.Range("a", {}))
        from sqlalchemy import text

        with engine._log.registry._connections.writing() as connection:
            payload = connection.execute(text("SELECT payload FROM everquery_changes")).scalar()
            digest = digest_of("trades", 0, 0, 1, "paint", bytes(payload))
            connection.execute(
                text("UPDATE everquery_changes SET operation = 'paint', digest = :digest"),
                {"digest": digest},
            )
        with pytest.raises(eq.RegistryError, match="'paint' that this everquery does not know"):
            eq.open(registry_url)


def test_changes_survive_the_codec_exactly():
    change = Register(
        (
            eq.Range("a", {"price": (0.1, None)}, key="x"),
            eq.Border("b", {"volume": eq.Interval(-np.inf, 5e-324, "both")}, silent=True),
        )
    )
    ((operation, count, payload),) = codec.encode_change(change, STREAM)
    assert count == 2
    assert codec.decode_change(operation, payload, STREAM) == change
    ids = Deregister(pa.array(["a", "b"]))
    ((operation, count, payload),) = codec.encode_change(ids, STREAM)
    assert codec.decode_change(operation, payload, STREAM).ids.equals(ids.ids)


def test_a_dropped_stream_leaves_nothing(registry_url):
    engine = eq.Engine(STREAM, registry=registry_url)
    engine.register_table(table(100), kind="border")
    engine.set_quota("ann", 1_000)
    registry = engine._log.registry
    reader = registry.log_reader("trades")
    reader.begin("someone")
    engine.compact_registry()
    engine.register(eq.Range("r", {}))
    engine.compact_registry()  # and keeps the base that the reader began with
    other = eq.Engine(eq.Stream("others", attributes=["x"]), registry=registry)
    other.register(eq.Range("stays", {}))
    with pytest.raises(RegistryBehindError, match="it is not dropped"):
        registry.drop_stream("trades", head=100)
    registry.drop_stream("trades", head=101)
    with registry._connections.reading() as connection:
        for name in ("changes", "bases", "quotas", "readers", "kept_bases"):
            query = text(f"SELECT count(*) FROM everquery_{name} WHERE stream = 'trades'")
            assert connection.execute(query).scalar() == 0
    assert list(registry.streams()) == ["others"]
    assert eq.open(registry_url).queries()["id"].to_pylist() == ["stays"]
    with pytest.raises(eq.UnknownStreamError):
        registry.drop_stream("trades")
    with pytest.raises(eq.UnknownStreamError):
        reader.commit("someone", 101)  # it is not entered again
    with pytest.raises(eq.UnknownStreamError):
        engine.register(eq.Range("s", {}))


def test_a_stream_of_a_dropped_one_s_name_is_another(registry_url):
    old = eq.Engine(STREAM, registry=registry_url)
    old.register(eq.Range("old", {"volume": (1, 2)}))
    registry = old._log.registry
    reader = registry.log_reader("trades")
    reader.begin("someone")
    for _ in range(2):
        registry.drop_stream("trades")
        new = eq.Engine(eq.Stream("trades", attributes=["x"]), registry=registry_url)
        assert new.queries().num_rows == 0
    new.register(eq.Range("new", {}))
    assert eq.open(registry_url).queries()["id"].to_pylist() == ["new"]
    with pytest.raises(eq.RegistryError, match="another one is there in its place"):
        old.refresh()
    assert old.queries()["id"].to_pylist() == ["old"]
    with pytest.raises(RegistryLostError):
        reader.rows(1, reader.head())
    new.compact_registry()
    assert eq.open(registry_url).queries()["id"].to_pylist() == ["new"]


def test_an_altered_stream(registry_url):
    engine = eq.Engine(STREAM, registry=registry_url)
    engine.register(eq.Range("r", {}))
    snapshot = engine.snapshot()
    altered = engine._log.registry.alter_stream("trades", grace=None, expire_after=7)
    assert (altered.grace, altered.expire_after) == (None, 7)
    again = eq.open(registry_url)
    assert again.stream == altered
    assert again.queries()["id"].to_pylist() == ["r"]
    again.restore(snapshot)  # what is remembered does not depend on spans
    with pytest.raises(eq.InvalidStreamError, match="key stays as it is"):
        engine._log.registry.alter_stream("trades", key=None)
    with pytest.raises(eq.UnknownStreamError):
        engine._log.registry.alter_stream("nope", grace=1)


def test_a_registry_that_was_compacted_without_queries_takes_some(registry_url):
    engine = eq.Engine(STREAM, registry=registry_url)
    engine.register(eq.Range("gone", {}))
    engine.deregister("gone")
    engine.compact_registry()
    again = eq.open(registry_url)
    assert again.position == engine.position
    again.register(eq.Range("new", {}))
    assert eq.open(registry_url).queries()["id"].to_pylist() == ["new"]
