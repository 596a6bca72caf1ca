"""The lists of a few boxes, built in one call: what a query that was just registered is found by.

For a handful of rows, the calls take the time that building takes, and not the sorting.
"""

from __future__ import annotations

from everquery.core.arrays import Floats, Int32s, Int64s
from everquery.core.jit import kernel
from everquery.index.lanes import is_above
from everquery.kinds.border.border_lists import MINUS, PLUS
from everquery.kinds.border.containing import fill_maxima

FEW = 64  # rows, which are sorted by insertion


@kernel
def sort_few(
    rows: tuple[Int32s, Int32s, Floats, Floats],
    slot: Int32s,
    key: Int32s,
    ends: Floats,
    order: Int32s,
    lane_key: Int32s,
    lane_start: Int64s,
    maxima: Floats,
    level_start: Int64s,
) -> int:
    """Write rows by lane, their plus and minus lists and the pyramid; return how many lanes.

    Stable, and in the order of `sort_into_lanes` and `order_in_lanes`: a NaN is above all others.

    Parameters
    ----------
    rows : slots, keys, lower and upper ends by attribute
    slot, key, ends, order, lane_key, lane_start, maxima : room; lanes are at most as many as rows
    level_start : where the levels of the pyramid begin
    """
    row_slot, row_key, low, high = rows
    d, n = low.shape
    first = order[PLUS, 0]
    for row in range(n):
        at = row
        while at > 0 and (
            row_key[first[at - 1]] > row_key[row]
            or (
                row_key[first[at - 1]] == row_key[row]
                and is_above(low[0, first[at - 1]], low[0, row])
            )
        ):
            first[at] = first[at - 1]
            at -= 1
        first[at] = row
    lanes = 0
    for i in range(n):
        row = first[i]
        slot[i], key[i] = row_slot[row], row_key[row]
        for a in range(d):
            ends[PLUS, a, i], ends[MINUS, a, i] = low[a, row], high[a, row]
        if i == 0 or key[i] != key[i - 1]:
            lane_key[lanes], lane_start[lanes] = key[i], i
            lanes += 1
    lane_start[lanes] = n
    for side in range(2):
        for a in range(d):
            for lane in range(lanes):
                begin = lane_start[lane]
                for i in range(begin, lane_start[lane + 1]):
                    at = i
                    while at > begin and is_above(
                        ends[side, a, order[side, a, at - 1]], ends[side, a, i]
                    ):
                        order[side, a, at] = order[side, a, at - 1]
                        at -= 1
                    order[side, a, at] = i
    fill_maxima(ends[MINUS, 0], maxima, level_start)
    return lanes
