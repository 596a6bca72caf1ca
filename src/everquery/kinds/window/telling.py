"""What the queries of windows are told: at each event, or once a batch; and as time passes.

Exact windows of time are told at every moment at which an event leaves them. Each lane knows the
soonest of these moments that has not come.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from everquery.core.arrays import Array, Floats, Int32s, Int64s, grow
from everquery.core.jit import kernel, part
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.kinds.told_values import CHANGE, ENTER, LEAVE
from everquery.kinds.window.lanes import Lanes, Pools, first_inside
from everquery.kinds.window.looking import value_of
from everquery.state.pairs import SLOT_MASK
from everquery.state.rule_walk import later

UNTOLD = -1  # the code of nothing
NO_PLACE = -1  # the place of what no event makes known


class Members(NamedTuple):
    """The queries of groups, in order of groups, windows and statistics; and what they were told.

    Attributes
    ----------
    start : int64, shape (groups + 1,)
        Where the queries of each group begin.
    slot : int32
    statistic : int64
    window, every : like marks
        How many rows, or how long; and how often the value is told whatever it is, 0 for never.
    low, high : float64
        The range of which entries and exits are told; -inf and NaN are no limit, and no range at
        all if both are.
    epsilon : float64
        By more than which share of it a value must have moved to be told.
    told : float64
        What queries were told last, by lane and then as above; NaN for nothing.
    told_at : like marks
        When that was; before all marks for never.
    told_start : int64, by lane
    """

    start: Int64s
    slot: Int32s
    statistic: Int64s
    window: Array
    every: Array
    low: Floats
    high: Floats
    epsilon: Floats
    told: Floats
    told_at: Array
    told_start: Int64s


class Told(NamedTuple):
    """What is told; a buffer that grows.

    Attributes
    ----------
    numbers : int64, five for each
        The place of the event, slot, outcome, number of events, and lane. Of what happens before
        an event comes, the place is the complement of the event's.
    figures : float64, three for each
        Value, lower and upper bound.
    moment : like marks
        As of when that is.
    """

    numbers: Int64s
    figures: Floats
    moment: Array

    @classmethod
    def room(cls, n: int, dtype: Any) -> Told:  # noqa: ANN401 - a NumPy type
        """Return room for so much."""
        return cls(np.empty(5 * n, np.int64), np.empty(3 * n), np.empty(n, dtype))


@part
def outcome(value: float, said: float, low: float, high: float, epsilon: float) -> int:
    """Return what a query is told of a value, having been told another one before."""
    if low != -np.inf or high == high:
        inside = low <= value and not high <= value
        was_inside = low <= said and not high <= said
        if inside and not was_inside:
            return ENTER
        return LEAVE if was_inside and not inside else UNTOLD
    if value == said or (value != value and said != said):
        return UNTOLD
    # An empty window may have no value: that is told too.
    if value != value or said != said or np.isinf(said):
        return CHANGE
    return CHANGE if abs(value - said) > epsilon * abs(said) else UNTOLD


@part
def note(
    told: Told, n: int, place: int, slot: int, code: int, count: int, lane: int,
    value: float, low: float, high: float, moment: Any,  # noqa: ANN401 - a number of either type
) -> Told:  # fmt: skip
    """Write what is told; return the buffer, or a larger one."""
    if n == told.moment.size or 3 * n + 3 > told.figures.size or 5 * n + 5 > told.numbers.size:
        told = Told(grow(told.numbers), grow(told.figures), grow(told.moment))
    told.numbers[5 * n] = place
    told.numbers[5 * n + 1] = slot
    told.numbers[5 * n + 2] = code
    told.numbers[5 * n + 3] = count
    told.numbers[5 * n + 4] = lane
    told.figures[3 * n] = value
    told.figures[3 * n + 1] = low
    told.figures[3 * n + 2] = high
    told.moment[n] = moment
    return told


@kernel
def changes_now(
    statistic: int, family: int, each: bool, pools: Pools, lane: int, start: int, first: int,
    end: int, window: Any, now: Any, value: float,  # noqa: ANN401 - numbers of either type
) -> bool:  # fmt: skip
    """Tell whether a window has another value than it had until just before now.

    Compiled apart: few windows that time passes by come here.
    """
    before = first
    while before > 0 and pools.mark[start + before - 1] + window == now:
        before -= 1
    old, _, _, _ = value_of(
        statistic, family, each, 0.0, pools.total, pools.rest, pools.base, pools.base_rest, lane,
        start, before, end,
    )  # fmt: skip
    return bool(not (old == value or (old != old and value != value)))


@part
def next_period(now: Any, every: Any, never: Any) -> Any:  # noqa: ANN401 - numbers of either type
    """Return when the next period begins; never, if 64 bits can't hold it."""
    begin = (now // every + 1) * every
    if begin <= now:  # as floats round
        begin = (now // every + 2) * every
    return begin if begin > now else never


@part
def is_period(now: Any, every: Any) -> bool:  # noqa: ANN401
    """Tell whether a period begins now."""
    number = now // every
    return bool(number * every == now or (number + 1) * every == now)  # as floats round


@part
def look(
    family: int,
    timed: bool,
    each: bool,
    lane: int,
    now: Any,  # noqa: ANN401 - a number of either type
    place: int,
    flags: Flags,
    members: Members,
    lanes: Lanes,
    pools: Pools,
    never: Any,  # noqa: ANN401
    told: Told,
    n: int,
) -> tuple[int, Told]:
    """Tell the queries of a lane what their windows are now; return how much was told so far.

    Where queries are told of each moment and no event comes now (`place` is below 0), only those
    are told whose own window changes now, or whose period begins while there is something in it:
    who else looks at the lane does not matter.

    Windows ascend, so that each begins no later than the one before. Cost: a binary search for each
    window, a comparison for each query.
    """
    group = int(lanes.pair[lane] & SLOT_MASK)
    start, end = int(lanes.start[lane]), int(lanes.used[lane])
    begin, stop = members.start[group], members.start[group + 1]
    at = members.told_start[lane] - begin
    # Outside of the loop: to take an array out of a tuple costs as much as a comparison.
    windows, statistics, slots, every_of = (
        members.window, members.statistic, members.slot, members.every
    )  # fmt: skip
    lows, highs, epsilons = members.low, members.high, members.epsilon
    said, said_at = members.told, members.told_at
    marks, total, rest = pools.mark, pools.total, pools.rest
    base, base_rest = pools.base, pools.base_rest
    first = end
    soonest = never
    value = low = high = 0.0
    count = 0
    known = -1  # the statistic whose value it is
    passing = each and place < 0
    leaving = False  # whether an event leaves the window now
    for member in range(begin, stop):
        window = windows[member]
        if member == begin or window != windows[member - 1]:
            first = first_inside(marks, start, first, window, now)
            known = -1
            leaving = first > 0 and marks[start + first - 1] + window == now
            if timed and first < end:
                soonest = min(soonest, later(marks[start + first], window, never))
        slot = int(np.int64(slots[member]))
        every = every_of[member]
        begins = False
        if timed and every > 0 and (first < end or not each):
            soonest = min(soonest, next_period(now, every, never))
        if passing and every > 0 and (first < end or leaving):
            begins = is_period(now, every)
        if flags[slot] & LIVE_MASK != LIVE or (passing and not leaving and not begins):
            continue
        statistic = int(statistics[member])
        if statistic != known:
            value, low, high, count = value_of(
                statistic, family, each, epsilons[member], total, rest, base, base_rest, lane,
                start, first, end,
            )  # fmt: skip
            known = statistic
        if every > 0:
            last = said_at[at + member]
            due = last == -never or now // every > last // every
            code = CHANGE if due and value == value else UNTOLD
        else:
            code = outcome(value, said[at + member], lows[member], highs[member], epsilons[member])
        if (
            code != UNTOLD
            and passing
            and not begins
            and not changes_now(
                statistic, family, each, pools, lane, start, first, end, window, now, value
            )
        ):
            code = UNTOLD
        if code != UNTOLD:
            said[at + member] = value
            said_at[at + member] = now
            lanes.dirty[lane] = 1
            told = note(told, n, place, slot, code, count, lane, value, low, high, now)
            n += 1
    lanes.soonest[lane] = soonest
    return n, told


@kernel
def look_again(
    family: int,
    timed: bool,
    each: bool,
    picked: Int64s,
    places: Int64s,
    now: Array,
    flags: Flags,
    members: Members,
    lanes: Lanes,
    pools: Pools,
    never: Array,
    told: Told,
) -> tuple[int, Told]:
    """Tell the queries of lanes what their windows are, once events have come or time has passed.

    With `each`, of each moment until then at which they change.

    Parameters
    ----------
    places : int64
        Of the last event of each lane, as of which it is looked at; if there are none, it is looked
        at as of `now`.
    """
    n = 0
    for i in range(picked.size):
        lane = picked[i]
        looking = lanes.limit[lane] > 0
        while looking:
            moment = lanes.seen[lane] if places.size else now[0]
            if each:
                moment = lanes.soonest[lane]
                looking = moment <= now[0] and moment < never[0]
            if looking:
                place = places[i] if places.size else NO_PLACE
                n, told = look(
                    family, timed, each, lane, moment, place, flags, members, lanes, pools,
                    never[0], told, n,
                )  # fmt: skip
                looking = each
    return n, told


@kernel
def find_soonest(
    picked: Int64s, passed: Array, members: Members, lanes: Lanes, mark: Array, never: Array
) -> None:
    """Find when windows of lanes next change; all is told up to their last event, and `passed`."""
    for i in range(picked.size):
        lane = picked[i]
        group = int(lanes.pair[lane] & SLOT_MASK)
        start, end = int(lanes.start[lane]), int(lanes.used[lane])
        now = max(lanes.seen[lane], passed[0])
        first = end
        soonest = never[0]
        for member in range(members.start[group], members.start[group + 1]):
            window = members.window[member]
            first = first_inside(mark, start, first, window, now)
            if first < end:
                soonest = min(soonest, later(mark[start + first], window, never[0]))
                if members.every[member] > 0:
                    soonest = min(soonest, next_period(now, members.every[member], never[0]))
        lanes.soonest[lane] = soonest


@kernel
def ask_lane(
    family: int,
    statistic: int,
    exact: bool,
    error: float,
    lane: int,
    extent: Array,
    lanes: Lanes,
    pools: Pools,
) -> tuple[float, float, float, int]:
    """Return a statistic of a lane; `extent` has the window, and as of when."""
    start, end = int(lanes.start[lane]), int(lanes.used[lane])
    first = first_inside(pools.mark, start, end, extent[0], extent[1])
    return value_of(
        statistic, family, exact, error, pools.total, pools.rest, pools.base, pools.base_rest, lane,
        start, first, end,
    )  # fmt: skip


@kernel
def carry_told(lanes: Lanes, n: int, place: Int64s, old: Members, new: Members) -> None:
    """Copy what queries were told to where it stands among other queries.

    Parameters
    ----------
    place : int64, for each new member
        Its place among the old ones of all groups, or -1.
    new : filled with nothing
    """
    for lane in range(n):
        group = int(lanes.pair[lane] & SLOT_MASK)
        at = new.told_start[lane] - new.start[group]
        for member in range(new.start[group], new.start[group + 1]):
            if place[member] >= 0 and old.told_start[lane] >= 0:
                source = old.told_start[lane] - old.start[group] + place[member]
                new.told[at + member] = old.told[source]
                new.told_at[at + member] = old.told_at[source]
