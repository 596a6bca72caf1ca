"""Earlier events that queries may have seen last, of keys whose last event lacks values.

A query sees the events of a key that know all attributes it restricts. So what it saw last need not
be the key's last event, where that one lacks a value. An earlier event is kept for as long as no
later one of its key knows all that it knows. Then the last event that any query saw is there,
whichever attributes it restricts, and also for queries that are yet to come. Of keys whose last
event knows everything nothing is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from everquery.core.arrays import Array, Bytes, Floats, Int32s, Int64s, resized, total_bytes
from everquery.core.parts import Saved
from everquery.index.rows import Earlier, Grouped
from everquery.state.accepted import Accepted, Events
from everquery.state.sight_loops import (
    NONE,
    NOWHERE,
    EventColumns,
    EventLists,
    find_before,
    find_knowing,
    forget_keys,
    take_free,
    take_in,
    write_masks,
)
from everquery.stream import NAMELESS

COLUMNS = ("sights.held", "sights.seq", "sights.time", "sights.values")


class Sights:
    """The earlier events of keys whose last event lacks values.

    Parameters
    ----------
    attributes : int
        How many the stream has.
    """

    def __init__(self, attributes: int) -> None:
        self._attributes = attributes
        self._lists = EventLists(
            np.empty(0, np.int32), np.empty(0, np.int32), np.array([NONE, 0], np.int64)
        )
        longs = np.empty(0, np.int64)
        self._kept = EventColumns(longs, longs, longs, np.empty((attributes, 0)))

    def __len__(self) -> int:
        """Return how many events are kept."""
        return int(self._lists.free[1])

    @property
    def earlier(self) -> Earlier:
        """The lists as compiled loops look at them."""
        return Earlier(self._lists.first, self._lists.older, self._kept.values)

    def need(self, attributes: Sequence[int]) -> int:
        """Return a bit for each attribute."""
        return sum(1 << a for a in attributes if a != NAMELESS)

    def masks(self, values: Floats) -> Int64s:
        """Return a bit for each attribute that events know; `values` may have further rows."""
        mask = np.empty(values.shape[1], np.int64)
        write_masks(values, self._attributes, mask)
        return mask

    # -- events -------------------------------------------------------------------------------

    def remember(self, accepted: Accepted, seen: Bytes) -> None:
        """Take note of the events of a batch; `seen` and the keys' last events are not yet new."""
        grouped = accepted.grouped
        events, before = accepted.events, accepted.before
        if not accepted.partial or before is None:
            if len(self):
                self.forget(grouped.key[np.diff(grouped.start) > 0])
            return
        row = grouped.position >> 1
        mask = self.masks(grouped.values)
        full = (1 << self._attributes) - 1
        self._make_room(seen.size, int(np.count_nonzero(mask != full)), before.time.dtype)
        take_in(
            (grouped.key, grouped.start, accepted.fresh, seen),
            (mask, events.time[row], events.seq[row], grouped.values),
            (self.masks(before.values), before.time, before.seq, before.values),
            self._lists,
            self._kept,
        )

    def forget(self, keys: Int32s) -> None:
        """Forget the events of keys."""
        if len(self):
            forget_keys(keys[keys < self._lists.first.size], *self._lists)

    def recalled(self, last: Events, attributes: Sequence[int]) -> Events:
        """Return each key's newest event that knows some attributes.

        Parameters
        ----------
        last : Events
            The last event of each key. It is returned where all of them know the attributes.

        Returns
        -------
        Events
            With -1 as `seq`, and without values, where no such event is remembered.
        """
        need = self.need(attributes)
        mask = self.masks(last.values)
        if np.all(mask & need == need):
            return last
        found = np.empty(len(last), np.int64)
        self._make_room(int(last.key.max(initial=-1)) + 1, 0, last.time.dtype)
        lists, kept = self._lists, self._kept
        find_knowing(last.key, need, mask, lists.first, lists.older, kept.mask, found)
        return self._replaced(last, found)

    def _replaced(self, last: Events, found: Int64s) -> Events:
        """Return events with entries in the place of some."""
        events = last.take(np.arange(len(last)))
        older = np.flatnonzero(found >= 0)
        entry = found[older]
        events.time[older], events.seq[older] = self._kept.time[entry], self._kept.seq[entry]
        events.values[:, older] = self._kept.values[:, entry]
        nowhere = found == NOWHERE
        events.seq[nowhere] = -1
        events.values[:, nowhere] = np.nan
        return events

    def before_expiry(
        self, accepted: Accepted, last: Events, rows: Int64s, attributes: Sequence[int]
    ) -> Events:
        """Return the events that queries saw last, before events at which a key had expired.

        Parameters
        ----------
        accepted : Accepted
            It has not been remembered yet.
        last : Events
            The key's last event before each of `rows`.
        rows : int64
            Rows of the batch.
        """
        grouped, before = accepted.grouped, accepted.before
        need = self.need(attributes)
        if before is None or np.all(self.masks(last.values) & need == need):
            return last
        at, group = _places(grouped, rows)
        found = np.empty(rows.size, np.int64)
        mask = self.masks(grouped.values)
        find_before(at, group, grouped.start, need, mask, accepted.fresh, found)
        events = self.recalled(before.take(group), attributes)
        inside = np.flatnonzero(found >= 0)
        events = events.take(np.arange(rows.size))
        batch = grouped.position[found[inside]] >> 1
        events.seq[inside] = accepted.events.seq[batch]
        events.values[:, inside] = accepted.events.values[:, batch]
        events.time[:] = last.time
        return events

    def set_back(self, time: int | float) -> None:
        """Let no event be later than a time."""
        kept = self._kept.time
        np.minimum(kept, kept.dtype.type(time), out=kept)

    # -- state --------------------------------------------------------------------------------

    def named(self) -> tuple[Int32s, Int64s]:
        """Return the key and the `seq` of all events that are kept."""
        keys = np.arange(self._lists.first.size, dtype=np.int32)
        held, entries = self._entries(keys)
        return np.repeat(keys, held), self._kept.seq[entries]

    def keep(self, numbers: Int64s) -> None:
        """Forget all keys but some, given in ascending order; they get new numbers from 0 on."""
        self._make_room(int(numbers.max(initial=-1)) + 1, 0, self._kept.time.dtype)
        gone = np.ones(self._lists.first.size, np.bool_)
        gone[numbers] = False
        self.forget(np.flatnonzero(gone).astype(np.int32))
        self._lists = self._lists._replace(first=self._lists.first[numbers])

    def _entries(self, keys: Int32s) -> tuple[Int64s, Int64s]:
        """Return how many entries keys have, and all of them, newest first."""
        known = keys < self._lists.first.size
        held = np.zeros(keys.size, np.int64)
        found: list[tuple[Array, Array]] = []
        places = np.flatnonzero(known) if len(self) else np.empty(0, np.int64)
        entry = self._lists.first[keys[places]]
        while True:
            places, entry = places[entry >= 0], entry[entry >= 0]
            if not places.size:
                break
            held[places] += 1
            found.append((places, entry))
            entry = self._lists.older[entry]
        if not found:
            return held, np.empty(0, np.int64)
        by_key = np.argsort(np.concatenate([each for each, _ in found]), kind="stable")
        return held, np.concatenate([each for _, each in found])[by_key].astype(np.int64)

    def save(self, keys: Int32s, dtype: np.dtype[np.generic], saved: Saved) -> None:
        """Save what is kept of keys, with times of a type."""
        held, entries = self._entries(keys)
        columns = held, self._kept.seq[entries], self._kept.time[entries].astype(dtype)
        for name, column in zip(COLUMNS, (*columns, self._kept.values[:, entries]), strict=True):
            saved.arrays[name] = column

    def load(self, keys: Int32s, saved: Saved) -> None:
        """Take over what `save` saved; what was kept of the keys before is forgotten."""
        held, seq, time, values = (saved.arrays[name] for name in COLUMNS)
        self.forget(keys)
        if not seq.size:
            return
        self._make_room(int(keys.max(initial=-1)) + 1, seq.size, time.dtype)
        first, older, free = self._lists
        entries = np.empty(seq.size, np.int64)
        take_free(older, free, entries)
        ends = np.cumsum(held)
        older[entries[:-1]] = entries[1:]
        older[entries[ends[held > 0] - 1]] = NONE
        filled = held > 0
        first[keys[filled]] = entries[(ends - held)[filled]]
        self._kept.mask[entries] = self.masks(np.ascontiguousarray(values))
        self._kept.seq[entries], self._kept.time[entries] = seq, time
        self._kept.values[:, entries] = values

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(*self._lists, *self._kept)

    def _make_room(self, keys: int, entries: int, dtype: np.dtype[np.generic]) -> None:
        """Make room for so many keys and so many more entries, with times of a type."""
        first, older, free = self._lists
        if self._kept.time.dtype != dtype:
            self._kept = self._kept._replace(time=self._kept.time.astype(dtype))
        if keys > first.size:
            first = resized(first, max(keys, 2 * first.size), NONE)
        size = older.size
        if len(self) + entries > size:
            larger = max(len(self) + entries, 2 * size)
            older = resized(older, larger)
            older[size:-1] = np.arange(size + 1, larger)
            older[-1] = free[0]
            free[0] = size
            self._kept = EventColumns(*(resized(column, larger) for column in self._kept))
        self._lists = EventLists(first, older, free)


def _places(grouped: Grouped, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Return where rows of a batch stand among its events by key, and in which groups."""
    row = grouped.position >> 1
    order = np.argsort(row)
    at = order[np.searchsorted(row[order], rows)]
    return at, np.searchsorted(grouped.start, at, "right") - 1
