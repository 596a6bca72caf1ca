"""A shard that is built anew, followed up or mapped tells what one tells that was kept.

There are many keys, of which few have events in a batch, so that journals have changes of all
parts; queries with keys of their own come and go, and journals get new bases all the time.
"""

import pickle

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.core.parts import Part
from everquery.queries.changes import Deregister, Pause, Register, Resume
from everquery.registry.codec import encode_change
from everquery.registry.rows import LogRow
from everquery.shard import upkeep
from everquery.sharding import durable
from everquery.sharding.job import Job
from everquery.sharding.journal import MemoryStore
from everquery.sharding.live import LIVE, forget_live
from everquery.sharding.logged_queries import LoggedQueries
from everquery.sharding.operator import Input, run_batch
from everquery.sharding.packing import Packer

STREAM = eq.Stream(
    "s", key="k", time="t", attributes=["x", "y"], weight="w", grace=3, expire_after=60
)
KEYS = np.array([f"key{i}" for i in range(80)])
CARRIED = pa.schema([("note", pa.string())])
LIVE_STATE = ("shard", "carried", "_parts", "_queries", "version", "nonce", "_numbered")


class Copy:
    """A wide shard in store, which has queries of all kinds."""

    def __init__(self):
        self.job = Job(STREAM, 1, pa.int64(), CARRIED, wide=1)
        self.store = MemoryStore()
        self.position = 0

    def run(self, changes, events):
        log = []
        for change in changes:
            for operation, count, payload in encode_change(change, STREAM):
                log.append(LogRow(self.position, 0, count, operation, payload))
                self.position += count
        packed = Packer(STREAM, 1, ("note",), wide=1).pack(events.to_batches())
        blobs = [((0, number), blob) for number, shard, blob in packed if shard == 1]
        return run_batch(self.job, 1, Input(log, blobs), self.store)

    def live(self):
        return [shard for shard in LIVE.values() if shard._store is self.store]


def random_query(rng, name):
    low = float(rng.integers(0, 8))
    box = {"x": (low, low + 3)}
    key = str(rng.choice(KEYS)) if rng.random() < 0.5 else None
    spans = {
        name: int(rng.integers(2, 30))
        for name in ("dwell", "throttle", "ttl")
        if rng.random() < 0.3
    }
    match rng.integers(0, 4):
        case 0:
            spans.pop("dwell", None)
            return eq.Range(name, box, key=key, owner="ann", **spans)
        case 1:
            return eq.Border(name, box, key=key, **spans)
        case 2:
            spans.pop("dwell", None)
            total, repeat = int(rng.integers(1, 60)), bool(rng.random() < 0.5)
            return eq.Threshold(name, box, key=key, total=total, repeat=repeat, **spans)
        case _:
            by_key = key is None and bool(rng.random() < 0.5)
            last = 250 if rng.random() < 0.3 else None
            return eq.Quantile(name, "y", phi=0.5, epsilon=0.1, key=key, by_key=by_key, last=last)


def random_changes(rng, live, batch):
    if rng.random() < 0.5:
        new = [random_query(rng, f"q{batch}.{i}") for i in range(rng.integers(1, 9))]
        live += [query.id for query in new]
        yield Register(tuple(new))
    for change in (Deregister, Pause, Resume):
        if live and rng.random() < 0.3:
            names = rng.choice(live, min(len(live), 4), replace=False).tolist()
            yield change(pa.array(names, pa.string()))
            if change is Deregister:
                live[:] = [name for name in live if name not in names]


def random_events(rng, batch):
    n = int(rng.choice([0, 1, 8, 200], p=[0.2, 0.2, 0.45, 0.15]))
    some = rng.choice(KEYS[: 5 + 2 * batch], 4)
    return pa.table(
        {
            "k": pa.array(some[rng.integers(0, 4, n)], pa.string()),
            "t": pa.array(5 * batch + rng.integers(-4, 5, n), pa.int64()),
            "x": rng.integers(0, 12, n) / 1.0,
            "y": rng.normal(size=n).round(2),
            "w": rng.integers(1, 9, n),
            "note": [f"{batch} {i}" for i in range(n)],
        }
    )


@pytest.fixture(autouse=True)
def _all_the_time(monkeypatch, tmp_path):
    """Let a few be many: entries before a new base, queries in a file, dropped ones."""
    monkeypatch.setattr(Part, "most_entries", 5)
    monkeypatch.setattr(LoggedQueries, "most_entries", 9)
    monkeypatch.setattr(durable, "SHARED", 25)
    monkeypatch.setattr(upkeep, "COMPACT", 8)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    forget_live()


@pytest.mark.parametrize("seed", range(4))
def test_state_that_was_lost_comes_back(seed):
    rng = np.random.default_rng(seed)
    kept, lost = Copy(), Copy()
    live, old = [], None
    found, told = set(), 0
    for batch in range(70):
        changes = list(random_changes(rng, live, batch))
        events = random_events(rng, batch)
        expected = kept.run(changes, events)
        assert expected.found in ("new", "kept")
        fate = rng.random()
        for shard in lost.live():
            if fate < 0.3:
                del LIVE[shard.lineage, shard.number]
            elif fate < 0.6 and old is not None:
                vars(shard).update(pickle.loads(old))
        actual = lost.run(changes, events)
        found.add(actual.found)
        told += expected.notices.num_rows
        assert actual.notices.to_pylist() == expected.notices.to_pylist(), (batch, actual.found)
        assert actual.carried.to_pylist() == expected.carried.to_pylist()
        assert actual.letters.to_pylist() == expected.letters.to_pylist()
        if rng.random() < 0.3:
            for shard in lost.live():
                old = pickle.dumps({name: getattr(shard, name) for name in LIVE_STATE})
    assert {"kept", "caught up", "rebuilt", "mapped"} <= found
    assert told > 200
    changed = {name.partition(".")[0] for name in lost.store if name.endswith(".0.0")}
    assert {"keys", "queries", "quantile"} <= changed
    whole = {name.partition(".")[0] for name in lost.store if name.endswith(".base.0")}
    assert {"keys", "queries", "rules", "waiting", "letters", "carried", "threshold"} <= whole
