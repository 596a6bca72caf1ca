"""The market of the engine's benchmarks: a million key-filtered borders over 2,000 keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle

import numpy as np
import pyarrow as pa

import everquery as eq
from benchmarks.harness import Scale
from benchmarks.workloads import Feed, border_bounds, event_batch, query_table, symbols
from everquery.core.arrays import Floats, Int32s

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"])
WIDTH = 0.001
FLUCTUATION = 0.0001


@dataclass(frozen=True)
class Market:
    """Border queries spread evenly over keys, and the keys' walks.

    Attributes
    ----------
    key, low, high : of the queries
    feed : Feed
    batch : int
        Events a batch.
    """

    key: Int32s
    low: Floats
    high: Floats
    feed: Feed
    batch: int

    @classmethod
    def draw(cls, scale: Scale) -> Market:
        """Draw the market of the issue, or a small one."""
        queries = scale.pick(1_000_000, 10_000)
        streams = scale.pick(2_000, 50)
        low, high = border_bounds(scale.generator(10), queries, WIDTH)
        feed = Feed.walk(
            scale.generator(11),
            streams=streams,
            ticks=scale.pick(1_000, 220),
            fluctuation=FLUCTUATION,
        )
        key = (np.arange(queries) % streams).astype(np.int32)
        return cls(key, low, high, feed, scale.pick(100_000, 1_000))

    def table(self) -> pa.Table:
        """Return the queries for `register_table`."""
        return query_table(self.low, self.high, "price", self.key, self.feed.streams)

    @cached_property
    def names(self) -> pa.Array:
        """The symbols."""
        return symbols(self.feed.streams)

    def parameters(self) -> dict[str, float]:
        """Return what a reader needs to know of it."""
        return {
            "queries": self.low.size,
            "keys": self.feed.streams,
            "W": WIDTH,
            "FL": FLUCTUATION,
            "batch": self.batch,
        }

    def first_batch(self) -> pa.RecordBatch:
        """Return the first event of each key."""
        first = self.feed.first_sight()
        return event_batch(first, self.names, time=np.zeros(first.key.size, np.int64))

    def pieces(self) -> Iterator[Feed]:
        """Yield the feed behind the first sights in batches, to and fro without end or jump."""
        there = list(self.feed.batches(self.batch))
        yield from cycle(there + [piece.reversed() for piece in reversed(there)])

    def batches(self) -> Iterator[tuple[Feed, pa.RecordBatch, pa.RecordBatch]]:
        """Yield each piece, as a batch with string keys and as one with dictionary keys.

        Times rise by a microsecond an event, and go on where the last batch ended.
        """
        time = 1
        for piece in self.pieces():
            times = np.arange(time, time + self.batch)
            time += self.batch
            yield (
                piece,
                event_batch(piece, self.names, time=times),
                event_batch(piece, self.names, dictionary=True, time=times),
            )

    def count_crossings(self, before: Floats, piece: Feed) -> int:
        """Return by brute force how many borders a piece crosses, from the keys' last values."""
        total = 0
        order = np.argsort(self.key, kind="stable")
        start = np.searchsorted(self.key[order], np.arange(self.feed.streams + 1))
        for key in range(self.feed.streams):
            own = order[start[key] : start[key + 1]]
            path = np.concatenate([[before[key]], piece.value[piece.key == key]])[:, None]
            inside = (self.low[own] <= path) & (path < self.high[own])
            total += int(np.count_nonzero(inside[1:] != inside[:-1]))
        return total

    def last_values(self, before: Floats, piece: Feed) -> Floats:
        """Return the keys' last values behind a piece."""
        after = before.copy()
        after[piece.key] = piece.value  # of repeated places the last assignment stays
        return after
