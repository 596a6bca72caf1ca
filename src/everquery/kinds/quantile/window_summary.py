"""Quantile summaries of the last rows of each key: any rank within ``epsilon n`` of `n` rows.

Section 2.3.2 of continuous-quantiles: rows are cut into buckets in order of arrival, a full bucket
is kept as samples, and goes once all its rows have left the window. Differences: the bucket that
fills is kept whole instead of as a summary, so that the ranks of samples are exact; and samples of
all buckets are in one sorted array, so the merge of all buckets is always there. That takes about
``1 / epsilon ** 2`` samples a key. Of a window of no more rows than that all are kept, and a short
one is exact.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from everquery.core.arrays import Array, Floats, Int32s, Int64s, resized, total_bytes
from everquery.index.slices import ENDLESS, Slices, make_room, repacked
from everquery.kinds.quantile.ranked_tuples import RankedTuples, Tuples, empty_tuples
from everquery.kinds.quantile.window_buckets import (
    append_rows,
    merge_samples,
    plan_buckets,
    window_tuples,
)


class WindowSummaries(RankedTuples):
    """Summaries of the last `window` rows of many keys, in shared arrays.

    Parameters
    ----------
    epsilon : float
        Above 0 and up to 0.5.
    window : int
        Rows, at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> latest = WindowSummaries(epsilon=0.01, window=3)
    >>> keys, starts = np.array([0], np.int32), np.array([0, 5])
    >>> latest.update(keys, starts, np.array([1.8, 1.6, 1.9, 1.7, 1.5]))
    >>> latest.query(0, 2)
    (1.7, 2, 2)
    """

    by_key: ClassVar[tuple[str, ...]] = ("_seen", "_sizes", "_lowest")
    pools: ClassVar[dict[str, tuple[str, ...]]] = {
        "_rings": ("_rows",),
        "_slices": ("_values", "_buckets"),
    }

    def __init__(self, epsilon: float, window: int) -> None:
        self.epsilon = epsilon
        self.window = window
        self.plan = plan_buckets(epsilon, window)
        self._whole = self.plan.length == window
        self._seen: Int64s = np.zeros(0, np.int64)
        self._rings = Slices.none()
        self._rows: Floats = np.empty(0)
        self._sizes: Int64s = np.zeros(0, np.int64)
        self._slices = Slices.none()
        self._values: Floats = np.empty(0)
        self._buckets: Int32s = np.empty(0, np.int32)
        # The lowest value of each bucket, by its number modulo so many, and key.
        buckets = 0 if self._whole else window // self.plan.length + 2
        self._lowest: Floats = np.full((buckets, 0), np.inf)

    def alike(self) -> WindowSummaries:
        """Return summaries of the same parameters, of no key."""
        return WindowSummaries(self.epsilon, self.window)

    def update(self, key_numbers: Int32s, starts: Int64s, values: Floats) -> None:
        """Add a batch, grouped by key.

        Parameters
        ----------
        key_numbers : int32, shape (groups,)
            Not negative; each key once.
        starts : int64, shape (groups + 1,)
        values : float64, shape (n,)
            In order of arrival; no NaN, infinities are values like others.
        """
        if not values.size:
            return
        self._add_keys(int(key_numbers.max()) + 1)
        begins, ends = starts[:-1].copy(), starts[1:]
        if not self._whole:
            filled = self._seen[key_numbers] % self.plan.length + ends - begins
            for group in np.flatnonzero(filled >= self.plan.length):
                key, begin, end = int(key_numbers[group]), int(begins[group]), int(ends[group])
                begins[group] += self._fill_buckets(key, values[begin:end])
        done = 0
        while True:
            done, needed = append_rows(
                done, (key_numbers, begins, ends, values), self.plan.length, self._whole,
                self._rings, self._seen, self._rows,
            )  # fmt: skip
            if done == key_numbers.size:
                return
            self._rings, (self._rows,) = repacked(self._rings, self._held(), (self._rows,), needed)

    def _fill_buckets(self, key: int, values: Floats) -> int:
        """Make samples of all buckets that become full; return how many of the rows they take."""
        length, step = self.plan
        rows = np.concatenate((self._ring(key), values))
        taken = rows.size - rows.size % length
        used = taken - (rows.size - values.size)
        seen = int(self._seen[key]) + used
        # Only what is still in the window now.
        oldest = max(0, (seen + values.size - used - self.window) // length)
        kept = min(taken // length, seen // length - oldest)
        blocks = np.sort(rows[taken - kept * length : taken].reshape(kept, length), axis=1)
        numbers = np.arange(seen // length - kept, seen // length, dtype=np.int32)
        self._lowest[numbers % len(self._lowest), key] = blocks[:, 0]
        samples = blocks[:, step - 1 :: step].ravel()
        order = np.argsort(samples)
        buckets = np.repeat(numbers, length // step)[order]
        self._put_samples(key, oldest, (samples[order], buckets))
        self._seen[key] = seen
        return used

    def _put_samples(self, key: int, oldest: int, fresh: tuple[Floats, Int32s]) -> None:
        begin = int(self._slices.start[key])
        end = begin + int(self._sizes[key])
        room = end - begin + fresh[0].size
        out = (np.empty(room), np.empty(room, np.int32))
        size = merge_samples(
            (self._values[begin:end], self._buckets[begin:end]), oldest, fresh, out
        )
        if not make_room(self._slices, key, size, ENDLESS, 0, self._values):
            self._slices, (self._values, self._buckets) = repacked(
                self._slices, self._sizes, (self._values, self._buckets), size
            )
            make_room(self._slices, key, size, ENDLESS, 0, self._values)
        begin = int(self._slices.start[key])
        self._values[begin : begin + size] = out[0][:size]
        self._buckets[begin : begin + size] = out[1][:size]
        self._sizes[key] = size

    def counts(self, keys: Int32s) -> Int64s:
        """Return how many rows of each key are in its window."""
        return np.minimum(self._seen[keys], self.window)

    def empty(self, name: str) -> float:
        """Return what a key without rows has in an array."""
        return np.inf if name == "_lowest" else 0

    def tuples(self, key: int) -> Tuples:
        """Return values, r_minus and r_plus of a key's window.

        Cost: the rows of the bucket that fills are sorted; then a pass over them and all samples.
        """
        n = self.count(key)
        if not n:
            return empty_tuples(0)
        rows = np.sort(self._ring(key))
        if self._whole:
            ranks = np.arange(1, n + 1)
            return rows, ranks, ranks.copy()
        length, step = self.plan
        seen = int(self._seen[key])
        oldest, gone = divmod(max(0, seen - self.window), length)
        full = seen // length - oldest - (gone > 0)
        numbers = np.arange(seen // length - full, seen // length)
        lowest = self._lowest[numbers % len(self._lowest), key].min(initial=np.inf)
        lowest = min(lowest, rows[0]) if rows.size else lowest
        begin = int(self._slices.start[key])
        end = begin + int(self._sizes[key])
        samples = (self._values[begin:end], self._buckets[begin:end])
        out = empty_tuples(end - begin + rows.size + 1)
        shape = (oldest, length, step, full)
        size = window_tuples(samples, rows, float(lowest), n, gone, shape, out)
        return out[0][:size], out[1][:size], out[2][:size]

    def sizes(self) -> Int64s:
        """Return how many samples and rows each key has."""
        sizes: Int64s = self._sizes + self._held()
        return sizes

    def save(self, arrays: dict[str, Array], name: str = "windows") -> None:
        """Put all windows into a snapshot's arrays."""
        samples = self._slices.places(self._sizes)
        arrays[f"{name}.seen"] = self._seen.copy()
        arrays[f"{name}.sizes"] = self._sizes.copy()
        arrays[f"{name}.lowest"] = self._lowest.copy()
        arrays[f"{name}.values"] = self._values[samples]
        arrays[f"{name}.buckets"] = self._buckets[samples]
        arrays[f"{name}.rows"] = self._rows[self._rings.places(self._held())]

    def load(self, arrays: dict[str, Array], name: str = "windows") -> None:
        """Take over the windows of a snapshot, of the same length and epsilon, and no others."""
        self._seen = arrays[f"{name}.seen"].copy()
        self._sizes = arrays[f"{name}.sizes"].copy()
        self._lowest = arrays[f"{name}.lowest"].copy()
        self._values = arrays[f"{name}.values"].copy()
        self._buckets = arrays[f"{name}.buckets"].copy()
        self._rows = arrays[f"{name}.rows"].copy()
        self._slices = Slices.packed(self._sizes)
        self._rings = Slices.packed(self._held())

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        slices = self._slices.nbytes() + self._rings.nbytes()
        pools = total_bytes(self._rows, self._values, self._buckets)
        return slices + pools + total_bytes(self._seen, self._sizes, self._lowest)

    def _held(self) -> Int64s:
        """Return how many rows are in the ring of each key."""
        if self._whole:
            return np.minimum(self._seen, self.window)
        held: Int64s = self._seen % self.plan.length
        return held

    def _ring(self, key: int) -> Floats:
        begin, seen = int(self._rings.start[key]), int(self._seen[key])
        held = min(seen, self.window) if self._whole else seen % self.plan.length
        return self._rows[begin : begin + held]

    def _add_keys(self, keys: int) -> None:
        if keys <= len(self):
            return
        self._seen = resized(self._seen, keys)
        self._sizes = resized(self._sizes, keys)
        self._lowest = resized(self._lowest, keys)
        self._rings = self._rings.with_keys(keys)
        self._slices = self._slices.with_keys(keys)
