"""Cells of ranks that no query is in any more are given up, and nobody notices."""

import pyarrow as pa
import pytest

import everquery as eq
from everquery.kinds.quantile.rank_cells import CellTable

STREAM = eq.Stream("calls", key="host", attributes=["ms"])
ROUNDS, HOSTS = 20, 40


def churn():
    """Let queries come and go on hosts that are new in every round; return notices and engine."""
    engine = eq.Engine(STREAM)
    engine.register(
        [
            *(eq.Quantile(f"stays {i}", "ms", phi=i / 9, epsilon=0.05, key="a") for i in (1, 4, 8)),
            eq.Quantile("everywhere", "ms", phi=0.5, epsilon=0.1, by_key=True),
        ]
    )
    told = []
    for number in range(ROUNDS):
        hosts = [f"host {number} {i}" for i in range(HOSTS)]
        queries = [
            eq.Quantile(f"{host} {k}", "ms", phi=k / 9, epsilon=0.05, key=host)
            for host in hosts
            for k in range(1, 9)
        ]
        engine.register(queries)
        for step in range(3):
            keys = ["a", *hosts] * 3
            values = [float((i * 7 + step * 13 + number) % 50) for i in range(len(keys))]
            told += engine.process(pa.table({"host": keys, "ms": values})).to_pylist()
        engine.deregister([query.id for query in queries])
    return told, engine


@pytest.fixture(scope="module")
def churned():
    return churn()


def cells_of(engine):
    (feed,) = engine._shard.contents.indexes["quantile"].feeds.values()
    return feed._cells.cells.lane.size


def test_empty_cells_are_given_up_14(churned, monkeypatch):
    _, engine = churned
    monkeypatch.setattr(CellTable, "is_wasteful", lambda self, queries: False)
    _, wasteful = churn()
    # Those of the query that is everywhere stay: one a host.
    assert cells_of(wasteful) > 3 * (cells_of(engine) - ROUNDS * HOSTS)
    assert cells_of(engine) < 4 * ROUNDS * HOSTS


def test_nobody_notices_14(churned, monkeypatch):
    told, engine = churned
    monkeypatch.setattr(CellTable, "is_wasteful", lambda self, queries: False)
    plain, other = churn()
    assert told == plain
    assert len(told) > 1_000
    for host in ("a", "host 3 4"):
        assert engine.answer("everywhere", key=host) == other.answer("everywhere", key=host)
