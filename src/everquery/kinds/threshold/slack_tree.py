"""Which rows of a lane could be due: a tree over its rows, whose nodes know what they can take.

Rows with similar intervals stand together, `FAN` to a node, and `FAN` nodes to a node of the next
level. A node has an interval that holds those of all its rows, and the weight at which the first of
them could fire: no row gains more than the node's interval does. So a look begins at the root and
goes down only where the weight has come, and costs about as much as the rows that fire, not as the
rows that wait. This is the slack of range-thresholding, section 3.2, lent to groups of rows instead
of to the nodes of each row: a row hears of its weight once or twice in its life, not 40 times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Int32s, Int64s
from everquery.core.jit import kernel, part
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.index.weighed import ENDLESS, NEVER, Lefts
from everquery.kinds.threshold.running_sums import LAST, WIDTH, RunningSums, weight_below

FAN_BITS = 4
FAN = 1 << FAN_BITS
MOST_LEVELS = 9  # of 2**31 rows, with one to spare
FAR = 1 << 60  # more weight than that is not waited for: sums must not wrap
WIDE = 16 * WIDTH  # ranks of a node's interval, from which on it is rounded to whole blocks


class SlackTrees(NamedTuple):
    """The nodes of all lanes, lane by lane, each lane's from the lowest level to its root.

    Attributes
    ----------
    start : int64, shape (lanes + 1,)
    first, last : int32, a node
        The ranks of the lane that it spans.
    due : int64, a node
        The weight between them at which a row could fire; `ENDLESS` if none can.
    """

    start: Int64s
    first: Int32s
    last: Int32s
    due: Int64s

    @classmethod
    def of(cls, row_start: Int64s) -> SlackTrees:
        """Return room for the nodes of lanes whose rows begin there."""
        size = np.diff(row_start)
        nodes = np.zeros(size.size, np.int64)
        while True:
            size = (size + FAN - 1) >> FAN_BITS
            nodes += size
            if size.max(initial=1) <= 1:
                break
            size[size == 1] = 0  # the root
        start = np.append(0, np.cumsum(nodes)).astype(np.int64)
        ends = np.zeros((2, start[-1]), np.int32)
        return cls(start, *ends, np.full(start[-1], ENDLESS))


class Watched(NamedTuple):
    """Rows of all lanes, lane by lane, those with similar intervals together.

    Attributes
    ----------
    row_start : int64, shape (lanes + 1,)
    first, last : int32, a row
        Its interval, as ranks of its lane.
    slot : int32, a row
    lefts : Lefts
        What rows lacked when they were last brought up to date.
    since : int64, a row
        The weight that its interval had seen then.
    trees : SlackTrees
    sums : RunningSums
    """

    row_start: Int64s
    first: Int32s
    last: Int32s
    slot: Int32s
    lefts: Lefts
    since: Int64s
    trees: SlackTrees
    sums: RunningSums


@part
def list_levels(rows: int, first: int, levels: Int64s) -> int:
    """Write where the levels of a lane begin, `first` for the lowest; return how many there are."""
    depth = 0
    size = rows
    levels[0] = first
    while True:
        size = (size + FAN - 1) >> FAN_BITS
        levels[depth + 1] = levels[depth] + size
        depth += 1
        if size == 1:
            return depth


@part
def levels_of(lane: int, rows: Watched, levels: Int64s) -> int:
    """Write where the levels of a lane's tree begin; return how many there are."""
    return list_levels(
        rows.row_start[lane + 1] - rows.row_start[lane], rows.trees.start[lane], levels
    )


@part
def seen_by_node(node: int, lane: int, rows: Watched) -> int:
    """Return the weight that a node's interval has seen."""
    first, last = rows.trees.first[node], rows.trees.last[node]
    return weight_below(last, lane, rows.sums) - weight_below(first, lane, rows.sums)


@part
def seen_by_row(row: int, lane: int, rows: Watched) -> int:
    """Return the weight that a row's interval has seen."""
    return weight_below(rows.last[row], lane, rows.sums) - weight_below(
        rows.first[row], lane, rows.sums
    )


@part
def due_at(weight: int, lowest: int) -> int:
    """Return the weight at which something is due that lacks `lowest` at a weight."""
    return ENDLESS if lowest == ENDLESS else weight + min(lowest, FAR)


@part
def could_fire(lane: int, rows: Watched) -> bool:
    """Tell whether a row of a lane could be due."""
    root = rows.trees.start[lane + 1] - 1
    return rows.trees.due[root] <= seen_by_node(root, lane, rows)


@kernel
def bound_nodes(rows: Watched) -> None:
    """Write the interval of each node; a wide one is rounded to whole blocks of ranks."""
    levels = np.empty(MOST_LEVELS, np.int64)
    trees, rank_start = rows.trees, rows.sums.start
    for lane in range(rows.row_start.size - 1):
        most = rank_start[lane + 1, 0] - rank_start[lane, 0] - 1
        depth = levels_of(lane, rows, levels)
        for level in range(depth):
            for node in range(levels[level], levels[level + 1]):
                child = (node - levels[level]) << FAN_BITS
                if level == 0:
                    begin = rows.row_start[lane] + child
                    end = min(begin + FAN, rows.row_start[lane + 1])
                    first, last = rows.first[begin], rows.last[begin]
                    for row in range(begin + 1, end):
                        first = min(first, rows.first[row])
                        last = max(last, rows.last[row])
                else:
                    begin = levels[level - 1] + child
                    end = min(begin + FAN, levels[level])
                    first, last = trees.first[begin], trees.last[begin]
                    for other in range(begin + 1, end):
                        first = min(first, trees.first[other])
                        last = max(last, trees.last[other])
                if last - first >= WIDE:
                    first -= first & LAST
                    last = min((last + LAST) & ~LAST, most)
                trees.first[node] = first
                trees.last[node] = last


@part
def least_slack(node: int, level: int, lane: int, levels: Int64s, rows: Watched) -> int:
    """Return the least that a child of an upper node can take."""
    lowest = ENDLESS
    begin = levels[level - 1] + ((node - levels[level]) << FAN_BITS)
    for child in range(begin, min(begin + FAN, levels[level])):
        if rows.trees.due[child] != ENDLESS:
            lowest = min(lowest, rows.trees.due[child] - seen_by_node(child, lane, rows))
    return lowest


@kernel
def expect_all(rows: Watched) -> None:
    """Write when each node is due; all rows have been brought up to date."""
    levels = np.empty(MOST_LEVELS, np.int64)
    for lane in range(rows.row_start.size - 1):
        depth = levels_of(lane, rows, levels)
        for level in range(depth):
            for node in range(levels[level], levels[level + 1]):
                lowest = ENDLESS
                if level == 0:
                    begin = rows.row_start[lane] + ((node - levels[0]) << FAN_BITS)
                    for row in range(begin, min(begin + FAN, rows.row_start[lane + 1])):
                        if rows.lefts.left[row] != NEVER:
                            lowest = min(lowest, rows.lefts.left[row])
                else:
                    lowest = least_slack(node, level, lane, levels, rows)
                rows.trees.due[node] = due_at(seen_by_node(node, lane, rows), lowest)


@part
def expect_row(row: int, lane: int, rows: Watched, levels: Int64s) -> None:
    """Let the nodes above a row that is up to date be due no later than it."""
    depth = levels_of(lane, rows, levels)
    place = row - rows.row_start[lane]
    for level in range(depth):
        place >>= FAN_BITS
        node = levels[level] + place
        due = due_at(seen_by_node(node, lane, rows), rows.lefts.left[row])
        rows.trees.due[node] = min(rows.trees.due[node], due)


@part
def look_at_rows(
    node: int, begin: int, end: int, lane: int, rows: Watched, flags: Flags, due: Int64s, n: int
) -> int:
    """List the rows of a lowest node that are due; write when it is due by the others."""
    lowest = ENDLESS
    left = rows.lefts.left
    for row in range(begin, end):
        rest = left[row]
        if rest == NEVER:
            continue
        rest -= seen_by_row(row, lane, rows) - rows.since[row]
        if rest > 0:
            lowest = min(lowest, rest)
        elif flags[rows.slot[row]] & LIVE_MASK != LIVE:
            left[row] = NEVER
        else:
            due[n] = row
            n += 1
    rows.trees.due[node] = due_at(seen_by_node(node, lane, rows), lowest)
    return n


@kernel
def look_for_due(
    lane: int, rows: Watched, flags: Flags, scratch: tuple[Int64s, Int64s], due: Int64s
) -> tuple[int, int]:
    """List the rows of a lane that have seen enough; nodes are due by all other rows.

    A query that was dropped or paused never fires again.

    Parameters
    ----------
    scratch : room for the levels, twice, and for the nodes of a lane
    due : written

    Returns
    -------
    how many rows are due, and how many nodes were looked at
    """
    levels, nodes = scratch
    trees = rows.trees
    depth = levels_of(lane, rows, levels)
    nodes[0] = trees.start[lane + 1] - 1
    begin, end = 0, 1
    for level in range(depth - 1, 0, -1):
        levels[MOST_LEVELS + level] = begin
        size = end
        for k in range(begin, end):
            first = levels[level - 1] + ((nodes[k] - levels[level]) << FAN_BITS)
            for child in range(first, min(first + FAN, levels[level])):
                if trees.due[child] <= seen_by_node(child, lane, rows):
                    nodes[size] = child
                    size += 1
        begin, end = end, size
    n = 0
    for k in range(begin, end):
        first = rows.row_start[lane] + ((nodes[k] - levels[0]) << FAN_BITS)
        last = min(first + FAN, rows.row_start[lane + 1])
        n = look_at_rows(nodes[k], first, last, lane, rows, flags, due, n)
    last = begin
    for level in range(1, depth):
        for k in range(levels[MOST_LEVELS + level], last):
            lowest = least_slack(nodes[k], level, lane, levels, rows)
            trees.due[nodes[k]] = due_at(seen_by_node(nodes[k], lane, rows), lowest)
        last = levels[MOST_LEVELS + level]
    return n, end


@kernel
def catch_up(rows: Watched) -> None:
    """Bring what every row lacks up to date; none of them can fire by it."""
    for lane in range(rows.row_start.size - 1):
        for row in range(rows.row_start[lane], rows.row_start[lane + 1]):
            seen = seen_by_row(row, lane, rows)
            if rows.lefts.left[row] != NEVER:
                rows.lefts.left[row] -= seen - rows.since[row]
            rows.since[row] = seen


@kernel
def slack_of(lane: int, rows: Watched) -> int:
    """Return how much weight a lane can take before one of its rows could fire."""
    root = rows.trees.start[lane + 1] - 1
    if rows.trees.due[root] == ENDLESS:
        return ENDLESS
    return rows.trees.due[root] - seen_by_node(root, lane, rows)
