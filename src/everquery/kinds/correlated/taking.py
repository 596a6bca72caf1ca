"""The loop over lanes: events in, and what queries are told out.

What is done once a batch or more seldom is called, not inlined: that halves the time to compile.
"""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Floats, Int32s, Int64s, grow
from everquery.core.jit import callee, kernel
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.kinds.correlated.cuts import MEAN, MIN, NOTHING, just_below, outcome
from everquery.kinds.correlated.estimates import (
    PIECES,
    Extent,
    Reference,
    Ring,
    estimate,
    is_out,
    reference_of,
    region_of,
)
from everquery.kinds.correlated.exact_sums import LIMBS
from everquery.kinds.correlated.histograms import (
    CENTRE,
    FIRST_MARK,
    FOCUSED,
    HALF,
    HEAD,
    LAST_MARK,
    SPARSE,
    X_LEAST,
    X_MOST,
    X_SUM,
    N,
    begin_block,
    focus,
    need_edge,
    take,
)
from everquery.kinds.correlated.kept_events import (
    exact_reference,
    exact_value,
    forget,
    keep,
    make_place,
)
from everquery.kinds.correlated.records import Record, Records

GROWN = 1.5  # by how much a block has grown when its edges are placed anew
FIGURES = 7  # of what is told: event, slot, outcome, number of events, value and bounds


@callee
def ring_of(group: Record, lane: Record) -> Ring:
    """Return where the blocks of a lane are."""
    measures = 3 if group["sums"] else 1
    edges = int(group["edges"])
    places = PIECES + 1 if group["window"] > 0 else 1
    size = HEAD + edges * (1 + 3 * measures)
    return Ring(lane["start"], size, places, lane["head"], lane["blocks"], edges, measures)


@callee
def extent_of(group: Record, lane: Record) -> Extent:
    """Return how far a lane has come."""
    return Extent(lane["clock"], group["window"], group["timed"] != 0)


@callee
def block_to_fill(group: Record, lane: Record, pool: Floats, marks: Array) -> int:
    """Return where the newest block of a lane begins, a new one if need be.

    Blocks that its window has left behind are forgotten.
    """
    ring = ring_of(group, lane)
    window = group["window"]
    while window > 0 and lane["blocks"] > 0:
        at = ring.start + lane["head"] * ring.size
        if not is_out(marks[at + LAST_MARK], lane["clock"], window):
            break
        lane["head"] = (lane["head"] + 1) % ring.places
        lane["blocks"] -= 1
    if lane["blocks"] > 0:
        at = ring.start + (lane["head"] + lane["blocks"] - 1) % ring.places * ring.size
        passed = lane["clock"] - marks[at + FIRST_MARK]
        full = window > 0 and passed > 0 and passed * 1.0 >= window * 1.0 / PIECES
        if not full or lane["blocks"] == ring.places:
            return int(at)
    at = ring.start + (lane["head"] + lane["blocks"]) % ring.places * ring.size
    lane["blocks"] += 1
    begin_block(pool, at)
    return int(at)


@callee
def refocus(group: Record, lane: Record, pool: Floats, marks: Array, at: int) -> None:
    """Move the edges of the newest block to where the cuts of queries are, if it is time."""
    to = int(group["to"])
    extreme = X_LEAST if to == MIN else X_MOST
    factor = group["factor"]
    n = pool[at + N]
    due = n >= GROWN * pool[at + FOCUSED]
    ring = ring_of(group, lane)
    if not due and ring.places == 1:
        if to == MEAN:
            mean = factor * (pool[at + X_SUM] / n)
            due = abs(mean - pool[at + CENTRE]) > pool[at + HALF] / 2
        else:
            due = pool[at + extreme] != pool[at + CENTRE]
    if not due:
        return
    extent = extent_of(group, lane)
    around = group["around"] != 0
    low, high = region_of(pool, marks, ring, extent, to, factor, around)
    focus(pool, at, ring.edges, ring.measures, low, high)
    if to != MEAN and ring.places == 1 and not around:
        # Many events may lie just on the cut, which < and <= tell apart.
        need_edge(pool, at, ring.edges, ring.measures, just_below(factor * pool[at + extreme]))
    pool[at + FOCUSED] = n
    pool[at + HALF] = (high - low) / 2
    pool[at + CENTRE] = low + (high - low) / 2 if to == MEAN else pool[at + extreme]


@callee
def take_roughly(
    group: Record, lane: Record, pool: Floats, marks: Array, x: float, y: float, mark: float
) -> None:
    """Take an event into the newest block of a lane."""
    at = block_to_fill(group, lane, pool, marks)
    measures = 3 if group["sums"] else 1
    take(pool, marks, at, int(group["edges"]), measures, x, y, mark)
    if pool[at + SPARSE] != 1.0:
        refocus(group, lane, pool, marks, at)


@callee
def take_exactly(
    group: Record, lane: Record, pool: Floats, marks: Array, sums: Int64s, x: float, y: float,
    mark: float,
) -> None:  # fmt: skip
    """Take an event into an exact lane, and out what its window leaves behind."""
    window = group["window"]
    start, room = lane["start"], lane["room"]
    if window > 0:
        head = lane["head"]
        while lane["used"] > 0:
            if not is_out(marks[start + LIMBS + 4 * room + head], lane["clock"], window):
                break
            forget(pool, sums, start, room, lane["used"], head)
            lane["used"] -= 1
            head += 1
        if head + lane["used"] == room or lane["used"] == 0:
            make_place(pool, marks, start, room, head, lane["used"])
            head = 0
        lane["head"] = head
    arrived = lane["head"] + lane["used"]
    keep(pool, marks, sums, start, room, lane["used"], arrived, window > 0, x, y, mark)
    lane["used"] += 1


@callee
def reference_in(
    group: Record, lane: Record, pool: Floats, marks: Array, sums: Int64s
) -> Reference:
    """Return the MIN, MAX or AVG of x of a lane."""
    to = int(group["to"])
    if group["edges"] == 0:
        used = lane["used"]
        a = exact_reference(pool, sums, lane["start"], used, to)
        return Reference(a, a, a, float(used), float(used), float(used))
    return reference_of(pool, marks, ring_of(group, lane), extent_of(group, lane), to)


@callee
def value_in(
    group: Record, lane: Record, pool: Floats, marks: Array, reference: Reference,
    aggregate: int, compared: int, scratch: Int64s,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the answer to a query in a lane: value and bounds."""
    factor = group["factor"]
    if group["edges"] == 0:
        value = exact_value(
            pool, lane["start"], lane["room"], lane["used"], reference.guess, aggregate, compared,
            factor, scratch,
        )  # fmt: skip
        return value, value, value
    ring, extent = ring_of(group, lane), extent_of(group, lane)
    return estimate(pool, marks, ring, extent, reference, aggregate, compared, factor)


@callee
def with_room(told: Floats, notices: int) -> Floats:
    """Return a buffer, or a larger one, that has room for so many notices."""
    while FIGURES * notices > told.size:
        told = grow(told)
    return told


@callee
def tell(
    group: Record, lane: Record, pool: Floats, marks: Array, sums: Int64s, said: Floats,
    slots: Int32s, asked: Records, flags: Flags, scratch: Int64s, event: int, told: Floats, n: int,
) -> int:  # fmt: skip
    """Tell the queries of a lane what has become of their values; return how much is told."""
    reference = reference_in(group, lane, pool, marks, sums)
    for member in range(group["members"]):
        slot = slots[group["first"] + member]
        if slot < 0 or flags[slot] & LIVE_MASK != LIVE:
            continue
        query = asked[slot]
        value, low, high = value_in(
            group, lane, pool, marks, reference, int(query["aggregate"]), int(query["compared"]),
            scratch,
        )  # fmt: skip
        before = said[lane["told"] + member]
        least_move = 0.0
        if group["edges"] > 0 and before == before:
            least_move = max((high - low) / 2, query["epsilon"] * abs(before))
        code = outcome(value, before, query["low"], query["high"], least_move)
        if code == NOTHING:
            continue
        said[lane["told"] + member] = value
        at = FIGURES * n
        told[at] = event
        told[at + 1] = slot
        told[at + 2] = code
        told[at + 3] = np.floor(reference.n)
        told[at + 4] = value
        told[at + 5] = low
        told[at + 6] = high
        n += 1
    return n


@kernel
def take_events(
    jobs: Int64s, values: Floats, times: Array, groups: Records, lanes: Records, pool: Floats,
    marks: Array, sums: Int64s, said: Floats, slots: Int32s, asked: Records, flags: Flags,
    scratch: Int64s, told: Floats,
) -> tuple[int, Floats]:  # fmt: skip
    """Take events into lanes; return how much is told, and where it is.

    Exact lanes tell at each event, others at the last one that they see.

    Parameters
    ----------
    jobs : int64, shape (jobs, 3)
        Lanes, and which events are theirs: from the first to before the second.
    times : like marks, for each event
    groups, lanes, asked : records; see `records`
    pool, marks, sums : float64, like marks, int64
        The numbers of all lanes, seen as what they are: the same memory.
    said : float64
        What queries were told last; NaN for nothing.
    slots : int32
        The queries of groups; -1 for one that has ended.
    scratch : int64, shape (LIMBS,)
    told : float64, `FIGURES` for each notice
        A buffer, in whose place a larger one may be returned.
    """
    n = jobs.size * 0  # a literal would be a type of its own, to compile for
    for job in range(jobs.shape[0]):
        lane = lanes[jobs[job, 0]]
        group = groups[lane["group"]]
        exact = group["edges"] == 0
        newest = n * 0 - 1
        for event in range(jobs[job, 1], jobs[job, 2]):
            x = values[group["x"], event]
            y = 0.0 if group["y"] < 0 else values[group["y"], event]
            if x != x or y != y:
                continue
            # Infinities have no average and no sum.
            if group["to"] == MEAN and abs(x) == np.inf:
                continue
            if group["sums"] and abs(y) == np.inf:
                continue
            lane["seen"] += 1
            mark = lane["clock"]
            if not group["timed"]:
                mark = mark * 0 + lane["seen"]
            elif times[event] > mark or lane["seen"] == 1:
                mark = times[event]
            lane["clock"] = mark
            newest = event
            if exact:
                take_exactly(group, lane, pool, marks, sums, x, y, mark)
                told = with_room(told, n + group["members"])
                n = tell(
                    group, lane, pool, marks, sums, said, slots, asked, flags, scratch, event,
                    told, n,
                )  # fmt: skip
            else:
                take_roughly(group, lane, pool, marks, x, y, mark)
        if newest >= 0 and not exact:
            told = with_room(told, n + group["members"])
            n = tell(
                group, lane, pool, marks, sums, said, slots, asked, flags, scratch, newest, told, n
            )
    return n, told


@kernel
def answer_one(
    number: int, slot: int, groups: Records, lanes: Records, pool: Floats, marks: Array,
    sums: Int64s, asked: Records, scratch: Int64s,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Return the answer to one query in a lane that has events: value, bounds, and how many."""
    lane = lanes[number]
    group = groups[lane["group"]]
    reference = reference_in(group, lane, pool, marks, sums)
    query = asked[slot]
    aggregate, compared = int(query["aggregate"]), int(query["compared"])
    value, low, high = value_in(group, lane, pool, marks, reference, aggregate, compared, scratch)
    return value, low, high, reference.n
