"""What the queries of approximate counts and sums are told: once a batch, and as time passes."""

from __future__ import annotations

from everquery.core.arrays import Array, Int64s
from everquery.core.jit import kernel
from everquery.core.prefetch import prefetch_row
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.kinds.told_values import CHANGE
from everquery.kinds.window.buckets import bucket_value, totals_from
from everquery.kinds.window.families import SUM_BUCKETS
from everquery.kinds.window.lanes import Lanes, Pools, first_inside, has_left
from everquery.kinds.window.telling import (
    NO_PLACE,
    UNTOLD,
    Members,
    Told,
    next_period,
    outcome,
)
from everquery.state.pairs import SLOT_MASK
from everquery.state.rule_walk import later

LANES_AHEAD = 4  # lanes whose oldest buckets are fetched in time
LIKELY = 4  # buckets, the oldest ones, that are looked at one by one


@kernel
def look_at_buckets(
    layout: int,
    timed: bool,
    picked: Int64s,
    places: Int64s,
    now: Array,
    flags: Flags,
    members: Members,
    lanes: Lanes,
    pools: Pools,
    never: Array,
    told: Told,
) -> int:
    """Tell the queries of lanes what their windows are now; return how much was told.

    Windows ascend, so that each begins no later than the one before. Cost: a search for each
    window, a comparison for each query.

    Parameters
    ----------
    places : int64
        Of the last event of each lane, as of which it is looked at; if there are none, it is looked
        at as of `now`.
    told : has room for something about each query of each lane
    """
    # Outside of the loops: to take an array out of a tuple costs as much as a comparison.
    start_of, used_of, limit_of, pair_of = lanes.start, lanes.used, lanes.limit, lanes.pair
    seen_of, soonest_of, dirty = lanes.seen, lanes.soonest, lanes.dirty
    marks, total, base = pools.mark, pools.total, pools.base
    windows, statistics, slots = members.window, members.statistic, members.slot
    starts, told_starts, every_of = members.start, members.told_start, members.every
    lows, highs, epsilons = members.low, members.high, members.epsilon
    said, said_at = members.told, members.told_at
    numbers, figures, moments = told.numbers, told.figures, told.moment
    columns = total.shape[1]
    n = 0
    for i in range(picked.size):
        if i + LANES_AHEAD < picked.size:
            oldest = start_of[picked[i + LANES_AHEAD]]
            prefetch_row(marks, oldest)
            prefetch_row(total, oldest)
        lane = picked[i]
        if limit_of[lane] == 0:
            continue
        moment = seen_of[lane] if places.size else now[0]
        start, end = int(start_of[lane]), int(used_of[lane])
        group = int(pair_of[lane] & SLOT_MASK)
        begin = starts[group]
        said_from = told_starts[lane] - begin
        first = end
        soonest = never[0]
        value = low = high = most = one = two = 0.0
        count = 0
        known = -1  # the statistic whose value it is
        for member in range(begin, starts[group + 1]):
            window = windows[member]
            if member == begin or window != windows[member - 1]:
                known = -1
                before, first = first, 0
                while first < min(before, LIKELY) and has_left(
                    marks[start + first], window, moment
                ):
                    first += 1
                if first == LIKELY:
                    first = first_inside(marks, start, before, window, moment)
                most = base[lane, 0]
                one = base[lane, 1] if columns > 1 else 0.0
                two = base[lane, 2] if columns > 2 else 0.0
                if first > 0:
                    most, one, two = totals_from(total, most, one, two, start, first, end)
                if timed and first < end:
                    soonest = min(soonest, later(marks[start + first], window, never[0]))
            every = every_of[member]
            if timed and every > 0:
                soonest = min(soonest, next_period(moment, every, never[0]))
            slot = slots[member]
            if flags[slot] & LIVE_MASK != LIVE:
                continue
            statistic = int(statistics[member])
            if statistic != known:
                at = start + first
                value, low, high, count = bucket_value(
                    statistic, layout == SUM_BUCKETS, most, one, two,
                    total[at, 0] if first < end else 0.0,
                    total[at, 1] if first < end and columns > 1 else 0.0,
                    total[at, 2] if first < end and columns > 2 else 0.0,
                    base[lane, 0],
                )  # fmt: skip
                known = statistic
            if every > 0:
                last = said_at[said_from + member]
                due = last == -never[0] or moment // every > last // every
                code = CHANGE if due and value == value else UNTOLD
            else:
                code = outcome(
                    value, said[said_from + member], lows[member], highs[member], epsilons[member]
                )
            if code != UNTOLD:
                said[said_from + member] = value
                said_at[said_from + member] = moment
                dirty[lane] = 1
                numbers[5 * n] = places[i] if places.size else NO_PLACE
                numbers[5 * n + 1] = slot
                numbers[5 * n + 2] = code
                numbers[5 * n + 3] = count
                numbers[5 * n + 4] = lane
                figures[3 * n] = value
                figures[3 * n + 1] = low
                figures[3 * n + 2] = high
                moments[n] = moment
                n += 1
        soonest_of[lane] = soonest
    return n


@kernel
def ask_buckets(
    layout: int, statistic: int, lane: int, extent: Array, lanes: Lanes, pools: Pools
) -> tuple[float, float, float, int]:
    """Return a statistic of a lane; `extent` has the window, and as of when."""
    total, base = pools.total, pools.base
    columns = total.shape[1]
    start, end = int(lanes.start[lane]), int(lanes.used[lane])
    first = first_inside(pools.mark, start, end, extent[0], extent[1])
    at = start + first
    n = base[lane, 0]
    one = base[lane, 1] if columns > 1 else 0.0
    two = base[lane, 2] if columns > 2 else 0.0
    most, one, two = totals_from(total, n, one, two, start, first, end)
    return bucket_value(
        statistic, layout == SUM_BUCKETS, most, one, two,
        total[at, 0] if first < end else 0.0,
        total[at, 1] if first < end and columns > 1 else 0.0,
        total[at, 2] if first < end and columns > 2 else 0.0,
        n,
    )  # fmt: skip
