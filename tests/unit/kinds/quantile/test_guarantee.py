"""What quantile queries promise, held against exact ranks: at every batch, for every query."""

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import everquery as eq
from everquery.testing import assert_true_quantiles

EVENTS = 12_000
KEYS = ["a", "b", "c"]


def semisorted(rng):
    """Return blocks each above the one before, unsorted within."""
    return np.concatenate([rng.uniform(i, i + 1, EVENTS // 40) for i in range(40)])


STREAMS = {
    "uniform": lambda rng: rng.uniform(size=EVENTS),
    "normal": lambda rng: rng.normal(size=EVENTS),
    "semisorted": semisorted,
    "sorted": lambda rng: np.sort(rng.normal(size=EVENTS)),
    "reversed": lambda rng: np.sort(rng.normal(size=EVENTS))[::-1],
    "constant": lambda rng: np.full(EVENTS, 7.0),
    "duplicates": lambda rng: rng.integers(0, 12, EVENTS).astype(float),
    "infinite": lambda rng: rng.choice([-np.inf, -1.0, 0.0, 2.0, np.inf], EVENTS),
    "jumping": lambda rng: rng.normal(size=EVENTS) + 10 * (np.arange(EVENTS) // 2_000 % 2),
}


def queries(rng, n, *, keyed=False, last=None):
    epsilon = np.exp(rng.uniform(math.log(0.003), math.log(0.3), n))
    columns = {
        "id": [f"q{i}" for i in range(n)],
        "phi": np.where(rng.random(n) < 0.1, 1.0, rng.uniform(0.0005, 1, n)),
        "epsilon": epsilon,
    }
    if keyed:
        columns["key"] = rng.choice(KEYS, n)
    if last:
        columns["last"] = np.maximum(rng.choice(last, n), np.ceil(1 / epsilon).astype(int))
    return pa.table(columns)


def batches(rng, n):
    """Return where batches end: of one row, of a few, and of thousands."""
    sizes = rng.choice([1, 1, 7, 60, 400, 3_000], 2 * n)
    ends = np.cumsum(sizes)
    return [0, *ends[ends < n].tolist(), n]


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("last", [None, [40, 700, 5_000]], ids=["whole", "windows"])
def test_every_query_at_every_batch(kind, last):
    rng = np.random.default_rng(list(STREAMS).index(kind))
    values = STREAMS[kind](rng)
    engine = eq.Engine(eq.Stream("s", attributes=["x"]))
    asked = queries(rng, 60 if last else 300, last=last)
    engine.register_table(asked, kind="quantile")
    told = {}
    ends = batches(rng, values.size)
    for begin, end in pairwise(ends):
        notices = engine.process(pa.table({"x": values[begin:end]}))
        assert_true_quantiles(notices, asked, {None: values[:end]}, told)
    assert len(told) == asked.num_rows


@pytest.mark.parametrize("kind", ["normal", "semisorted", "duplicates"])
@pytest.mark.parametrize("last", [None, [40, 700]], ids=["whole", "windows"])
def test_every_key(kind, last):
    rng = np.random.default_rng(5)
    values = STREAMS[kind](rng)
    keys = rng.choice(KEYS, values.size, p=[0.9, 0.09, 0.01])
    engine = eq.Engine(eq.Stream("s", key="k", attributes=["x"]))
    asked = queries(rng, 90, keyed=True, last=last)
    everywhere = queries(rng, 20, last=last)
    everywhere = everywhere.set_column(
        0, "id", pa.array([f"each {i}" for i in range(everywhere.num_rows)])
    ).append_column("by_key", pa.array([True] * everywhere.num_rows))
    engine.register_table(asked, kind="quantile")
    engine.register_table(everywhere, kind="quantile")
    told = {}
    ends = batches(rng, values.size)
    for begin, end in pairwise(ends):
        batch = pa.table({"k": keys[begin:end], "x": values[begin:end]})
        seen = {key: values[:end][keys[:end] == key] for key in np.unique(keys[:end])}
        notices = engine.process(batch)
        both = pa.concat_tables([asked, everywhere], promote_options="default")
        assert_true_quantiles(notices, both, seen, told)
    assert len(told) == asked.num_rows + 3 * everywhere.num_rows


def test_queries_come_and_go_and_the_engine_restarts():
    rng = np.random.default_rng(9)
    values = rng.normal(size=EVENTS) + np.linspace(0, 3, EVENTS)
    stream = eq.Stream("s", attributes=["x"])
    engine = eq.Engine(stream)
    asked = queries(rng, 400)
    engine.register(eq.Quantile("stays", "x", phi=0.5, epsilon=0.01))  # so that the lane goes on
    live, told = [], {}
    ends = batches(rng, values.size)
    for begin, end in pairwise(ends):
        if rng.random() < 0.3:
            new = np.setdiff1d(rng.choice(asked.num_rows, 20), live)
            engine.register_table(asked.take(new), kind="quantile")
            gone = rng.choice(live, min(len(live), 15), replace=False) if live else []
            engine.deregister([f"q{i}" for i in gone])
            live = sorted({*live, *new.tolist()} - {*gone})
            told = {name: each for name, each in told.items() if int(name[0][1:]) in live}
        if rng.random() < 0.1:
            snapshot = engine.snapshot()
            engine = eq.Engine(stream)
            engine.restore(snapshot)
        notices = engine.process(pa.table({"x": values[begin:end]}))
        ours = notices.filter(pc.not_equal(notices["query_id"].cast(pa.string()), "stays"))
        assert_true_quantiles(ours, asked.take(live), {None: values[:end]}, told)
        for i in live:
            answer = engine.answer(f"q{i}")
            assert answer.value == told[f"q{i}", None]
            assert answer.n == end


class Windows:
    """An engine with one window, queries that come, pause and resume, and the rows so far.

    All values are distinct, so that one that has left the window is seen to have left it.
    """

    phis = (1.0, 0.999, 0.5, 0.01, 0.0005)

    def __init__(self, rng, *, window, epsilon, by_key):
        self.rng, self.window, self.epsilon, self.by_key = rng, window, epsilon, by_key
        self.engine = eq.Engine(eq.Stream("s", key="k", attributes=["x"]))
        self.asked, self.paused, self.told = [], [], {}
        self.values, self.keys = np.empty(0), np.empty(0, "U1")

    def lanes(self):
        """Return the rows so far by key, or of None."""
        if not self.by_key:
            return {None: self.values}
        return {key: self.values[self.keys == key] for key in np.unique(self.keys).tolist()}

    def register(self, coarser=1.0):
        """Register a query; its answers at once are as good as those that it is told."""
        name = f"q{len(self.asked)}"
        phi = self.rng.choice([*self.phis, self.rng.uniform(0.001, 1)])
        query = {"id": name, "phi": phi, "epsilon": coarser * self.epsilon, "last": self.window}
        self.asked.append({**query, "by_key": self.by_key})
        self.engine.register_table(pa.Table.from_pylist(self.asked[-1:]), kind="quantile")
        for key, rows in self.lanes().items():
            if rows.size:
                self.check(self.engine.answer(name, key=key).value, self.asked[-1], rows)

    def check(self, value, query, rows):
        """Assert that a value is in the window, at a rank that does."""
        inside = np.sort(rows[-self.window :])
        assert value in inside
        rank, target = int(np.searchsorted(inside, value)) + 1, query["phi"] * inside.size
        near_enough = abs(rank - target) < query["epsilon"] * inside.size
        assert near_enough or rank == math.ceil(target - 1e-9)

    def pause_and_resume(self):
        if self.paused:
            self.engine.resume(self.paused)
        self.paused = [f"q{i}" for i in self.rng.choice(len(self.asked), 3)]
        self.engine.pause(self.paused)

    def feed(self, values, keys):
        notices = self.engine.process(pa.table({"k": keys, "x": values}))
        self.values, self.keys = np.append(self.values, values), np.append(self.keys, keys)
        lanes = {key: rows for key, rows in self.lanes().items() if key is None or key in keys}
        by_name = {query["id"]: query for query in self.asked}
        for notice in notices.to_pylist():
            rows = lanes[notice["key"] if self.by_key else None]
            self.check(notice["value"], by_name[notice["query_id"]], rows)
        live = [query for query in self.asked if query["id"] not in self.paused]
        assert_true_quantiles(notices, pa.Table.from_pylist(live), lanes, self.told)


@pytest.mark.parametrize("by_key", [False, True], ids=["all keys", "by key"])
@pytest.mark.parametrize(("window", "epsilon"), [(60, 0.02), (700, 0.01), (3_000, 0.1)])
def test_what_is_told_is_in_the_window(window, epsilon, by_key):
    rng = np.random.default_rng(window)
    windows = Windows(rng, window=window, epsilon=epsilon, by_key=by_key)
    windows.register()
    for size in rng.choice([1, 7, window // 20, window // 3], 120).tolist():
        if rng.random() < 0.6:
            windows.register(rng.choice([1, 1.5, 4]))
        if rng.random() < 0.2:
            windows.pause_and_resume()
        windows.feed(rng.normal(size=size), rng.choice(["a", "b"], size))
    assert windows.values.size > 3 * window


@pytest.mark.parametrize("last", [None, 700, 3_000])
def test_who_joins_changes_nothing_for_the_others(last):
    rng = np.random.default_rng(4)
    stream = eq.Stream("s", attributes=["x"])
    alone, joined = eq.Engine(stream), eq.Engine(stream)
    ranks = np.linspace(0.01, 1, 40)
    for engine in (alone, joined):
        engine.register(eq.Quantile("q", "x", phi=ranks.tolist(), epsilon=0.05, last=last))
    told = 0
    for step in range(150):
        phi = float(rng.choice(ranks))
        joined.register(eq.Quantile(f"late {step}", "x", phi=phi, epsilon=0.05, last=last))
        rows = pa.table({"x": rng.normal(size=int(rng.choice([7, 100, 300]))) + step / 150})
        expected = alone.process(rows).drop_columns("query_id").to_pylist()
        notices = joined.process(rows)
        ours = pc.starts_with(notices["query_id"].cast(pa.string()), "q[")
        assert notices.filter(ours).drop_columns("query_id").to_pylist() == expected
        told += len(expected)
    assert told > 2 * ranks.size


def test_a_restart_does_not_show_in_what_late_queries_are_told():
    rng = np.random.default_rng(6)
    stream = eq.Stream("s", attributes=["x"])
    engine, restarted = eq.Engine(stream), eq.Engine(stream)
    told = 0
    for step in range(150):
        phi, epsilon = float(rng.choice([0.3, 0.31, 1.0])), float(rng.choice([0.04, 0.2]))
        rows = pa.table({"x": rng.normal(size=int(rng.choice([7, 100, 300])))})
        for each in (engine, restarted):
            each.register(eq.Quantile(f"q{step}", "x", phi=phi, epsilon=epsilon, last=700))
        snapshot = restarted.snapshot()
        restarted = eq.Engine(stream)
        restarted.restore(snapshot)
        notices = engine.process(rows)
        assert restarted.process(rows).equals(notices)
        told += notices.num_rows
    assert told > 200


def test_a_finer_query_is_raised_and_says_so():
    engine = eq.Engine(eq.Stream("s", attributes=["x"]))
    engine.register(eq.Quantile("first", "x", phi=0.5, epsilon=0.02))
    engine.process(pa.table({"x": np.arange(10_000.0)}))
    engine.register(eq.Quantile("fine", "x", phi=0.5, epsilon=0.00001))
    [notice] = engine.process(pa.table({"x": np.arange(100.0)})).to_pylist()
    assert (notice["query_id"], notice["epsilon"]) == ("fine", 0.005)
    assert engine.answer("fine").epsilon == 0.005
    assert engine.answer("first").epsilon == 0.02


def test_a_fine_query_that_comes_first_makes_the_summary_fine():
    rng = np.random.default_rng(2)
    values = rng.normal(size=200_000)
    engine = eq.Engine(eq.Stream("s", attributes=["x"]))
    engine.register(eq.Quantile("fine", "x", phi=0.999, epsilon=0.00001))
    asked = pa.table({"id": ["fine"], "phi": [0.999], "epsilon": [0.0001]})
    told = {}
    for end in range(20_000, values.size + 1, 20_000):
        notices = engine.process(pa.table({"x": values[end - 20_000 : end]}))
        assert set(notices["epsilon"].to_pylist()) <= {0.0001}
        assert_true_quantiles(notices, asked, {None: values[:end]}, told)


def test_notices_are_few_where_the_data_is_steady():
    rng = np.random.default_rng(3)
    engine = eq.Engine(eq.Stream("s", attributes=["x"]))
    engine.register_table(queries(rng, 1_000), kind="quantile")
    engine.process(pa.table({"x": rng.normal(size=1_000_000)}))
    later = [engine.process(pa.table({"x": rng.normal(size=50_000)})).num_rows for _ in range(20)]
    assert sum(later) < 100
