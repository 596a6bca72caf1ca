"""The three workloads of the contest, seeded: borders by key, ranges, and thresholds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

import everquery as eq
from benchmarks.harness import Scale
from benchmarks.markets import FLUCTUATION, WIDTH
from benchmarks.workloads import PRICES, Feed, border_bounds
from everquery.core.arrays import Array, Floats, Int64s

MATCHES = 10  # of an event, in the ranges
SHARE = 0.1  # of the space that a threshold's box covers, on average
LIFE = 10_000_000  # events until the last threshold has fired, about
WEIGHT = 100, 15


@dataclass(frozen=True)
class Events:
    """Some events as plain arrays; ranges have no key, only thresholds have a weight."""

    value: Floats
    key: Int64s | None = None
    weight: Int64s | None = None

    def __len__(self) -> int:
        return self.value.size

    def columns(self) -> dict[str, Array]:
        """Return the columns that there are, by name."""
        named = {"key": self.key, "value": self.value, "weight": self.weight}
        return {name: column for name, column in named.items() if column is not None}

    def arrow(self) -> pa.RecordBatch:
        """Return them as the engine takes them."""
        return pa.record_batch(self.columns())


class Work(ABC):
    """Queries ``[low, high)``, numbered from 0, and an endless supply of events."""

    kind: ClassVar[str]
    stream: ClassVar[eq.Stream]
    low: Floats
    high: Floats

    @abstractmethod
    def take(self, size: int) -> Events:
        """Return the next events."""

    def first(self) -> Events | None:
        """Return what all contestants get before anything else."""
        return None

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns of the query table besides id and bounds."""
        return {}

    @property
    def queries(self) -> int:
        """How many there are."""
        return self.low.size

    def table(self) -> pa.Table:
        """Return the queries for `register_table`."""
        ids = pa.array([f"q{number:08}" for number in range(self.queries)])
        bounds = {"value_lo": self.low, "value_hi": self.high}
        return pa.table({"id": ids, **self.columns(), **bounds})


class Borders(Work):
    """Borders spread evenly over keys, and keys whose values walk (bmq-index, section 5.1)."""

    kind = "border"
    stream = eq.Stream("trades", key="key", attributes=["value"])

    def __init__(self, scale: Scale, queries: int) -> None:
        self.keys: int = scale.pick(2_000, 20)
        self.low, self.high = border_bounds(scale.generator(60), queries, WIDTH)
        self.key = np.arange(queries) % self.keys
        feed = Feed.walk(
            scale.generator(61),
            streams=self.keys,
            ticks=scale.pick(400, 200),
            fluctuation=scale.pick(FLUCTUATION, 100 * FLUCTUATION),
        )
        self._first = feed.first_sight()
        rest = Feed(feed.streams, feed.key[self.keys :], feed.value[self.keys :])
        back = rest.reversed()  # to and fro, without a jump
        self._keys = np.concatenate([rest.key, back.key]).astype(np.int64)
        self._values = np.concatenate([rest.value, back.value])
        self._at = 0

    def first(self) -> Events:
        """Return the first event of each key."""
        return Events(self._first.value, self._first.key.astype(np.int64))

    def take(self, size: int) -> Events:
        """Return what follows; behind the end the walks go back."""
        at = (self._at + np.arange(size)) % self._keys.size
        self._at += size
        return Events(self._values[at], self._keys[at])

    def columns(self) -> dict[str, pa.Array]:
        """Return the keys."""
        return {"key": pa.array(self.key)}


class Ranges(Work):
    """Ranges that hold an event in about ten of them, however many there are."""

    kind = "range"
    stream = eq.Stream("values", attributes=["value"])

    def __init__(self, scale: Scale, queries: int) -> None:
        self._generator = scale.generator(62)
        self.widest = 2 * MATCHES * PRICES / queries
        self.low = self._generator.uniform(-self.widest / 2, PRICES, queries)
        self.high = self.low + self._generator.uniform(0, self.widest, queries)

    def take(self, size: int) -> Events:
        """Draw values from all of the domain."""
        return Events(self._generator.uniform(0, PRICES, size))


class Thresholds(Work):
    """Boxes of a tenth of the space, whose totals are reached one after the other."""

    kind = "threshold"
    stream = eq.Stream("elements", attributes=["value"], weight="weight")

    def __init__(self, scale: Scale, queries: int) -> None:
        self._generator = scale.generator(63)
        self.widest = 2 * SHARE * PRICES
        self.low = self._generator.uniform(0, PRICES - self.widest, queries)
        self.high = self.low + self._generator.uniform(1, self.widest, queries)
        covered = (self.high - self.low) / PRICES
        life = scale.pick(LIFE, LIFE // 1_000) * self._generator.uniform(0, 1, queries)
        self.total = np.ceil(covered * life * WEIGHT[0]).astype(np.int64) + 1

    def take(self, size: int) -> Events:
        """Draw values from all of the domain, and weights."""
        value = self._generator.uniform(0, PRICES, size)
        weight = np.maximum(1, np.rint(self._generator.normal(*WEIGHT, size)))
        return Events(value, weight=weight.astype(np.int64))

    def columns(self) -> dict[str, pa.Array]:
        """Return the totals."""
        return {"total": pa.array(self.total)}
