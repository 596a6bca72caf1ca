"""Earlier events that queries may have seen last, of keys whose last event lacks values.

A query sees the events of a key that know all attributes it restricts. So what it saw last need not
be the key's last event, where that one lacks a value. An earlier event is kept for as long as no
later one of its key knows all that it knows. Then the last event that any query saw is there,
whichever attributes it restricts, and also for queries that are yet to come. Of keys whose last
event knows everything nothing is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bytes, Floats, Int32s, Int64s, resized, total_bytes
from everquery.core.jit import kernel
from everquery.core.parts import Saved
from everquery.index.rows import Earlier, Grouped
from everquery.state.accepted import Accepted, Events
from everquery.stream import NAMELESS

NONE = -1
THE_LAST = -1  # the key's last event
NOWHERE = -2  # no event that is remembered
COLUMNS = ("sights.held", "sights.seq", "sights.time", "sights.values")


class _Events(NamedTuple):
    """Events as columns; `mask` has a bit for each attribute that is known."""

    mask: Int64s
    time: Array
    seq: Int64s
    values: Floats


class _Lists(NamedTuple):
    """The kept events of each key, newest first, as linked lists.

    Attributes
    ----------
    first : int32, shape (keys,)
        The newest entry of a key, or `NONE`.
    older : int32, shape (entries,)
        The next older entry of the same key, or the next free one.
    free : int64, shape (2,)
        The first free entry, and how many are not free.
    """

    first: Int32s
    older: Int32s
    free: Int64s


@kernel
def write_masks(values: Floats, attributes: int, mask: Int64s) -> None:
    """Write a bit for each of the first `attributes` values of an event that is known."""
    for i in range(mask.size):
        mask[i] = 0
    for a in range(attributes):
        bit = np.int64(1) << a
        for i in range(mask.size):
            if values[a, i] == values[a, i]:
                mask[i] |= bit


@kernel
def take_in(
    groups: tuple[Int32s, Int64s, Bytes, Bytes],
    events: tuple[Int64s, Array, Int64s, Floats],
    before: tuple[Int64s, Array, Int64s, Floats],
    lists: tuple[Int32s, Int32s, Int64s],
    kept: tuple[Int64s, Array, Int64s, Floats],
) -> None:
    """Keep what later events do not know, and forget what they do.

    Parameters
    ----------
    groups : group keys, group starts, `fresh` by event, and which keys were in sight before
    events, before : fields of `_Events`: the new events by key, and the last one of each group
    lists, kept : fields of `_Lists`, and of `_Events` by entry; there is room
    """
    group_key, start, fresh, seen = groups
    first, older, free = lists
    for group in range(group_key.size):
        key = group_key[group]
        in_sight = seen[key] != 0
        for i in range(start[group], start[group + 1]):
            at = first[key]
            newer = NONE
            while at >= 0:
                following = older[at]
                if fresh[i] or kept[0][at] & ~events[0][i] == 0:
                    if newer < 0:
                        first[key] = following
                    else:
                        older[newer] = following
                    older[at] = free[0]
                    free[0] = at
                    free[1] -= 1
                else:
                    newer = at
                at = following
            if in_sight and not fresh[i]:
                inside = i > start[group]
                source = i - 1 if inside else group
                mask = events[0][source] if inside else before[0][source]
                if mask & ~events[0][i] != 0:
                    at = free[0]
                    free[0] = older[at]
                    free[1] += 1
                    older[at] = first[key]
                    first[key] = at
                    kept[0][at] = mask
                    kept[1][at] = events[1][source] if inside else before[1][source]
                    kept[2][at] = events[2][source] if inside else before[2][source]
                    for a in range(len(kept[3])):
                        value = events[3][a, source] if inside else before[3][a, source]
                        kept[3][a, at] = value
            in_sight = True


@kernel
def take_free(older: Int32s, free: Int64s, entries: Int64s) -> None:
    """Write free entries, which are not free any more; there are enough."""
    for i in range(entries.size):
        entries[i] = free[0]
        free[0] = older[free[0]]
    free[1] += entries.size


@kernel
def forget_keys(keys: Int32s, first: Int32s, older: Int32s, free: Int64s) -> None:
    """Free the entries of keys."""
    for i in range(keys.size):
        at = first[keys[i]]
        while at >= 0:
            following = older[at]
            older[at] = free[0]
            free[0] = at
            free[1] -= 1
            at = following
        first[keys[i]] = NONE


@kernel
def find_knowing(
    keys: Int32s, need: int, last: Int64s, first: Int32s, older: Int32s, mask: Int64s, found: Int64s
) -> None:
    """Write the entry of each key's newest event that knows what is needed.

    Parameters
    ----------
    need : int
        A bit for each attribute.
    last : int64
        What the last event of each key knows.
    found : int64
        Gets entries, or `THE_LAST`, or `NOWHERE`.
    """
    for i in range(keys.size):
        found[i] = THE_LAST
        if last[i] & need != need:
            at = first[keys[i]]
            while at >= 0 and mask[at] & need != need:
                at = older[at]
            found[i] = at if at >= 0 else NOWHERE


@kernel
def find_before(
    rows: Int64s, group: Int64s, start: Int64s, need: int, mask: Int64s, fresh: Bytes, found: Int64s
) -> None:
    """Write which earlier event of a batch a query saw last, before each of some events.

    Parameters
    ----------
    rows, group : int64
        Events by key, and their groups.
    found : int64
        Gets events by key, or `NONE` if it is one of an earlier batch.
    """
    for i in range(rows.size):
        at = rows[i] - 1
        begin = start[group[i]]
        while at >= begin and mask[at] & need != need:
            at = begin if fresh[at] else at
            at -= 1
        found[i] = at if at >= begin else NONE


class Sights:
    """The earlier events of keys whose last event lacks values.

    Parameters
    ----------
    attributes : int
        How many the stream has.
    """

    def __init__(self, attributes: int) -> None:
        self._attributes = attributes
        self._lists = _Lists(
            np.empty(0, np.int32), np.empty(0, np.int32), np.array([NONE, 0], np.int64)
        )
        longs = np.empty(0, np.int64)
        self._kept = _Events(longs, longs, longs, np.empty((attributes, 0)))

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
            self._kept = _Events(*(resized(column, larger) for column in self._kept))
        self._lists = _Lists(first, older, free)


def _places(grouped: Grouped, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Return where rows of a batch stand among its events by key, and in which groups."""
    row = grouped.position >> 1
    order = np.argsort(row)
    at = order[np.searchsorted(row[order], rows)]
    return at, np.searchsorted(grouped.start, at, "right") - 1


class Whereabouts:
    """Where keys are, as queries over different attributes have seen them last.

    Parameters
    ----------
    last : Events
        The last event of each key.
    sights : Sights
    """

    def __init__(self, last: Events, sights: Sights) -> None:
        self._last = last
        self._sights = sights
        self._found: dict[int, Events] = {}

    @property
    def keys(self) -> Int32s:
        """The keys, ascending."""
        return self._last.key

    def events(self, attributes: Sequence[int]) -> Events:
        """Return each key's newest event that knows some attributes."""
        need = self._sights.need(attributes)
        if need not in self._found:
            self._found[need] = self._sights.recalled(self._last, attributes)
        return self._found[need]

    def values(self, attributes: Sequence[int]) -> Floats:
        """Return the values of some attributes there, NaN where a key was not seen with them all.

        What is `NAMELESS` is 0 everywhere: see `Grouped`.
        """
        events = self.events(attributes)
        values = np.zeros((len(attributes), len(events)))
        for row, a in zip(values, attributes, strict=True):
            if a != NAMELESS:
                row[:] = events.values[a]
        return values
