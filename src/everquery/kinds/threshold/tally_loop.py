"""The loop that adds up weights event by event, and the entries of pairs that it adds them to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Bytes, Int32s, Int64s
from everquery.core.jit import kernel, part
from everquery.index.flags import Flags, option_flags
from everquery.index.weighed import ENDLESS, note_fire
from everquery.kinds.threshold.periods import Days, Periods, period_of
from everquery.kinds.threshold.spec import Threshold
from everquery.state.pairs import FREE, KEY_SHIFT, find_pair

# Places in `counts`.
USED, EVENT, MATCH, FIRED = range(4)

_OPTIONS = option_flags(Threshold.options)
REPEAT, COUNT = _OPTIONS["repeat"], _OPTIONS["count"]
BY_KEY, SUBTRACT = _OPTIONS["by_key"], _OPTIONS["negative_subtract"]


class Entries(NamedTuple):
    """What pairs of query and key have seen.

    Attributes
    ----------
    pair : int64, shape (room,)
        ``key + 1 << 32 | slot``, with the key `OF_ALL` where a query has one total.
    seen : int64, shape (room,)
        The weight since the period began, or the last fire.
    period : int64, shape (room,)
        The newest one that an event was in.
    fired : uint8, shape (room,)
        1 where nothing counts any more in this period.
    changed : uint8, shape (room,)
        1 where something changed since it was last saved.
    """

    pair: Int64s
    seen: Int64s
    period: Int64s
    fired: Bytes
    changed: Bytes

    @classmethod
    def of(cls, room: int) -> Entries:
        """Return room for so many pairs."""
        return cls(
            np.full(room, FREE, np.int64),
            *np.zeros((2, room), np.int64),
            *np.zeros((2, room), np.uint8),
        )


@part
def added(seen: int, weight: int) -> int:
    """Return a sum that stops at the ends of 64 bits."""
    if weight > 0 and seen > ENDLESS - weight:
        return ENDLESS
    if weight < 0 and seen < -ENDLESS - weight:
        return -ENDLESS
    return seen + weight


@kernel
def tally(
    found: Int32s,
    ends: Int64s,
    events: tuple[Int32s, Int64s],
    weights: Int64s,
    times: Array,
    flags: Flags,
    totals: Int64s,
    periods: Periods,
    days: Days,
    entries: Entries,
    table: Int32s,
    counts: Int64s,
    out: Int64s,
) -> Int64s:
    """Add up the weights of events for the queries that they match; write which fire.

    It stops where a pair needs an entry and there is no room, and goes on there when it is called
    again.

    Parameters
    ----------
    found, ends : the matching slots, event by event, and where each event's end
    events : key and row of each event
    weights, times : by row
    flags, totals, periods : by slot
    table : entries by hash of the pair, `FREE` in free places; room for twice as many
    counts : how many entries are in use, the event and the match to go on with, and how many fires
    out : event, slot and weight of each fire; a larger copy is returned where needed
    """
    keys, rows = events
    used = counts[USED]
    match = counts[MATCH]
    fires = counts[FIRED]
    for event in range(counts[EVENT], ends.size):
        row = rows[event]
        while match < ends[event]:
            slot = int(np.int64(found[match]))
            flag = flags[slot]
            weight = 1 if flag & COUNT != 0 else int(weights[row])
            if weight > 0 or (weight < 0 and flag & SUBTRACT != 0):
                pair = slot
                if flag & BY_KEY != 0:
                    pair |= (int(np.int64(keys[event])) + 1) << KEY_SHIFT
                place = find_pair(pair, table, entries.pair)
                entry = int(np.int64(table[place]))
                period = period_of(times[row], slot, periods, days)
                if entry == FREE:
                    if used == entries.pair.size:
                        counts[USED] = used
                        counts[EVENT] = event
                        counts[MATCH] = match
                        counts[FIRED] = fires
                        return out
                    entry = int(used)
                    used += 1
                    table[place] = entry
                    entries.pair[entry] = pair
                    entries.seen[entry] = 0
                    entries.period[entry] = period
                    entries.fired[entry] = 0
                if period > entries.period[entry]:
                    entries.period[entry] = period
                    entries.seen[entry] = 0
                    entries.fired[entry] = 0
                if period == entries.period[entry] and entries.fired[entry] == 0:
                    seen = added(entries.seen[entry], weight)
                    if seen >= totals[slot]:
                        out = note_fire(event, slot, seen, out, fires)
                        fires += 1
                        seen = 0
                        entries.fired[entry] = 1 if flag & REPEAT == 0 else 0
                    entries.seen[entry] = seen
                    entries.changed[entry] = 1
            match += 1
    counts[USED] = used
    counts[EVENT] = ends.size
    counts[MATCH] = match
    counts[FIRED] = fires
    return out
