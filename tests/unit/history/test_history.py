"""What is kept of a stream's past, in memory and in files."""

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import HistoryError, InvalidStreamError
from everquery.history import History, Place
from everquery.shard import Shard


def small(stream, rows=20, folder=None):
    """Return a shard and its history, whose chunks have few events."""
    shard = Shard(stream)
    shard.passage.recorder = history = History(shard, folder, rows=rows)
    return shard, history


def test_events_are_kept_in_their_order_with_their_places(stream, batch):
    shard, history = small(stream)
    for first in (0, 10, 20, 30, 40):
        shard.process(batch(10, first))
    table = history.table()
    assert table["ts"].to_pylist() == list(range(50))
    assert table["batch"].to_pylist() == [n // 10 for n in range(50)]
    assert table["position"].to_pylist() == [n % 10 for n in range(50)]
    assert table["symbol"].to_pylist() == [f"k{n % 3}" for n in range(50)]
    assert table["seq"].to_pylist() == [n // 3 for n in range(50)]
    some = history.table(Place(1, 5), Place(3, 2))
    assert some["ts"].to_pylist() == list(range(15, 32))


def test_late_events_are_not_kept(stream):
    shard, history = small(stream)
    rows = {"symbol": ["a", "a"], "ts": [5, 6], "price": [1.0, 2.0]}
    shard.process(pa.table(rows))
    shard.process(pa.table({"symbol": ["a", "b"], "ts": [3, 4], "price": [1.0, 2.0]}))
    assert history.table()["ts"].to_pylist() == [5, 6, 4]


def test_what_is_older_than_so_many_events_is_gone(stream, batch):
    shard, history = small(replace(stream, keep=50))
    for first in range(0, 300, 10):
        shard.process(batch(10, first))
    held = history.held()
    assert 50 <= held.events <= 70
    assert held.oldest.batch == (300 - held.events) // 10


def test_what_is_older_than_a_span_is_gone(batch):
    stream = eq.Stream("s", key="symbol", time="ts", attributes=["price"], keep="60s")
    shard, history = small(stream)
    start = datetime(2026, 1, 1)
    for first in range(0, 300, 10):
        table = batch(10, first)
        times = [start + timedelta(seconds=t) for t in table["ts"].to_pylist()]
        shard.process(table.set_column(1, "ts", pa.array(times, pa.timestamp("us"))))
    assert 60 <= history.held().events <= 80


def test_files_survive_a_restart(stream, batch, tmp_path):
    with eq.Engine(stream, history=tmp_path) as engine:
        for first in (0, 10):
            engine.process(batch(10, first))
    with eq.Engine(stream, history=tmp_path) as engine:
        assert engine.history()["events"] == 20
        assert engine.place == Place(2, 0)
        engine.register(eq.Range("all", {"price": (None, None)}))
        notices = engine.process(batch(3, 20))
        assert notices["seq"].to_pylist() == [6, 7, 7]  # keys go on where they were
        late = engine.process(batch(1, 0))
        assert late.num_rows == 0
        assert engine.dead_letters()["reason"].to_pylist() == ["late"]


def test_a_snapshot_forgets_what_came_after_it(stream, batch, tmp_path):
    with eq.Engine(stream, history=tmp_path) as engine:
        engine.process(batch(10, 0))
        snapshot = engine.snapshot()
        engine.process(batch(10, 10))
        engine.restore(snapshot)
        assert engine.history()["events"] == 10
        engine.process(batch(10, 10))
        assert engine._history.table()["ts"].to_pylist() == list(range(20))
    with eq.Engine(stream, history=tmp_path, snapshot=snapshot) as engine:
        assert engine.history()["events"] == 10


def test_compaction_joins_small_files(stream, batch, tmp_path):
    with eq.Engine(stream, history=tmp_path) as engine:
        for first in range(0, 50, 10):
            engine.process(batch(10, first))
            engine.snapshot()
        assert engine.history()["files"] == 5
        before = engine._history.table()
        engine.compact_history()
        assert engine.history()["files"] == 1
        assert engine._history.table().equals(before)
    with eq.Engine(stream, history=tmp_path) as engine:
        assert engine._history.table().equals(before)


@pytest.mark.parametrize("suffix", [".parquet", ".mark"])
@pytest.mark.parametrize("how", ["gone", "cut", "changed"])
def test_damaged_files_say_which_span_is_lost(stream, batch, tmp_path, suffix, how):
    with eq.Engine(stream, history=tmp_path) as engine:
        for first in range(0, 50, 10):
            engine.process(batch(10, first))
            engine.snapshot()
    damaged = sorted(tmp_path.glob(f"*{suffix}"))[2]
    content = bytearray(damaged.read_bytes())
    if how == "gone":
        damaged.unlink()
    else:
        content[len(content) // 3] ^= 255
        damaged.write_bytes(content[: len(content) // 2] if how == "cut" else content)
    with eq.Engine(stream, history=tmp_path) as engine:
        table = engine._history.table()
        assert table["ts"].to_pylist() == [t for t in range(50) if not 20 <= t < 30]
        lost = engine.history()["lost"]
        assert len(lost) == 1
        assert "batches 2 to 2" in lost[0]


def test_a_folder_of_another_stream_is_refused(stream, batch, tmp_path):
    with eq.Engine(stream, history=tmp_path) as engine:
        engine.process(batch(10, 0))
    other = eq.Stream("other", key="symbol", time="ts", attributes=["volume"], keep=10)
    with pytest.raises(HistoryError, match="of another stream"):
        eq.Engine(other, history=tmp_path)


def test_a_folder_without_keep_is_refused(tmp_path):
    with pytest.raises(InvalidStreamError, match="keeps nothing"):
        eq.Engine(eq.Stream("s", attributes=["x"]), history=tmp_path)


@pytest.mark.parametrize("keep", [0, -1, 1.5, True, "soon", "5x", timedelta(0)])
def test_keep_that_cannot_be(keep):
    with pytest.raises(InvalidStreamError, match="keep is"):
        eq.Stream("s", time="t", attributes=["x"], keep=keep)


def test_a_span_needs_times():
    with pytest.raises(InvalidStreamError, match="needs a time column"):
        eq.Stream("s", attributes=["x"], keep="1h")


def test_keys_that_get_other_numbers_keep_their_events(stream, batch):
    shard, history = small(stream)
    for first in (0, 10, 20):
        shard.process(batch(10, first))
    before = history.table()
    numbers = shard.contents.keys.keep(np.array([0, 1, 2]))
    history.renumber(numbers)
    assert history.table().equals(before)


def test_streams_without_key_or_time(tmp_path):
    stream = eq.Stream("s", attributes=["x"], weight="w", keep=100)
    with eq.Engine(stream, history=tmp_path) as engine:
        engine.process(pa.table({"x": [1.0, None], "w": [3, None]}))
    with eq.Engine(stream, history=tmp_path) as engine:
        table = engine._history.table()
        assert table["x"].to_pylist() == [1.0, None]
        assert table["w"].to_pylist() == [3, 0]
