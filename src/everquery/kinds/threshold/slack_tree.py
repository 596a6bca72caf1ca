"""Which rows of a lane could be due: a tree over its rows, whose nodes know what they can take.

Rows with similar intervals stand together, `FAN` to a node, and `FAN` nodes to a node of the next
level. A node has an interval that holds those of all its rows, and the weight at which the first of
them could fire: no row gains more than the node's interval does. So a look begins at the root and
goes down only where the weight has come, and costs about as much as the rows that fire, not as the
rows that wait. This is the slack of range-thresholding, section 3.2, lent to groups of rows instead
of to the nodes of each row: no row has nodes and heaps of its own.

The nodes of all lanes are in one table, lane by lane, each lane's from the lowest level to its
root.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Bytes, Int32s, Int64s
from everquery.core.jit import kernel, part
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.index.weighed import ENDLESS, NEVER
from everquery.kinds.threshold.running_sums import (
    ENDS_MASK,
    ENDS_SHIFT,
    LAST,
    NODE,
    RANK,
    ROW,
    WIDTH,
    weight_between,
)

FAN_BITS = 3
FAN = 1 << FAN_BITS
MOST_LEVELS = 12  # of 2**31 rows, with one to spare
FAR = 1 << 60  # more weight than that is not waited for: sums must not wrap
WIDE = 16 * WIDTH  # ranks of a node's interval, from which on it is rounded to whole blocks

# The columns of a row and of a node, int64. The first is the interval, as two ranks of the lane.
ENDS = 0
LEFT = 1  # what a row lacked when it was last brought up to date; NEVER if it can't fire
SINCE = 2  # the weight that its interval had seen then
TOTAL = 3  # where it starts, and if it repeats starts again
ROW_WORDS = 4
DUE = 1  # the weight in a node's interval at which a row could fire; ENDLESS if none can
NODE_WORDS = 2

# What is noted of a look at a node.
LOOK_WORDS = 2
NODE_BITS = 32  # of the first word, behind which is the look at the parent
NODE_MASK = (1 << NODE_BITS) - 1


class Watched(NamedTuple):
    """Rows of all lanes, lane by lane, those with similar intervals together.

    Attributes
    ----------
    lanes : int64, shape (lanes + 1, LANE_WORDS), see `running_sums`
    rows : int64, shape (n, ROW_WORDS)
    slot : int32, shape (n,)
    repeats : uint8, shape (n,)
    nodes : int64, shape (nodes, NODE_WORDS)
    sums : int64, see `running_sums`
    """

    lanes: Int64s
    rows: Int64s
    slot: Int32s
    repeats: Bytes
    nodes: Int64s
    sums: Int64s


def place_nodes(lanes: Int64s) -> Int64s:
    """Write where the nodes of lanes begin; return nodes that span nothing."""
    size = np.diff(lanes[:, ROW])
    count = np.zeros(size.size, np.int64)
    while size.any():
        size = (size + FAN - 1) >> FAN_BITS
        count += size
        size[size == 1] = 0  # the root
    lanes[0, NODE] = 0
    lanes[1:, NODE] = np.cumsum(count)
    nodes = np.zeros((lanes[-1, NODE], NODE_WORDS), np.int64)
    nodes[:, DUE] = ENDLESS
    return nodes


@part
def list_levels(lane: int, lanes: Int64s, levels: Int64s) -> int:
    """Write where the levels of a lane's tree begin, from the lowest; return how many there are."""
    depth = 0
    size = lanes[lane + 1, ROW] - lanes[lane, ROW]
    levels[0] = lanes[lane, NODE]
    while True:
        size = (size + FAN - 1) >> FAN_BITS
        levels[depth + 1] = levels[depth] + size
        depth += 1
        if size == 1:
            return depth


@part
def due_at(weight: int, lowest: int) -> int:
    """Return the weight at which something is due that lacks `lowest` at a weight."""
    return ENDLESS if lowest == ENDLESS else weight + min(lowest, FAR)


@part
def least_slack(begin: int, end: int, lane: int, lanes: Int64s, nodes: Int64s, sums: Int64s) -> int:
    """Return the least that some nodes can take."""
    lowest = ENDLESS
    for node in range(begin, end):
        if nodes[node, DUE] != ENDLESS:
            seen = weight_between(nodes[node, ENDS], lane, lanes, sums)
            lowest = min(lowest, nodes[node, DUE] - seen)
    return lowest


@part
def could_fire(lane: int, lanes: Int64s, nodes: Int64s, sums: Int64s) -> bool:
    """Tell whether a row of a lane could be due."""
    root = lanes[lane + 1, NODE] - 1
    due: int = nodes[root, DUE]
    return due <= weight_between(nodes[root, ENDS], lane, lanes, sums)


@kernel
def bound_nodes(watched: Watched) -> None:
    """Write the interval of each node; a wide one is rounded to whole blocks of ranks."""
    lanes, rows, _, _, nodes, _ = watched
    levels = np.empty(MOST_LEVELS, np.int64)
    for lane in range(len(lanes) - 1):
        most = lanes[lane + 1, RANK] - lanes[lane, RANK] - 1
        depth = list_levels(lane, lanes, levels)
        for level in range(depth):
            for node in range(levels[level], levels[level + 1]):
                child = (node - levels[level]) << FAN_BITS
                first, last = most, 0
                if level == 0:
                    begin = lanes[lane, ROW] + child
                    for row in range(begin, min(begin + FAN, lanes[lane + 1, ROW])):
                        first = min(first, rows[row, ENDS] >> ENDS_SHIFT)
                        last = max(last, rows[row, ENDS] & ENDS_MASK)
                else:
                    begin = levels[level - 1] + child
                    for other in range(begin, min(begin + FAN, levels[level])):
                        first = min(first, nodes[other, ENDS] >> ENDS_SHIFT)
                        last = max(last, nodes[other, ENDS] & ENDS_MASK)
                if last - first >= WIDE:
                    first -= first & LAST
                    last = min((last + LAST) & ~LAST, most)
                nodes[node, ENDS] = first << ENDS_SHIFT | last


@kernel
def expect_all(watched: Watched) -> None:
    """Write when each node is due; all rows have been brought up to date."""
    lanes, rows, _, _, nodes, sums = watched
    levels = np.empty(MOST_LEVELS, np.int64)
    for lane in range(len(lanes) - 1):
        depth = list_levels(lane, lanes, levels)
        for level in range(depth):
            for node in range(levels[level], levels[level + 1]):
                child = (node - levels[level]) << FAN_BITS
                lowest = ENDLESS
                if level == 0:
                    begin = lanes[lane, ROW] + child
                    for row in range(begin, min(begin + FAN, lanes[lane + 1, ROW])):
                        if rows[row, LEFT] != NEVER:
                            lowest = min(lowest, rows[row, LEFT])
                else:
                    begin = levels[level - 1] + child
                    end = min(begin + FAN, levels[level])
                    lowest = least_slack(begin, end, lane, lanes, nodes, sums)
                seen = weight_between(nodes[node, ENDS], lane, lanes, sums)
                nodes[node, DUE] = due_at(seen, lowest)


@part
def expect_row(
    row: int, rest: int, depth: int, levels: Int64s, lane: int, lanes: Int64s, nodes: Int64s,
    sums: Int64s,
) -> None:  # fmt: skip
    """Let the nodes above a row be due no later than it, which lacks `rest` now."""
    place = row - lanes[lane, ROW]
    for level in range(depth):
        place >>= FAN_BITS
        node = levels[level] + place
        seen = weight_between(nodes[node, ENDS], lane, lanes, sums)
        nodes[node, DUE] = min(nodes[node, DUE], due_at(seen, rest))


@kernel
def look_for_due(
    lane: int, watched: Watched, flags: Flags, levels: Int64s, looks: Int64s, found: Int64s
) -> tuple[int, int]:
    """List the rows of a lane that have seen enough; nodes are due by all other rows.

    A row whose query was dropped or paused never fires again. On the way down, a node that is
    looked at keeps the weight that it has seen in the place of the weight at which it is due; on
    the way up, what it can take is known from its children, and no weight is asked for again.

    Parameters
    ----------
    levels : room for the levels
    looks : room for `LOOK_WORDS` numbers a node of the lane: the node and the look at its parent,
        and the least that one of its children can take
    found : written

    Returns
    -------
    how many rows are due, and how many nodes were looked at
    """
    lanes, rows, slot, _, nodes, sums = watched
    depth = list_levels(lane, lanes, levels)
    root = lanes[lane + 1, NODE] - 1
    nodes[root, DUE] = weight_between(nodes[root, ENDS], lane, lanes, sums)
    looks[0] = root
    begin, end = 0, 1
    for level in range(depth - 1, 0, -1):
        size = end
        for k in range(begin, end):
            place = (looks[LOOK_WORDS * k] & NODE_MASK) - levels[level]
            child = levels[level - 1] + (place << FAN_BITS)
            lowest = ENDLESS
            for node in range(child, min(child + FAN, levels[level])):
                seen = weight_between(nodes[node, ENDS], lane, lanes, sums)
                if nodes[node, DUE] <= seen:
                    nodes[node, DUE] = seen
                    looks[LOOK_WORDS * size] = k << NODE_BITS | node
                    size += 1
                elif nodes[node, DUE] != ENDLESS:
                    lowest = min(lowest, nodes[node, DUE] - seen)
            looks[LOOK_WORDS * k + 1] = lowest
        begin, end = end, size
    n = 0
    for k in range(begin, end):
        lowest = ENDLESS
        place = (looks[LOOK_WORDS * k] & NODE_MASK) - levels[0]
        first = lanes[lane, ROW] + (place << FAN_BITS)
        for row in range(first, min(first + FAN, lanes[lane + 1, ROW])):
            rest = rows[row, LEFT]
            if rest == NEVER:
                continue
            rest -= weight_between(rows[row, ENDS], lane, lanes, sums) - rows[row, SINCE]
            if rest > 0:
                lowest = min(lowest, rest)
            elif flags[slot[row]] & LIVE_MASK != LIVE:
                rows[row, LEFT] = NEVER
            else:
                found[n] = row
                n += 1
        looks[LOOK_WORDS * k + 1] = lowest
    for k in range(end - 1, -1, -1):
        node, above = looks[LOOK_WORDS * k] & NODE_MASK, looks[LOOK_WORDS * k] >> NODE_BITS
        lowest = looks[LOOK_WORDS * k + 1]
        nodes[node, DUE] = due_at(nodes[node, DUE], lowest)
        looks[LOOK_WORDS * above + 1] = min(looks[LOOK_WORDS * above + 1], lowest)
    return n, end


@kernel
def catch_up(watched: Watched) -> None:
    """Bring what every row lacks up to date; none of them can fire by it."""
    lanes, rows, _, _, _, sums = watched
    for lane in range(len(lanes) - 1):
        for row in range(lanes[lane, ROW], lanes[lane + 1, ROW]):
            seen = weight_between(rows[row, ENDS], lane, lanes, sums)
            if rows[row, LEFT] != NEVER:
                rows[row, LEFT] -= seen - rows[row, SINCE]
            rows[row, SINCE] = seen


@kernel
def slack_of(lane: int, watched: Watched) -> int:
    """Return how much weight a lane can take before one of its rows could fire."""
    lanes, _, _, _, nodes, sums = watched
    root = lanes[lane + 1, NODE] - 1
    return least_slack(root, root + 1, lane, lanes, nodes, sums)
