"""Dwell, throttle, ttl, thresholds, quantiles, silence in long random histories, by brute force.

Hypothesis draws short histories with edge cases; these are longer, so that windows open, crossings
are undone and queries end again and again, on top of each other.
"""

import os
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import everquery as eq
from everquery.testing import notices_of
from everquery.testing.strategies import History, may_end
from tests.conformance.histories import (
    STEPS,
    assert_same,
    ends_of,
    in_one_shard,
    play,
    play_twin,
    rows_by_key,
    without_changes,
)

HISTORIES = int(os.environ.get("EVERQUERY_HISTORIES", "12"))
KEYS = ["a", "b"]


def random_stream(rng):
    return eq.Stream(
        "s",
        key="k" if rng.random() < 0.7 else None,
        time="t",
        attributes=["x"],
        weight="w" if rng.random() < 0.5 else None,
        grace=int(rng.integers(0, 5)) if rng.random() < 0.5 else None,
        expire_after=int(rng.integers(1, 9)) if rng.random() < 0.5 else None,
    )


def random_query(rng, name, stream):
    low = float(rng.integers(0, 4))
    options = {"key": str(rng.choice(KEYS)) if stream.key and rng.random() < 0.4 else None}
    for span, longest, share in (("dwell", 5, 0.5), ("throttle", 7, 0.5), ("ttl", 30, 0.3)):
        if rng.random() < share and stream.time:
            options[span] = int(rng.integers(1, longest))
    box = {"x": (low, low + float(rng.integers(1, 3)))}
    if stream.time and rng.random() < 0.2:
        options.pop("dwell", None)
        if stream.key and rng.random() < 0.1:
            options["key"] = "never"
        return eq.Silence(name, after=int(rng.integers(1, 9)), **options)
    if rng.random() < 0.25:
        options.pop("dwell", None)
        return random_quantile(rng, name, stream, options)
    if rng.random() < 0.3:
        options.pop("dwell", None)
        options |= {"repeat": bool(rng.random() < 0.6), "count": bool(rng.random() < 0.2)}
        return eq.Threshold(name, box, total=int(rng.choice([1, 2, 5, 20])), **options)
    if rng.random() < 0.4:
        options.pop("dwell", None)
        return eq.Range(name, box, **options)
    emit = [("enter", "leave"), ("enter",), ("leave",)][rng.choice(3, p=[0.6, 0.2, 0.2])]
    return eq.Border(name, box, emit=emit, silent=bool(rng.random() < 0.2), **options)


def random_quantile(rng, name, stream, options):
    by_key = bool(stream.key and options["key"] is None and rng.random() < 0.5)
    epsilon = float(rng.choice([0.01, 0.1, 0.3]))
    last = int(1 / epsilon + rng.integers(1, 9)) if rng.random() < 0.3 else None
    phi = float(rng.choice([0.1, 0.5, 0.7, 0.9, 1.0]))
    if rng.random() < 0.4:
        low = float(rng.integers(0, 5))
        options["when"] = [(low, None), (None, low), (low, low + 2)][rng.choice(3)]
    if rng.random() < 0.4:
        options["by"] = float(rng.choice([0.1, 0.5, 1.0]))
    return eq.Quantile(name, "x", phi=phi, epsilon=epsilon, last=last, by_key=by_key, **options)


def replacement(rng, query, stream):
    """Return a query of the same kind and id, sometimes one that answers the same."""
    if rng.random() < 0.2:
        return replace(query, owner=str(rng.choice(["ann", "bob"])))
    while True:
        other = random_query(rng, query.id, stream)
        if other.kind == query.kind:
            return other


def random_changes(rng, stream, time, live, steps):
    for _ in range(int(rng.integers(0, 4))):
        what = rng.choice(
            ["register", "deregister", "pause", "resume", "replace", "advance", "flush", "expire"],
            p=[0.25, 0.08, 0.15, 0.2, 0.12, 0.1, 0.05, 0.05],
        )
        if what in STEPS and not steps:
            continue
        free = [name for name in "pqrstuvw" if name not in live]
        if what == "register" and free:
            live[free[0]] = random_query(rng, free[0], stream)
            yield "register", live[free[0]]
        elif what == "advance":
            yield "advance", int(time + rng.integers(0, 6))
        elif what == "flush":
            yield "flush", None
        elif what == "expire":
            yield "expire", str(rng.choice(KEYS))
        elif live:
            name = str(rng.choice(sorted(live)))
            if what == "replace" and not may_end(live[name]):
                live[name] = replacement(rng, live[name], stream)
                yield "replace", live[name]
                continue
            if what in ("deregister", "register", "replace"):
                del live[name]
                what = "deregister"
            yield str(what), name
            if what == "pause" and rng.random() < 0.5:
                yield "resume", name


def random_history(seed, *, in_order, steps=True):
    rng = np.random.default_rng(seed)
    stream = random_stream(rng)
    disorder = 0 if in_order else int(rng.choice([0, 2, 6]))
    events, changes, live = [], {}, {}
    time = 0
    for position in range(60):
        if position == 0 or rng.random() < 0.15:
            changes[position] = list(random_changes(rng, stream, time, live, steps))
            if in_order:  # events follow where time has been said to be
                said = [to for what, to in changes[position] if what == "advance"]
                time = max([time, *said])
            if position == 0:
                live |= {name: random_query(rng, name, stream) for name in "xyz"}
                changes[0] += [("register", live[name]) for name in "xyz"]
        time += int(rng.choice([0, 1, 2, 5], p=[0.4, 0.35, 0.2, 0.05]))
        event = {"t": time - int(rng.integers(0, disorder + 1)), "x": float(rng.integers(0, 6))}
        if stream.key:
            event["k"] = str(rng.choice(KEYS))
        if stream.weight:
            event["w"] = int(rng.choice([1, 2, 3, 30]))
        events.append(event)
    return History(stream, events, changes), rng


def random_cuts(rng):
    return sorted(rng.integers(0, 60, rng.integers(0, 12)).tolist())


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_equals_brute_force(new_runner, seed):
    history, rng = random_history(seed, in_order=False, steps=hasattr(new_runner, "advance"))
    ends = ends_of(history, new_runner, random_cuts(rng))
    wanted, _ = play_twin(history, ends)
    told = play(history, new_runner(history.stream), ends)
    one_shard = in_one_shard(new_runner)
    assert_same(notices_of(told, history.stream), wanted, in_one_shard=one_shard)
    rows = [tuple(row.values()) for row in told.to_pylist()]
    assert len(set(told["notice_id"].to_pylist())) == len(set(rows))


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_batches_are_invisible(new_runner, seed):
    history, rng = random_history(seed, in_order=True, steps=hasattr(new_runner, "advance"))
    one = without_changes(play(history, new_runner(history.stream), []), history)
    for ends in (random_cuts(rng), list(range(60))):
        other = without_changes(play(history, new_runner(history.stream), ends), history)
        assert_same(
            notices_of(other, history.stream),
            notices_of(one, history.stream),
            in_one_shard=in_one_shard(new_runner),
        )
        assert sorted(other["notice_id"].to_pylist()) == sorted(one["notice_id"].to_pylist())


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_snapshot_and_restore_at_every_batch_change_nothing(new_runner, seed):
    history, rng = random_history(seed, in_order=False, steps=hasattr(new_runner, "advance"))
    ends = random_cuts(rng)

    def restart(runner):
        fresh = new_runner(history.stream)
        fresh.restore(runner.snapshot())
        assert fresh.queries().equals(runner.queries())
        assert fresh.stats().get("throttled") == runner.stats().get("throttled")
        return fresh

    plain = play(history, new_runner(history.stream), ends)
    restarted = play(history, new_runner(history.stream), ends, restart=restart)
    assert rows_by_key(restarted) == rows_by_key(plain)


def test_the_histories_tell_of_everything():
    told = Counter()
    for seed in range(400):
        history, rng = random_history(seed, in_order=False)
        for notice in play_twin(history, random_cuts(rng))[0]:
            told[notice.event, notice.reason] += 1
    assert told["enter", "registered"] > 10
    assert told["enter", "resumed"] > 1
    assert told["enter", "replaced"] > 1
    assert told["leave", "replaced"] > 1
    assert told["enter", "throttled"] > 20
    assert told["match", "throttled"] > 50
    assert told["leave", "throttled"] > 20
    assert told["leave", "expired"] > 20
    assert told["end", "ttl"] > 50
    assert told["fire", None] > 50
    assert told["fire", "throttled"] > 20
    assert told["change", None] > 200
    assert told["change", "throttled"] > 10
    assert told["silent", None] > 200
    assert told["silent", "registered"] > 10
    assert told["silent", "resumed"] > 5
    assert told["silent", "unheard"] > 5
    assert told["silent", "throttled"] > 20
    assert told["back", None] > 200
    assert told["back", "throttled"] > 20
