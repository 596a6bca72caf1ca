"""A simulated market: seeded random walks, and queries on them (bmq-index, section 5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.core.arrays import Bools, Floats, Int32s, Int64s
from everquery.core.jit import kernel
from everquery.errors import InvalidQueryError, InvalidStreamError
from everquery.kinds.threshold.spec import Threshold
from everquery.stream import Stream

OPENING = datetime(2024, 1, 2, 9, tzinfo=UTC)
EVENT_INTERVAL_US = 50
LARGEST_FLUCTUATION = 0.25  # a step of twice this, flipped at a wall, can't reach the other wall
SMALLEST_TOTAL, LARGEST_TOTAL = 10_000, 100_000  # shares that thresholds wait for
REPEATING = 4  # each of so many thresholds starts again after a fire
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_TICKER_STRIDE = 123_457  # has no factor in common with 26, so that it visits every ticker once


@kernel
def walk_prices(symbol: Int32s, step: Floats, domain: float, last: Floats, out: Floats) -> None:
    """Move each event's symbol by its step, and write the new price.

    A step that would leave the open interval (0, `domain`) is taken the other way, so that steps
    keep their lengths at the walls.

    Parameters
    ----------
    symbol : int32, shape (n,)
    step : float64, shape (n,)
        All shorter than half the domain.
    last : float64, shape (symbols,)
        The last price of each symbol; updated.
    out : float64, shape (n,)
    """
    for i in range(symbol.size):
        price = last[symbol[i]] + step[i]
        if not 0.0 < price < domain:
            price = last[symbol[i]] - step[i]
        last[symbol[i]] = price
        out[i] = price


class Market:
    """Trades of many symbols whose prices are random walks.

    Each event is of a random symbol and moves its price by a step of either sign. Successive calls
    go on where the last one ended; how the events are cut into batches does not change them.

    Parameters
    ----------
    symbols : int
        How many symbols there are (the paper's streams).
    fluctuation : float
        The paper's FL: the mean length of a step, as a share of the domain.
    domain : float
        The paper's D: prices are inside (0, D).
    seed : int
        Equal seeds give equal markets.

    Examples
    --------
    >>> market = Market(symbols=3, seed=1)
    >>> batch = market.batch(5)
    >>> batch.schema.names
    ['symbol', 'ts', 'price', 'shares']
    >>> [each.num_rows for each in market.batches(25, 10)]
    [10, 10, 5]
    """

    def __init__(
        self,
        *,
        symbols: int = 2_000,
        fluctuation: float = 0.0001,
        domain: float = 1_000_000.0,
        seed: int = 0,
    ) -> None:
        if symbols < 1:
            raise InvalidStreamError(f"symbols is {symbols}; a market needs at least 1")
        if not 0.0 < domain < np.inf:
            raise InvalidStreamError(f"domain is {domain}; it must be positive and finite")
        if seed < 0:
            raise InvalidStreamError(f"seed is {seed}; it must not be negative")
        self._fluctuation = _checked_fluctuation(fluctuation)
        self.domain = float(domain)
        self.symbols: pa.Array = pa.array([_ticker(i) for i in range(symbols)])
        # One generator a column: the draws of a column don't depend on where batches end.
        generators = (np.random.SFC64(child) for child in np.random.SeedSequence(seed).spawn(4))
        opening, self._choices, self._steps, self._lots = map(np.random.Generator, generators)
        self._last: Floats = self.domain * (1.0 - opening.random(symbols))
        self._now_us = int(OPENING.timestamp()) * 1_000_000

    def batch(self, size: int, *, fluctuation: float | None = None) -> pa.RecordBatch:
        """Return the next events.

        Parameters
        ----------
        size : int
        fluctuation : float, optional
            Instead of the market's own, for this batch.
        """
        level = self._fluctuation if fluctuation is None else _checked_fluctuation(fluctuation)
        symbol = self._choices.integers(0, len(self.symbols), size, dtype=np.int32)
        step = self._steps.random(size)
        step -= 0.5
        step *= 4.0 * level * self.domain  # uniform in +-2 FL, so that the mean length is FL
        price = np.empty(size)
        walk_prices(symbol, step, self.domain, self._last, price)
        shares = self._lots.integers(1, 11, size)
        shares *= 100
        first = self._now_us
        self._now_us += EVENT_INTERVAL_US * size
        ts = pa.array(np.arange(first, self._now_us, EVENT_INTERVAL_US))
        return pa.record_batch(
            {
                "symbol": pa.DictionaryArray.from_arrays(
                    pa.array(symbol), self.symbols, safe=False
                ),
                "ts": ts.view(pa.timestamp("us")),
                "price": pa.array(price),
                "shares": pa.array(shares),
            }
        )

    def batches(self, events: int, batch_size: int) -> Iterator[pa.RecordBatch]:
        """Yield the next `events` events in batches; the last may be smaller."""
        if batch_size < 1:
            raise InvalidStreamError(f"batch_size is {batch_size}; it must be at least 1")
        for first in range(0, events, batch_size):
            yield self.batch(min(batch_size, events - first))


def market_stream(name: str = "trades") -> Stream:
    """Return the stream that a market's events belong to.

    Examples
    --------
    >>> market_stream().columns()
    ('symbol', 'ts', 'price', 'shares')
    """
    return Stream(name, key="symbol", time="ts", attributes=["price"], weight="shares")


def market_queries(
    count: int,
    kind: str,
    *,
    symbols: pa.Array | Sequence[str] | None,
    width: float = 0.001,
    domain: float = 1_000_000.0,
    seed: int = 0,
    first: int = 0,
) -> pa.Table:
    """Return queries on prices, for `Engine.register_table`.

    Parameters
    ----------
    count : int
    kind : str
        ``border``, ``range`` or ``threshold``; the prefix of the ids. Thresholds wait for a total
        of shares; those that `repeats` tells start again after it.
    symbols : Arrow array or sequence of str, or None
        The keys: each query watches a random one. None: each watches all symbols, as in the paper.
    width : float
        The paper's W: the width of the price ranges, as a share of the domain.
    domain : float
        Lower bounds are uniform in [0, `domain`).
    seed : int
        Equal arguments give equal queries.
    first : int
        The number of the first query, so that several tables have different ids.

    Examples
    --------
    >>> market_queries(2, "border", symbols=["AAAA"], first=10)["id"].to_pylist()
    ['border-0000010', 'border-0000011']
    """
    if count < 0:
        raise InvalidQueryError(f"count is {count}; it must not be negative")
    if not 0.0 < width < np.inf:
        raise InvalidQueryError(f"width is {width}; it must be positive, or the ranges are empty")
    if seed < 0 or first < 0:
        raise InvalidQueryError(f"seed {seed} and first {first} must not be negative")
    random = np.random.default_rng([seed, first, *kind.encode()])
    columns = {"id": query_ids(kind, first, count)}
    if symbols is not None:
        names = symbols if isinstance(symbols, pa.Array) else pa.array(symbols, pa.string())
        columns["key"] = names.take(pa.array(random.integers(0, len(names), count)))
    low = domain * random.random(count)
    columns["price_lo"] = pa.array(low)
    columns["price_hi"] = pa.array(low + width * domain)
    if kind == Threshold.kind:
        columns["total"] = pa.array(random.integers(SMALLEST_TOTAL, LARGEST_TOTAL + 1, count))
        columns["repeat"] = pa.array(repeats(np.arange(first, first + count)))
    return pa.table(columns)


def repeats(numbers: Int64s) -> Bools:
    """Tell which thresholds of `market_queries`, by their numbers, start again after a fire.

    Examples
    --------
    >>> repeats(np.arange(5)).tolist()
    [True, False, False, False, True]
    """
    repeating: Bools = numbers % REPEATING == 0
    return repeating


def query_ids(kind: str, first: int, count: int) -> pa.Array:
    """Return the ids that `market_queries` gives.

    Examples
    --------
    >>> query_ids("range", 7, 2).to_pylist()
    ['range-0000007', 'range-0000008']
    """
    digits = pc.utf8_lpad(pa.array(np.arange(first, first + count)).cast(pa.string()), 7, "0")
    return pc.binary_join_element_wise(kind, digits, "-")


def query_numbers(ids: pa.Array | pa.ChunkedArray) -> Int64s:
    """Return the numbers in ids that `market_queries` gives.

    Examples
    --------
    >>> query_numbers(query_ids("range", 7, 2)).tolist()
    [7, 8]
    """
    digits = pc.replace_substring_regex(ids.cast(pa.string()), "^.*-", "")
    numbers: Int64s = np.asarray(digits.cast(pa.int64()))
    return numbers


def _checked_fluctuation(level: float) -> float:
    if not 0.0 < level < LARGEST_FLUCTUATION:
        raise InvalidStreamError(
            f"fluctuation is {level}, the mean step as a share of the domain;"
            f" it must be above 0 and below {LARGEST_FLUCTUATION}"
        )
    return float(level)


def _ticker(number: int) -> str:
    """Return a name of four letters, of more when those are used up."""
    size, names = 4, 26**4
    while number >= names:
        number -= names
        size += 1
        names *= 26
    scattered = number * _TICKER_STRIDE % names
    return "".join(LETTERS[scattered // 26**place % 26] for place in range(size))
