"""Databases that go away, fill up or refuse: one clear line, and the registry is as it was."""

import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading

import psycopg
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import everquery as eq
from everquery.cli.app import app
from everquery.registry import Registry, appending, codec, connections, sqlite

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"])
TABLE = pa.table({"id": [f"q{i}" for i in range(500)]})
EVENTS = pa.table({"symbol": ["IBM"], "ts": [1], "price": [45.0]})


def refused(url, *line):
    """Run a command that is to fail; return its line of error, which is all without --debug."""
    result = CliRunner().invoke(app, [*line, "-r", url])
    assert result.exit_code == 1, result.output
    (told,) = result.stderr.splitlines()
    assert told.startswith("everquery: ")
    debug = CliRunner().invoke(app, ["--debug", *line, "-r", url]).stderr
    assert "Traceback (most recent call last)" in debug
    assert debug.splitlines()[-1].startswith("everquery: ")
    return told


def is_as_it_was(url, ids):
    return eq.open(url).queries()["id"].to_pylist() == ids


# -- PostgreSQL -------------------------------------------------------------------------------


def end_connections(server):
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


class TestPostgres:
    def test_a_connection_that_is_lost_between_changes_is_made_anew(self, strict_postgres):
        engine = eq.Engine(STREAM, registry=strict_postgres.url, create=True)
        engine.register(eq.Range("first", {}))
        end_connections(strict_postgres)
        engine.register(eq.Range("second", {}))
        end_connections(strict_postgres)
        assert engine.process(EVENTS).num_rows == 2
        engine.deregister(["first", "second"])

    def test_a_connection_that_is_lost_in_a_change(self, strict_postgres, monkeypatch):
        monkeypatch.setattr(codec, "CHUNK", 100)
        engine = eq.Engine(STREAM, registry=strict_postgres.url, create=True)
        position = engine.position

        def encode_and_cut(change, stream):
            for number, row in enumerate(codec.encode_change(change, stream)):
                if number == 3:
                    end_connections(strict_postgres)
                yield row

        with monkeypatch.context() as patch:
            patch.setattr(appending, "encode_change", encode_and_cut)
            with pytest.raises(eq.RegistryError, match="Nothing of this change is written") as told:
                engine.register_table(TABLE, kind="range")
        assert "\n" not in str(told.value)
        assert engine.queries().num_rows == 0
        assert is_as_it_was(strict_postgres.url, [])
        engine.register_table(TABLE, kind="range")
        assert engine.position == position + 500
        engine.deregister(TABLE["id"])

    def test_a_server_that_is_stopped_and_started(self, strict_postgres):
        url = strict_postgres.url
        engine = eq.Engine(STREAM, registry=url, create=True)
        engine.register(eq.Range("kept", {}))
        strict_postgres.stop()
        try:
            for call in (
                lambda: engine.register(eq.Range("lost", {})),
                lambda: engine.refresh(),
                lambda: engine.deregister("kept"),
            ):
                with pytest.raises(eq.RegistryError, match="connection"):
                    call()
            for _ in range(3):
                assert engine.process(EVENTS)["query_id"].to_pylist() == ["kept"]
            assert "connection" in engine.stats()["registry"]["trouble"]
            assert engine.queries()["id"].to_pylist() == ["kept"]
            assert "connection" in refused(url, "query", "list")
        finally:
            strict_postgres.start()
        assert engine.process(EVENTS)["query_id"].to_pylist() == ["kept"]
        state = engine.stats()["registry"]
        assert (state["position"], state["trouble"]) == (engine.position, None)
        assert is_as_it_was(url, ["kept"])
        engine.deregister("kept")

    def test_a_wrong_password(self, strict_postgres):
        url = strict_postgres.url_with("wr0ng-0ne")
        assert "password authentication failed" in refused(url, "stream", "list")
        for line in (["stream", "list"], ["--debug", "stream", "list"]):
            shown = CliRunner().invoke(app, [*line, "-r", url]).output
            assert "wr0ng" not in shown
            assert "everquery:***@127.0.0.1" in shown
        assert "s3cret" not in repr(Registry(strict_postgres.url))

    def test_a_name_that_the_database_can_not_hold(self, strict_postgres):
        with pytest.raises(eq.RegistryError, match="NUL"):
            eq.Engine(
                eq.Stream("a\0b", attributes=["x"]), registry=strict_postgres.url, create=True
            )


def test_a_server_that_never_answers():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://ann:secret@127.0.0.1:{silent.getsockname()[1]}/db?connect_timeout=2"
        result = CliRunner().invoke(app, ["stream", "list", "-r", url])
    assert result.exit_code == 1
    assert "timeout" in result.stderr
    assert "secret" not in result.output
    assert connections.CONNECT_SECONDS <= 30  # where the URL does not say


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:secret@db:port/queries",
        "postgresql:/ann:secret@db",
        "nosuch://ann:secret@db/queries",
    ],
)
def test_a_url_that_can_not_be_read_is_not_shown(url):
    told = refused(url, "stream", "list")
    assert "sec" not in told
    assert "give a URL such as" in told


# -- SQLite -----------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "queries.db"


@pytest.fixture
def url(path):
    """Return the URL of a SQLite registry with one query, that nobody has open."""
    url = f"sqlite:///{path}"
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        engine.register(eq.Range("kept", {}))
        engine._log.registry.close()
    return url


class TestSqlite:
    def test_a_file_that_is_gone(self, url, path, caplog):
        engine = eq.open(url)
        away = path.rename(path.with_suffix(".away"))
        calls = (
            lambda: engine.register(eq.Range("lost", {})),
            lambda: engine.refresh(),
            lambda: engine.register_table(TABLE, kind="range"),
        )
        for call in calls:
            with pytest.raises(eq.RegistryError, match="its file is gone"):
                call()
        for _ in range(3):
            assert engine.process(EVENTS)["query_id"].to_pylist() == ["kept"]
        (told,) = [record.getMessage() for record in caplog.records]
        assert told.startswith("the queries on 'trades' stay as they are until their registry is")
        assert "its file is gone" in told
        assert engine.queries()["id"].to_pylist() == ["kept"]
        assert "there is no registry" in refused(url, "query", "list")
        shutil.copy(away, path)
        with pytest.raises(eq.RegistryError, match="replaced by another"):
            engine.refresh()
        path.unlink()
        away.rename(path)
        assert engine.process(EVENTS)["query_id"].to_pylist() == ["kept"]
        assert caplog.records[-1].getMessage() == "the registry of 'trades' answers again"
        assert is_as_it_was(url, ["kept"])

    def test_a_file_that_another_process_has_locked(self, url, path, monkeypatch):
        monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0)
        engine = eq.open(url)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(eq.RegistryError, match=r"locked\. Nothing of this change is written"):
            engine.register(eq.Range("lost", {}))
        with pytest.raises(eq.RegistryError, match="locked"):
            engine.register_table(TABLE, kind="range")
        assert engine.process(EVENTS)["query_id"].to_pylist() == ["kept"]  # reading goes on
        other.execute("ROLLBACK")
        other.close()
        engine.register(eq.Range("later", {}))
        assert is_as_it_was(url, ["kept", "later"])

    def test_a_lock_that_is_given_up_in_time_is_waited_for(self, url, path):
        engine = eq.open(url)
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.2, other.execute, ["ROLLBACK"]).start()
        engine.register(eq.Range("later", {}))
        other.close()
        assert is_as_it_was(url, ["kept", "later"])

    def test_a_full_disk(self, url):
        engine = eq.open(url)
        cursor = engine._log.registry._appender.direct._open()
        pages = cursor.execute("PRAGMA page_count").fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count = {pages + 1}")
        for number in range(5):
            engine.register(eq.Range(f"before {number}", {}))
        full = r"full\. Nothing of this change is written"
        with pytest.raises(eq.RegistryError, match=full):
            engine.register_table(
                pa.table({"id": [f"q{i**3}" for i in range(20_000)]}), kind="range"
            )
        with pytest.raises(eq.RegistryError, match=full):
            engine.register([eq.Range("x" * 999 + str(i), {}) for i in range(20)])
        known = engine.queries()
        assert is_as_it_was(url, known["id"].to_pylist())
        cursor.execute("PRAGMA max_page_count = 1000000")
        engine.register_table(TABLE, kind="range")
        assert eq.open(url).queries().num_rows == known.num_rows + 500

    def test_a_full_disk_in_a_bulk_load(self, url, path, tmp_path):
        queries = tmp_path / "q.csv"
        queries.write_text("id\n" + "".join(f"query number {i}\n" for i in range(50_000)))
        size = path.stat().st_size + 100_000
        done = limited(size, "query", "load", queries, "--kind", "range", "-r", url)
        assert done.returncode == 1
        (told,) = done.stderr.splitlines()
        assert told.startswith("everquery: the registry sqlite:///")
        assert told.endswith("Nothing of this change is written")
        assert is_as_it_was(url, ["kept"])
        assert "Traceback" in limited(
            size, "--debug", "query", "load", queries, "--kind", "range", "-r", url
        ).stderr  # fmt: skip

    def test_a_newer_version_and_a_read_only_file(self, url, path):
        read_only = f"sqlite:///file:{path}?mode=ro&uri=true"
        shown = CliRunner().invoke(app, ["query", "list", "-r", read_only])
        assert "kept" in shown.stdout
        assert "readonly" in refused(read_only, "query", "add", "lost")
        assert "readonly" in refused(read_only, "query", "drop", "kept")
        assert "readonly" in refused(read_only, "stream", "create", "more", "-a", "x")
        assert is_as_it_was(url, ["kept"])
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE everquery_meta SET value = '99'")
        connection.close()
        for line in (["query", "list"], ["query", "add", "lost"], ["init"]):
            assert "version 99" in refused(url, *line)

    def test_tables_of_somebody_else(self, path):
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE everquery_streams (name TEXT)")
        connection.close()
        told = refused(f"sqlite:///{path}", "stream", "list")
        assert "no such column" in told


def limited(size, *line, stdout=subprocess.PIPE):
    """Run the command line in a process that can't make a file larger than this."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return subprocess.run(
        [sys.executable, "-c", "from everquery.cli.app import main; main()", *map(str, line)],
        preexec_fn=limit, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip


class TestOutput:
    @pytest.fixture
    def events(self, tmp_path):
        path = tmp_path / "e.csv"
        rows = (f"IBM,{i},{i % 7}\n" for i in range(20_000))
        path.write_text("symbol,ts,price\n" + "".join(rows))
        return path

    @pytest.mark.parametrize("name", ["n.jsonl", "n.parquet"])
    def test_a_file_on_a_full_disk(self, url, events, tmp_path, name):
        # The cache of compiled loops is there already, or it would be what is too large.
        eq.open(url).process(EVENTS)
        line = ("run", events, "--out", tmp_path / name, "-r", url)
        done = limited(60_000, *line)
        assert done.returncode == 1
        (told,) = done.stderr.splitlines()
        assert told == (
            f"everquery: {tmp_path / name} can't be written: File too large; what is in it is not"
            " whole"
        )
        assert "Traceback" in limited(60_000, "--debug", *line).stderr

    @pytest.mark.parametrize("line", [["--json"], []])
    def test_standard_output_on_a_full_disk(self, url, events, line):
        with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
            done = limited(2**40, "run", events, *line, "-r", url, stdout=full)
        assert done.returncode == 1
        (told,) = done.stderr.splitlines()
        assert told.startswith("everquery: standard output can't be written: No space left")
