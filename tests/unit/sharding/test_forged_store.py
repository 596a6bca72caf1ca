"""Store of a checkpoint that nobody wrote: an error that says what to do, or a shard that works."""

import contextlib
import random

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.core import framing
from everquery.errors import EverqueryError, SnapshotError
from everquery.queries.changes import Deregister, Register
from everquery.registry.codec import encode_change
from everquery.registry.rows import LogRow
from everquery.sharding.head import NAME
from everquery.sharding.job import Job
from everquery.sharding.journal import MemoryStore
from everquery.sharding.live import forget_live
from everquery.sharding.operator import Input, run_batch
from everquery.sharding.packing import Packer
from tests.attack.snapshots import STREAMS, batch, queries

JOB = Job(STREAMS[0], 1, pa.int64(), wide=1)
WIDE = 1  # the shard that takes queries of all kinds


def run(store, changes, events, position=0):
    log = []
    for change in changes:
        for operation, count, payload in encode_change(change, JOB.stream):
            log.append(LogRow(position, 0, count, operation, payload))
            position += count
    packed = Packer(JOB.stream, 1, wide=1).pack(events.to_batches())
    blobs = [((0, number), blob) for number, shard, blob in packed if shard == WIDE]
    run_batch(JOB, WIDE, Input(log, blobs), store)
    return position


@pytest.fixture(scope="module")
def genuine():
    store = MemoryStore()
    parts = [part for query in queries(0, "old") for part in query.parts()]
    known = tuple(query for query in parts if query.id != "old ends")
    position = run(store, [Register(known)], batch(0, 0, 60, 1, bad=True))
    position = run(store, [], batch(0, 12, 40, 2), position)
    position = run(store, [Deregister(pa.array(["old range"]))], batch(0, 20, 30, 3), position)
    run(store, [], batch(0, 30, 1, 4), position)
    forget_live()
    return store


def use(store):
    forget_live()
    run(store, [], batch(0, 40, 30, 5), 10_000)
    run(store, [Register((eq.Range("later", {}),))], batch(0, 50, 30, 6), 10_000)


def test_what_was_written_is_read(genuine):
    use(MemoryStore(genuine))


def head_with(store, **changes):
    header, _, _ = framing.unpack(store[NAME])
    return framing.pack({**header, **changes}, {})


@pytest.mark.parametrize(
    "changes",
    [
        {"lineage": "../../../../tmp/evil"},
        {"lineage": None},
        {"lineage": "AB" * 16},
        {"tokens": []},
        {"tokens": [[1]]},
        {"tokens": [[0, "../" * 11]]},
        {"tokens": [["0", "ab" * 16]]},
        {"tokens": [[-1, "ab" * 16]]},
        {"file": [0, "../../../etc/passwd"]},
        {"file": "x"},
        {"position": -1},
        {"journals": []},
        {"journals": {"keys": {}}},
        {"types": 3},
        {"stream": 3},
        {"head": "1"},
        {"holds": "snapshot"},
    ],
)
def test_a_forged_head_is_refused(genuine, changes):
    store = MemoryStore(genuine)
    store[NAME] = head_with(genuine, **changes)
    with pytest.raises(SnapshotError, match="start with a new checkpoint"):
        use(store)


def test_a_damaged_store_is_refused(genuine):
    for name in genuine:
        store = MemoryStore(genuine)
        middle = len(store[name]) // 2
        store[name] = store[name][:middle] + b"\x00\xff" + store[name][middle + 2 :]
        with pytest.raises(SnapshotError, match="start with a new checkpoint"):
            use(store)
        del store[name]
        if name != NAME:
            with pytest.raises(SnapshotError, match="start with a new checkpoint"):
                use(store)


EXTREMES = (0, 1, -1, 7, 2**31 - 1, -(2**31), 2**62, -(2**63))


@pytest.mark.parametrize("seed", range(60))
def test_forged_arrays_are_refused_or_harmless(genuine, seed):
    chance = random.Random(seed)
    store = MemoryStore(genuine)
    name = chance.choice([name for name in store if name != NAME])
    header, arrays, strings = framing.unpack(store[name])
    chosen = [each for each, array in arrays.items() if array.size]
    if not chosen:
        return
    flat = arrays[chance.choice(chosen)].reshape(-1)
    value = np.array([chance.choice(EXTREMES)], np.int64)
    flat[chance.randrange(flat.size)] = value.astype(flat.dtype)[0]
    store[name] = framing.pack(header, {**arrays, **strings})
    again, kept, texts = framing.unpack(store[name])  # what is forged is whole, but for one value
    assert (again, kept.keys(), texts) == (header, arrays.keys(), strings)
    with contextlib.suppress(EverqueryError):
        use(store)
