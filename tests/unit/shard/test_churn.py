"""Queries come and go, each with a key, an owner and labels of its own: memory stays bounded."""

import random

import pyarrow as pa
import pytest

import everquery as eq
from everquery.shard import upkeep

STREAM = eq.Stream("trades", key="symbol", time="t", attributes=["price"], weight="n", grace=2)
ROUNDS, QUERIES = 8, 200


def batch(at, symbols=("IBM", "AAPL")):
    n = len(symbols)
    prices = [float((at * 7 + i * 3) % 20) for i in range(n)]
    columns = {"symbol": list(symbols), "t": [at] * n, "price": prices, "n": [1] * n}
    return pa.table(columns)


def box(i):
    return {"price": (i % 9, i % 9 + 4)}


def quantile(name, i, **options):
    phi, epsilon = 0.01 + i * 0.618 % 0.98, 0.01 + i % 40 / 400
    last = None if i % 5 else 200 + i
    return eq.Quantile(name, "price", phi=phi, epsilon=epsilon, last=last, **options)


def correlated(name, i, **options):
    last, by_key = None if i % 5 else 20 + i % 9, i % 7 == 0 and options.get("key") is None
    options |= {"compared": ">", "to": ("min", "avg")[i % 2], "epsilon": i % 3 / 10}
    return eq.Correlated(name, "count", where="price", last=last, by_key=by_key, **options)


MAKERS = {
    "range": lambda name, i, **options: eq.Range(name, box(i), **options),
    "border": lambda name, i, **options: eq.Border(name, box(i), dwell=2, throttle=5, **options),
    "threshold": lambda name, i, **options: eq.Threshold(name, box(i), total=6, **options),
    "quantile": quantile,
    "window": lambda name, i, **options: eq.Window(
        name, "sum", "price", box=box(i), last=5, **options
    ),
    "correlated": correlated,
}


def churn(engine, kind, rounds, *, keyed):
    """Register and drop queries, each with texts and, where wanted, a key that never come again."""
    for number in rounds:
        queries = []
        for i in range(number * QUERIES, (number + 1) * QUERIES):
            texts = {"owner": f"owner {i}", "labels": {"n": str(i)}}
            key = f"key {i}" if keyed else None
            queries.append(MAKERS[kind](f"q{i}", i, key=key, **texts))
        engine.register(queries)
        engine.process(batch(2 * number))
        live = set(engine.queries()["id"].to_pylist())  # thresholds may have ended
        engine.deregister([query.id for query in queries if query.id in live])
        engine.process(batch(2 * number + 1))
        engine.close()  # waits for the merge


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("kind", MAKERS)
def test_memory_is_bounded_14(kind, keyed, monkeypatch):
    monkeypatch.setattr(upkeep, "COMPACT", 500)
    monkeypatch.setattr(upkeep, "SWEEP", 200)
    engine = eq.Engine(STREAM)
    engine.register(MAKERS[kind]("stays", 3, key="silent", owner="ann"))
    churn(engine, kind, range(ROUNDS), keyed=keyed)
    first = engine.stats()
    churn(engine, kind, range(ROUNDS, 4 * ROUNDS), keyed=keyed)
    last = engine.stats()
    for name, size in last["bytes"].items():
        assert size <= 1.5 * first["bytes"][name] + 10_000, name
    assert last["keys"] <= 1_500
    assert engine.queries()["owner"].to_pylist() == ["ann"]


@pytest.mark.parametrize("kind", MAKERS)
def test_what_stays_is_told_the_same_14(kind, monkeypatch):
    """Keys with events keep their seq, and queries their state, whatever is given up around."""

    def run():
        engine = eq.Engine(STREAM)
        random.seed(14)
        engine.register([MAKERS[kind](f"stays {i}", i, key=key) for i, key in enumerate(KEYS)])
        told, at = [], 0
        for round_ in range(8):
            queries = [
                MAKERS[kind](f"q{round_} {i}", i, key=f"key {round_} {i}") for i in range(QUERIES)
            ]
            engine.register(queries)
            for _ in range(3):
                at += 1
                symbols = [*random.sample(KEYS[:3], 3), f"key {round_} 7", f"seen {at}"]
                told += engine.process(batch(at, symbols)).to_pylist()
            live = set(engine.queries()["id"].to_pylist())
            engine.deregister([query.id for query in queries if query.id in live])
            at += 1
            told += engine.process(batch(at, KEYS[:3])).to_pylist()
        told += engine.flush().to_pylist()
        told += engine.expire(["IBM"]).to_pylist()
        return told, engine

    plain, _ = run()
    monkeypatch.setattr(upkeep, "COMPACT", 500)
    monkeypatch.setattr(upkeep, "SWEEP", 200)
    compacted, engine = run()
    assert plain
    assert compacted == plain
    fresh = eq.Engine(STREAM)
    fresh.restore(engine.snapshot())
    for each in (fresh, engine):
        each.told = each.process(batch(1_000, KEYS[:3])).to_pylist() + each.flush().to_pylist()
    assert fresh.told == engine.told
    assert engine.queries()["key"].to_pylist().count("silent") == 1


KEYS = ["IBM", "AAPL", "XOM", "silent", None]
