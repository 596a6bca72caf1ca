"""Quantiles of a shard that is built anew, or followed up, are those of one that was kept."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.kinds.quantile.state import QuantilePart
from everquery.queries.changes import Deregister, Pause, Register, Resume
from everquery.registry.codec import encode_change
from everquery.registry.rows import LogRow
from everquery.sharding.job import Job
from everquery.sharding.journal import MemoryStore
from everquery.sharding.live import LIVE
from everquery.sharding.operator import Input, run_batch
from everquery.sharding.packing import Packer

STREAM = eq.Stream("s", key="k", attributes=["x", "y"])
ALONE = eq.Stream("s", attributes=["x", "y"])
KEYS = np.array([f"key{i}" for i in range(5)])


class Copy:
    """A shard in store, of which a worker may have an old version, or none."""

    def __init__(self, stream):
        self.job = Job(stream, 1, pa.null())
        self.store = MemoryStore()
        self.position = 0

    def run(self, changes, events):
        log = []
        for change in changes:
            for operation, count, payload in encode_change(change, self.job.stream):
                log.append(LogRow(self.position, 0, count, operation, payload))
                self.position += count
        packed = Packer(self.job.stream, 1).pack(events.to_batches())
        blobs = [((0, number), blob) for number, _, blob in packed]
        return run_batch(self.job, 0, Input(log, blobs), self.store)


def random_query(rng, name, stream):
    key = str(rng.choice(KEYS)) if stream.key and rng.random() < 0.5 else None
    epsilon = float(rng.choice([0.004, 0.02, 0.1]))
    return eq.Quantile(
        name,
        str(rng.choice(["x", "y"])),
        phi=float(rng.choice([0.05, 0.5, 0.9, 1.0])),
        epsilon=epsilon,
        key=key,
        last=int(rng.choice([250, 900])) if rng.random() < 0.3 else None,
        by_key=stream.key is not None and key is None and bool(rng.random() < 0.5),
    )


def random_changes(rng, live, made, stream):
    if rng.random() < 0.5:
        new = [random_query(rng, f"q{made + i}", stream) for i in range(rng.integers(1, 6))]
        live += [query.id for query in new]
        yield Register(tuple(new))
    for change in (Deregister, Pause, Resume):
        if live and rng.random() < 0.3:
            names = rng.choice(live, min(len(live), 3), replace=False).tolist()
            yield change(pa.array(names, pa.string()))
            if change is Deregister:
                live[:] = [name for name in live if name not in names]


def random_events(rng, stream):
    n = int(rng.choice([0, 1, 30, 700, 9_000], p=[0.2, 0.2, 0.3, 0.25, 0.05]))
    columns = {"x": rng.normal(size=n).round(2), "y": rng.integers(0, 9, n).astype(float)}
    if stream.key:
        columns["k"] = KEYS[rng.choice(5, n, p=[0.6, 0.3, 0.08, 0.01, 0.01])]
    return pa.table(columns)


@pytest.mark.parametrize("stream", [STREAM, ALONE], ids=["keyed", "alone"])
@pytest.mark.parametrize("seed", range(4))
def test_a_shard_that_was_lost_tells_the_same(monkeypatch, seed, stream):
    monkeypatch.setattr(QuantilePart, "least_bytes", 20_000)
    monkeypatch.setattr(QuantilePart, "most_entries", 6)
    rng = np.random.default_rng(seed)
    kept, lost = Copy(stream), Copy(stream)
    live, old = [], {}
    found, told = set(), 0
    for batch in range(60):
        changes = list(random_changes(rng, live, 10 * batch, stream))
        events = random_events(rng, stream)
        expected = kept.run(changes, events)
        fate = rng.random()
        mine = [key for key, shard in LIVE.items() if shard._store is lost.store]
        for key in mine:
            if fate < 0.25:
                del LIVE[key]
            elif fate < 0.5 and old:
                shard = LIVE[key]
                vars(shard).update(pickle.loads(old["state"]))
        actual = lost.run(changes, events)
        found.add(actual.found)
        told += expected.notices.num_rows
        assert actual.notices.to_pylist() == expected.notices.to_pylist()
        for shard in LIVE.values():
            if shard._store is lost.store and rng.random() < 0.3:
                names = ("shard", "carried", "_parts", "_queries", "version", "nonce", "_numbered")
                old["state"] = pickle.dumps({name: getattr(shard, name) for name in names})
    assert {"kept", "caught up", "rebuilt"} <= found
    assert told > 20


def test_a_lane_with_many_rows_is_saved_as_its_summary():
    rng = np.random.default_rng(0)
    copy = Copy(ALONE)
    asked = Register((eq.Quantile("median", "x", phi=0.5, epsilon=0.01),))
    for batch in range(10):
        rows = rng.normal(size=20_000)
        copy.run([asked] if batch == 0 else [], pa.table({"x": rows, "y": rows}))
    assert sum(map(len, copy.store.values())) < 200_000  # the rows are 1.6 million bytes
