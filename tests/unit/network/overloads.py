"""A network with outputs of different patience, and rows for it: what tests of shedding share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from everquery.network import Network

TRACK = """
network: track
streams:
  seen: {key: badge, time: ts, attributes: [x, y]}
boxes:
  near: {box: filter, from: seen, where: "x > 90"}
  spot: {box: map, from: near, select: "badge, ts, x * 2 AS z"}
  heat: {box: map, from: seen, select: "badge, ts, (y - 10) * 2 AS w"}
  warm: {box: filter, from: heat, where: "w > -1000"}
  sums: {box: map, from: seen, select: "badge, ts, x + y AS q"}
outputs:
  spot: {from: spot, shed: never, qos: {delay: [[0, 1], [2, 1], [5, 0]]}}
  heat: {from: warm, qos: {delay: [[0, 1], [2, 1], [5, 0]],
         loss: [[0, 1], [0.2, 0.95], [1, 0]], values: {w: [[0, 0], [100, 1]]}}}
  sums: {from: sums, qos: {delay: [[0, 1], [4, 1], [10, 0]], loss: [[0, 1], [0.6, 0.9], [1, 0]]}}
"""
COSTS = {"near": 1e-4, "spot": 1e-4, "heat": 4e-4, "warm": 1e-4, "sums": 4e-4}
FULL = 1000  # rows a second that one core just holds


def track() -> Network:
    return Network.load(TRACK)


def rows(count: int, second: float, seed: int = 0) -> pa.Table:
    """Return rows of one moment."""
    rng = np.random.default_rng([seed, int(second * 1000)])
    return pa.table(
        {
            "badge": rng.integers(0, 10, count),
            "ts": np.full(count, int(second)),
            "x": rng.uniform(0, 100, count),
            "y": rng.uniform(0, 100, count),
        }
    )


def played(network, seconds, *, every=0.25, **terms):
    """Return a run and its outputs after seconds with so many rows each."""
    run = network.start(**{"costs": COSTS, **terms})
    found = {name: [] for name in network.outputs}
    now = 0.0
    for rate in seconds:
        for _ in range(round(1 / every)):
            given = run.process({"seen": rows(round(rate * every), now)}, now=now)
            for name, table in given.items():
                found[name] += table.to_pylist()
            now += every
    for name, table in run.work(now).items():
        found[name] += table.to_pylist()
    return run, found
