"""Lanes as they are saved: without room to spare, and with nothing that follows from the rest."""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Bools, Int64s
from everquery.core.invariants import MOST, Column, Contents, check_none, check_unique, refuse
from everquery.core.jit import kernel
from everquery.kinds.correlated.estimates import PIECES
from everquery.kinds.correlated.exact_sums import LIMBS, add_exactly
from everquery.kinds.correlated.histograms import EDGES, FIRST_MARK, LAST_MARK, N
from everquery.kinds.correlated.lane_table import LaneTable
from everquery.kinds.correlated.places import block_sizes, spread, starts_of_blocks

LANES = {
    "lane.group": Column("int32", ("lanes",), least=0, below="groups"),
    "lane.key": Column("int32", ("lanes",), least=-1, below="keys"),
    "lane.used": Column("int64", ("lanes",), least=0, below=MOST),
    "lane.blocks": Column("int64", ("lanes",), least=0, below=PIECES + 2),
    "lane.seen": Column("int64", ("lanes",), least=0, below=MOST),
    "lane.clock": Column("time", ("lanes",)),
    "said": Column("float64", ("said",), with_nan=True),
    "x": Column("float64", ("events",)),
    "y": Column("float64", ("events",)),
    "mark": Column("time", ("events",)),
    "block": Column("int64", ("numbers",)),
}


def _kinds(table: LaneTable, lanes: Int64s) -> tuple[Bools, Bools]:
    """Return which lanes are exact, and which have windows."""
    group = table.lanes.group[lanes]
    return table.groups.edges[group] == 0, table.groups.window[group] > 0


def saved_lanes(table: LaneTable, lanes: Int64s) -> dict[str, Array]:
    """Return some lanes of groups that have queries; groups are named by rank among those."""
    columns, groups = table.lanes, table.groups
    group = columns.group[lanes]
    rank = np.cumsum(groups.live[: table.n_groups] > 0) - 1
    exact, windowed = _kinds(table, lanes)
    used = np.where(exact, columns.used[lanes], 0)
    blocks = np.where(exact, 0, columns.blocks[lanes])
    members = groups.members[group]
    alive = table.slot[spread(groups.first[group], members)] >= 0
    arrays: dict[str, Array] = {
        "lane.group": rank[group].astype(np.int32),
        "lane.key": columns.key[lanes],
        "lane.used": used,
        "lane.blocks": blocks,
        "lane.seen": columns.seen[lanes],
        "lane.clock": columns.clock[lanes],
        "said": table.said[spread(columns.told[lanes], members)][alive],
    }
    room = columns.room[lanes]
    first = columns.start[lanes] + LIMBS + np.where(windowed, 2 * room + columns.head[lanes], 0)
    floats, marks = table.pool.view(np.float64), table.pool.view(table.dtype)
    arrays["x"] = floats[spread(first, used)]
    arrays["y"] = floats[spread(first + room, used)]
    arrays["mark"] = marks[spread(first + np.where(windowed, 2 * room, 0), used)]
    arrays["mark"][~np.repeat(windowed, used)] = 0  # of all events none is needed
    arrays["block"] = table.pool[_places_of_blocks(table, lanes, blocks)]
    return arrays


def _places_of_blocks(table: LaneTable, lanes: Int64s, blocks: Int64s) -> Int64s:
    """Return the places of all numbers of the blocks of lanes, oldest blocks first."""
    size = np.repeat(block_sizes(table.groups, table.lanes.group[lanes]), blocks)
    return spread(starts_of_blocks(table.groups, table.lanes, lanes, blocks), size)


def check_lanes(contents: Contents, table: LaneTable) -> None:
    """Raise if saved lanes can't be those of the groups."""
    contents.check(LANES, groups=table.n_groups)
    group, key = contents["lane.group"], contents["lane.key"]
    used, blocks = contents["lane.used"], contents["lane.blocks"]
    check_unique("lanes", (key.astype(np.int64) + 1) << 32 | group)
    groups = table.groups
    exact, windowed = groups.edges[group] == 0, groups.window[group] > 0
    check_none((groups.of_each[group] != 0) & (key < 0), "lane.key", key, "no key")
    check_none(~exact & (used > 0), "lane.used", used, "of a lane with blocks")
    check_none((exact | ~windowed) & (blocks > ~exact), "lane.blocks", blocks, "too many")
    seen = contents["lane.seen"]
    check_none(used > seen, "lane.used", used, "more than it has seen")
    empty = np.where(exact, used, blocks) == 0
    check_none(empty != (seen == 0), "lane.seen", seen, "seen, and nothing is left of it")
    if contents["said"].size != groups.members[group].sum() or contents["x"].size != used.sum():
        refuse("lanes of correlated queries are not whole")
    _check_marks(contents, windowed, used)
    size = block_sizes(groups, group)
    if contents["block"].size != int((size * blocks).sum()):
        refuse("histograms of correlated queries are not whole")
    _check_blocks(contents, group, blocks, size, table)


def _check_marks(contents: Contents, windowed: Bools, used: Int64s) -> None:
    lane = np.repeat(np.arange(used.size), used)
    mark, clock = contents["mark"], contents["lane.clock"]
    check_none((mark > clock[lane]) & windowed[lane], "mark", mark, "ahead of its lane")
    falls = (mark[1:] < mark[:-1]) & (lane[1:] == lane[:-1])
    check_none(falls, "mark", mark[1:], "before the one in front of it")


def _check_blocks(
    contents: Contents, group: Array, blocks: Int64s, size: Int64s, table: LaneTable
) -> None:
    block = np.ascontiguousarray(contents["block"])
    floats, marks = block.view(np.float64), block.view(table.dtype)
    sizes = np.repeat(size, blocks)
    at = np.cumsum(sizes) - sizes
    edges = np.repeat(table.groups.edges[group], blocks)
    used, n = floats[at + EDGES], floats[at + N]
    check_none(~((used >= 0) & (used <= edges)), "block", used, "no number of edges")
    check_none(~((n >= 1) & (n < MOST)), "block", n, "no number of events")
    clock = np.repeat(contents["lane.clock"], blocks)
    first, last = marks[at + FIRST_MARK], marks[at + LAST_MARK]
    check_none(~((first <= last) & (last <= clock)), "block", first, "in no order")


@kernel
def add_up_lanes(pool: Array, sums: Int64s, start: Int64s, used: Int64s) -> None:
    """Write the exact sum of x of exact lanes."""
    for i in range(start.size):
        for place in range(LIMBS):
            sums[start[i] + place] = 0
        for place in range(used[i]):
            x = pool[start[i] + LIMBS + place]
            if abs(x) < np.inf:
                add_exactly(sums, start[i], x)


def load_lanes(table: LaneTable, arrays: dict[str, Array]) -> None:
    """Take over lanes that were checked; others stay as they are."""
    lanes = _found(table, arrays["lane.group"], arrays["lane.key"])
    columns = table.lanes
    exact, windowed = _kinds(table, lanes)
    used, blocks = arrays["lane.used"], arrays["lane.blocks"]
    columns.used[lanes], columns.blocks[lanes] = used, blocks
    columns.seen[lanes], columns.clock[lanes] = arrays["lane.seen"], arrays["lane.clock"]
    columns.head[lanes] = 0
    members = table.groups.members[columns.group[lanes]]
    table.said[spread(columns.told[lanes], members)] = arrays["said"]
    columns.start[lanes] = -1
    begun = np.flatnonzero(columns.seen[lanes] > 0)
    table.place(lanes[begun], np.where(exact, used, 0)[begun])
    floats, marks = table.pool.view(np.float64), table.pool.view(table.dtype)
    x, y, mark = arrays["x"], arrays["y"], arrays["mark"]
    order = np.lexsort((x, np.repeat(np.arange(used.size), used)))
    first, room = columns.start[lanes] + LIMBS, columns.room[lanes]
    floats[spread(first, used)] = x[order]
    floats[spread(first + room, used)] = y[order]
    kept = np.where(windowed, used, 0)
    of_windows = np.repeat(windowed, used)
    floats[spread(first + 2 * room, kept)] = x[of_windows]
    floats[spread(first + 3 * room, kept)] = y[of_windows]
    marks[spread(first + 4 * room, kept)] = mark[of_windows]
    table.pool[_places_of_blocks(table, lanes, blocks)] = arrays["block"]
    add_up_lanes(floats, table.pool, columns.start[lanes][used > 0], used[used > 0])
    table.count_lanes_of_keys()


def _found(table: LaneTable, group: Array, key: Array) -> Int64s:
    """Return the lanes of groups and keys; those that are not there are added."""
    n = table.n_lanes
    here = (table.lanes.key[:n].astype(np.int64) + 1) << 32 | table.lanes.group[:n]
    wanted = (key.astype(np.int64) + 1) << 32 | group
    order = np.argsort(here)
    place = np.searchsorted(here, wanted, sorter=order)
    lanes = np.full(wanted.size, -1)
    inside = np.flatnonzero(place < n)
    candidates = order[place[inside]]
    same = here[candidates] == wanted[inside]
    lanes[inside[same]] = candidates[same]
    new = np.flatnonzero(lanes < 0)
    lanes[new] = table.add_lanes(group[new], key[new])
    return lanes
