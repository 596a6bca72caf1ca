"""Rows that are missing, cut, changed or moved: found when they are read, listed, and repaired."""

import json
import logging
import sqlite3
import struct

import psycopg
import pyarrow as pa
import pyarrow.ipc
import pytest
from sqlalchemy import text
from typer.testing import CliRunner

import everquery as eq
from everquery.cli.app import app
from everquery.errors import RegistryDamagedError
from everquery.registry import Registry
from everquery.registry.block_codec import _parts
from everquery.registry.digests import digest_of
from everquery.registry.follower import Follower, Place
from everquery.registry.tables import VERSION

STREAM = eq.Stream("trades", key="symbol", attributes=["price"])
EVENTS = pa.table({"symbol": ["IBM"], "price": [45.0]})
ALL = ["a", "c", *(f"t{i}" for i in range(5)), "b"]


@pytest.fixture
def url(registry_url):
    """Return the URL of a registry with a few rows of every sort, that nobody has open."""
    with eq.Engine(STREAM, registry=registry_url) as engine:
        engine.register(eq.Range("a", {}))
        engine.register([eq.Range("b", {"price": (0, 50)}), eq.Border("c", {})])
        engine.register_table(pa.table({"id": [f"t{i}" for i in range(5)]}), kind="range")
        engine.deregister("b")
        engine.register(eq.Range("b", {"price": (40, 50)}))
        engine._log.registry.close()
    return registry_url


def run(url, statement, **values):
    registry = Registry(url, damaged=True)
    with registry._connections.writing() as connection:
        rows = connection.execute(text(statement), values)
        found = rows.all() if rows.returns_rows else []
    registry.close()
    return found


def ids(url):
    return eq.open(url).queries()["id"].to_pylist()


def damages(url):
    registry = Registry(url, damaged=True)
    found = [(each.position, each.what) for each in registry.find_damage()]
    registry.close()
    return found


def repair(url):
    registry = Registry(url, damaged=True)
    found = registry.repair()
    assert registry.find_damage() == []
    registry.close()
    return found


def test_a_whole_registry_has_no_damage(url):
    assert ids(url) == ALL
    assert damages(url) == []
    assert repair(url) == []
    assert ids(url) == ALL


@pytest.mark.parametrize(
    ("statement", "told", "found"),
    [
        (
            "DELETE FROM everquery_changes WHERE first = 1",
            "damaged at position 1: the rows from here on are missing; the next is at 3",
            [(1, "missing")],
        ),
        (
            "DELETE FROM everquery_changes WHERE first = 9",
            "damaged at position 9: the rows from here to 10 are missing",
            [(9, "missing")],
        ),
        (
            "DELETE FROM everquery_changes",
            "damaged at position 0: the rows from here to 10 are missing",
            [(0, "missing")],
        ),
        (
            "UPDATE everquery_changes SET count = 3 WHERE first = 1",
            r"damaged at position 1 \(register\): it is not as it was written",
            [(1, "register")],
        ),
        (
            "UPDATE everquery_changes SET count = -2 WHERE first = 1",
            r"at position 1 \(register\): its count is -2, which is no number",
            [(1, "register")],
        ),
        (
            "UPDATE everquery_changes SET operation = 'pause' WHERE first = 8",
            r"damaged at position 8 \(pause\): it is not as it was written",
            [(8, "pause")],
        ),
        (
            "UPDATE everquery_changes SET digest = payload WHERE first = 3",
            r"damaged at position 3 \(register blocks\): it is not as it was written",
            [(3, "register blocks")],
        ),
        (
            "UPDATE everquery_streams SET head = 12",
            "damaged at position 10: the rows from here to 12 are missing",
            [(10, "missing")],
        ),
        (
            "UPDATE everquery_streams SET head = 8",
            "damaged at position 8: the rows from here to 10 are one too many",
            [(10, "head")],
        ),
        (
            "UPDATE everquery_streams SET head = 0",
            "damaged at position 0: the rows from here to 10 are one too many",
            [(10, "head")],
        ),
        (
            "UPDATE everquery_streams SET head = -3",
            "row of stream 'trades' is damaged: its head is -3, which is no position",
            [(10, "head")],
        ),
        (
            "UPDATE everquery_streams SET base = 99",
            "row of stream 'trades' is damaged: its base is '99, behind its head 10'",
            [(0, "base")],
        ),
        (
            "UPDATE everquery_streams SET definition = replace(definition, 'price', 'prize')",
            "row of stream 'trades' is damaged: its definition is not as it was written",
            [(None, "stream")],
        ),
        (
            "DELETE FROM everquery_streams",
            "has a log of stream 'trades', and the stream itself is missing; create it again",
            [(None, "stream")],
        ),
        (
            "DROP TABLE everquery_changes",
            "its table everquery_changes is missing; `everquery registry repair` makes it anew",
            [(None, "table")],
        ),
        (
            "DROP TABLE everquery_meta",
            "its table everquery_meta is missing",
            [(None, "table")],
        ),
        (
            "UPDATE everquery_meta SET value = 'two'",
            "its version is 'two', which is no number",
            [(None, "version")],
        ),
    ],
)
def test_what_is_damaged_is_told_and_repaired(url, statement, told, found):
    run(url, statement)
    with pytest.raises(eq.RegistryError, match=told) as caught:
        eq.open(url)
    assert "\n" not in str(caught.value)
    assert damages(url) == found
    registry = Registry(url, damaged=True)
    registry.repair()
    registry.close()
    engine = eq.Engine(STREAM, registry=url)  # makes the stream again, if it was taken away
    assert engine.position in (10, 12) or "DROP TABLE everquery_changes" in statement
    engine.register(eq.Range("new", {}))
    assert ids(url)[-1] == "new"
    assert damages(url) == []


@pytest.mark.parametrize("head", [0, 8])
def test_a_reader_does_not_begin_with_a_head_that_hides_rows_13(url, head):
    run(url, "UPDATE everquery_streams SET head = :head", head=head)
    registry = Registry(url)
    with pytest.raises(
        RegistryDamagedError, match=f"at position {head}: .* to 10 are one too many"
    ):
        registry.log_reader("trades").begin("job")
    registry.close()


def test_a_head_before_the_compacted_base_hides_no_queries_13(url):
    with eq.Engine(STREAM, registry=url) as engine:
        engine.compact_registry()
        snapshot = engine.snapshot()
        engine._log.registry.close()
    run(url, "UPDATE everquery_streams SET head = 0")
    with pytest.raises(RegistryDamagedError, match="its base is '10, behind its head 0'"):
        eq.open(url)
    assert damages(url) == [(10, "head")]
    repair(url)
    assert ids(url) == ALL
    engine = eq.Engine(STREAM, registry=url)
    engine.restore(snapshot)
    assert engine.queries()["id"].to_pylist() == ALL


def test_a_snapshot_at_a_head_that_hides_rows_13(url, caplog):
    with eq.Engine(STREAM, registry=url) as engine:
        snapshot = engine.snapshot()
        engine.register(eq.Range("later", {}))
        engine._log.registry.close()
    run(url, "UPDATE everquery_streams SET head = 10")
    with caplog.at_level(logging.WARNING):
        eq.Engine(STREAM, registry=url, snapshot=snapshot)
    assert "the rows from here to 11 are one too many" in caplog.text


def test_rows_that_change_places_are_found(url):
    run(url, "UPDATE everquery_changes SET first = 100 WHERE first = 8")
    run(url, "UPDATE everquery_changes SET first = 8 WHERE first = 9")
    run(url, "UPDATE everquery_changes SET first = 9 WHERE first = 100")
    with pytest.raises(RegistryDamagedError, match="position 8") as caught:
        eq.open(url)
    assert (caught.value.stream, caught.value.position) == ("trades", 8)
    assert damages(url) == [(8, "register"), (9, "deregister")]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE everquery_streams SET head = 'ten'",
        "UPDATE everquery_streams SET head = '10'",
        "UPDATE everquery_streams SET base = x'00'",
        "UPDATE everquery_changes SET first = 'one' WHERE first = 1",
        "UPDATE everquery_changes SET count = 1.5 WHERE first = 0",
        "UPDATE everquery_changes SET payload = 'text' WHERE first = 0",
        "UPDATE everquery_changes SET operation = x'ff' WHERE first = 0",
        "UPDATE everquery_streams SET definition = x'ff'",
    ],
)
def test_a_text_where_a_number_is_kept(tmp_path, statement):
    url = f"sqlite:///{tmp_path / 'queries.db'}"
    with eq.Engine(STREAM, registry=url, create=True) as engine:
        engine.register(eq.Range("a", {}))
        engine.register(eq.Range("b", {}))
        engine._log.registry.close()
    run(url, statement)
    with pytest.raises(RegistryDamagedError):
        eq.open(url)
    assert damages(url)
    registry = Registry(url, damaged=True)
    registry.repair()
    registry.close()
    eq.Engine(STREAM, registry=url).register(eq.Range("c", {}))


class TestRepair:
    def test_what_is_whole_stays_and_what_is_lost_is_listed(self, url):
        run(url, "UPDATE everquery_changes SET count = 4 WHERE first = 1")
        (found,) = repair(url)
        assert (found.stream, found.position, found.ids) == ("trades", 1, ("b", "c"))
        assert ids(url) == ["a", *(f"t{i}" for i in range(5)), "b"]

    def test_queries_of_a_damaged_bulk_row_are_listed(self, url):
        run(url, "UPDATE everquery_changes SET digest = payload WHERE first = 3")
        (found,) = repair(url)
        assert found.ids == ("t0", "t1", "t2", "t3", "t4")
        assert ids(url) == ["a", "c", "b"]

    def test_a_query_that_is_registered_again_has_ended_in_the_lost_row(self, url):
        run(url, "DELETE FROM everquery_changes WHERE first = 8")
        repair(url)
        listed = eq.open(url).queries(like="b").to_pylist()
        assert [query["price_lo"] for query in listed] == [40.0]
        assert ids(url) == ALL

    def test_an_engine_that_had_read_the_row_goes_on(self, url):
        engine = eq.open(url)
        run(url, "DELETE FROM everquery_changes WHERE first = 3")
        repair(url)
        engine.deregister("t1")  # the others do not know it, and do not mind
        engine.register(eq.Range("new", {}))
        assert ids(url) == ["a", "c", "b", "new"]

    def test_a_reader_goes_on_from_where_it_stands(self, url):
        reader = Follower(url, "trades", start_seconds=5)
        place = reader.latest(Place(), queries=100)
        assert place.position == 10
        with eq.open(url) as engine:
            engine.register([eq.Range("d", {}), eq.Range("e", {})])
            engine.register(eq.Range("f", {}))
        run(url, "UPDATE everquery_changes SET digest = payload WHERE first = 10")
        for _ in range(3):
            assert reader.latest(place, queries=100) == place  # no news, and no end
        repair(url)
        end = reader.latest(place, queries=100)
        rows = reader.rows(place, end)
        assert [(row.position, row.count, row.operation) for row in rows] == [
            (10, 2, "lost"),
            (12, 1, "register"),
        ]
        reader.close()
        reader._thread.shutdown(wait=True)

    @pytest.mark.parametrize(
        ("statement", "left"),
        [
            ("DELETE FROM everquery_bases WHERE number = 0", ["new"]),
            ("DELETE FROM everquery_bases WHERE operation = 'end of base'", [*ALL, "new"]),
            ("DELETE FROM everquery_bases", ["new"]),
            ("UPDATE everquery_bases SET digest = payload WHERE number = 1", [*ALL, "new"]),
            ("UPDATE everquery_streams SET base = 3", [*ALL, "new"]),
            ("DELETE FROM everquery_streams", [*ALL, "new"]),
        ],
    )
    def test_a_compacted_base(self, url, statement, left):
        with eq.open(url) as engine:
            engine.pause("a")
            engine.compact_registry()
            engine.register(eq.Range("new", {}))
            engine._log.registry.close()
        run(url, statement)
        with pytest.raises(eq.RegistryError):
            eq.open(url)
        registry = Registry(url, damaged=True)
        registry.repair()
        registry.close()
        engine = eq.Engine(STREAM, registry=url)
        assert sorted(engine.queries()["id"].to_pylist()) == sorted(left)
        assert engine.position == 12
        assert damages(url) == []


class TestCommands:
    def test_check_and_repair(self, url):
        runner = CliRunner()
        whole = runner.invoke(app, ["registry", "check", url])
        assert (whole.exit_code, whole.stdout) == (0, "every row is whole\n")
        run(url, "DELETE FROM everquery_changes WHERE first = 1")
        run(url, "UPDATE everquery_changes SET digest = payload WHERE first = 3")
        checked = runner.invoke(app, ["registry", "check", url])
        assert checked.exit_code == 1
        assert "t0, t1, t2, t3, t4" in checked.stdout
        listed = runner.invoke(app, ["registry", "check", url, "--json"])
        assert [(each["position"], each["what"]) for each in json.loads(listed.stdout)] == [
            (3, "register blocks"),
            (1, "missing"),
        ]
        asked = runner.invoke(app, ["registry", "repair", url], input="n\n")
        assert asked.exit_code == 1
        assert damages(url) != []
        done = runner.invoke(app, ["registry", "repair", url, "--yes"])
        assert done.exit_code == 0, done.output
        assert done.stdout.endswith("the registry is whole\n")
        assert ids(url) == ["a", "b"]

    def test_a_registry_that_is_not_there(self, tmp_path):
        url = f"sqlite:///{tmp_path / 'none.db'}"
        for command in ("check", "repair"):
            done = CliRunner().invoke(app, ["registry", command, url])
            assert done.exit_code == 1
            assert "there is no registry" in done.stderr
        assert not (tmp_path / "none.db").exists()

    def test_changes_that_contradict_each_other(self, url):
        payload = json.dumps([{"kind": "range", "id": "a", "box": {}}]).encode()
        run(
            url,
            "INSERT INTO everquery_changes VALUES ('trades', 10, 1, 'register', :p, :d)",
            p=payload,
            d=digest_of("trades", 10, 0, 1, "register", payload),
        )
        run(url, "UPDATE everquery_streams SET head = 11")
        with pytest.raises(RegistryDamagedError, match=r"position 10: it can't be applied: .*'a'"):
            eq.open(url)
        checked = CliRunner().invoke(app, ["registry", "check", url])
        assert checked.exit_code == 1
        assert "it can't be applied" in checked.stdout


def test_events_go_on_with_the_queries_that_are_there(url, caplog):
    engine = eq.open(url)
    with eq.open(url) as other:
        other.register(eq.Range("before", {}))
        other.register(eq.Range("bad", {}))
        other.register(eq.Range("after", {}))
    run(url, "UPDATE everquery_changes SET digest = payload WHERE first = 11")
    with caplog.at_level(logging.WARNING, "everquery.registry"):
        for _ in range(3):
            told = engine.process(EVENTS)["query_id"].to_pylist()
            assert "before" in told
            assert "after" not in told
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "stay as they are until their registry is repaired" in warning
    assert "position 11" in warning
    assert "position 11" in engine.stats()["registry"]["trouble"]
    for call in (engine.refresh, lambda: engine.register(eq.Range("mine", {}))):
        with pytest.raises(RegistryDamagedError, match="position 11"):
            call()
    repair(url)
    assert "after" in engine.process(EVENTS)["query_id"].to_pylist()
    state = engine.stats()["registry"]
    assert (state["position"], state["trouble"]) == (13, None)
    engine.register(eq.Range("mine", {}))


def test_a_stream_that_is_gone_does_not_stop_events(url):
    engine = eq.open(url)
    run(url, "DELETE FROM everquery_streams")
    assert engine.process(EVENTS).num_rows
    assert "'trades' is not in the registry any more" in engine.stats()["registry"]["trouble"]


# -- version 1 ---------------------------------------------------------------------------------


def old_payload(payload):
    """Return columns as version 1 packed them."""
    parts = []
    for part in _parts(payload):
        with pa.ipc.open_stream(part) as reader:
            table = reader.read_all()
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        parts.append(sink.getvalue().to_pybytes())
    sizes = struct.pack(f"<I{len(parts)}Q", len(parts), *map(len, parts))
    return b"".join((sizes, *parts))


def test_a_registry_of_version_1_is_upgraded(url):
    with eq.open(url) as engine:
        engine.pause("a")
        reader = Follower(url, "trades", start_seconds=5)
        engine.compact_registry()
        place = reader.latest(Place(), queries=100)
        rows = reader.rows(Place(), place)
        reader.close()
        reader._thread.shutdown(wait=True)
        engine.register_table(pa.table({"id": ["x", "y"]}), kind="border")
        engine.compact_registry()  # the first base is kept for the reader
        engine.register_table(pa.table({"id": ["z"]}), kind="border")
        expected = engine.queries()
        engine._log.registry.close()
    for table in ("changes", "bases", "kept_bases"):
        for (payload,) in run(
            url, f"SELECT payload FROM everquery_{table} WHERE operation = 'register blocks'"
        ):
            run(
                url,
                f"UPDATE everquery_{table} SET payload = :old WHERE payload = :new",
                old=old_payload(bytes(payload)),
                new=payload,
            )
    for table in ("bases", "kept_bases"):
        run(url, f"DELETE FROM everquery_{table} WHERE operation = 'end of base'")
    for table in ("streams", "changes", "bases", "kept_bases"):
        run(url, f"ALTER TABLE everquery_{table} DROP COLUMN digest")
    run(url, "DROP TABLE everquery_quotas")  # an early version 1 had none
    run(url, "UPDATE everquery_meta SET value = '1'")
    with pytest.raises(eq.RegistryError, match="has version 1; `everquery init` on it upgrades"):
        damages(url)
    engine = eq.open(url)
    assert engine.queries().equals(expected)
    assert run(url, "SELECT value FROM everquery_meta") == [(str(VERSION),)]
    assert damages(url) == []
    again = Follower(url, "trades", start_seconds=5)
    assert again.rows(Place(), place) == rows
    again.close()
    again._thread.shutdown(wait=True)


# -- passwords ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann@127.0.0.1:1/db?password=s3cret&sslmode=disable",
        "postgresql://127.0.0.1:1/db?user=ann&password=s3cret",
        "postgresql://ann:s3cret@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?sslpassword=s3cret",
        "postgresql://127.0.0.1:1/db?password=s3cret&connect_timeout=s3cret",
        "postgresql://127.0.0.1:1/db?password=s3cret&nosuch=1",
    ],
)
def test_a_password_is_never_shown(address):
    with pytest.raises(eq.RegistryError) as caught:
        Registry(address)
    assert "***" in str(caught.value)
    error = caught.value
    while error is not None:
        assert "s3cret" not in f"{error} {error.args}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    for line in (["stream", "list", "-r", address], ["registry", "check", address]):
        shown = CliRunner().invoke(app, [*line, "--debug"])
        assert shown.exit_code == 1
        assert "s3cret" not in shown.output


def test_a_password_in_the_query_part_opens_the_registry(strict_postgres):
    address, _, rest = strict_postgres.url.replace(":s3cret", "").partition("?")
    registry = Registry(f"{address}?password=s3cret{rest}")
    assert "s3cret" not in repr(registry)
    assert "password=***" in repr(registry)
    registry.close()
    with psycopg.connect(strict_postgres.url):
        pass


def test_sqlite_keeps_what_it_is_given(tmp_path):
    """A number column of SQLite takes text: the tests above rely on it."""
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE t (n BIGINT NOT NULL)")
        connection.execute("INSERT INTO t VALUES ('ten')")
        assert connection.execute("SELECT n FROM t").fetchall() == [("ten",)]
    connection.close()
