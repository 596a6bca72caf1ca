"""How events come into lanes of samples and of sketches."""

from __future__ import annotations

from typing import Any

from everquery.core.arrays import Array, Floats, Int64s
from everquery.core.jit import callee, kernel
from everquery.kinds.window.chances import sample_size
from everquery.kinds.window.entries import is_taken
from everquery.kinds.window.families import EVENT_SAMPLES, SKETCHES, VALUE_SAMPLES
from everquery.kinds.window.forgetting import forget_left
from everquery.kinds.window.lanes import Lanes, Pools
from everquery.kinds.window.room import more_room
from everquery.kinds.window.runs import ALL, EVENT, MATCH, RUN, TOLD, Groups, Runs
from everquery.kinds.window.samples import (
    LATER,
    PLACE,
    RANK,
    VALUE,
    add_later,
    drop_repeats,
    rank_of_event,
    settle_events,
    settle_values,
)
from everquery.kinds.window.sketches import settle_sketches
from everquery.state.pairs import SLOT_MASK

LEAST_LIMIT = 64  # with fewer entries a lane is not thinned: sketches have no buckets then
FEW = 4  # new entries that are compared with all others, one by one


@callee
def settle(
    layout: int,
    error: float,
    longest: Any,  # noqa: ANN401 - a number of either type
    now: Any,  # noqa: ANN401
    pools: Pools,
    lanes: Lanes,
    lane: int,
    settled: int,
) -> None:
    """Leave in a lane what its error needs; entries from `settled` on are new."""
    before = lanes.used[lane]
    forget_left(layout, longest, now, 1, pools, lanes, lane)
    used, start = int(lanes.used[lane]), int(lanes.start[lane])
    settled = max(settled - (before - used), 0)
    if layout == VALUE_SAMPLES:
        used = settle_values(sample_size(error), pools.mark, pools.total, start, used)
    elif layout == EVENT_SAMPLES:
        used = settle_events(sample_size(error), pools.mark, pools.total, start, settled, used)
    else:
        used = settle_sketches(error, pools.mark, pools.total, start, used)
    lanes.used[lane] = used
    lanes.limit[lane] = max(LEAST_LIMIT, used + (used >> 2))


@callee
def settle_few(layout: int, pools: Pools, lanes: Lanes, lane: int, settled: int) -> None:
    """Let a lane be as after `settle`, but for entries that are not needed: few are new."""
    used, start = int(lanes.used[lane]), int(lanes.start[lane])
    if layout == VALUE_SAMPLES:
        lanes.used[lane] = drop_repeats(pools.mark, pools.total, start, settled, used)
    elif layout == EVENT_SAMPLES:
        add_later(pools.total, start, settled, used)


@kernel
def take_samples(
    layout: int,
    timed: bool,
    runs: Runs,
    marks: Array,
    values: Floats,
    groups: Groups,
    lanes: Lanes,
    pools: Pools,
    counts: Int64s,
) -> bool:
    """Take events into lanes; see `take_runs`.

    New entries stay as they are until a lane has a quarter more than after the last time, or its
    run ends. Cost: five to nine visits of an entry for each event.

    Returns
    -------
    False if it needs more room for entries, to go on.
    """
    used_of, room_of, start_of, limit_of = lanes.used, lanes.room, lanes.start, lanes.limit
    seen_of, mark_of, total, base = lanes.seen, pools.mark, pools.total, pools.base
    errors, longest_of, match_of = groups.error, groups.longest, runs.match
    for run in range(counts[RUN], runs.lane.size):
        lane = runs.lane[run]
        group = int(lanes.pair[lane] & SLOT_MASK)
        error, longest = errors[group], longest_of[group]
        attribute, by_attribute = groups.attribute[group], groups.by[group]
        begin, match, stop = runs.begin[run], runs.first[run], runs.stop[run]
        settled = int(used_of[lane])
        if counts[EVENT] >= 0:
            begin, match, settled = counts[EVENT], counts[MATCH], int(counts[TOLD])
            counts[EVENT] = -1
        for event in range(begin, runs.end[run]):
            mark = marks[event] if timed else seen_of[lane] + 1
            if match == ALL or (match < stop and match_of[match] == event):
                value = values[attribute, event] if attribute >= 0 else 0.0
                by = values[by_attribute, event] if by_attribute >= 0 else 0.0
                if is_taken(layout, value, by):
                    if limit_of[lane] > 0 and used_of[lane] >= limit_of[lane]:
                        settle(layout, error, longest, mark, pools, lanes, lane, settled)
                        settled = int(used_of[lane])
                    if used_of[lane] == room_of[lane] and not more_room(pools, lanes, lane, counts):
                        # Nothing is settled for that: how full the pools are must not matter.
                        counts[RUN], counts[EVENT], counts[MATCH] = run, event, match
                        counts[TOLD] = settled
                        return False
                    if limit_of[lane] == 0:
                        limit_of[lane] = LEAST_LIMIT
                    at = start_of[lane] + used_of[lane]
                    mark_of[at] = mark
                    total[at, VALUE] = value + 0.0
                    if layout != VALUE_SAMPLES:
                        total[at, PLACE] = by + 0.0
                    if layout == EVENT_SAMPLES:
                        base[lane, 0] += 1
                        total[at, LATER] = 0.0
                        total[at, RANK] = rank_of_event(value + 0.0, by + 0.0, base[lane, 0])
                    used_of[lane] += 1
                if match != ALL:
                    match += 1
            if limit_of[lane] > 0:
                seen_of[lane] = mark
        if limit_of[lane] > 0:
            lanes.dirty[lane] = 1
        new = used_of[lane] - settled
        if layout == SKETCHES or new == 0:
            continue
        if new <= FEW:
            settle_few(layout, pools, lanes, lane, settled)
        else:
            settle(layout, error, longest, seen_of[lane], pools, lanes, lane, settled)
    counts[RUN] = runs.lane.size
    return True
