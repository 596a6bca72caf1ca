"""The loops over kept earlier events: linked lists, one for each key, the newest event first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bytes, Floats, Int32s, Int64s
from everquery.core.jit import kernel

NONE = -1
THE_LAST = -1  # the key's last event
NOWHERE = -2  # no event that is remembered


class EventColumns(NamedTuple):
    """Events as columns; `mask` has a bit for each attribute that is known."""

    mask: Int64s
    time: Array
    seq: Int64s
    values: Floats


class EventLists(NamedTuple):
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
    events, before : fields of `EventColumns`: the new events by key, and the last one of each group
    lists, kept : fields of `EventLists`, and of `EventColumns` by entry; there is room
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
