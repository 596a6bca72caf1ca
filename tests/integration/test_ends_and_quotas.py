"""Queries that end by themselves, and quotas, where several processes share a registry."""

from datetime import timedelta

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text

import everquery as eq
from everquery.errors import RegistryError
from everquery.registry import Registry

STREAM = eq.Stream("s", key="k", time="t", attributes=["x"])
BOX = {"x": (0, 10)}


def batch(*times, key="a"):
    return pa.table({"k": [key] * len(times), "t": list(times), "x": [5.0] * len(times)})


def operations(url):
    entries = Registry(url).read(STREAM, 0)
    return [type(entry.change).__name__ for entry in entries]


class TestEnds:
    def test_the_log_says_that_a_query_has_ended(self, registry_url):
        engine = eq.Engine(STREAM, registry=registry_url)
        engine.register([eq.Range("q", BOX, ttl=5), eq.Range("r", BOX)])
        engine.process(batch(0))
        notices = engine.process(batch(5))
        assert notices["event"].to_pylist() == ["match", "end"]
        assert operations(registry_url) == ["Register", "Deregister"]
        assert eq.Engine(STREAM, registry=registry_url).queries()["id"].to_pylist() == ["r"]
        engine.register(eq.Range("q", BOX))
        assert engine.position == 4

    def test_two_engines_end_it_and_one_says_so(self, registry_url):
        first, second = (eq.Engine(STREAM, registry=registry_url) for _ in range(2))
        first.register(eq.Range("q", BOX, ttl=5))
        for engine in (first, second):
            engine.process(batch(0))
        # The second engine comes to the end in a batch before which it has nothing to follow.
        assert second._shard.process(batch(9))["event"].to_pylist() == ["end"]
        assert first.process(batch(9))["event"].to_pylist() == ["end"]
        first.register(eq.Range("q", BOX))
        second.process(batch(10))
        assert operations(registry_url) == ["Register", "Deregister", "Register"]
        assert second.queries().num_rows == 1
        assert second.position == first.position == 3

    def test_who_follows_ignores_changes_of_ended_queries(self, registry_url):
        first, second = (eq.Engine(STREAM, registry=registry_url) for _ in range(2))
        first.register([eq.Range("q", BOX, ttl=5), eq.Range("r", BOX)])
        second.process(batch(0))
        second._shard.process(batch(9))  # ends q, and has not told the registry yet
        first.pause(["q", "r"])
        first.resume(["q"])
        first.deregister(["q", "r"])
        second.refresh()
        assert second.queries().num_rows == 0
        assert second._shard.queries.ended == set()
        with pytest.raises(eq.UnknownQueryError):
            second.pause("q")

    def test_an_end_that_could_not_be_written_is_written_later(self, registry_url, monkeypatch):
        engine = eq.Engine(STREAM, registry=registry_url)
        engine.register(eq.Range("q", BOX, ttl=5))
        engine.process(batch(0))

        def away(*_, **__):
            raise RegistryError("away")

        with monkeypatch.context() as patched:
            patched.setattr(engine._log.registry, "append", away)
            assert engine.process(batch(9))["event"].to_pylist() == ["end"]
        copy = eq.Engine(STREAM, registry=registry_url)
        copy.restore(engine.snapshot())
        for other in (engine, copy):
            other.process(batch(10))
        assert operations(registry_url) == ["Register", "Deregister"]

    def test_read_only_engines_write_nothing(self, registry_url):
        eq.Engine(STREAM, registry=registry_url).register(eq.Range("q", BOX, ttl=5))
        engine = eq.open(registry_url, read_only=True)
        engine.process(batch(0))
        assert engine.process(batch(9))["event"].to_pylist() == ["end"]
        assert operations(registry_url) == ["Register"]
        for change in (
            lambda: engine.register(eq.Range("r", BOX)),
            lambda: engine.set_quota("ann", 1),
            engine.compact_registry,
        ):
            with pytest.raises(RegistryError, match="only reads"):
                change()

    def test_spans_survive_log_and_compaction(self, registry_url):
        engine = eq.Engine(STREAM, registry=registry_url)
        engine.register(eq.Border("a", BOX, ttl=timedelta(hours=1), dwell=2.5, throttle=7))
        table = pa.table(
            {"id": ["b", "c"], "ttl": pa.array([timedelta(seconds=1), None]), "dwell": [1, 2]}
        )
        engine.register_table(table, kind="border")
        listed = engine.queries()
        assert eq.Engine(STREAM, registry=registry_url).queries().equals(listed)
        engine.compact_registry()
        assert eq.Engine(STREAM, registry=registry_url).queries().equals(listed)

    def test_a_query_that_does_not_fit_the_times_of_another_process(self, registry_url):
        running = eq.Engine(STREAM, registry=registry_url)
        running.process(batch(0))
        other = eq.Engine(STREAM, registry=registry_url)
        other.register(eq.Range("q", BOX, ttl=timedelta(seconds=5)))
        with pytest.raises(eq.InvalidBatchError, match=r"query 'q': ttl is .* have no unit"):
            running.process(batch(1))
        other.deregister("q")
        assert running.process(batch(1)).num_rows == 0


class TestQuotas:
    def test_all_processes_keep_to_it(self, registry_url):
        first, second = (eq.Engine(STREAM, registry=registry_url) for _ in range(2))
        first.set_quota("ann", 2)
        assert second.quotas() == {"ann": 2}
        first.register(eq.Range("q1", BOX, owner="ann"))
        second.register(eq.Range("q2", BOX, owner="ann"))
        with pytest.raises(eq.QuotaError, match="'ann' has 2 live queries and a quota of 2"):
            first.register(eq.Range("q3", BOX, owner="ann"))
        second.deregister("q1")
        first.register(eq.Range("q3", BOX, owner="ann"))
        first.set_quota("ann", None)
        assert second.quotas() == {}

    def test_a_registry_without_the_table_is_damaged(self, registry_url):
        eq.Engine(STREAM, registry=registry_url).set_quota("ann", 2)
        address = registry_url.replace("postgresql:", "postgresql+psycopg:")
        database = create_engine(address)
        with database.begin() as connection:
            connection.execute(text("DROP TABLE everquery_quotas"))
        database.dispose()
        with pytest.raises(RegistryError, match="its table everquery_quotas is missing"):
            eq.open(registry_url)
        Registry(registry_url, damaged=True).repair()
        engine = eq.open(registry_url)
        assert engine.quotas() == {}
        engine.set_quota(None, 2)
        assert engine.quotas() == {None: 2}
