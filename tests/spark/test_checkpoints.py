"""A checkpoint is that of one job, and of one run at a time; anything else is said in one line."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import everquery as eq
from everquery.errors import InvalidBatchError, ReaderBusyError, RegistryLostError, SnapshotError
from everquery.registry import Registry
from everquery.sharding.routing import shards_of
from everquery.spark import cause_of, wait_for
from tests.spark.driver import Driver
from tests.spark.job import JobFolder, assert_exact, start, told
from tests.spark.market import SCHEMA, STREAM, Owners, events

KEYED = eq.Stream("s", key="k", attributes=["x"])
COLUMNS = pa.schema([("k", pa.string()), ("x", pa.float64())])


@pytest.fixture
def folder(spark, tmp_path):
    """Return a job that has run and is stopped; it is of four shards."""
    folder = JobFolder(tmp_path)
    engine = eq.Engine(KEYED, registry=folder.registry, create=True)
    engine.register(eq.Border("b", {"x": (10, 20)}))
    folder.write(0, pa.table({"k": [f"k{i}" for i in range(40)], "x": [15.0] * 40}))
    run(spark, folder)
    yield folder
    run(spark, folder)  # nothing that was refused changed anything
    assert_exact(folder, KEYED)


def run(spark, folder, stream=KEYED, schema=COLUMNS, **options):
    options = {"shards": 4, "dead_letters": True, "trigger": {"availableNow": True}, **options}
    wait_for(start(spark, folder, stream, schema, **options))


def test_another_number_of_shards(spark, folder):
    # Only keys of shards that the checkpoint does not have: its own would not even be looked at.
    names = pa.array([f"n{i}" for i in range(200)])
    secret = Registry(folder.registry).shard_secret()
    new = names.filter(pc.greater_equal(pa.array(shards_of(names, 8, secret)), 4))
    folder.write(1, pa.table({"k": new, "x": [15.0] * len(new)}))
    before = told(folder)
    with pytest.raises(SnapshotError, match="is of 4 shards, and this run has 8") as raised:
        run(spark, folder, shards=8)
    assert "\n" not in str(raised.value)
    assert told(folder).equals(before)


def test_another_stream(spark, folder):
    other = eq.Stream("other", key="k", attributes=["x"])
    engine = eq.Engine(other, registry=folder.registry, create=True)
    with pytest.raises(RegistryLostError, match="the checkpoint is of another stream"):
        run(spark, folder, other)
    for name in "qr":
        engine.register(eq.Range(name, {}))
    folder.write(1, pa.table({"k": ["k1"], "x": [25.0]}))
    with pytest.raises(SnapshotError, match=r"another stream \(name: 's', here 'other'\)"):
        run(spark, folder, other)
    eq.Engine(KEYED, registry=folder.registry).register(eq.Range("q", {}))  # as far as it came


def test_a_key_of_another_type(spark, folder):
    eq.Engine(KEYED, registry=folder.registry, create=True).register(eq.Range("q", {}))
    with pytest.raises(SnapshotError, match="'k' has type int64, and had string"):
        run(spark, folder, schema=pa.schema([("k", pa.int64()), ("x", pa.float64())]))
    folder.write(1, pa.table({"k": ["k1"], "x": [25.0]}))


def test_a_column_that_is_gone(spark, folder):
    with pytest.raises(InvalidBatchError, match="needs column 'k'"):
        run(spark, folder, schema=pa.schema([("x", pa.float64())]))


@pytest.mark.slow
def test_a_registry_that_is_older(spark, folder):
    url = f"sqlite:///{folder.root / 'other.db'}"
    with pytest.raises(RegistryLostError, match="ends at position 0"):
        run(spark, folder, registry=url)


def test_a_second_run_in_another_process_is_refused(spark, tmp_path):
    folder = JobFolder(tmp_path)
    owners = Owners(folder.registry)
    owners.register(30)
    query = start(spark, folder, STREAM, SCHEMA, dead_letters=True)
    try:
        folder.write(0, events(0))
        query.processAllAvailable()
        second = Driver(folder)
        assert second.process.wait(120) == 1
        assert "ReaderBusyError: another process follows" in second.errors.read_text()
        assert query.isActive
        owners.change()
        folder.write(1, events(1))
        query.processAllAvailable()
    finally:
        query.stop()
    assert_exact(folder, STREAM)


def test_a_second_run_in_one_session_takes_the_place_of_the_first(spark, tmp_path):
    folder = JobFolder(tmp_path)
    Owners(folder.registry).register(30)
    first = start(spark, folder, STREAM, SCHEMA, dead_letters=True)
    folder.write(0, events(0))
    first.processAllAvailable()
    folder.write(1, events(1))
    second = start(spark, folder, STREAM, SCHEMA, dead_letters=True)
    try:
        second.processAllAvailable()
        assert not first.isActive
        assert first.exception() is None
    finally:
        second.stop()
    assert_exact(folder, STREAM)


def test_the_cause_of_a_failure():
    text = """[STREAM_FAILED] Query terminated: Traceback (most recent call last):
      File "durable.py", line 1
    everquery.errors.ReaderBusyError: another one
    \tat org.apache.spark.Java: lines
    """
    found = cause_of(RuntimeError(text.replace("    ", "")))
    assert isinstance(found, ReaderBusyError)
    assert str(found) == "another one"
    assert cause_of(RuntimeError("java.lang.Error: else")) is None
