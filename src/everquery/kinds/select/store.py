"""The rows that select queries refer to: those of a stream, in the order in which it took them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from everquery.core.arrays import Array, Bools, Floats, Int32s, Int64s, total_bytes
from everquery.index.rows import Step

COLUMNS = ("key", "time", "seq", "weight", "values")
CHUNK = 1 << 14  # rows that a sorted piece of the data index has
LEAST = 1 << 10


class RowStore:
    """Rows by number; the oldest may be gone.

    Attributes
    ----------
    first, end : int
        The number of the oldest row that is kept, and of the next one to come.
    lost : number or None
        The latest time of a row that is gone.
    whole : int
        From which row on none is missing in between.
    reach : number or None
        The latest time of a row, unless time was set back since.
    ordered : bool
        Whether times never went back, so that a window of time is one piece.
    """

    def __init__(self, attributes: int) -> None:
        self.first = 0
        self.end = 0
        self.lost: Any = None
        self.whole = 0
        self.reach: Any = None
        self.ordered = True
        self._latest: Any = None  # of all rows, whatever time was set back to
        self._base = 0  # the number of the row at place 0
        self._key: Int32s = np.empty(LEAST, np.int32)
        self._time: Array = np.empty(LEAST, np.int64)
        self._seq: Int64s = np.empty(LEAST, np.int64)
        self._weight: Int64s = np.empty(LEAST, np.int64)
        self._values: Floats = np.empty((attributes, LEAST))
        self._sorted: dict[tuple[int, int], tuple[Floats, Int32s]] = {}

    @property
    def attributes(self) -> int:
        """How many attributes rows have."""
        return len(self._values)

    def begin_at(self, row: int) -> None:
        """Let the first row, which is yet to come, have this number."""
        self.first = self.end = self._base = row

    def __len__(self) -> int:
        return self.end - self.first

    def append(self, step: Step) -> Int64s:
        """Take in the rows of a step; return the number of each grouped event's row."""
        grouped = step.grouped
        n = grouped.position.size
        rank = grouped.position >> 1
        if n and int(rank.max()) != n - 1:  # rows in between were refused
            order = np.argsort(rank, kind="stable")
            row = rank[order]
            rank = np.empty(n, np.int64)
            rank[order] = np.arange(n)
        else:
            row = np.arange(n)
        key = np.repeat(grouped.key, np.diff(grouped.start))
        self._widen(len(grouped.values) - 1)
        time = step.time[row]
        self._make_room(n, time.dtype)
        at = self.end - self._base
        place = rank + at
        self._key[place] = key
        self._values[:, place] = grouped.values[:-1]
        self._time[at : at + n] = time
        self._seq[at : at + n] = step.seq[row]
        self._weight[at : at + n] = step.weight[row]
        self._note_times(time)
        numbers = place + self._base
        self.end += n
        return numbers

    def extend(self, columns: Mapping[str, Array]) -> None:
        """Take in rows that were kept elsewhere, one behind the other."""
        n = columns["key"].size
        self._widen(len(columns["values"]))
        self._make_room(n, columns["time"].dtype)
        at = self.end - self._base
        for name in COLUMNS[:-1]:
            getattr(self, f"_{name}")[at : at + n] = columns[name]
        known = len(columns["values"])
        self._values[:known, at : at + n] = columns["values"]
        self._values[known:, at : at + n] = np.nan  # attributes that were added since
        self._note_times(columns["time"])
        self.end += n

    def _note_times(self, time: Array) -> None:
        if not time.size:
            return
        latest = time.max().item()
        backwards = time.size > 1 and bool((np.diff(time) < 0).any())
        if backwards or (self._latest is not None and time[0].item() < self._latest):
            self.ordered = False
        if self.reach is None or latest > self.reach:
            self.reach = latest
        self._latest = latest if self._latest is None else max(latest, self._latest)

    def _widen(self, attributes: int) -> None:
        """Have room for attributes that were added to the stream; they are unknown so far."""
        known = len(self._values)
        if known < attributes:
            new = np.full((attributes - known, self._values.shape[1]), np.nan)
            self._values = np.vstack([self._values, new])

    def _make_room(self, n: int, dtype: np.dtype[Any]) -> None:
        if dtype != self._time.dtype:
            self._time = self._time.astype(dtype)
        used = self.end - self._base
        if used + n <= self._key.size:
            return
        kept = slice(self.first - self._base, used)
        room = max(LEAST, 2 * (len(self) + n))
        for name in COLUMNS:
            old = getattr(self, f"_{name}")
            new = np.empty((*old.shape[:-1], room), old.dtype)
            new[..., : len(self)] = old[..., kept]
            setattr(self, f"_{name}", new)
        if self._base != self.first:
            self._base = self.first
            self._sorted.clear()

    def forget(self, before: int) -> None:
        """Forget rows with smaller numbers."""
        before = min(before, self.end)
        if before <= self.first:
            return
        gone = self._time[self.first - self._base : before - self._base].max().item()
        self.lost = gone if self.lost is None else max(self.lost, gone)
        self.first = before

    def set_back(self, time: int | float) -> None:
        """Forget that time has come further than this."""
        if self.reach is not None and self.reach > time:
            self.reach = time
            self.ordered = False

    # -- reading ------------------------------------------------------------------------------

    def column(self, name: str, rows: Array | slice) -> Array:
        """Return a column of rows, given by their numbers or from one to before another."""
        source: Array = getattr(self, f"_{name}")
        if isinstance(rows, slice):
            rows = slice(rows.start - self._base, rows.stop - self._base)
            return source[..., rows]
        found: Array = source[..., rows - self._base]
        return found

    def values(self, attribute: int, rows: Array | slice) -> Floats:
        """Return the values of an attribute; NaN where one is unknown."""
        if isinstance(rows, slice):
            return self._values[attribute, rows.start - self._base : rows.stop - self._base]
        found: Floats = self._values[attribute, rows - self._base]
        return found

    def rows_of_values(self, rows: Int64s) -> Floats:
        """Return the values of all attributes of rows."""
        return np.ascontiguousarray(self._values[:, rows - self._base])

    def times(self) -> Array:
        """Return the times of all rows that are kept."""
        return self._time[self.first - self._base : self.end - self._base]

    def place_of_time(self, time: int | float, *, after: bool) -> int:
        """Return the first row at or after a time, where times never went back."""
        times = self.times()
        found = times.searchsorted(time, "right") if after else times.searchsorted(time, "left")
        return self.first + int(found)

    # -- the data index -----------------------------------------------------------------------

    def within(self, attribute: int, low: float, high: float, rows: range) -> Int64s:
        """Return the rows of a range in which an attribute is in ``[low, high)``, ascending.

        Whole chunks are found in a sorted order, which is made when one is first asked for.
        """
        found = []
        at = rows.start
        while at < rows.stop:
            chunk = (at - self._base) // CHUNK
            until = min(rows.stop, self._base + (chunk + 1) * CHUNK)
            if until - at == CHUNK:
                ordered, places = self._order(attribute, chunk)
                begin = np.searchsorted(ordered, low, "left")
                stop = ordered.size if high != high else np.searchsorted(ordered, high, "left")
                picked = np.sort(places[begin:stop]).astype(np.int64)
            else:
                picked = np.flatnonzero(inside(self.values(attribute, slice(at, until)), low, high))
            found.append(picked + at)
            at = until
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _order(self, attribute: int, chunk: int) -> tuple[Floats, Int32s]:
        """Return the values of a chunk in their order, unknown ones left out, and where each is."""
        if (attribute, chunk) not in self._sorted:
            values = self._values[attribute, chunk * CHUNK : (chunk + 1) * CHUNK]
            order = np.argsort(values, kind="stable").astype(np.int32)
            order = order[: int(np.count_nonzero(values == values))]
            self._sorted[attribute, chunk] = values[order], order
        return self._sorted[attribute, chunk]

    # -- state --------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return all rows that are kept, and what is known of them."""
        kept = slice(self.first, self.end)
        arrays = {name: self.column(name, kept) for name in COLUMNS if name != "values"}
        arrays["values"] = np.ascontiguousarray(
            self._values[:, self.first - self._base : self.end - self._base]
        )
        known = {
            "first": self.first,
            "lost": self.lost,
            "whole": self.whole,
            "reach": self.reach,
            "ordered": self.ordered,
            "latest": self._latest,
        }
        return known, arrays

    def load(self, known: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take over what `save` gave; nothing is here yet."""
        self.first = self.end = self._base = known["first"]
        self.extend(arrays)
        self.lost, self.reach = known["lost"], known["reach"]
        self.whole = known["whole"]
        self.ordered, self._latest = known["ordered"], known["latest"]

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        sorted_bytes = sum(total_bytes(*pair) for pair in self._sorted.values())
        return sorted_bytes + total_bytes(*(getattr(self, f"_{name}") for name in COLUMNS))


def inside(values: Floats, low: float, high: float) -> Bools:
    """Tell which values are in ``[low, high)``; a `high` of NaN has no upper limit."""
    found: Bools = values >= low
    if high == high:
        found &= values < high
    return found
