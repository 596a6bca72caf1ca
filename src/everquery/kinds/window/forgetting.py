"""How lanes give up what no window looks at again, and what lies in the future."""

from __future__ import annotations

from typing import Any

from everquery.core.arrays import Array, Int64s
from everquery.core.jit import kernel, part
from everquery.kinds.window.buckets import add_up, set_base
from everquery.kinds.window.families import COUNT_BUCKETS, SQUARES
from everquery.kinds.window.lanes import Lanes, Pools, first_inside, has_left
from everquery.kinds.window.room import move_entry
from everquery.state.pairs import SLOT_MASK


@part
def forget_first(family: int, pools: Pools, lanes: Lanes, lane: int, gone: int) -> None:
    """Give up the first entries of a lane; the base is then what is before, or in, the others."""
    start = lanes.start[lane]
    if family >= COUNT_BUCKETS:
        n, one, two = add_up(pools.total, start + gone, start + lanes.used[lane])
        set_base(pools.base, lane, n, one, two)
    elif family <= SQUARES:
        for measure in range(pools.total.shape[1]):
            pools.base[lane, measure] = pools.total[start + gone - 1, measure]
        for measure in range(pools.rest.shape[1]):
            pools.base_rest[lane, measure] = pools.rest[start + gone - 1, measure]
    for i in range(gone, lanes.used[lane]):
        move_entry(pools, start + i, start + i - gone)
    lanes.used[lane] -= gone


@part
def forget_left(
    family: int,
    longest: Any,  # noqa: ANN401 - a number of either type
    now: Any,  # noqa: ANN401
    least: int,
    pools: Pools,
    lanes: Lanes,
    lane: int,
) -> None:
    """Give up the entries that even the longest window has left, if they are that many."""
    gone = first_inside(pools.mark, lanes.start[lane], lanes.used[lane], longest, now)
    if gone > 0 and gone >= least:
        forget_first(family, pools, lanes, lane, gone)


@kernel
def outgrow(family: int, picked: Int64s, longest: Array, lanes: Lanes, pools: Pools) -> None:
    """Prepare lanes for longer windows: they forget what the longest so far has left behind.

    So what a longer window is filled with does not depend on when entries are given up.
    """
    for i in range(picked.size):
        lane = picked[i]
        forget_left(family, longest[0], lanes.seen[lane], 1, pools, lanes, lane)
        if has_left(lanes.begun[lane], longest[0], lanes.seen[lane]):
            lanes.begun[lane] = lanes.seen[lane] - longest[0]
        lanes.dirty[lane] = 1


@kernel
def set_back_marks(
    family: int, time: Array, longest: Array, n: int, lanes: Lanes, pools: Pools
) -> None:
    """Let nothing be later than a time; what the longest window of a group has left stays away."""
    for lane in range(n):
        group = int(lanes.pair[lane] & SLOT_MASK)
        forget_left(family, longest[group], lanes.seen[lane], 1, pools, lanes, lane)
        lanes.seen[lane] = min(lanes.seen[lane], time[0])
        lanes.begun[lane] = min(lanes.begun[lane], time[0])
        lanes.soonest[lane] = min(lanes.soonest[lane], time[0])
        lanes.dirty[lane] = 1
        for i in range(lanes.used[lane]):
            place = lanes.start[lane] + i
            pools.mark[place] = min(pools.mark[place], time[0])
