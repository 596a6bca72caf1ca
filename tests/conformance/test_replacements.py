"""Border queries are replaced again and again: other boxes, other keys, other rules."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.testing import BruteForce, assert_same_notices, notices_of

STREAM = eq.Stream("s", key="k", time="t", attributes=["x", "y"])
SCHEMA = pa.schema(
    [("k", pa.string()), ("t", pa.int64()), ("x", pa.float64()), ("y", pa.float64())]
)
KEYS = ["a", "b", "c", "d"]


def random_query(rng, name):
    box = {}
    for attribute in ("x", "y"):
        if rng.random() < 0.6:
            low = float(rng.integers(0, 6))
            box[attribute] = (low, low + float(rng.integers(2, 6)))
    options = {"key": str(rng.choice(KEYS)) if rng.random() < 0.4 else None}
    for span, share in (("dwell", 0.3), ("throttle", 0.2)):
        if rng.random() < share:
            options[span] = int(rng.integers(1, 6))
    emit = [("enter", "leave"), ("enter",), ("leave",)][rng.choice(3, p=[0.8, 0.1, 0.1])]
    silent = bool(rng.random() < 0.1)
    owner = str(rng.choice(["ann", "bob"]))
    return eq.Border(name, box, emit=emit, silent=silent, owner=owner, **options)


def play(rng, runner, twin, *, rounds):
    """Return what both told."""
    live, got, wanted, time = {}, [], [], 0
    for name in "pqrstu":
        live[name] = random_query(rng, name)
        runner.register(live[name])
        twin.register(live[name])
    for _ in range(rounds):
        for _ in range(int(rng.integers(0, 5))):
            name = str(rng.choice(list(live)))
            what = rng.choice(["replace", "pause", "resume"], p=[0.7, 0.15, 0.15])
            if what == "replace":
                query = random_query(rng, name) if rng.random() < 0.8 else live[name]
                live[name] = query
                runner.register(query, replace=True)
                twin.replace(query)
            else:
                getattr(runner, what)(name)
                getattr(twin, what)(name)
        events = []
        for _ in range(int(rng.integers(0, 6))):
            time += int(rng.integers(0, 3))
            x, y = rng.integers(0, 10, 2).tolist()
            events.append({"k": str(rng.choice(KEYS)), "t": time, "x": float(x), "y": float(y)})
        got += notices_of(runner.process(pa.Table.from_pylist(events, SCHEMA)), STREAM)
        wanted += twin.process(events)
    return got, wanted


@pytest.mark.parametrize("seed", range(4))
def test_only_what_changed_is_told(new_runner, seed):
    runner = new_runner(STREAM)
    rounds = 40 if new_runner is eq.Engine or hasattr(new_runner, "register") else 12
    got, wanted = play(np.random.default_rng(seed), runner, BruteForce(STREAM), rounds=rounds)
    assert_same_notices(got, wanted)
    told = Counter((notice.event, notice.reason) for notice in got)
    assert told["enter", "replaced"] > rounds // 6
    assert told["leave", "replaced"] > rounds // 6
    runner.close()
