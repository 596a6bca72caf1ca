"""All of a call happens, or nothing; and if neither, the engine says so."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa
import pytest

import everquery as eq
from everquery.engine import calls
from everquery.errors import TornEngineError
from everquery.shard import passage, query_set, teller

STREAM = eq.Stream("s", key="k", attributes=["x"])


def batch(*values):
    return pa.table({"k": ["a"] * len(values), "x": pa.array(values, pa.float64())})


@pytest.fixture
def engine():
    engine = eq.Engine(STREAM)
    engine.register(eq.Border("q", {"x": (0, 10)}))
    return engine


@pytest.fixture(autouse=True)
def interruptible():
    """Let Ctrl-C raise, also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def struck(monkeypatch):
    """Let Ctrl-C strike in the middle of the next step."""
    write, strikes = teller.write_notices, [True]

    def write_and_strike(*arguments):
        if strikes:
            strikes.pop()
            signal.raise_signal(signal.SIGINT)
        return write(*arguments)

    monkeypatch.setattr(teller, "write_notices", write_and_strike)
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_waits_for_the_notices_and_comes_before_the_next_call_13(engine, struck):
    assert engine.process(batch(5.0))["event"].to_pylist() == ["enter"]
    with pytest.raises(KeyboardInterrupt):
        engine.process(batch(20.0))
    assert engine.process(batch(20.0))["event"].to_pylist() == ["leave"]  # given again
    assert engine.stats()["events"] == 2


def test_ctrl_c_comes_by_itself_if_there_is_no_next_call_13(engine, struck):
    notices = engine.process(batch(5.0))
    with pytest.raises(KeyboardInterrupt):
        time.sleep(100 * calls.LATER_SECONDS)
    assert notices.num_rows == 1


def test_ctrl_c_while_queries_are_registered_13(engine, monkeypatch):
    table = pa.table({"id": ["r", "s"], "x_lo": [0.0, 1.0]})
    number = query_set.QuerySet._number

    def strike(self, blocks):
        signal.raise_signal(signal.SIGINT)
        return number(self, blocks)

    monkeypatch.setattr(query_set.QuerySet, "_number", strike)
    assert engine.register_table(table, kind="range").registered == 2
    with pytest.raises(KeyboardInterrupt):
        time.sleep(100 * calls.LATER_SECONDS)
    assert engine.stats()["queries"]["range"] == 2


@pytest.mark.parametrize("error", [MemoryError, RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize(
    ("module", "where"),
    [(teller, "write_notices"), (passage, "in_order")],
    ids=["writing", "order"],
)
def test_a_step_that_fails_half_way_is_told_by_every_later_call_13(
    engine, monkeypatch, module, where, error
):
    snapshot = engine.snapshot()

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(module, where, fail)
        with pytest.raises(error):
            engine.process(batch(5.0))
    for call in (
        lambda: engine.process(batch(20.0)),
        lambda: engine.register(eq.Range("r", {})),
        lambda: engine.snapshot(),
        lambda: engine.queries(),
    ):
        with pytest.raises(TornEngineError, match="restore a snapshot"):
            call()
    engine.restore(snapshot)
    assert engine.process(batch(5.0))["event"].to_pylist() == ["enter"]
    engine.close()


def test_errors_before_anything_changes_tear_nothing_13(engine):
    for bad in (pa.table({"x": [1.0]}), batch(5.0).append_column("x", pa.array([1.0]))):
        with suppress(eq.EverqueryError):
            engine.process(bad)
    with pytest.raises(eq.DuplicateQueryError):
        engine.register(eq.Range("q", {}))
    with pytest.raises(eq.SnapshotError):
        engine.restore(b"nothing")
    assert engine.process(batch(5.0)).num_rows == 1


def test_threads_are_not_interrupted_and_still_wait_for_each_other_13(engine):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: engine.process(batch(5.0)).num_rows, range(40)))
    assert sum(found) == 1
