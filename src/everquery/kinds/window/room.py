"""Room for entries: how much each lane gets in the pools, and how lanes move there."""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Int64s
from everquery.core.jit import kernel, part
from everquery.kinds.window.families import COUNT_BUCKETS
from everquery.kinds.window.lanes import PLACES, PLACES_END, Lanes, Pools

LEAST_ROOM = 4


@part
def move_entry(pools: Pools, source: int, target: int) -> None:
    """Copy an entry to another place."""
    pools.mark[target] = pools.mark[source]
    for measure in range(pools.total.shape[1]):
        pools.total[target, measure] = pools.total[source, measure]
    for measure in range(pools.rest.shape[1]):
        pools.rest[target, measure] = pools.rest[source, measure]


def rooms_for(used: Int64s, limit: Int64s, layout: int) -> Int64s:
    """Return how many entries lanes get room for, by how many they have and are thinned at.

    How many are left after that varies, and less so where only events are counted.
    """
    limit = np.minimum(limit, 2 * used + LEAST_ROOM)  # it may have been set with more entries
    thinned = limit + (limit >> (4 if layout == COUNT_BUCKETS else 3))
    rooms: Int64s = np.where(limit > used, thinned, used + np.maximum(LEAST_ROOM, used >> 2))
    rooms[used == 0] = 0
    return rooms


@part
def more_room(pools: Pools, lanes: Lanes, lane: int, counts: Int64s) -> bool:
    """Give a lane that is full more room; False if the pools are full, and nothing has changed."""
    room = lanes.room[lane]
    room = max(room, min(lanes.limit[lane], 2 * room + LEAST_ROOM))
    # What is thinned will hardly need more than that.
    room += max(LEAST_ROOM, room >> (4 if lanes.limit[lane] > lanes.used[lane] else 1))
    if counts[PLACES] + room > counts[PLACES_END]:
        return False
    start = counts[PLACES]
    for i in range(lanes.used[lane]):
        move_entry(pools, lanes.start[lane] + i, start + i)
    lanes.start[lane] = start
    lanes.room[lane] = room
    counts[PLACES] += room
    return True


@part
def move_entries(old: Pools, new: Pools, source: int, target: int, n: int) -> None:
    """Copy entries to other pools, or to other places of the same ones, in the right order."""
    measures, rests = old.total.shape[1], old.rest.shape[1]
    # All in one row: that is copied several numbers at a time.
    move(old.mark, new.mark, source, target, n)
    move(
        old.total.reshape(-1), new.total.reshape(-1), source * measures, target * measures,
        n * measures,
    )  # fmt: skip
    if rests > 0:
        move(old.rest.reshape(-1), new.rest.reshape(-1), source * rests, target * rests, n * rests)


@part
def move(old: Array, new: Array, source: int, target: int, n: int) -> None:
    """Copy numbers; if they overlap, those that would be written over come first."""
    if target <= source:
        for i in range(n):
            new[target + i] = old[source + i]
    else:
        for i in range(n - 1, -1, -1):
            new[target + i] = old[source + i]


@kernel
def repack(order: Int64s, rooms: Int64s, lanes: Lanes, old: Pools, new: Pools) -> int:
    """Give lanes other places in the same pools, or in larger ones, one behind the other.

    Those that move to the left are moved from the first to the last, those that move to the right
    from the last to the first: so none is written over. Returns how many places they take.

    Parameters
    ----------
    order : all lanes that have entries, in order of where these begin
    rooms : the room that each lane gets
    """
    place = 0
    for i in range(order.size):
        lane = order[i]
        if place <= lanes.start[lane]:
            move_entries(old, new, lanes.start[lane], place, lanes.used[lane])
        place += rooms[lane]
    end = place
    for i in range(order.size - 1, -1, -1):
        lane = order[i]
        place -= rooms[lane]
        if place > lanes.start[lane]:
            move_entries(old, new, lanes.start[lane], place, lanes.used[lane])
        lanes.start[lane] = place
        lanes.room[lane] = rooms[lane]
    return end
