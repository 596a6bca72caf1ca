"""When a deadline is reached, and what else happens at that event of its key.

The rule is that of expiry (`everquery.state.admission`): a deadline is reached just before the
first event of its key that is at or after it; without such an event, at the end of the step if the
newest time seen, less the grace, is there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bytes, Int32s, Int64s
from everquery.core.jit import kernel, part

# The stages at one event, in order: deadlines up to the expiry that the event makes known, the
# expiry, later deadlines, the event itself.
DUE, EXPIRY, DUE_LATER, EVENT = range(4)
BEFORE_EVENTS = -1  # the place of announcements


class Timeline(NamedTuple):
    """A step: each key's events and expiries, and how far time is at its end.

    Attributes
    ----------
    key, start : the keys of the batch, ascending, and where each one's events begin
    row : int64, for each event, its place in the order of the batch
    time : like time, for each event, ascending within a key
    expiry : like time, for each event, when its key expired before it; empty if none did
    fresh : uint8, for each event, whether its key expired before it
    silent_key, silent_time : the keys that expire at the end of the step, ascending, and when
    limit, never : like time, shape (1,)
        The newest time less the grace, and the end of time.
    ranks : int64, shape (3,)
        Events of all steps before this one; the first rank of events, and of the step's end.
    """

    key: Int32s
    start: Int64s
    row: Int64s
    time: Array
    expiry: Array
    fresh: Bytes
    silent_key: Int32s
    silent_time: Array
    limit: Array
    never: Array
    ranks: Int64s


@part
def find_key(keys: Int32s, key: int) -> int:
    """Return the place of a key among ascending ones, or -1."""
    low = 0
    top = keys.size
    while low < top:
        middle = (low + top) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            top = middle
    return low if low < keys.size and keys[low] == key else -1


@part
def place_reached(line: Timeline, moment: Any, first: int, begin: int, end: int) -> int:  # noqa: ANN401
    """Return the first event from `first` on, of a key's from `begin` to `end`, not before a time.

    The number of events if it is reached at the end of the step, and one more if it is not.
    """
    at = max(first, begin)
    top = end
    while at < top:
        middle = (at + top) >> 1
        if line.time[middle] < moment:
            at = middle + 1
        else:
            top = middle
    if at < end:
        return at
    return line.time.size if moment <= line.limit[0] else line.time.size + 1


@part
def stage_reached(line: Timeline, place: int, key: int, moment: Any) -> int:  # noqa: ANN401
    """Return whether a deadline comes before or after the expiry at the same place."""
    if place < line.time.size:
        if line.expiry.size > 0 and line.fresh[place] != 0 and moment <= line.expiry[place]:
            return DUE
    else:
        at = find_key(line.silent_key, key)
        if at >= 0 and moment <= line.silent_time[at]:
            return DUE
    return DUE_LATER


@part
def group_of(line: Timeline, key: int) -> tuple[int, int]:
    """Return where a key's events begin and end."""
    at = find_key(line.key, key)
    if at < 0:
        return 0, 0
    return line.start[at], line.start[at + 1]


@part
def rank_of(line: Timeline, place: int, stage: int, key: int) -> int:
    """Return the rank of a notice: its order in the step."""
    rank: int = 4 * key + stage
    if place >= line.time.size:
        rank += line.ranks[2]
    elif place >= 0:
        rank = line.ranks[1] + 4 * line.row[place] + stage
    return rank


@kernel
def place_ends(
    line: Timeline, end: Array, home: Int32s, nobody: int, place: Int64s, stage: Bytes, rank: Int64s
) -> None:
    """Find where each of some queries ends; see `place_reached` for where it does not.

    Parameters
    ----------
    end, home : when each ends, and the key whose deadline that is, or -1
    nobody : what stands for the key of those without, behind all keys
    """
    for i in range(end.size):
        key = int(np.int64(home[i]))
        if key < 0:
            place[i] = line.time.size if end[i] <= line.limit[0] else line.time.size + 1
            stage[i] = DUE_LATER
            key = nobody
        else:
            begin, stop = group_of(line, key)
            place[i] = place_reached(line, end[i], 0, begin, stop)
            stage[i] = stage_reached(line, place[i], key, end[i])
        rank[i] = rank_of(line, place[i], int(np.int64(stage[i])), key)
