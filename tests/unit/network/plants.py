"""Networks and batches that several tests use, and how to run them every way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from everquery.network import Network

PLANT = """
network: plant
streams:
  readings: {key: machine, time: ts, attributes: [temperature, vibration]}
boxes:
  hot:    {box: filter, from: readings, where: "temperature > 80"}
  scaled: {box: map, from: hot, select: "machine, ts, (temperature - 32) / 1.8 AS celsius"}
  minute: {box: tumble, from: readings, by: [machine], every: {time: 60},
           select: "machine, max(temperature) AS top, count(*) AS n"}
  pairs:  {box: join, from: [hot, minute], on: "hot.machine = minute.machine", within: {time: 60}}
outputs:
  hot: {from: scaled}
  tops: {from: minute, qos: {delay: [[0, 1.0], [5, 1.0], [60, 0.0]], loss: [[0, 1.0], [1, 0.0]]}}
  pairs: {from: pairs}
"""


def readings(rows: int, seed: int = 0, *, gap: int = 7) -> pa.Table:
    """Return readings in time order, some of them unknown."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "machine": rng.choice(["a", "b", "c"], rows),
            "ts": np.cumsum(rng.integers(0, gap, rows)),
            "temperature": pa.array(
                rng.integers(40, 120, rows).astype(float), mask=rng.random(rows) < 0.05
            ),
            "vibration": rng.integers(-50, 50, rows) / 8,
        }
    )


def pieces(batch: pa.Table, sizes: Sequence[int]) -> Iterator[pa.Table]:
    """Return a batch in pieces of these sizes, and what is left."""
    at = 0
    for size in sizes:
        yield batch.slice(at, size)
        at += size
    yield batch.slice(at)


def outputs_of(
    network: Network,
    batches: Mapping[str, pa.Table],
    sizes: Sequence[int] = (),
    *,
    optimize: bool = True,
    restored: bool = False,
    threads: int = 1,
) -> dict[str, list[dict]]:
    """Return all that a network gives for batches, divided into pieces; restored between them."""
    run = network.start(optimize=optimize, threads=threads)
    found: dict[str, list[dict]] = {name: [] for name in network.outputs}
    cut = {name: list(pieces(batch, sizes)) for name, batch in batches.items()}
    for at in range(len(sizes) + 1):
        given = run.process({name: parts[at] for name, parts in cut.items()})
        for name, rows in given.items():
            found[name] += rows.to_pylist()
        if restored:
            state = run.snapshot()
            run = network.start(optimize=optimize, threads=threads)
            run.restore(state)
    for name, rows in run.finish().items():
        found[name] += rows.to_pylist()
    return found


def bag(rows: list[dict]) -> list[str]:
    """Return rows so that their order does not matter."""
    return sorted(repr(sorted(row.items())) for row in rows)


def assert_same_every_way(network: Network, batches: Mapping[str, pa.Table]) -> dict[str, list]:
    """Check that pieces, optimizing and snapshots change no output; return the outputs.

    Threads change not even the order.
    """
    wanted = outputs_of(network, batches, optimize=False)
    rows = max(batch.num_rows for batch in batches.values())
    for sizes, optimize, restored in (
        ((), True, False),
        ((1, 1, 1), True, False),
        ((rows // 3, rows // 3), False, True),
        ((rows // 3, rows // 3), True, True),
        (tuple([7] * (rows // 7)), False, False),
    ):
        found = outputs_of(network, batches, sizes, optimize=optimize, restored=restored)
        for name in wanted:
            assert bag(found[name]) == bag(wanted[name]), (name, sizes, optimize, restored)
    for way in ({}, {"optimize": False}, {"sizes": (rows // 3, rows // 3), "restored": True}):
        assert outputs_of(network, batches, **way, threads=3) == outputs_of(network, batches, **way)
    return wanted
