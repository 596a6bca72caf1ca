"""Events in disorder and queries that come and go, from a seed.

As a process that makes changes all the time: python -m tests.spark.market REGISTRY SEED.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pyarrow as pa

import everquery as eq
from tests.servers.ports import end_with_parent

# With everything that a shard has to remember: positions, times, held events and silent keys.
STREAM = eq.Stream(
    "s", key="k", time="t", attributes=["x", "y"], weight="w", grace=6, expire_after=120
)
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("t", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("w", pa.int64()),
    ]
)
KEYS, EVENTS = 40, 400


def events(number: int) -> pa.Table:
    """Return the events of a file: their times follow those of the file before."""
    rng = np.random.default_rng([1, number])
    time = np.sort(rng.integers(0, 40, EVENTS)) + 40 * number
    late = rng.integers(0, 4, EVENTS) + 30 * (rng.random(EVENTS) < 0.01)  # some of them too late
    lacking = rng.random(EVENTS) < 0.01
    return pa.table(
        {
            "k": [f"k{key}" for key in rng.integers(0, KEYS, EVENTS)],
            "t": time - late,
            "x": pa.array(rng.integers(0, 25, EVENTS).astype(float), mask=lacking),
            "y": rng.integers(0, 25, EVENTS).astype(float),
            "w": rng.integers(1, 20, EVENTS),
        },
        schema=SCHEMA,
    )


def query(number: int) -> eq.Query:
    rng = np.random.default_rng([2, number])
    kinds = [eq.Border, eq.Range, eq.Threshold, eq.Quantile, eq.Window]
    spec = kinds[rng.choice(5, p=[0.35, 0.15, 0.15, 0.15, 0.2])]
    box = {}
    for name in ("x", "y"):
        if rng.random() < 0.7:
            low = float(rng.integers(0, 20))
            box[name] = (low, low + float(rng.integers(1, 6)))
    options = {"key": None if rng.random() < 0.2 else f"k{rng.integers(0, KEYS)}"}
    spans = {"throttle": 60, "ttl": 400} | ({"dwell": 20} if spec is eq.Border else {})
    for name, longest in spans.items():
        if rng.random() < 0.25:
            options[name] = int(rng.integers(1, longest))
    if rng.random() < 0.2:
        options.pop("dwell", None)
        return correlated(number, rng, options)
    if spec is eq.Quantile:
        epsilon = float(rng.choice([0.01, 0.05, 0.2]))
        return eq.Quantile(
            f"q{number}",
            str(rng.choice(["x", "y"])),
            phi=float(rng.choice([0.1, 0.5, 0.99])),
            epsilon=epsilon,
            last=int(2 / epsilon) if rng.random() < 0.3 else None,
            by_key=options["key"] is None and rng.random() < 0.3,
            **options,
        )
    if spec is eq.Window:
        timed = rng.random() < 0.5
        return eq.Window(
            f"q{number}",
            str(rng.choice(["count", "sum", "mean", "variance", "min", "distinct"])),
            str(rng.choice(["x", "y"])),
            box=box,
            last=None if timed else int(rng.integers(1, 50)),
            span=int(rng.integers(1, 60)) if timed else None,
            epsilon=float(rng.choice([0, 0.1])),
            by_key=options["key"] is None and rng.random() < 0.5,
            **options,
        )
    if spec is eq.Threshold:
        options["total"] = int(rng.choice([5, 50, 500 if options["key"] else 5_000]))
        options["repeat"] = bool(rng.random() < 0.8)
    return spec(f"q{number}", box, **options)


def correlated(number: int, rng: np.random.Generator, options: dict) -> eq.Correlated:
    timed = rng.random() < 0.3
    return eq.Correlated(
        f"q{number}",
        str(rng.choice(["count", "sum", "avg"])),
        of="y",
        where="x",
        compared=str(rng.choice(["<", ">=", "within"])),
        to=str(rng.choice(["min", "max", "avg"])),
        factor=float(rng.choice([0.5, 1, 2])),
        last=int(rng.integers(1, 50)) if not timed and rng.random() < 0.5 else None,
        span=int(rng.integers(1, 60)) if timed else None,
        epsilon=float(rng.choice([0, 0.1])),
        by_key=options["key"] is None and rng.random() < 0.5,
        **options,
    )


class Owners:
    """Registers, drops, pauses and resumes queries; what it does next follows from a seed."""

    def __init__(self, registry: str, seed: int = 0) -> None:
        self.engine = eq.Engine(STREAM, registry=registry, create=True)
        self._rng = np.random.default_rng([3, seed])
        self._live: list[str] = []
        self._made = 1_000_000 * seed

    def register(self, many: int) -> None:
        queries = [query(self._made + i) for i in range(many)]
        self._made += many
        self.engine.register(queries)
        self._live += [each.id for each in queries]

    def change(self) -> None:
        """Make one change."""
        what = self._rng.choice(["register", "register", "deregister", "pause", "resume"])
        if what == "register" or len(self._live) < 10:
            self.register(int(self._rng.integers(1, 4)))
            return
        name = self._live[self._rng.integers(0, len(self._live))]
        getattr(self.engine, what)(name)
        if what == "deregister":
            self._live.remove(name)


def main(registry: str, seed: str) -> None:
    """Make changes, a few a second, until the process is ended."""
    end_with_parent()
    owners = Owners(registry, int(seed))
    pauses = np.random.default_rng([4, int(seed)])
    while True:
        owners.change()
        time.sleep(pauses.exponential(0.2))


if __name__ == "__main__":
    main(*sys.argv[1:])
