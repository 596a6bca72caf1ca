"""Quantile summaries of whole streams, one a key: any rank within ``epsilon n`` of `n` values.

Greenwald and Khanna's summary in the form of Section 2 of continuous-quantiles, a batch at a time.
A sorted batch has exact ranks, so one pass puts it in place whatever its length, and one more drops
what is no longer needed. After every batch the conditions of Theorem 1 hold.

The size is at most ``11 / (2 epsilon) * log2(2 epsilon n)`` tuples (Greenwald and Khanna's bound).
Their proof carries over to batches. It uses the spread ``r_plus - r_minus`` of a tuple, fixed when
it came: it is below ``2 epsilon n`` for the `n` before its batch, so the values whose spread is
within `d` of the capacity came after all but ``d / (2 epsilon)`` of the stream; and a tuple only
takes in others of its own or lower bands. Batches of any length keep both. Keeping only some values
of a batch, as `merge_run` does, is to drop the others, all of the lowest band, at once.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from everquery.core.arrays import Array, Floats, Int32s, Int64s, resized, total_bytes
from everquery.core.jit import kernel
from everquery.index.slices import ENDLESS, Slices, make_room, repacked
from everquery.kinds.quantile.gk_merge import capacity, compress, merge_run, merge_sorted
from everquery.kinds.quantile.ranked_tuples import RankedTuples, Tuples, empty_tuples

# A longer batch of a key comes in pieces. Sorting is nearly all of the cost, and NumPy sorts 1,000
# values in 13 ns each but 100,000 in 40, while a piece costs one pass over the summary, which has
# about as many tuples as `PIECE_LIMITS` times what may wait. Of 100,000 values at epsilon 0.5%:
# 29 ns a value in pieces of 16,384, 23 of 4,096, 19 of 1,024, and 20 of 256.
LEAST_PIECE = 256
PIECE_LIMITS = 8
INSERTION_SORTED = 24  # values, up to which a call of NumPy's sort costs more than an own loop


@kernel
def sort_groups(starts: Int64s, values: Floats, longest: int) -> None:
    """Sort the values of each group of up to `longest`, in place."""
    for group in range(starts.size - 1):
        begin, end = starts[group], starts[group + 1]
        if end - begin > longest:
            continue
        for i in range(begin + 1, end):
            value = values[i]
            j = i
            while j > begin and values[j - 1] > value:
                values[j] = values[j - 1]
                j -= 1
            values[j] = value


@kernel
def add_groups(
    first: int,
    groups: tuple[Int32s, Int64s, Floats],
    epsilon: float,
    limit: int,
    slices: Slices,
    counts: tuple[Int64s, Int64s, Int64s],
    pool: Tuples,
    scratch: tuple[Floats, Floats, Int64s, Int64s, Int64s],
) -> tuple[int, int]:
    """Add each group of values to the summary of its key, from group `first` on.

    Few values wait, sorted, behind their key's tuples until more than `limit` have come. Cost: a
    few nanoseconds a waiting value or a tuple of the key, and a search in the group for each tuple.

    Parameters
    ----------
    groups : keys (groups,), starts (groups + 1,), values; ascending within a group, no NaN
    counts : tuples, waiting values and values ever seen of each key
    pool : values, r_minus and r_plus, by `slices`
    scratch : a run of values; tuples and bands

    Returns
    -------
    how many groups are done; what room the next one needs if the pool is full, 0 if the scratch is
    """
    group_key, group_start, group_values = groups
    sizes, waits, seen = counts
    values, r_minus, r_plus = pool
    run, new_values, new_minus, new_plus, band = scratch
    for group in range(first, group_key.size):
        key = group_key[group]
        fresh = group_values[group_start[group] : group_start[group + 1]]
        size, waiting = sizes[key], waits[key]
        both = waiting + fresh.size
        if both <= limit:
            begin = slices.start[key]
            if not make_room(slices, key, size + both, ENDLESS, size + waiting, values):
                return group, size + both
            for i in range(size if begin != slices.start[key] else 0):
                r_minus[slices.start[key] + i] = r_minus[begin + i]
                r_plus[slices.start[key] + i] = r_plus[begin + i]
            begin = slices.start[key] + size
            merge_sorted(values[begin : begin + waiting], fresh, values[begin : begin + both])
            waits[key] = both
            seen[key] += fresh.size
            continue
        if size + both > band.size:  # earlier groups of the key have made it larger
            return group, 0
        begin = slices.start[key]
        end = begin + size
        if waiting:
            merge_sorted(values[end : end + waiting], fresh, run)
            fresh = run[:both]
        cap = capacity(epsilon, seen[key] - waiting + both)
        old = (values[begin:end], r_minus[begin:end], r_plus[begin:end])
        new = (new_values, new_minus, new_plus)
        merged = merge_run(old, seen[key] - waiting, fresh, cap, new)
        low, high = compress(new, merged, cap, band)
        if not make_room(slices, key, high - low, ENDLESS, 0, values):
            return group, high - low
        begin = slices.start[key]
        for i in range(high - low):
            values[begin + i] = new_values[low + i]
            r_minus[begin + i] = new_minus[low + i]
            r_plus[begin + i] = new_plus[low + i]
        sizes[key] = high - low
        waits[key] = 0
        seen[key] += both - waiting
    return group_key.size, 0


@kernel
def list_tuples(
    keys: Int32s, epsilon: float, start: Int64s, counts: tuple[Int64s, Int64s, Int64s],
    pool: Tuples, begins: Int64s, ends: Int64s, out: Tuples,
) -> None:  # fmt: skip
    """Write the tuples of keys, with what waits merged in, from `begins` on; and where they end."""
    sizes, waits, seen = counts
    values, r_minus, r_plus = pool
    new_values, new_minus, new_plus = out
    for i in range(keys.size):
        key = keys[i]
        begin = start[key]
        end = begin + sizes[key]
        waiting = waits[key]
        old = (values[begin:end], r_minus[begin:end], r_plus[begin:end])
        room = slice(begins[i], begins[i] + sizes[key] + waiting)
        new = (new_values[room], new_minus[room], new_plus[room])
        run = values[end : end + waiting]
        cap = capacity(epsilon, seen[key])
        ends[i] = begins[i] + merge_run(old, seen[key] - waiting, run, cap, new)


class Summaries(RankedTuples):
    """Summaries of many keys, in shared arrays.

    Parameters
    ----------
    epsilon : float
        Above 0 and up to 0.5.

    Attributes
    ----------
    limit : int
        How many values of a key may wait: ``1 / (2 epsilon)``, one capacity's worth.

    Examples
    --------
    >>> import numpy as np
    >>> heights = Summaries(epsilon=0.01)
    >>> keys, starts = np.array([0], np.int32), np.array([0, 5])
    >>> heights.update(keys, starts, np.array([1.8, 1.6, 1.9, 1.7, 1.5]))
    >>> heights.query(0, 3)
    (1.7, 3, 3)
    """

    by_key: ClassVar[tuple[str, ...]] = ("_sizes", "_waits", "_seen")
    pools: ClassVar[dict[str, tuple[str, ...]]] = {"_slices": ("_values", "_r_minus", "_r_plus")}

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon
        self.limit = max(1, int(1 / (2 * epsilon)))
        self._slices = Slices.none()
        self._sizes: Int64s = np.zeros(0, np.int64)
        self._waits: Int64s = np.zeros(0, np.int64)
        self._seen: Int64s = np.zeros(0, np.int64)
        self._values, self._r_minus, self._r_plus = empty_tuples(0)

    @property
    def _pool(self) -> Tuples:
        return self._values, self._r_minus, self._r_plus

    def alike(self) -> Summaries:
        """Return summaries of the same epsilon, of no key."""
        return Summaries(self.epsilon)

    def update(
        self, key_numbers: Int32s, starts: Int64s, values: Floats, *, is_sorted: bool = False
    ) -> None:
        """Add a batch, grouped by key.

        Parameters
        ----------
        key_numbers : int32, shape (groups,)
            Not negative; a key may come more than once.
        starts : int64, shape (groups + 1,)
        values : float64, shape (n,)
            No NaN; infinities are values like others. The array is left as it is.
        is_sorted : bool
            The values of each group are ascending already.
        """
        if not values.size:
            return
        if not is_sorted:
            piece = max(LEAST_PIECE, PIECE_LIMITS * self.limit)
            key_numbers, starts = in_pieces(key_numbers, starts, piece)
            values = values.copy()
            sort_pieces(starts, values)
        self._add_keys(int(key_numbers.max()) + 1)
        longest = int(np.diff(starts).max()) + self.limit
        run = np.empty(longest)
        done = 0
        while True:
            places = longest + 2 * int(self._sizes[key_numbers].max())
            scratch = (run, *empty_tuples(places), np.empty(places, np.int64))
            done, needed = add_groups(
                done, (key_numbers, starts, values), self.epsilon, self.limit, self._slices,
                (self._sizes, self._waits, self._seen), self._pool, scratch,
            )  # fmt: skip
            if done == key_numbers.size:
                return
            if needed:
                self._slices, pools = repacked(self._slices, self.sizes(), self._pool, needed)
                self._values, self._r_minus, self._r_plus = pools

    def counts(self, keys: Int32s) -> Int64s:
        """Return how many values of each key were seen."""
        return self.seen(keys)

    def all_tuples(self, keys: Int32s) -> tuple[Int64s, Int64s, Tuples]:
        """Return the tuples of several keys, with where each key's begin and end."""
        held = self.sizes()[keys]
        begins = np.cumsum(held) - held
        ends = np.empty_like(begins)
        out = empty_tuples(int(held.sum()))
        counts = self._sizes, self._waits, self._seen
        list_tuples(keys, self.epsilon, self._slices.start, counts, self._pool, begins, ends, out)
        return begins, ends, out

    def tuples(self, key: int) -> Tuples:
        """Return values, r_minus and r_plus of a key's summary, with what waits merged in."""
        if not self.count(key):
            return empty_tuples(0)
        _, ends, (values, r_minus, r_plus) = self.all_tuples(np.array([key], np.int32))
        end = int(ends[0])
        return values[:end], r_minus[:end], r_plus[:end]

    def sizes(self) -> Int64s:
        """Return how many tuples and waiting values each key has."""
        held: Int64s = self._sizes + self._waits
        return held

    def save(self, arrays: dict[str, Array], name: str = "summaries") -> None:
        """Put all summaries into a snapshot's arrays."""
        places = self._slices.places(self.sizes())
        for column, pool in zip(("values", "r_minus", "r_plus"), self._pool, strict=True):
            arrays[f"{name}.{column}"] = pool[places]
        held = np.cumsum(self.sizes())
        waiting = np.repeat(held - self._waits, self._waits)
        waiting += np.arange(waiting.size) - np.repeat(
            np.cumsum(self._waits) - self._waits, self._waits
        )
        for column in ("r_minus", "r_plus"):  # what waits has no rank yet
            arrays[f"{name}.{column}"][waiting] = 0
        arrays[f"{name}.sizes"] = self._sizes.copy()
        arrays[f"{name}.waits"] = self._waits.copy()
        arrays[f"{name}.seen"] = self._seen.copy()

    def load(self, arrays: dict[str, Array], name: str = "summaries") -> None:
        """Take over the summaries of a snapshot, of the same epsilon, and no others."""
        self._sizes = arrays[f"{name}.sizes"].copy()
        self._waits = arrays[f"{name}.waits"].copy()
        self._seen = arrays[f"{name}.seen"].copy()
        self._slices = Slices.packed(self.sizes())
        self._values = arrays[f"{name}.values"].copy()
        self._r_minus = arrays[f"{name}.r_minus"].copy()
        self._r_plus = arrays[f"{name}.r_plus"].copy()

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        counts = total_bytes(self._sizes, self._waits, self._seen)
        return total_bytes(*self._pool) + self._slices.nbytes() + counts

    def _add_keys(self, keys: int) -> None:
        if keys <= len(self):
            return
        self._slices = self._slices.with_keys(keys)
        self._sizes = resized(self._sizes, keys)
        self._waits = resized(self._waits, keys)
        self._seen = resized(self._seen, keys)


def in_pieces(key_numbers: Int32s, starts: Int64s, piece: int) -> tuple[Int32s, Int64s]:
    """Return groups, those longer than `piece` as several of the same key."""
    lengths = np.diff(starts)
    if lengths.max(initial=0) <= piece:
        return key_numbers, starts
    pieces = np.maximum(1, -(-lengths // piece))
    group = np.repeat(np.arange(pieces.size), pieces)
    place = np.arange(group.size) - (np.cumsum(pieces) - pieces)[group]
    begins = starts[:-1][group] + place * lengths[group] // pieces[group]
    return key_numbers[group], np.append(begins, starts[-1])


def sort_pieces(starts: Int64s, values: Floats) -> None:
    """Sort the values of each group, in place."""
    sort_groups(starts, values, INSERTION_SORTED)
    for group in np.flatnonzero(np.diff(starts) > INSERTION_SORTED):
        values[starts[group] : starts[group + 1]].sort()
