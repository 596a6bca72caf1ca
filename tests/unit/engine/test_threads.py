"""Several threads tell what one does, in the same order."""

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.core.crew import Crew
from everquery.index import rows
from everquery.shard import order, writing
from everquery.state import events

STREAM = eq.Stream("s", key="k", time="t", attributes=["x", "y"], weight="w")


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch):
    for module in (rows, order, writing, events):
        monkeypatch.setattr(module, "WORTH", 8)


def random_table(rng, n, keyed):
    low = rng.integers(0, 40, (2, n)).astype(float)
    table = {"id": [f"{'k' if keyed else 'a'}{i}" for i in range(n)]}
    if keyed:
        table["key"] = [f"key{i}" for i in rng.integers(0, 30, n)]
    return pa.table(
        table
        | {"x_lo": low[0], "x_hi": low[0] + rng.integers(1, 20, n)}
        | {"y_lo": low[1], "y_hi": low[1] + rng.integers(1, 20, n)}
    )


def random_batch(rng, n, first):
    time = first + np.sort(rng.integers(0, 50, n))
    time[rng.random(n) < 0.05] -= 30  # some are late
    x = rng.integers(0, 50, (2, n)).astype(float)
    x[rng.random(x.shape) < 0.03] = np.nan
    keys = [None if rng.random() < 0.01 else f"key{i}" for i in rng.integers(0, 40, n)]
    table = {"k": keys, "t": time, "x": x[0], "y": x[1], "w": rng.integers(1, 9, n)}
    return pa.table(table)


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("seed", range(3))
def test_all_is_as_with_one(seed, threads):
    rng = np.random.default_rng(seed)
    one, several = eq.Engine(STREAM), eq.Engine(STREAM, threads=threads)
    for kind in ("range", "border", "threshold"):
        for keyed in (True, False):
            table = random_table(rng, 60, keyed)
            ids = pa.array([f"{kind}-{name}" for name in table["id"].to_pylist()])
            table = table.set_column(0, "id", ids)
            if kind == "threshold":
                table = table.append_column("total", pa.array(rng.integers(5, 200, 60)))
            one.register_table(table, kind=kind)
            several.register_table(table, kind=kind)
    for batch in range(8):
        events_now = random_batch(rng, int(rng.integers(1, 400)), 60 * batch)
        wanted = one.process(events_now)
        assert several.process(events_now).equals(wanted)
        if batch == 4:
            several.restore(several.snapshot())
            one.restore(one.snapshot())
    assert several.dead_letters().equals(one.dead_letters())
    assert several.stats() == one.stats()
    several.close()


def test_only_ranges_and_only_borders():
    rng = np.random.default_rng(1)
    for kind in ("range", "border"):
        one, several = eq.Engine(STREAM), eq.Engine(STREAM, threads=3)
        for keyed in (True, False):
            table = random_table(rng, 90, keyed)
            one.register_table(table, kind=kind)
            several.register_table(table, kind=kind)
        for batch in range(3):
            events_now = random_batch(rng, 500, 60 * batch)
            assert several.process(events_now).equals(one.process(events_now))


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2", None])
def test_no_number_of_threads(threads):
    with pytest.raises(eq.InvalidStreamError, match="whole number from 1 on"):
        eq.Engine(STREAM, threads=threads)


class TestCrew:
    def test_pieces_are_about_equal_and_cover_all(self):
        crew = Crew(3)
        assert crew.pieces(30, 10) == [(0, 10), (10, 20), (20, 30)]
        assert crew.pieces(29, 10) == [(0, 14), (14, 29)]
        assert crew.pieces(19, 10) == [(0, 19)]
        assert Crew(1).pieces(10**9, 1) == [(0, 10**9)]

    def test_an_error_is_raised_once_all_are_done(self):
        crew = Crew(2)
        done = []

        def work(piece):
            if piece == 1:
                raise ValueError("no")
            done.append(piece)

        with pytest.raises(ValueError, match="no"):
            crew.map(work, [0, 1])
        with pytest.raises(ValueError, match="no"):
            crew.map(work, [1, 2])
        assert sorted(done) == [0, 2]
        crew.close()
        assert crew.map(str, [1, 2]) == ["1", "2"]
        crew.close()
