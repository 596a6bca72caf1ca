"""What waits for pairs of a query and a key: an open-addressing table of flat arrays.

A pair has an entry only while something waits: a crossing that has not stayed long enough, or a
throttle window in which notices are held back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bytes, Floats, Int32s, Int64s, resized, total_bytes
from everquery.core.jit import kernel, part
from everquery.core.mixing import scramble

FREE = -1  # a place of the table, and the pair of an entry, that is not in use
NOTHING = -1  # the code of no crossing
KEY_SHIFT = 32
SLOT_MASK = (1 << KEY_SHIFT) - 1

# Places in `counts`.
USED, FREED, TOLD, HELD_BACK, CANCELLED = range(5)


class Entries(NamedTuple):
    """What waits, an entry a pair.

    Attributes
    ----------
    pair : int64, shape (room,)
        ``key << 32 | slot``, or `FREE`.
    soonest : like time, shape (room,)
        The earlier of both deadlines; the end of time where there is none.
    crossing : int64, shape (room,)
        The code of the crossing that has not stayed long enough yet, or `NOTHING`; with its
        deadline, `seq`, values and figures.
    open : uint8, shape (room,)
        1 while a window is open; with its end, and how many notices it holds back.
    last : int64, shape (room,)
        The code of the last notice that is held back; with its `seq`, values and figures.
    crossed_at, opened_at : int64, shape (room,)
        From which event on the deadline may be reached, counted over all batches.
    """

    pair: Int64s
    soonest: Array
    crossing: Int64s
    deadline: Array
    crossing_seq: Int64s
    crossing_values: Floats
    crossing_figures: Int64s
    crossed_at: Int64s
    open: Bytes
    closes: Array
    held: Int64s
    last: Int64s
    last_seq: Int64s
    last_values: Floats
    last_figures: Int64s
    opened_at: Int64s


TIMES = ("soonest", "deadline", "closes")
VALUES = ("crossing_values", "last_values")
FIGURES = ("crossing_figures", "last_figures")
PLACES = ("crossed_at", "opened_at")
_OF_CROSSING = ("deadline", "crossing_seq", "crossing_values", "crossing_figures")
_OF_WINDOW = ("closes", "held")
_OF_LAST = ("last", "last_seq", "last_values", "last_figures")


def end_of_time(dtype: Any) -> Any:  # noqa: ANN401 - a NumPy type, and a number of it
    """Return the time that is never reached."""
    return np.inf if dtype == np.float64 else np.iinfo(np.int64).max


@part
def find_pair(pair: int, table: Int32s, pairs: Int64s) -> int:
    """Return the place in the table of a pair, or the free place where it belongs."""
    mask = np.uint64(table.size - 1)
    place = int(np.int64(scramble(np.uint64(pair)) & mask))
    while table[place] != FREE and pairs[table[place]] != pair:
        place = int(np.int64((np.uint64(place) + np.uint64(1)) & mask))
    return place


@part
def add_pair(
    pair: int, place: int, table: Int32s, free: Int32s, counts: Int64s, pairs: Int64s
) -> int:
    """Give a pair an entry; there is room for it."""
    if counts[FREED] > 0:
        counts[FREED] -= 1
        entry = int(np.int64(free[counts[FREED]]))
    else:
        entry = int(counts[USED])
        counts[USED] += 1
    table[place] = entry
    pairs[entry] = pair
    return entry


@part
def remove_pair(entry: int, table: Int32s, free: Int32s, counts: Int64s, pairs: Int64s) -> None:
    """Give up an entry; entries behind it move up, so that searches need no tombstones."""
    mask = int(table.size - 1)
    hole = find_pair(pairs[entry], table, pairs)
    at = (hole + 1) & mask
    while table[at] != FREE:
        ideal = int(np.int64(scramble(np.uint64(pairs[table[at]])) & np.uint64(mask)))
        if (at - ideal) & mask >= (at - hole) & mask:
            table[hole] = table[at]
            hole = at
        at = (at + 1) & mask
    table[hole] = FREE
    pairs[entry] = FREE
    free[counts[FREED]] = entry
    counts[FREED] += 1


@kernel
def refill_pairs(table: Int32s, pairs: Int64s, used: int) -> None:
    """Put all entries into an empty table."""
    for entry in range(used):
        if pairs[entry] != FREE:
            table[find_pair(pairs[entry], table, pairs)] = entry


@kernel
def hush(
    picked: Int64s, windows: bool, never: Array, entries: Entries, table: Int32s, free: Int32s,
    counts: Int64s,
) -> None:  # fmt: skip
    """Forget crossings and held notices of the picked entries, and with `windows` all of them."""
    for i in range(picked.size):
        entry = picked[i]
        entries.crossing[entry] = NOTHING
        entries.held[entry] = 0
        entries.soonest[entry] = entries.closes[entry]
        if windows or entries.open[entry] == 0:
            entries.soonest[entry] = never[0]
            remove_pair(entry, table, free, counts, entries.pair)


class PairTable:
    """All that waits, by pair.

    Attributes
    ----------
    entries : Entries
    table : int32
        Entries by hash of the pair, `FREE` in free places; a power of two of places.
    free : int32
        Entries that were given up.
    counts : int64
        Entries ever used, and given up; notices told by the latest step; notices held back and
        crossings undone so far.
    """

    def __init__(self, attributes: int, figures: int) -> None:
        self.counts: Int64s = np.zeros(5, np.int64)
        self.table: Int32s = np.full(64, FREE, np.int32)
        self.free: Int32s = np.zeros(0, np.int32)
        self.entries = _no_entries(attributes, figures, np.int64)

    def __len__(self) -> int:
        return int(self.counts[USED] - self.counts[FREED])

    @property
    def never(self) -> Array:
        """The time that is never reached, as an array of one."""
        dtype = self.entries.soonest.dtype
        return np.full(1, end_of_time(dtype), dtype)

    def set_time_type(self, dtype: Any) -> None:  # noqa: ANN401 - a NumPy type
        """Fix the type of times; nothing waits yet."""
        rows = len(self.entries.last_values), len(self.entries.last_figures)
        self.entries = _no_entries(*rows, dtype)

    def make_room(self, more: int) -> None:
        """Make room for more pairs."""
        needed = len(self) + more
        if needed > self.entries.pair.size:
            size = max(needed, 2 * self.entries.pair.size, 64)
            never = self.never[0]
            fills = {"pair": FREE, "soonest": never, "crossing": NOTHING}
            self.entries = Entries(
                *(
                    resized(column, size, fills.get(name, 0))
                    for name, column in self.entries._asdict().items()
                )
            )
            self.free = resized(self.free, size)
        if 2 * needed > self.table.size:
            self.table = np.full(1 << (2 * needed - 1).bit_length(), FREE, np.int32)
            refill_pairs(self.table, self.entries.pair, int(self.counts[USED]))

    def forget(self, slots: Int32s, *, windows: bool) -> None:
        """Forget what waits of queries; without `windows`, windows stay open, holding nothing."""
        pairs = self.entries.pair[: self.counts[USED]]
        picked = np.flatnonzero((pairs != FREE) & np.isin(pairs & SLOT_MASK, slots))
        if picked.size:
            hush(picked, windows, self.never, self.entries, self.table, self.free, self.counts)

    def crossing(self, slots: Int32s) -> tuple[Int64s, Int64s]:
        """Return keys and slots of the pairs of queries whose last crossing waits to count."""
        pairs = self.entries.pair[: self.counts[USED]]
        waits = self.entries.crossing[: self.counts[USED]] != NOTHING
        found = pairs[(pairs != FREE) & waits & np.isin(pairs & SLOT_MASK, slots)]
        return found >> KEY_SHIFT, found & SLOT_MASK

    def reset_time(self, time: int | float, dwell: Array, throttle: Array) -> None:
        """Let nothing wait longer than the span of its query from a time that was set back."""
        entries = self.entries
        used = np.flatnonzero(entries.pair != FREE)
        entries.soonest[used] = self.never[0]
        for chosen, deadline, span in (
            (entries.crossing != NOTHING, entries.deadline, dwell),
            (entries.open != 0, entries.closes, throttle),
        ):
            rows = used[chosen[used]]
            longest = span[entries.pair[rows] & SLOT_MASK] + deadline.dtype.type(time)
            deadline[rows] = np.minimum(deadline[rows], longest)
            entries.soonest[rows] = np.minimum(entries.soonest[rows], deadline[rows])

    def renumber(self, slots: Array) -> None:
        """Give all queries other slots, by their present ones."""
        pairs = self.entries.pair
        used = np.flatnonzero(pairs != FREE)
        pairs[used] = pairs[used] & ~SLOT_MASK | slots[pairs[used] & SLOT_MASK]
        self.table[:] = FREE
        refill_pairs(self.table, pairs, int(self.counts[USED]))

    def renumber_keys(self, keys: Int32s) -> None:
        """Give all keys other numbers, by their present ones."""
        pairs = self.entries.pair
        used = np.flatnonzero(pairs != FREE)
        moved = keys[pairs[used] >> KEY_SHIFT].astype(np.int64)
        pairs[used] = moved << KEY_SHIFT | (pairs[used] & SLOT_MASK)
        self.table[:] = FREE
        refill_pairs(self.table, pairs, int(self.counts[USED]))

    def save(self, arrays: dict[str, Array], kept: Array) -> None:
        """Save what waits, with queries as places among those kept."""
        pairs = self.entries.pair
        used = np.flatnonzero(pairs != FREE)
        for name, column in self.entries._asdict().items():
            if name != "pair" and name not in PLACES:
                arrays[name] = column[..., used]
        for chosen, names in (
            (arrays["crossing"] == NOTHING, _OF_CROSSING),
            (arrays["open"] == 0, _OF_WINDOW),
            (arrays["open"] * arrays["held"] == 0, _OF_LAST),
        ):
            for name in names:  # what is left of something that is over
                arrays[name][..., chosen] = 0
        arrays["query"] = np.searchsorted(kept, pairs[used] & SLOT_MASK).astype(np.int32)
        arrays["key"] = (pairs[used] >> KEY_SHIFT).astype(np.int32)

    def load(self, arrays: dict[str, Array], kept: Array) -> None:
        """Take over what waited, and nothing else."""
        slots = kept[arrays["query"]].astype(np.int64)
        self.counts[[USED, FREED]] = 0
        self.table = np.full(64, FREE, np.int32)
        self.free = np.zeros(0, np.int32)
        self.set_time_type(arrays["soonest"].dtype)
        self.make_room(slots.size)
        for name, column in self.entries._asdict().items():
            if name != "pair":
                column[..., : slots.size] = 0 if name in PLACES else arrays[name]
        self.entries.pair[: slots.size] = arrays["key"].astype(np.int64) << KEY_SHIFT | slots
        self.counts[USED] = slots.size
        refill_pairs(self.table, self.entries.pair, slots.size)

    def adopt(self, arrays: Mapping[str, Array], slots: Array) -> None:
        """Take over what waits of further queries, which `save` saved elsewhere."""
        n, used = arrays["query"].size, int(self.counts[USED])
        self.make_room(int(self.counts[FREED]) + n)
        here = slice(used, used + n)
        for name, column in self.entries._asdict().items():
            if name != "pair":
                column[..., here] = 0 if name in PLACES else arrays[name]
        queries = slots[arrays["query"]].astype(np.int64)
        self.entries.pair[here] = arrays["key"].astype(np.int64) << KEY_SHIFT | queries
        self.counts[USED] = used + n
        self.table[:] = FREE
        refill_pairs(self.table, self.entries.pair, used + n)

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(*self.entries, self.table, self.free)


def _no_entries(attributes: int, figures: int, dtype: Any) -> Entries:  # noqa: ANN401 - a NumPy type
    columns: dict[str, Array] = {}
    for name in Entries._fields:
        if name in VALUES:
            columns[name] = np.zeros((attributes, 0))
        elif name in FIGURES:
            columns[name] = np.zeros((figures, 0), np.int64)
        else:
            kind = dtype if name in TIMES else np.uint8 if name == "open" else np.int64
            columns[name] = np.zeros(0, kind)
    return Entries(**columns)
