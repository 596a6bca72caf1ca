"""Queries come and go one by one, merges run in the background: nothing is lost or doubled."""

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.index import merge_rules
from everquery.testing import BruteForce, assert_same_notices, notices_of

STREAM = eq.Stream("s", key="k", attributes=["x", "y"])


def random_query(rng, number):
    spec = eq.Border if rng.random() < 0.5 else eq.Range
    names = [name for name in ("x", "y") if rng.random() < 0.6]
    box = {}
    for name in names:
        low = float(rng.integers(0, 20))
        box[name] = (low, low + float(rng.integers(1, 8)))
    key = None if rng.random() < 0.3 else f"k{rng.integers(0, 4)}"
    return spec(f"q{number}", box, key=key)


@pytest.mark.parametrize("seed", range(3))
def test_queries_come_and_go_between_batches(new_runner, monkeypatch, seed):
    monkeypatch.setattr(merge_rules, "MERGED_AT_ONCE", 32)
    rng = np.random.default_rng(seed)
    runner, twin = new_runner(STREAM), BruteForce(STREAM)
    live, got, wanted = [], [], []
    number = 0
    for _ in range(60):
        for _ in range(int(rng.integers(0, 12))):
            query = random_query(rng, number)
            number += 1
            runner.register(query)
            twin.register(query)
            live.append(query.id)
        for _ in range(int(rng.integers(0, 6))):
            method = rng.choice(["deregister", "pause", "resume"])
            if live:
                query_id = live[rng.integers(0, len(live))]
                getattr(runner, method)(query_id)
                getattr(twin, method)(query_id)
                if method == "deregister":
                    live.remove(query_id)
        n = int(rng.integers(0, 15))
        events = [
            {"k": f"k{rng.integers(0, 4)}", "x": float(x), "y": float(y)}
            for x, y in rng.integers(0, 25, (n, 2))
        ]
        schema = pa.schema([("k", pa.string()), ("x", pa.float64()), ("y", pa.float64())])
        got += notices_of(runner.process(pa.Table.from_pylist(events, schema)), STREAM)
        wanted += twin.process(events)
    assert_same_notices(got, wanted)
    assert len(got) > 1_500
    assert sorted(runner.queries()["id"].to_pylist()) == sorted(live)
    runner.close()
