"""The papers' workloads, seeded: intervals to be stabbed, and streams that wander over borders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.harness import check_equal
from everquery.core.arrays import Floats, Int32s, Int64s
from everquery.index.rows import NO_KEY, Rows, Shape

PRICES = 1_000_000  # the domain of bmq-index
CHECKED_VALUES = 50  # values whose matches are compared one by one with brute force


@dataclass(frozen=True)
class Intervals:
    """Queries ``[low, high)`` with whole ends, and values to search for (cei-index, section 5)."""

    domain: int
    low: Int64s
    high: Int64s
    values: Floats

    @classmethod
    def draw(
        cls, generator: np.random.Generator, *, domain: int, widest: int, queries: int, values: int
    ) -> Intervals:
        """Draw starts from 1 .. r-1 and widths from 1 .. W; ends stay in the domain."""
        low = generator.integers(1, domain, queries)
        high = np.minimum(low + generator.integers(1, widest + 1, queries), domain)
        return cls(domain, low, high, generator.uniform(1, domain, values))

    def rows(self) -> Rows:
        """Return the queries as our index takes them."""
        return content_wide(self.low.astype(np.float64), self.high.astype(np.float64))

    def check(self, what: str, counts: Int64s, ids: Int64s) -> None:
        """Raise unless these are the matches of the first ``counts.size`` values.

        All counts are compared, and the ids of the first values.
        """
        values = self.values[: counts.size]
        begun = np.searchsorted(np.sort(self.low), values, "right")
        ended = np.searchsorted(np.sort(self.high), values, "right")
        check_equal(f"{what}, matches of each value", begun - ended, counts)
        first = values[:CHECKED_VALUES, None]
        for value, inside, found in zip(
            range(CHECKED_VALUES),
            (self.low <= first) & (first < self.high),
            np.split(ids, np.cumsum(counts)[:CHECKED_VALUES]),
            strict=False,
        ):
            check_equal(f"{what}, value {value}", np.flatnonzero(inside), np.sort(found))


def content_wide(low: Floats, high: Floats) -> Rows:
    """Return queries on the first attribute that see all keys."""
    n = low.size
    shape = Shape((0,), keyed=False)
    key = np.full(n, NO_KEY, np.int32)
    return Rows(shape, np.arange(n, dtype=np.int32), key, low[None], high[None])


@dataclass(frozen=True)
class Feed:
    """Streams that arrive interleaved: every tick brings one value of each, in random order."""

    streams: int
    key: Int32s
    value: Floats

    @classmethod
    def walk(
        cls, generator: np.random.Generator, *, streams: int, ticks: int, fluctuation: float
    ) -> Feed:
        """Draw random walks (bmq-index, section 5.1).

        Steps are normal with a mean size of `fluctuation` times the domain; walks are reflected at
        the domain's ends.
        """
        deviation = fluctuation * PRICES * np.sqrt(np.pi / 2)
        steps = generator.normal(0.0, deviation, (ticks, streams))
        steps[0] = generator.uniform(0, PRICES, streams)
        walks = np.mod(np.cumsum(steps, axis=0), 2 * PRICES)
        walks = PRICES - np.abs(walks - PRICES)
        order = np.argsort(generator.random((ticks, streams)), axis=1)
        value = np.take_along_axis(walks, order, axis=1).ravel()
        return cls(streams, order.astype(np.int32).ravel(), value)

    def first_sight(self) -> Feed:
        """Return the first event of each stream."""
        return Feed(self.streams, self.key[: self.streams], self.value[: self.streams])

    def batches(self, size: int) -> Iterator[Feed]:
        """Yield what follows the first sight, in batches."""
        for begin in range(self.streams, self.key.size - size + 1, size):
            picked = slice(begin, begin + size)
            yield Feed(self.streams, self.key[picked], self.value[picked])

    def reversed(self) -> Feed:
        """Return the same walks backwards, so that a feed can go to and fro without a jump."""
        return Feed(self.streams, self.key[::-1].copy(), self.value[::-1].copy())


def border_bounds(
    generator: np.random.Generator, queries: int, width: float
) -> tuple[Floats, Floats]:
    """Draw lower bounds from 1 .. D-1; `width` is a share of the domain (bmq-index, 5.1.2)."""
    low = generator.integers(1, PRICES, queries).astype(np.float64)
    return low, np.minimum(low + np.ceil(width * PRICES), PRICES)


def symbols(streams: int) -> pa.Array:
    """Return the names of the keys."""
    return pa.array([f"S{number:05}" for number in range(streams)])


def query_table(
    low: Floats, high: Floats, attribute: str, key: Int32s | None = None, streams: int = 0
) -> pa.Table:
    """Return queries as `register_table` takes them."""
    columns = {"id": pa.array([f"q{number:08}" for number in range(low.size)])}
    if key is not None:
        columns["key"] = symbols(streams).take(pa.array(key))
    return pa.table({**columns, f"{attribute}_lo": low, f"{attribute}_hi": high})


def event_batch(
    feed: Feed, names: pa.Array, *, dictionary: bool = False, time: Int64s | None = None
) -> pa.RecordBatch:
    """Return events with a symbol, a price and perhaps a time."""
    if dictionary:
        symbol = pa.DictionaryArray.from_arrays(pa.array(feed.key), names)
    else:
        symbol = names.take(pa.array(feed.key))
    columns = {"symbol": symbol, "price": pa.array(feed.value)}
    if time is not None:
        columns["ts"] = pa.array(time).cast(pa.timestamp("us"))
    return pa.record_batch(columns)
