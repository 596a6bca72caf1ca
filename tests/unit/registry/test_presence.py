"""A registry that is not there is an error, unless it is to be made."""

import sqlite3

import pyarrow as pa
import pytest

import everquery as eq
from everquery.registry import Registry

STREAM = eq.Stream("trades", key="symbol", attributes=["price"])
EVENTS = pa.table({"symbol": ["IBM"], "price": [45.0]})
OPENINGS = {
    "Engine": lambda url: eq.Engine(STREAM, registry=url),
    "Engine by name": lambda url: eq.Engine("trades", registry=url),
    "open": lambda url: eq.open(url),
    "Registry": lambda url: Registry(url, create=False),
}


@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS)
class TestNotThere:
    def test_no_file(self, tmp_path, opening):
        path = tmp_path / "querries.db"
        with pytest.raises(eq.RegistryError) as raised:
            opening(f"sqlite:///{path}")
        told = str(raised.value)
        assert f"there is no registry sqlite:///{path}: the file {path} does not exist" in told
        assert "create=True" in told
        assert f"everquery init -r sqlite:///{path}" in told
        assert list(tmp_path.iterdir()) == []

    def test_an_empty_file(self, tmp_path, opening):
        path = tmp_path / "q.db"
        path.touch()
        with pytest.raises(eq.RegistryError, match="has no tables of everquery's"):
            opening(f"sqlite:///{path}")
        assert path.read_bytes() == b""

    def test_a_database_of_somebody_else(self, tmp_path, opening):
        path = tmp_path / "q.db"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE everqueries (x)")
        connection.commit()
        connection.close()
        before = path.read_bytes()
        with pytest.raises(eq.RegistryError, match="has no tables of everquery's"):
            opening(f"sqlite:///{path}")
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_a_folder(self, tmp_path, opening):
        with pytest.raises(eq.RegistryError, match="unable to open database file"):
            opening(f"sqlite:///{tmp_path}")


def test_one_is_made_if_it_is_to_be(tmp_path):
    url = f"sqlite:///{tmp_path / 'q.db'}"
    with pytest.raises(eq.UnknownStreamError, match="no stream yet"):
        eq.open(url, create=True)
    with eq.open(url, STREAM, create=True) as engine:
        engine.register(eq.Range("a", {}))
    with eq.Engine(STREAM, registry=url, create=True) as engine:  # it is there already
        assert engine.queries()["id"].to_pylist() == ["a"]
    with eq.Engine(STREAM, registry=url) as engine:
        assert engine.queries()["id"].to_pylist() == ["a"]


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_in_memory_there_is_nothing_to_miss(url):
    with eq.Engine(STREAM, registry=url) as engine:
        engine.register(eq.Range("a", {}))


def test_a_stream_that_is_new_in_an_old_registry(tmp_path):
    url = f"sqlite:///{tmp_path / 'q.db'}"
    Registry(url).close()
    eq.Engine(STREAM, registry=url).close()
    with eq.open(url) as engine:
        assert engine.stream == STREAM


class TestNoQueries:
    def warnings(self, caplog):
        return [each.getMessage() for each in caplog.records]

    def test_said_once(self, tmp_path, caplog):
        url = f"sqlite:///{tmp_path / 'q.db'}"
        with eq.Engine(STREAM, registry=url, create=True) as engine:
            assert self.warnings(caplog) == []
            for _ in range(3):
                engine.process(EVENTS)
        (told,) = self.warnings(caplog)
        assert told.startswith(f"no queries are registered on stream 'trades' in {url}")

    def test_not_said_of_queries_that_wait_to_be_numbered(self, tmp_path, caplog):
        url = f"sqlite:///{tmp_path / 'q.db'}"
        with eq.Engine(STREAM, registry=url, create=True, lazy=True) as engine:
            engine.register(eq.Range("a", {}))
            assert engine.process(EVENTS).num_rows == 1
            engine.deregister("a")
            engine.process(EVENTS)
        assert self.warnings(caplog) == []

    def test_not_said_of_an_engine_without_registry(self, caplog):
        with eq.Engine(STREAM) as engine:
            engine.process(EVENTS)
        assert self.warnings(caplog) == []
