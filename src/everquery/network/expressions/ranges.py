"""Aggregates over ranges of sorted rows: windows that tumble, slide or overlap, all alike.

A window is rows ``[low, high)`` of columns that are sorted so that each window is one such range.
Each window's value depends on its own rows and their order alone, never on what else is in the
batch, so that batches stay invisible down to the last bit of a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everquery.network.expressions.functions import RowError
from everquery.network.grouping import distinct_pairs

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MOST_EXPANDED = 4_000_000  # rows of overlapping windows that are written out at once


@dataclass(frozen=True, slots=True)
class Ranges:
    """Windows as ranges of rows.

    Attributes
    ----------
    low, high : int64 arrays
        The rows of each window: from `low` up to, without, `high`; none if they are equal.
    """

    low: Ints
    high: Ints

    def reduce(self, function: np.ufunc, values: npt.NDArray[Any], empty: float) -> Any:  # noqa: ANN401
        """Return a reduction of each window's values; `empty` for windows without rows."""
        found = np.full(self.low.size, empty, values.dtype)
        some = np.flatnonzero(self.high > self.low)
        if some.size:
            low, high = self.low[some], self.high[some]
            if np.any(high[:-1] < low[1:]):
                # It also reduces from each end to the next begin: backward, these are nothing.
                order = np.argsort(-low)
                some, low, high = some[order], low[order], high[order]
            ends = np.empty(2 * some.size, np.int64)
            ends[::2], ends[1::2] = low, high
            padded = np.append(values, values[:1])  # an end may be the number of rows
            found[some] = function.reduceat(padded, ends)[::2]
        return found

    def expanded(self) -> tuple[Ints, Ints]:
        """Return every row of every window, and which window it is of."""
        sizes = self.high - self.low
        window = np.repeat(np.arange(sizes.size), sizes)
        begins = np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.low[window] + np.arange(window.size) - begins, window


def numbers_of(column: Any) -> tuple[npt.NDArray[Any], Bools]:  # noqa: ANN401
    """Return a column as numbers, and where it has any; texts are numbered in their order."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(array.type):
        values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    else:
        values = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return values, valid


def count_rows(rows: Ranges) -> pa.Array:
    """Return how many rows each window has."""
    return pa.array(rows.high - rows.low)


def count(rows: Ranges, column: Any) -> pa.Array:  # noqa: ANN401
    """Return how many values each window has."""
    return pa.array(_counts(rows, _valid(column)))


def count_distinct(rows: Ranges, column: Any) -> pa.Array:  # noqa: ANN401
    """Return how many different values each window has."""
    codes, valid = _codes(column)
    at, window = rows.expanded()
    at, window = at[valid[at]], window[valid[at]]
    _, codes = np.unique(codes, return_inverse=True)
    windows, _ = distinct_pairs(window, codes[at].astype(np.int64))
    return pa.array(np.bincount(windows, minlength=rows.low.size).astype(np.int64))


def total(rows: Ranges, column: Any) -> pa.Array:  # noqa: ANN401
    """Return the sum of each window; NULL without values."""
    values, valid = numbers_of(column)
    found = rows.reduce(np.add, values, 0)
    if values.dtype == np.int64:
        rough = rows.reduce(np.add, values.astype(np.float64), 0.0)
        if np.any(np.abs(rough) > 9.2e18):
            raise RowError("a sum of integers is larger than 64 bits hold")
    return _where(found, _counts(rows, valid) > 0)


def mean(rows: Ranges, column: Any) -> pa.Array:  # noqa: ANN401
    """Return the average of each window; NULL without values."""
    values, valid = numbers_of(column)
    counts = _counts(rows, valid)
    sums = rows.reduce(np.add, values.astype(np.float64), 0.0)
    return _where(sums / np.maximum(counts, 1), counts > 0)


def smallest(rows: Ranges, column: Any) -> Any:  # noqa: ANN401
    """Return the smallest value of each window; NULL without values."""
    return _extreme(rows, column, np.minimum)


def largest(rows: Ranges, column: Any) -> Any:  # noqa: ANN401
    """Return the largest value of each window; NULL without values."""
    return _extreme(rows, column, np.maximum)


def first(rows: Ranges, column: Any) -> Any:  # noqa: ANN401
    """Return the value of each window's first row, which may be NULL."""
    return _taken(column, np.where(rows.high > rows.low, rows.low, -1))


def last(rows: Ranges, column: Any) -> Any:  # noqa: ANN401
    """Return the value of each window's last row, which may be NULL."""
    return _taken(column, np.where(rows.high > rows.low, rows.high - 1, -1))


def at_largest(rows: Ranges, column: Any, by: Any) -> Any:  # noqa: ANN401
    """Return the value of the first row of each window that has the largest of another column."""
    return _at_extreme(rows, column, by, np.maximum)


def at_smallest(rows: Ranges, column: Any, by: Any) -> Any:  # noqa: ANN401
    """Return the value of the first row of each window that has the smallest of another column."""
    return _at_extreme(rows, column, by, np.minimum)


def variance(sample: bool, root: bool) -> Callable[[Ranges, Any], pa.Array]:
    """Return the aggregate of a sample's or a population's variance, or its root."""

    def run(rows: Ranges, column: Any) -> pa.Array:  # noqa: ANN401
        values, valid = numbers_of(column)
        values = values.astype(np.float64)
        counts = _counts(rows, valid)
        means = rows.reduce(np.add, values, 0.0) / np.maximum(counts, 1)
        squares = np.zeros(counts.size)
        for begin, end in _blocks(rows):
            part = Ranges(rows.low[begin:end], rows.high[begin:end])
            at, window = part.expanded()
            parts = np.where(valid[at], (values[at] - means[begin:end][window]) ** 2, 0.0)
            stops = np.cumsum(part.high - part.low)
            own = Ranges(stops - (part.high - part.low), stops)
            squares[begin:end] = own.reduce(np.add, parts, 0.0)
        less = 1 if sample else 0
        found = squares / np.maximum(counts - less, 1)
        return _where(np.sqrt(found) if root else found, counts > less)

    return run


def quantile(share: float) -> Callable[[Ranges, Any], pa.Array]:
    """Return the aggregate of the value at a rank, between two values as far as the rank is."""

    def run(rows: Ranges, column: Any) -> pa.Array:  # noqa: ANN401
        values, valid = numbers_of(column)
        values = values.astype(np.float64)
        counts = _counts(rows, valid)
        found = np.zeros(counts.size)
        for begin, end in _blocks(rows):
            at, window = Ranges(rows.low[begin:end], rows.high[begin:end]).expanded()
            at, window = at[valid[at]], window[valid[at]]
            ordered = values[at][np.lexsort((values[at], window))]
            sizes = counts[begin:end]
            some = sizes > 0
            rank = (sizes[some] - 1) * share
            below = np.floor(rank).astype(np.int64)
            base = (np.cumsum(sizes) - sizes)[some]
            low = ordered[base + below]
            high = ordered[base + np.minimum(below + 1, sizes[some] - 1)]
            part = found[begin:end]
            part[some] = low + (high - low) * (rank - below)
        return _where(found, counts > 0)

    return run


def _blocks(rows: Ranges) -> list[tuple[int, int]]:
    """Return spans of windows that have not too many rows together."""
    ends = np.cumsum(rows.high - rows.low)
    blocks, begin = [], 0
    while begin < ends.size:
        done = ends[begin - 1] if begin else 0
        end = max(int(np.searchsorted(ends, done + MOST_EXPANDED, "right")), begin + 1)
        blocks.append((begin, end))
        begin = end
    return blocks


def _valid(column: Any) -> Bools:  # noqa: ANN401
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    found: Bools = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return found


def _counts(rows: Ranges, valid: Bools) -> Ints:
    before = np.concatenate([[0], np.cumsum(valid)])
    found: Ints = (before[rows.high] - before[rows.low]).astype(np.int64)
    return found


def _where(values: npt.NDArray[Any], known: Bools) -> pa.Array:
    return pa.array(values, mask=~known)


def _taken(column: Any, at: Ints) -> Any:  # noqa: ANN401
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.take(pa.array(at, mask=at < 0))


def _codes(column: Any) -> tuple[npt.NDArray[Any], Bools]:  # noqa: ANN401
    """Return a column's values as numbers in the same order, and where it has any."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        ranks = pc.rank(array, tiebreaker="dense").cast(pa.int64())
        return ranks.to_numpy(zero_copy_only=False), _valid(array)
    return numbers_of(array)


def _extreme(rows: Ranges, column: Any, function: np.ufunc) -> Any:  # noqa: ANN401
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_floating(array.type) or array.type == pa.int64():
        values, valid = numbers_of(array)
        return _where(_reduced(rows, values, valid, function), _counts(rows, valid) > 0)
    return _at_extreme(rows, array, array, function)


def _reduced(
    rows: Ranges, values: npt.NDArray[Any], valid: Bools, function: np.ufunc
) -> npt.NDArray[Any]:
    far = np.inf if values.dtype == np.float64 else np.iinfo(np.int64).max
    worst = far if function is np.minimum else -far
    found: npt.NDArray[Any] = rows.reduce(function, np.where(valid, values, worst), 0)
    return found


def _at_extreme(rows: Ranges, column: Any, by: Any, function: np.ufunc) -> Any:  # noqa: ANN401
    codes, valid = _codes(by)
    valid = valid & _valid(column)
    best = _reduced(rows, codes, valid, function)
    at, window = rows.expanded()
    hits = valid[at] & (codes[at] == best[window])
    found = np.full(rows.low.size, -1, np.int64)
    found[window[hits][::-1]] = at[hits][::-1]  # the first of equals is written last
    return _taken(column, found)
