"""Cells of a checkpoint that nobody wrote: an error that says what to do, or a shard that works."""

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
from everquery.sharding.head import CELL
from everquery.sharding.job import Job
from everquery.sharding.journal import MemoryCells
from everquery.sharding.live import forget_live
from everquery.sharding.operator import Input, run_batch
from everquery.sharding.packing import Packer
from tests.attack.snapshots import STREAMS, batch, queries

JOB = Job(STREAMS[0], 1, pa.int64(), wide=1)
WIDE = 1  # the shard that takes queries of all kinds


def run(cells, changes, events, position=0):
    log = []
    for change in changes:
        for operation, count, payload in encode_change(change, JOB.stream):
            log.append(LogRow(position, 0, count, operation, payload))
            position += count
    packed = Packer(JOB.stream, 1, wide=1).pack(events.to_batches())
    blobs = [((0, number), blob) for number, shard, blob in packed if shard == WIDE]
    run_batch(JOB, WIDE, Input(log, blobs), cells)
    return position


@pytest.fixture(scope="module")
def genuine():
    cells = MemoryCells()
    known = tuple(query for query in queries(0, "old") if query.id != "old ends")
    position = run(cells, [Register(known)], batch(0, 0, 60, 1, bad=True))
    position = run(cells, [], batch(0, 12, 40, 2), position)
    position = run(cells, [Deregister(pa.array(["old range"]))], batch(0, 20, 30, 3), position)
    run(cells, [], batch(0, 30, 1, 4), position)
    forget_live()
    return cells


def use(cells):
    forget_live()
    run(cells, [], batch(0, 40, 30, 5), 10_000)
    run(cells, [Register((eq.Range("later", {}),))], batch(0, 50, 30, 6), 10_000)


def test_what_was_written_is_read(genuine):
    use(MemoryCells(genuine))


def head_with(cells, **changes):
    header, _, _ = framing.unpack(cells[CELL])
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
    cells = MemoryCells(genuine)
    cells[CELL] = head_with(genuine, **changes)
    with pytest.raises(SnapshotError, match="start with a new checkpoint"):
        use(cells)


def test_damaged_cells_are_refused(genuine):
    for name in genuine:
        cells = MemoryCells(genuine)
        middle = len(cells[name]) // 2
        cells[name] = cells[name][:middle] + b"\x00\xff" + cells[name][middle + 2 :]
        with pytest.raises(SnapshotError, match="start with a new checkpoint"):
            use(cells)
        del cells[name]
        if name != CELL:
            with pytest.raises(SnapshotError, match="start with a new checkpoint"):
                use(cells)


EXTREMES = (0, 1, -1, 7, 2**31 - 1, -(2**31), 2**62, -(2**63))


@pytest.mark.parametrize("seed", range(60))
def test_forged_arrays_are_refused_or_harmless(genuine, seed):
    chance = random.Random(seed)
    cells = MemoryCells(genuine)
    name = chance.choice([name for name in cells if name != CELL])
    header, arrays, strings = framing.unpack(cells[name])
    chosen = [each for each, array in arrays.items() if array.size]
    if not chosen:
        return
    flat = arrays[chance.choice(chosen)].reshape(-1)
    value = np.array([chance.choice(EXTREMES)], np.int64)
    flat[chance.randrange(flat.size)] = value.astype(flat.dtype)[0]
    before = len(cells[name])
    cells[name] = framing.pack(header, {**arrays, **strings})
    assert len(cells[name]) == before
    with contextlib.suppress(EverqueryError):
        use(cells)
