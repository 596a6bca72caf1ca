"""How events come into lanes, with what their queries are told on the way."""

from __future__ import annotations

from everquery.core.arrays import Array, Floats, Int32s, Int64s
from everquery.core.jit import kernel
from everquery.index.flags import Flags
from everquery.kinds.window.entries import append_totals, append_value, is_taken, thin
from everquery.kinds.window.families import SQUARES
from everquery.kinds.window.forgetting import forget_left
from everquery.kinds.window.lanes import LANES, SPARE, Lanes, Pools
from everquery.kinds.window.room import more_room
from everquery.kinds.window.runs import ALL, EVENT, MATCH, RUN, TOLD, Groups, Runs
from everquery.kinds.window.telling import Members, Told, look
from everquery.state.pairs import FREE, SLOT_MASK, find_pair


@kernel
def take_runs(
    family: int,
    timed: bool,
    each: bool,
    runs: Runs,
    marks: Array,
    values: Floats,
    flags: Flags,
    groups: Groups,
    members: Members,
    lanes: Lanes,
    pools: Pools,
    never: Array,
    counts: Int64s,
    told: Told,
) -> tuple[bool, Told]:
    """Take events into lanes, and tell their queries.

    Cost: an entry a match; in approximate lanes, a thinning of all entries now and then.

    Parameters
    ----------
    each : bool
        Whether queries are told at each event, not only at a run's last.
    marks : those of the events, where `timed`; else rows are counted here
    values : float64, shape (attributes, events)
    counts : lanes and places in use; the run, event and match to go on with; how much was told
    told : what is told so far

    Returns
    -------
    False if it needs more room for entries, to go on; and what is told.
    """
    n = counts[TOLD]
    resumed = counts[EVENT] >= 0
    # Outside of the loops: to take an array out of a tuple costs as much as an event.
    used_of, room_of, start_of, limit_of = lanes.used, lanes.room, lanes.start, lanes.limit
    seen_of, shift_of, soonest_of = lanes.seen, lanes.shift, lanes.soonest
    mark_of, total, rest = pools.mark, pools.total, pools.rest
    base, base_rest = pools.base, pools.base_rest
    match_of, errors, longest_of = runs.match, groups.error, groups.longest
    thinned = not each and family == SQUARES
    watched = timed and each
    for run in range(counts[RUN], runs.lane.size):
        lane = runs.lane[run]
        group = int(lanes.pair[lane] & SLOT_MASK)
        attribute, by_attribute = groups.attribute[group], groups.by[group]
        begin, match, stop = runs.begin[run], runs.first[run], runs.stop[run]
        if resumed:
            begin, match = counts[EVENT], counts[MATCH]
            resumed = False
        for event in range(begin, runs.end[run]):
            mark = marks[event] if timed else seen_of[lane] + 1
            looking = True
            # Moments before the event, then the event: in one loop, so that what is told is
            # compiled once.
            while looking:
                now, place = soonest_of[lane], -1 - event
                passing = watched and limit_of[lane] > 0 and now <= mark and now < never[0]
                if not passing:
                    now, place = mark, event
                    if match == ALL or (match < stop and match_of[match] == event):
                        value = values[attribute, event] if attribute >= 0 else 0.0
                        by = values[by_attribute, event] if by_attribute >= 0 else 0.0
                        if is_taken(family, value, by):
                            if used_of[lane] == room_of[lane]:
                                # What no query will look at again, if that is worth moving the
                                # rest. Not where how many entries there are decides when they are
                                # thinned: that must not depend on room, which a restart changes.
                                least = 1 + (used_of[lane] >> 2)
                                if not thinned:
                                    forget_left(
                                        family, longest_of[group], mark, least, pools, lanes, lane
                                    )
                                full = used_of[lane] == room_of[lane]
                                if full and not more_room(pools, lanes, lane, counts):
                                    counts[RUN], counts[EVENT], counts[MATCH] = run, event, match
                                    counts[TOLD] = n
                                    return False, told
                            if limit_of[lane] == 0:
                                limit_of[lane] = SPARE
                                shift_of[lane] = value
                            used, start = int(used_of[lane]), int(start_of[lane])
                            if family <= SQUARES:
                                append_totals(
                                    family, total, rest, base, base_rest, shift_of[lane], lane,
                                    start + used, used, value,
                                )  # fmt: skip
                            else:
                                used = append_value(
                                    family, mark_of, total, start, used, value + 0.0, by + 0.0
                                )
                            mark_of[start + used] = mark
                            used_of[lane] = used + 1
                            if thinned and used + 1 >= limit_of[lane]:
                                forget_left(family, longest_of[group], mark, 1, pools, lanes, lane)
                                used = thin(errors[group], pools, lane, start, int(used_of[lane]))
                                used_of[lane] = used
                                limit_of[lane] = used + max(SPARE, used >> 3)
                        if match != ALL:
                            match += 1
                    looking = False
                    if limit_of[lane] > 0:
                        seen_of[lane] = mark
                        looking = each or event + 1 == runs.end[run]
                    if looking:
                        lanes.dirty[lane] = 1
                if looking:
                    n, told = look(
                        family, timed, each, lane, now, place, flags, members, lanes, pools,
                        never[0], told, n,
                    )  # fmt: skip
                looking = passing
    counts[RUN] = runs.lane.size
    counts[TOLD] = n
    return True, told


@kernel
def find_lanes(pairs: Int64s, table: Int32s, lanes: Lanes, counts: Int64s, out: Int64s) -> None:
    """Write the lane of each pair; a new one, for which there is room, where there is none."""
    for i in range(pairs.size):
        place = find_pair(pairs[i], table, lanes.pair)
        if table[place] == FREE:
            table[place] = counts[LANES]
            lanes.pair[counts[LANES]] = pairs[i]
            counts[LANES] += 1
        out[i] = table[place]
