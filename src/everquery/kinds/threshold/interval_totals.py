"""Weight seen by intervals of one attribute, a batch at a time: the kind `threshold` on one axis.

The paper (range-thresholding) counts element by element, in a tree for every row. With a batch in
hand the weights are added to running sums by the ranks of the intervals' ends (`running_sums`), and
what an interval has seen is the difference of two of them, however many events there were. Which
rows need to be asked is known from a tree over rows with similar intervals (`slack_tree`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s, total_bytes
from everquery.core.jit import kernel, part
from everquery.index.flags import Flags
from everquery.index.kind import Explained
from everquery.index.rank_grid import (
    bucket_of,
    fill_buckets,
    plan_grid,
    rank_ends,
    rank_in_bucket,
)
from everquery.index.rows import Rows
from everquery.index.weighed import (
    ENDLESS,
    FIRE_WORDS,
    HEAVIEST,
    SMALL_LANE,
    Fires,
    Lefts,
    WeighedEvents,
    note_fire,
)
from everquery.kinds.threshold.first_passage import passages
from everquery.kinds.threshold.interval_fires import pass_rows, scan_fires
from everquery.kinds.threshold.interval_order import neighbours_first
from everquery.kinds.threshold.running_sums import (
    BUCKET,
    ENDS_MASK,
    ENDS_SHIFT,
    KEY,
    LANE_WORDS,
    NODE,
    PASS_RANKS,
    RANK,
    ROW,
    add_few,
    add_many,
    place_sums,
)
from everquery.kinds.threshold.slack_tree import (
    ENDS,
    FAN,
    LEFT,
    LOOK_WORDS,
    MOST_LEVELS,
    ROW_WORDS,
    SINCE,
    TOTAL,
    Watched,
    bound_nodes,
    catch_up,
    could_fire,
    expect_all,
    look_for_due,
    place_nodes,
    slack_of,
)

EVENT_NS, NODE_NS, ROW_NS = 200.0, 200.0, 8.0
SCANNED = 1 << 14  # events looked at to find when rows fire, before a search structure pays
PART_EVENTS, PART_RANKS = 2_048, 4  # events that are taken at a time; one for so many ranks
CARRIED = HEAVIEST >> 1  # weight that sums may hold before they begin anew, so that none wraps


class Grid(NamedTuple):
    """Where values are among the ends of a lane: a linear grid over these; see `index.rank_grid`.

    Attributes
    ----------
    scale : float64, shape (lanes, 2)
        The lowest value of each lane, and how many buckets a unit has.
    bucket_rank : int32, a bucket
        The first rank in it or behind it; the table of lanes says where each lane's begin.
    bounds : float64, a rank
    """

    scale: Floats
    bucket_rank: Int32s
    bounds: Floats


@part
def rank_events(
    values: Floats, begin: int, end: int, lane: int, lanes: Int64s, scale: Floats,
    bucket_rank: Int32s, bounds: Floats, ranks: Int64s,
) -> None:  # fmt: skip
    """Write the ranks of events among a lane's ends; -1 for one that is below all."""
    first, base = lanes[lane, RANK], lanes[lane, BUCKET]
    buckets = lanes[lane + 1, BUCKET] - base - 1
    low, times = scale[lane, 0], scale[lane, 1]
    for i in range(begin, end):
        bucket = base + bucket_of(values[i], low, times, buckets)
        least, most = bucket_rank[bucket], bucket_rank[bucket + 1]
        ranks[i] = rank_in_bucket(values[i], bounds, least, most) - first


@part
def find_lanes(group_key: Int32s, lanes: Int64s, out: Int64s) -> None:
    """Write the lane of each key, -1 for one without; O(log of the distance between two)."""
    most = len(lanes) - 1
    lane = 0
    for group in range(group_key.size):
        key = group_key[group]
        step = 1
        high = lane
        while high < most and lanes[high, KEY] < key:
            lane = high + 1
            high += step
            step *= 2
        high = min(high, most)
        while lane < high:
            middle = (lane + high) >> 1
            if lanes[middle, KEY] < key:
                lane = middle + 1
            else:
                high = middle
        out[group] = lane if lane < most and lanes[lane, KEY] == key else -1


@kernel
def count_intervals(
    events: tuple[Int32s, Int64s, Floats, Int64s], watched: Watched, grid: Grid, flags: Flags,
    ranks: Int64s, scratch: Int64s, sizes: tuple[int, int], out: Int64s, hard: Int64s,
) -> tuple[Int64s, int, Int64s, int, int, int]:  # fmt: skip
    """Count a batch's weight; write which rows fire at which events.

    Cost: a rank and some 300 additions an event in a lane of a million rows; half a microsecond a
    node in which a row could fire, where memory is cold: about five nodes for a row that does.

    Parameters
    ----------
    events : group keys, group starts, values, weights; no sum of them passes `HEAVIEST`
    ranks : written, the rank of each event
    scratch : room for levels, looks and rows of a lane, and for weights by rank (all 0)
    sizes : how many words of looks and rows there is room for
    out : fires, as `FIRE_WORDS` numbers each: event, row, weight seen
    hard : group, lane and row of rows that fire in lanes where a search structure pays

    Returns
    -------
    out and hard or larger copies, and how many each holds; how many nodes were looked at; the
    weight of all events
    """
    group_key, group_start, values, weight = events
    lanes, _, _, _, nodes, sums = watched
    scale, bucket_rank, bounds = grid
    levels = scratch[:MOST_LEVELS]
    looks = scratch[MOST_LEVELS : MOST_LEVELS + sizes[0]]
    at = MOST_LEVELS + sizes[0] + sizes[1]
    due = scratch[MOST_LEVELS + sizes[0] : at]
    fires, left_over, looked, carried = 0, 0, 0, 0
    # Group by group in each of three loops, so that what one waits for can be fetched for others.
    lane_of_group = np.empty(group_key.size, np.int64)
    find_lanes(group_key, lanes, lane_of_group)
    for group in range(group_key.size):
        lane, begin, end = lane_of_group[group], group_start[group], group_start[group + 1]
        if lane >= 0:
            rank_events(values, begin, end, lane, lanes, scale, bucket_rank, bounds, ranks)
    for group in range(group_key.size):
        lane, begin, end = lane_of_group[group], group_start[group], group_start[group + 1]
        if lane < 0:
            continue
        for i in range(begin, end):
            carried += weight[i]
        size = lanes[lane + 1, RANK] - lanes[lane, RANK]
        if (end - begin) * PASS_RANKS > size and end - begin > 1:
            add_many(ranks, weight, begin, end, lane, lanes, sums, scratch, at)
        else:
            add_few(ranks, weight, begin, end, lane, lanes, sums)
    for group in range(group_key.size):
        lane, begin, end = lane_of_group[group], group_start[group], group_start[group + 1]
        if lane < 0 or not could_fire(lane, lanes, nodes, sums):
            continue
        found, seen = look_for_due(lane, watched, flags, levels, looks, due)
        looked += seen
        if (end - begin) * found > SCANNED and end - begin > SMALL_LANE:
            for k in range(found):
                hard = note_fire(group, lane, due[k], hard, left_over)
                left_over += 1
        else:
            out, fires = scan_fires(
                lane, due, found, begin, end, ranks, weight, watched, levels, out, fires
            )
    return out, fires, hard, left_over, looked, carried


@dataclass(slots=True)
class IntervalTotals:
    """Intervals of one attribute, and what each of them still lacks.

    Attributes
    ----------
    rows : Rows
        In order of lane, those with similar intervals together.
    lane_key : int32, a lane
    grid : Grid
    watched : Watched
    share : float
        The part of its lane's ends that an interval spans, on average.
    spent_ns : float
        What the last batch took, by the events and nodes that were looked at.
    """

    rows: Rows
    lane_key: Int32s
    grid: Grid
    watched: Watched
    share: float
    spent_ns: float
    # Many events of one lane are taken in parts: a look costs little, and rows that fire are then
    # sought among fewer events, which stay in the cache.
    _part: int = field(repr=False)
    _sizes: tuple[int, int] = field(repr=False)
    _scratch: Int64s = field(repr=False)
    _carried: int = 0  # weight that the sums hold
    _behind: bool = False  # whether rows have not been told of it

    @classmethod
    def build(cls, rows: Rows) -> IntervalTotals:
        """Rank the ends of all rows; they lack nothing yet, see `Lefts`."""
        if rows.shape.keyed:
            rows = rows.take(np.argsort(rows.key, kind="stable"))
        lane_key, lane_first = np.unique(rows.key, return_index=True)
        lanes = np.zeros((lane_key.size + 1, LANE_WORDS), np.int64)
        lanes[:-1, KEY] = lane_key
        lanes[:, ROW] = np.append(lane_first, len(rows))
        lane_size = np.diff(lanes[:, ROW])
        bounds, rank_start, first, last = rank_ends(rows.low[0], rows.high[0], lane_size)
        lane = np.repeat(np.arange(lane_key.size), lane_size)
        base = rank_start[lane]
        first, last = first - base, last - base
        order = neighbours_first(lane, first, last)
        rows = rows.take(order)
        sums, nodes = place_sums(rank_start, lanes), place_nodes(lanes)
        grid_start, grid_low, grid_scale = plan_grid(bounds, rank_start)
        lanes[:, BUCKET] = grid_start
        bucket_rank = np.empty(grid_start[-1], np.int32)
        fill_buckets(bounds, rank_start, grid_start, grid_low, grid_scale, bucket_rank)
        table = np.zeros((len(rows), ROW_WORDS), np.int64)
        table[:, ENDS] = (first << ENDS_SHIFT | last)[order]
        table[:, TOTAL] = ENDLESS
        repeats = np.zeros(len(rows), np.uint8)
        watched = Watched(lanes, table, rows.slot, repeats, nodes, sums)
        bound_nodes(watched)
        sizes = LOOK_WORDS * int(np.diff(lanes[:, NODE]).max()), int(lane_size.max())
        widest = int(np.diff(rank_start).max())
        return cls(
            rows=rows,
            lane_key=lane_key,
            grid=Grid(np.stack([grid_low, grid_scale], axis=1), bucket_rank, bounds),
            watched=watched,
            share=float((last - first).sum()) / (len(rows) * bounds.size / lane_key.size),
            spent_ns=0.0,
            _part=max(PART_EVENTS, widest // PART_RANKS),
            _sizes=sizes,
            _scratch=np.zeros(MOST_LEVELS + sum(sizes) + widest, np.int64),
        )

    @property
    def lefts(self) -> Lefts:
        """What each row lacks, as views: kept ones would be copies where a shard is loaded."""
        table = self.watched.rows
        return Lefts(table[:, LEFT], table[:, TOTAL], self.watched.repeats)

    @property
    def row_start(self) -> Int64s:
        """Where each lane's rows begin."""
        return self.watched.lanes[:, ROW]

    def count(self, events: WeighedEvents, flags: Flags) -> Fires:
        """Count events; return which rows fire at which of them, in no order."""
        n = events.position.size
        self._behind = True
        self.spent_ns = 0.0
        size = self._part
        if n <= size or events.key.size > 1:
            return self._count(events, flags)
        parts = []
        for first in range(0, n, size):
            these = slice(first, first + size)
            position = events.position[these]
            start = np.array([0, position.size])
            fires = self._count(
                WeighedEvents(
                    events.key, start, position, events.values[:, these], events.weight[these]
                ),
                flags,
            )
            parts.append(Fires(fires.event + first, fires.row, fires.seen))
        return Fires(*map(np.concatenate, zip(*parts, strict=True)))

    def _count(self, events: WeighedEvents, flags: Flags) -> Fires:
        values = np.ascontiguousarray(events.values[self.rows.shape.attributes[0]])
        ranks = np.empty(values.size, np.int64)
        out, n, hard, left_over, looked, weight = count_intervals(
            (events.key, events.start, values, events.weight),
            self.watched,
            self.grid,
            flags,
            ranks,
            self._scratch,
            self._sizes,
            np.empty(FIRE_WORDS * 64, np.int64),
            np.empty(FIRE_WORDS * 64, np.int64),
        )
        self.spent_ns += values.size * EVENT_NS + looked * (NODE_NS + FAN * ROW_NS)
        if left_over:
            groups, lanes, rows = hard[: FIRE_WORDS * left_over].reshape(-1, FIRE_WORDS).T
            for group in np.unique(groups):
                picked = np.flatnonzero(groups == group)
                lane = int(lanes[picked[0]])
                out, n = self._pass(events, ranks, int(group), lane, rows[picked], out, n)
        self._carried += weight
        if self._carried > CARRIED:
            self._begin_anew()
        return Fires.of_words(out, n)

    def _pass(
        self,
        events: WeighedEvents,
        ranks: Int64s,
        group: int,
        lane: int,
        rows: Int64s,
        out: Int64s,
        n: int,
    ) -> tuple[Int64s, int]:
        """Find when rows of one lane fire, by a search structure over its events."""
        begin, end = int(events.start[group]), int(events.start[group + 1])
        found = passages(ranks[begin:end], events.weight[begin:end])
        ends = self.watched.rows[rows, ENDS]
        runs = (
            np.searchsorted(found.rank, ends >> ENDS_SHIFT),
            np.searchsorted(found.rank, ends & ENDS_MASK),
        )
        return pass_rows(
            lane, rows.copy(), begin, runs, ranks, events.weight, (found.zeros, found.weight),
            self.watched, out, n,
        )  # fmt: skip

    def _begin_anew(self) -> None:
        """Let the sums begin at 0 again."""
        self.add_up()
        self.watched.sums[:] = 0
        self.watched.rows[:, SINCE] = 0
        self._carried, self._behind = 0, True
        self.expect()

    def expected_ns(self, events: int) -> float:
        """Return what a batch may take at most."""
        return events * EVENT_NS + len(self.rows) * (ROW_NS + NODE_NS / FAN)

    def add_up(self) -> None:
        """Bring what every row lacks up to date."""
        if self._behind:
            catch_up(self.watched)
            self._behind = False

    def expect(self) -> None:
        """Take note of what every row lacks, after it was set; all had been added up before."""
        expect_all(self.watched)

    def explain(self, row: int) -> Explained:
        """Return how a row is told of weight, and what it costs."""
        lanes = self.watched.lanes
        lane = int(np.searchsorted(lanes[:, ROW], row, "right")) - 1
        size, ranks = (lanes[lane + 1] - lanes[lane])[[ROW, RANK]].tolist()
        ends = int(self.watched.rows[row, ENDS])
        share = float((ends & ENDS_MASK) - (ends >> ENDS_SHIFT)) / ranks
        slack = slack_of(lane, self.watched)
        path = f"prefix sums over {ranks:,} ends, once {slack:,} more has come"
        return Explained(path, self.rows.shape.attributes, share, 0.0, size, len(self.rows))

    def renumbered(self, slots: Int32s) -> IntervalTotals:
        """Return the same with other slots, given by the present ones."""
        rows = self.rows.renumbered(slots)
        return replace(self, rows=rows, watched=self.watched._replace(slot=rows.slot))

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(
            *self.rows.arrays(), self.lane_key, *self.grid, *self.watched, self._scratch
        )
