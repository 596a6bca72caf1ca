"""Random worlds: everything that can happen to queries and events at once, against brute force.

Ties, disorder within and across keys, events that lack values, grace, all rules of time, queries
that come and go, restarts from snapshots, a registry that is compacted in between, and several
engines that follow it.
``EVERQUERY_WORLDS`` says how many of them, and ``EVERQUERY_FIRST_WORLD`` where to begin.
"""

import os
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import everquery as eq
from everquery.testing import notices_of
from everquery.testing.strategies import History, may_end
from tests.conformance.followers import Followers
from tests.conformance.histories import assert_same, ends_of, in_one_shard, play, play_twin
from tests.conformance.test_hygiene import random_query, replacement

FIRST = int(os.environ.get("EVERQUERY_FIRST_WORLD", "0"))
# In 1477, a follower let a new query share the rows of one that a compaction had hidden.
WORLDS = sorted({*range(FIRST, FIRST + int(os.environ.get("EVERQUERY_WORLDS", "10"))), 1477})
EVENTS = 80
KEYS = ["a", "b", "c"]
NAMES = "pqrstuvwxyz"


def random_stream(rng):
    spans = {}
    if rng.random() < 0.9:
        spans["time"] = "t"
        spans["grace"] = int(rng.integers(0, 8)) if rng.random() < 0.5 else None
        spans["expire_after"] = int(rng.integers(1, 12)) if rng.random() < 0.5 else None
        spans["max_ahead"] = int(rng.integers(1, 30)) if rng.random() < 0.4 else None
    return eq.Stream(
        "s",
        key="k" if rng.random() < 0.8 else None,
        attributes=["x"],
        weight="w" if rng.random() < 0.5 else None,
        **spans,
    )


def random_changes(rng, stream, time, live, paused, *, steps):
    """Yield changes; each names another query, so that a compaction in between hides nothing.

    It would hide that a quantile query was registered while one that is gone kept the rows of its
    lane, so after such a registration none of them goes. Followers look when time moves on.
    """
    named, fed = set(), False
    for _ in range(int(rng.integers(0, 6))):
        what = str(
            rng.choice(
                [
                    *("register", "deregister", "replace", "pause", "resume", "compact"),
                    *("advance", "flush", "reset_time"),
                ],
                p=[0.25, 0.1, 0.2, 0.1, 0.1, 0.15, 0.05, 0.02, 0.03],
            )
        )
        if what == "compact":
            yield "compact", None
        elif what in ("advance", "flush", "reset_time"):
            if steps and stream.time:
                moved = {"advance": rng.integers(0, 9), "reset_time": -rng.integers(0, 9)}
                yield what, int(time + moved[what]) if what in moved else None
                if what != "reset_time":
                    named, fed = set(), False
        else:
            kept = {name for name, query in live.items() if fed and query.kind == "quantile"}
            lasting = {name for name, query in live.items() if not may_end(query)} - kept
            fits = {
                "register": set(NAMES) - set(live),
                "resume": paused & set(live),
                "replace": lasting,
                "deregister": set(live) - kept,
            }.get(what, set(live))
            choice = sorted(fits - named)
            if choice:
                name = str(rng.choice(choice))
                named.add(name)
                paused.add(name) if what == "pause" else paused.discard(name)
                if what in ("register", "replace"):
                    new = what == "register"
                    live[name] = (
                        random_query(rng, name, stream)
                        if new
                        else replacement(rng, live[name], stream)
                    )
                    fed |= live[name].kind == "quantile"
                    yield what, live[name]
                else:
                    if what == "deregister":
                        del live[name]
                    yield what, name


def random_world(seed, *, steps):
    """Return a history, and where its batches end."""
    rng = np.random.default_rng(seed)
    stream = random_stream(rng)
    late = int(rng.choice([0, 0, 3, 9]))  # how far an event may be behind
    lags = dict(zip(KEYS, rng.choice([0, 0, 4, 15], 3).tolist(), strict=True))  # clocks of keys
    live = {name: random_query(rng, name, stream) for name in sorted(NAMES[-4:])}
    paused = set()
    changes = {0: [("register", query) for query in live.values()]}
    ends = sorted({0, EVENTS, *rng.integers(0, EVENTS, rng.integers(1, 14)).tolist()})
    events, time, clocks = [], 0, []
    wrong = rng.choice([0, 0.02, 0.1])  # how often a clock jumps, where something guards time
    for begin, end in pairwise(ends):
        batch = []
        for _ in range(begin, end):
            time += int(rng.choice([0, 1, 2, 9], p=[0.5, 0.3, 0.15, 0.05]))
            key = str(rng.choice(KEYS))
            event = {"t": time - int(rng.integers(0, late + 1)) - lags[key]}
            event |= {"k": key, "x": float(rng.integers(0, 6)), "w": int(rng.choice([1, 2, 30]))}
            event |= dict.fromkeys((name for name in "xw" if rng.random() < 0.1), None)
            if stream.max_ahead is not None and rng.random() < wrong:
                event["t"] += int(rng.choice([60, 1_000]))
            batch.append({name: event[name] for name in stream.columns()})
            clocks.append(time + int(rng.integers(-5, 6)))
        if rng.random() < 0.3:  # one key behind the other, as from several files
            batch.sort(key=lambda event: event.get("k", ""))
        elif rng.random() < 0.5:
            batch = [batch[i] for i in rng.permutation(len(batch))]
        events += batch
        here = random_changes(rng, stream, time, live, paused, steps=steps)
        changes.setdefault(end, []).extend(here)
    told = stream.max_ahead is not None and (not steps or rng.random() < 0.5)
    return History(stream, events, changes, tuple(clocks) if told else ()), ends


def runner_for(new_runner, stream):
    return Followers(stream) if new_runner is eq.Engine else new_runner(stream)


@pytest.mark.parametrize("seed", WORLDS)
def test_equals_brute_force(new_runner, seed):
    history, ends = random_world(seed, steps=hasattr(new_runner, "advance"))
    ends = ends_of(history, new_runner, ends)
    wanted, twin = play_twin(history, ends)
    runner = runner_for(new_runner, history.stream)
    told = notices_of(play(history, runner, ends), history.stream)
    assert_same(told, wanted, in_one_shard=in_one_shard(new_runner))
    assert len(twin.refused) == sum(runner_letters(runner).values())
    runner.close()


def runner_letters(runner):
    if isinstance(runner, Followers):
        runner = runner.engines[0]
    return runner.stats()["dead_letters_by_reason"]


def test_the_worlds_have_everything():
    told, happened, refused = Counter(), Counter(), 0
    for seed in range(120):
        history, ends = random_world(seed, steps=True)
        happened.update(what for changes in history.changes.values() for what, _ in changes)
        notices, twin = play_twin(history, ends)
        told.update((notice.event, notice.reason) for notice in notices)
        refused += len(twin.refused)
    assert refused > 50
    assert min(happened.values()) > 10
    assert set(happened) == {
        *("register", "deregister", "replace", "pause", "resume", "compact"),
        *("advance", "flush", "reset_time"),
    }  # fmt: skip
    assert len(told) >= 22
