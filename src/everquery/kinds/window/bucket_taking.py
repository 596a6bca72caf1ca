"""How events come into lanes of buckets."""

from __future__ import annotations

from everquery.core.arrays import Array, Floats, Int64s
from everquery.core.jit import kernel
from everquery.core.prefetch import prefetch_row
from everquery.kinds.window.buckets import merge_buckets
from everquery.kinds.window.entries import is_taken
from everquery.kinds.window.families import COUNT_BUCKETS
from everquery.kinds.window.lanes import SPARE, Lanes, Pools, first_inside
from everquery.kinds.window.room import more_room
from everquery.kinds.window.runs import ALL, EVENT, MATCH, RUN, Groups, Runs
from everquery.state.pairs import SLOT_MASK

# How taking events in ends: done, or to be gone on with once there is more room for buckets, or
# room for values below 0.
DONE, FULL, NEGATIVE = range(3)

# By how many 64ths of its buckets a lane grows before they are merged. Those of counts are merged
# quickly, and a few of them less matter more.
COUNT_SHARE, SUM_SHARE = 8, 16

RUNS_AHEAD = 3  # runs whose places for new buckets are fetched in time


@kernel
def take_buckets(
    layout: int,
    timed: bool,
    runs: Runs,
    marks: Array,
    values: Floats,
    groups: Groups,
    lanes: Lanes,
    pools: Pools,
    counts: Int64s,
) -> int:
    """Take events into lanes, each as a bucket of its own; see `take_runs`.

    Once a lane has a quarter more buckets than it had after the last time (of counts, an eighth),
    all are merged as far as the error allows. Cost: a bucket an event, and five to nine visits of
    a bucket for that.

    Returns
    -------
    `DONE`, or what it needs to go on.
    """
    # Outside of the loops: to take an array out of a tuple costs as much as an event.
    mark_of, total, base = pools.mark, pools.total, pools.base
    used_of, room_of, start_of, limit_of = lanes.used, lanes.room, lanes.start, lanes.limit
    seen_of, pair_of, dirty = lanes.seen, lanes.pair, lanes.dirty
    attributes, errors, longest_of = groups.attribute, groups.error, groups.longest
    lane_of, begins, ends = runs.lane, runs.begin, runs.end
    firsts, stops, match_of = runs.first, runs.stop, runs.match
    columns = total.shape[1]
    share = COUNT_SHARE if layout == COUNT_BUCKETS else SUM_SHARE
    for run in range(counts[RUN], lane_of.size):
        if run + RUNS_AHEAD < lane_of.size:
            soon = lane_of[run + RUNS_AHEAD]
            newest = start_of[soon] + used_of[soon]
            prefetch_row(mark_of, newest)
            for more in range(0, 12, 4):
                prefetch_row(total, newest + more)
        lane = lane_of[run]
        group = int(pair_of[lane] & SLOT_MASK)
        attribute = attributes[group]
        begin, match, stop = begins[run], firsts[run], stops[run]
        if counts[EVENT] >= 0:
            begin, match = counts[EVENT], counts[MATCH]
            counts[EVENT] = -1
        used, limit, seen = int(used_of[lane]), int(limit_of[lane]), seen_of[lane]
        start, room = int(start_of[lane]), int(room_of[lane])
        n = base[lane, 0]
        one = base[lane, 1] if columns > 1 else 0.0
        two = base[lane, 2] if columns > 2 else 0.0
        ending = DONE
        for event in range(begin, ends[run]):
            mark = marks[event] if timed else seen + 1
            if match == ALL or (match < stop and match_of[match] == event):
                value = values[attribute, event] if attribute >= 0 else 0.0
                if is_taken(layout, value, 0.0):
                    if used == room:
                        used_of[lane], limit_of[lane] = used, limit
                        if not more_room(pools, lanes, lane, counts):
                            ending = FULL
                        start, room = int(start_of[lane]), int(room_of[lane])
                    if value < 0 and columns == 2:
                        ending = NEGATIVE
                    if ending != DONE:
                        counts[RUN], counts[EVENT], counts[MATCH] = run, event, match
                        break
                    if limit == 0:
                        limit = SPARE
                    at = start + used
                    mark_of[at] = mark
                    total[at, 0] = 1.0
                    n += 1
                    if columns > 1:
                        above = max(value, 0.0)
                        total[at, 1] = above
                        one += above
                    if columns > 2:
                        below = max(-value, 0.0)
                        total[at, 2] = below
                        two += below
                    used += 1
                    if used >= limit:
                        gone = first_inside(mark_of, start, used, longest_of[group], mark)
                        used, n, one, two = merge_buckets(
                            2 * errors[group], mark_of, total, start, gone, used
                        )
                        limit = used + max(SPARE, used * share >> 6)
                if match != ALL:
                    match += 1
            if limit > 0:
                seen = mark
        used_of[lane], limit_of[lane], seen_of[lane] = used, limit, seen
        base[lane, 0] = n
        if columns > 1:
            base[lane, 1] = one
        if columns > 2:
            base[lane, 2] = two
        if limit > 0:
            dirty[lane] = 1
        if ending != DONE:
            return ending
    counts[RUN] = lane_of.size
    return DONE
