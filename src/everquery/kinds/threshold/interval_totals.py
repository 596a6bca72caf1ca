"""Weight seen by intervals of one attribute, a batch at a time: the kind `threshold` on one axis.

The paper (range-thresholding) counts element by element, in a tree for every row. With a batch in
hand the weights are added to running sums by the ranks of the intervals' ends (`running_sums`), and
what an interval has seen is the difference of two of them, however many events there were. Which
rows need to be asked is known from a tree over rows with similar intervals (`slack_tree`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s, total_bytes
from everquery.core.jit import kernel, part
from everquery.index.cei import bucket_of, fill_buckets, plan_grid, rank_ends, rank_in_bucket
from everquery.index.flags import Flags
from everquery.index.kind import Explained
from everquery.index.rows import Rows
from everquery.index.weighed import (
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
from everquery.kinds.threshold.running_sums import PASS_RANKS, RunningSums, add_many, add_one
from everquery.kinds.threshold.slack_tree import (
    FAN,
    MOST_LEVELS,
    SlackTrees,
    Watched,
    bound_nodes,
    catch_up,
    could_fire,
    expect_all,
    look_for_due,
    slack_of,
)

EVENT_NS, NODE_NS, ROW_NS = 200.0, 200.0, 8.0
SCANNED = 1 << 16  # events looked at to find when rows fire, before a search structure pays
CARRIED = HEAVIEST >> 1  # weight that sums may hold before they begin anew, so that none wraps


@part
def rank_of_lane(
    values: Floats, begin: int, end: int, lane: int,
    grid: tuple[Int64s, Floats, Floats, Int32s], bounds: Floats, first: int, ranks: Int64s,
) -> None:  # fmt: skip
    """Write the rank of each event's value among the lane's ends; -1 if it is below all."""
    grid_start, grid_low, grid_scale, bucket_rank = grid
    base = grid_start[lane]
    buckets = grid_start[lane + 1] - base - 1
    for i in range(begin, end):
        bucket = base + bucket_of(values[i], grid_low[lane], grid_scale[lane], buckets)
        low, high = bucket_rank[bucket], bucket_rank[bucket + 1]
        ranks[i] = rank_in_bucket(values[i], bounds, low, high) - first


@part
def lane_of(key: int, lane_key: Int32s, lane: int) -> int:
    """Return the first lane from `lane` on whose key is not below a key; O(log of the distance)."""
    step = 1
    high = lane
    while high < lane_key.size and lane_key[high] < key:
        lane = high + 1
        high += step
        step *= 2
    high = min(high, lane_key.size)
    while lane < high:
        middle = (lane + high) >> 1
        if lane_key[middle] < key:
            lane = middle + 1
        else:
            high = middle
    return lane


@kernel
def count_intervals(
    events: tuple[Int32s, Int64s, Floats, Int64s],
    lane_key: Int32s,
    grid: tuple[Int64s, Floats, Floats, Int32s],
    bounds: Floats,
    rows: Watched,
    flags: Flags,
    ranks: Int64s,
    scratch: tuple[Int64s, Int64s, Int64s, Int64s],
    out: Int64s,
    hard: Int64s,
) -> tuple[Int64s, int, Int64s, int, int, int]:
    """Count a batch's weight; write which rows fire at which events.

    Cost: a rank and about 200 additions an event; some 100 ns a node of a tree in which a row could
    fire, of which there are a few for each row that does.

    Parameters
    ----------
    events : group keys, group starts, values, weights; no sum of them passes `HEAVIEST`
    lane_key : keys of the lanes, ascending; one of -1 without
    ranks : written, the rank of each event
    scratch : levels, nodes, rows that are due, weights by rank (all 0)
    out : fires, as `FIRE_WORDS` numbers each: event, row, weight seen
    hard : group, lane and row of rows that fire in lanes where a search structure pays

    Returns
    -------
    out and hard or larger copies, and how many each holds; how many nodes were looked at; the
    weight of all events
    """
    group_key, group_start, values, weight = events
    levels, nodes, due, counts = scratch
    keyed = lane_key[0] >= 0
    fires, left_over, looked, carried = 0, 0, 0, 0
    lane = 0
    for group in range(group_key.size):
        if keyed:
            lane = lane_of(group_key[group], lane_key, lane)
            if lane == lane_key.size:
                break
            if lane_key[lane] != group_key[group]:
                continue
        begin, end = group_start[group], group_start[group + 1]
        first = rows.sums.start[lane, 0]
        rank_of_lane(values, begin, end, lane, grid, bounds, first, ranks)
        for i in range(begin, end):
            carried += weight[i]
        if (end - begin) * PASS_RANKS > rows.sums.start[lane + 1, 0] - first and end - begin > 1:
            add_many(ranks, weight, begin, end, lane, rows.sums, counts)
        else:
            for i in range(begin, end):
                if ranks[i] >= 0:
                    add_one(ranks[i], weight[i], lane, rows.sums)
        if not could_fire(lane, rows):
            continue
        found, seen = look_for_due(lane, rows, flags, (levels, nodes), due)
        looked += seen
        if (end - begin) * found > SCANNED and end - begin > SMALL_LANE:
            for k in range(found):
                hard = note_fire(group, lane, due[k], hard, left_over)
                left_over += 1
        else:
            out, fires = scan_fires(
                lane, due, found, begin, end, ranks, weight, rows, levels, out, fires
            )
    return out, fires, hard, left_over, looked, carried


def neighbours_first(lane: Int64s, first: Int64s, last: Int64s) -> Int64s:
    """Return an order of rows by lane in which those with similar intervals stand together.

    The bits of both ends take turns (a Z-order). Intervals of one length are in order of their ends.

    Parameters
    ----------
    lane, first, last : int64, a row
        Its lane's number, and its ends as ranks of the lane.
    """
    bits = int(last.max(initial=1)).bit_length()
    spare = 63 - int(lane.max(initial=0)).bit_length()
    lost = max(0, bits - spare // 2)  # of each end; what is lost makes groups wider, and no more
    place = _spread(first >> lost) << 1 | _spread(last >> lost)
    order: Int64s = np.argsort(lane << 2 * (bits - lost) | place, kind="stable")
    return order


def _spread(bits: Int64s) -> Int64s:
    """Return numbers of up to 31 bits with a 0 in front of each bit."""
    for shift, mask in (
        (16, 0x0000_FFFF_0000_FFFF),
        (8, 0x00FF_00FF_00FF_00FF),
        (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ):
        bits = (bits | bits << shift) & mask
    return bits


@dataclass(slots=True)
class IntervalTotals:
    """Intervals of one attribute, and what each of them still lacks.

    Attributes
    ----------
    rows : Rows
        In order of lane, those with similar intervals together.
    lane_key : int32, a lane
    bounds : float64
        The ends of each lane's intervals, ascending.
    grid : see `everquery.index.cei`
    watched : Watched
    share : float
        The part of its lane's ends that an interval spans, on average.
    spent_ns : float
        What the last batch took, by the events and nodes that were looked at.
    """

    rows: Rows
    lane_key: Int32s
    bounds: Floats
    grid: tuple[Int64s, Floats, Floats, Int32s]
    watched: Watched
    share: float
    spent_ns: float
    _scratch: tuple[Int64s, Int64s, Int64s, Int64s] = field(repr=False)
    _carried: int = 0  # weight that the sums hold
    _behind: bool = False  # whether rows have not been told of it

    @classmethod
    def build(cls, rows: Rows) -> IntervalTotals:
        """Rank the ends of all rows; they lack nothing yet, see `Lefts`."""
        if rows.shape.keyed:
            rows = rows.take(np.argsort(rows.key, kind="stable"))
        lane_key, lane_first = np.unique(rows.key, return_index=True)
        row_start = np.append(lane_first, len(rows)).astype(np.int64)
        lane_size = np.diff(row_start)
        bounds, rank_start, first, last = rank_ends(rows.low[0], rows.high[0], lane_size)
        lane = np.repeat(np.arange(lane_key.size), lane_size)
        base = rank_start[lane]
        first, last = first - base, last - base
        order = neighbours_first(lane, first, last)
        rows = rows.take(order)
        grid_start, grid_low, grid_scale = plan_grid(bounds, rank_start)
        bucket_rank = np.empty(grid_start[-1], np.int32)
        fill_buckets(bounds, rank_start, grid_start, grid_low, grid_scale, bucket_rank)
        watched = Watched(
            row_start,
            first[order].astype(np.int32),
            last[order].astype(np.int32),
            rows.slot,
            Lefts.none(len(rows)),
            np.zeros(len(rows), np.int64),
            SlackTrees.of(row_start),
            RunningSums.of(rank_start),
        )
        bound_nodes(watched)
        nodes, most = np.diff(watched.trees.start).max(), lane_size.max()
        widest = np.diff(rank_start).max()
        return cls(
            rows=rows,
            lane_key=lane_key,
            bounds=bounds,
            grid=(grid_start, grid_low, grid_scale, bucket_rank),
            watched=watched,
            share=float((last - first).sum()) / (len(rows) * bounds.size / lane_key.size),
            spent_ns=0.0,
            _scratch=(
                np.empty(2 * MOST_LEVELS, np.int64),
                np.empty(nodes, np.int64),
                np.empty(most, np.int64),
                np.zeros(widest, np.int64),
            ),
        )

    @property
    def lefts(self) -> Lefts:
        """What each row lacks, when it was last added up."""
        return self.watched.lefts

    @property
    def row_start(self) -> Int64s:
        """Where each lane's rows begin."""
        return self.watched.row_start

    def count(self, events: WeighedEvents, flags: Flags) -> Fires:
        """Count events; return which rows fire at which of them, in no order."""
        values = np.ascontiguousarray(events.values[self.rows.shape.attributes[0]])
        ranks = np.empty(values.size, np.int64)
        out, n, hard, left_over, looked, weight = count_intervals(
            (events.key, events.start, values, events.weight),
            self.lane_key,
            self.grid,
            self.bounds,
            self.watched,
            flags,
            ranks,
            self._scratch,
            np.empty(FIRE_WORDS * 64, np.int64),
            np.empty(FIRE_WORDS * 64, np.int64),
        )
        self._behind = True
        self.spent_ns = values.size * EVENT_NS + looked * (NODE_NS + FAN * ROW_NS)
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
        ends = self.watched.first[rows], self.watched.last[rows]
        runs = np.searchsorted(found.rank, ends[0]), np.searchsorted(found.rank, ends[1])
        return pass_rows(lane, rows, begin, runs, found.zeros, found.weight, self.watched, out, n)

    def _begin_anew(self) -> None:
        """Let the sums begin at 0 again."""
        self.add_up()
        self.watched.sums.clear()
        self.watched.since[:] = 0
        self._carried = 0
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
        watched = self.watched
        lane = int(np.searchsorted(watched.row_start, row, "right")) - 1
        size = int(watched.row_start[lane + 1] - watched.row_start[lane])
        ranks = int(watched.sums.start[lane + 1, 0] - watched.sums.start[lane, 0])
        share = float(watched.last[row] - watched.first[row]) / ranks
        slack = slack_of(lane, watched)
        path = f"prefix sums over {ranks:,} ends, once {slack:,} more has come"
        return Explained(path, self.rows.shape.attributes, share, 0.0, size, len(self.rows))

    def renumbered(self, slots: Int32s) -> IntervalTotals:
        """Return the same with other slots, given by the present ones."""
        rows = self.rows.renumbered(slots)
        return replace(self, rows=rows, watched=self.watched._replace(slot=rows.slot))

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        watched = self.watched
        return total_bytes(
            *self.rows.arrays(), self.lane_key, self.bounds, *self.grid, watched.row_start,
            watched.first, watched.last, *watched.lefts, watched.since, *watched.trees,
            *watched.sums, *self._scratch,
        )  # fmt: skip
