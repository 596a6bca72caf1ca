"""Weight seen by intervals of one attribute, a batch at a time: the kind `threshold` on one axis.

The paper (range-thresholding) counts element by element. With a batch in hand the weights are
added up by the ranks of the intervals' ends, and what every interval gained is the difference of
two prefix sums, however many events there were. Most batches need not even that: a lane keeps how
much weight it can take before any of its intervals could fire, and only adds up until then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from everquery.core.arrays import Floats, Int32s, Int64s, total_bytes
from everquery.core.jit import kernel
from everquery.index.cei import bucket_of, fill_buckets, plan_grid, rank_ends, rank_in_bucket
from everquery.index.flags import LIVE, LIVE_MASK, Flags
from everquery.index.kind import Explained
from everquery.index.rows import Rows
from everquery.index.weighed import (
    ENDLESS,
    FIRE_WORDS,
    NEVER,
    SMALL_LANE,
    Fires,
    Lefts,
    WeighedEvents,
    note_fire,
    saturated,
)
from everquery.kinds.threshold.first_passage import first_reaching, passages, weight_until

EVENT_NS, ROW_NS = 50.0, 8.0
FEW_EVENTS = 8  # of a lane in a batch, up to which its rows are walked through for them
SCANNED = 1 << 16  # events looked at to find when rows fire, before a search structure pays


@kernel
def rank_of_lane(
    values: Floats, begin: int, end: int, lane: int,
    grid: tuple[Int64s, Floats, Floats, Int32s], bounds: Floats, ranks: Int64s,
) -> None:  # fmt: skip
    """Write the rank of each event's value among the lane's ends; one less than all if below."""
    grid_start, grid_low, grid_scale, bucket_rank = grid
    base = grid_start[lane]
    buckets = grid_start[lane + 1] - base - 1
    for i in range(begin, end):
        bucket = base + bucket_of(values[i], grid_low[lane], grid_scale[lane], buckets)
        ranks[i] = rank_in_bucket(values[i], bounds, bucket_rank[bucket], bucket_rank[bucket + 1])


@kernel
def add_up(counts: Int64s, begin: int, end: int, prefix: Int64s) -> None:
    """Write the prefix sums of a lane's counts, and clear them."""
    total = 0
    prefix[0] = 0
    for rank in range(begin, end):
        total += counts[rank]
        counts[rank] = 0
        prefix[rank - begin + 1] = total


@kernel
def walk_events(
    row: int, begin: int, end: int, rest: int, ranks: Int64s, weight: Int64s,
    intervals: tuple[Int32s, Int32s], lefts: Lefts, out: Int64s, n: int,
) -> tuple[Int64s, int]:  # fmt: skip
    """Take a row that lacks `rest` through events in order; write where it fires.

    Sets what it lacks afterwards. Returns `out` or a larger copy, and how many fires it holds.
    """
    first, last = intervals[0][row], intervals[1][row]
    for i in range(begin, end):
        if first <= ranks[i] < last:
            rest -= weight[i]
            if rest <= 0:
                seen = saturated(lefts.total[row], rest)
                out = note_fire(i, row, seen, out, n)
                n += 1
                if not lefts.repeats[row]:
                    lefts.left[row] = NEVER
                    return out, n
                rest = lefts.total[row]
    lefts.left[row] = rest
    return out, n


@kernel
def walk_lane(
    rows: tuple[int, int], begin: int, end: int, ranks: Int64s, weight: Int64s,
    intervals: tuple[Int32s, Int32s], slot: Int32s, flags: Flags, lefts: Lefts, out: Int64s, n: int,
) -> tuple[Int64s, int, int]:  # fmt: skip
    """Take a lane's rows, all added up, through a few events; also return the least they lack."""
    lowest = ENDLESS
    for row in range(rows[0], rows[1]):
        rest = lefts.left[row]
        if rest == NEVER:
            continue
        for i in range(begin, end):
            inside = intervals[0][row] <= ranks[i] < intervals[1][row]
            rest -= weight[i] if inside else 0
        if rest > 0:
            lefts.left[row] = rest
        elif flags[slot[row]] & LIVE_MASK != LIVE:
            lefts.left[row] = NEVER
        else:
            out, n = walk_events(
                row, begin, end, lefts.left[row], ranks, weight, intervals, lefts, out, n
            )
        if lefts.left[row] != NEVER:
            lowest = min(lowest, lefts.left[row])
    return out, n, lowest


@kernel
def tell_lane(
    rows: tuple[int, int], base: int, prefix: Int64s, intervals: tuple[Int32s, Int32s],
    slot: Int32s, flags: Flags, lefts: Lefts, candidates: Int64s,
) -> tuple[int, int]:  # fmt: skip
    """Tell a lane's rows what they gained; list those that fire, as they were before.

    Returns how many fire, and the least that another one lacks.
    """
    lowest = ENDLESS
    found = 0
    for row in range(rows[0], rows[1]):
        rest = lefts.left[row]
        if rest == NEVER:
            continue
        rest -= prefix[intervals[1][row] - base] - prefix[intervals[0][row] - base]
        if rest > 0:
            lefts.left[row] = rest
            lowest = min(lowest, rest)
        elif flags[slot[row]] & LIVE_MASK != LIVE:
            lefts.left[row] = NEVER
        else:
            candidates[found] = row
            found += 1
    return found, lowest


@kernel
def scan_fires(
    candidates: Int64s, found: int, base: int, begin: int, end: int, prefix: Int64s, ranks: Int64s,
    weight: Int64s, intervals: tuple[Int32s, Int32s], lefts: Lefts, out: Int64s, n: int,
) -> tuple[Int64s, int, int]:  # fmt: skip
    """Find when rows fire by scanning the events; also return the least that one lacks then.

    A row's gain may be of earlier batches in part: what it lacked in front of this one is less.
    """
    lowest = ENDLESS
    for k in range(found):
        row = candidates[k]
        gain = prefix[intervals[1][row] - base] - prefix[intervals[0][row] - base]
        here = 0
        for i in range(begin, end):
            inside = intervals[0][row] <= ranks[i] < intervals[1][row]
            here += weight[i] if inside else 0
        rest = lefts.left[row] - (gain - here)
        out, n = walk_events(row, begin, end, rest, ranks, weight, intervals, lefts, out, n)
        if lefts.left[row] != NEVER:
            lowest = min(lowest, lefts.left[row])
    return out, n, lowest


@kernel
def count_intervals(
    events: tuple[Int32s, Int64s, Floats, Int64s],
    lanes: tuple[Int32s, Int64s, Int64s],
    grid: tuple[Int64s, Floats, Floats, Int32s],
    bounds: Floats,
    intervals: tuple[Int32s, Int32s],
    slot: Int32s,
    flags: Flags,
    lefts: Lefts,
    counts: Int64s,
    slack: Int64s,
    scratch: tuple[Int64s, Int64s, Int64s],
    out: Int64s,
    hard: Int64s,
) -> tuple[Int64s, int, Int64s, int, int]:
    """Count a batch's weight; write which rows fire at which events.

    Cost: a rank an event; for lanes where a row could fire, a few nanoseconds a row and end.

    Parameters
    ----------
    events : group keys, group starts, values, weights; no sum of a group passes `HEAVIEST`
    lanes : keys (one of -1 without), first row and first rank of each lane
    intervals : first and last rank of each row, as `rank_ends` gives them
    counts : weight by rank that rows have not been told of
    slack : weight that each lane can take before any row could fire
    scratch : ranks of events, prefix sums, candidates
    out : fires, as `FIRE_WORDS` numbers each: event, row, weight seen
    hard : group, row and gain of rows that fire in lanes where a search structure pays

    Returns
    -------
    out and hard or larger copies, and how many each holds; how many rows were looked at
    """
    group_key, group_start, values, weight = events
    lane_key, row_start, rank_start = lanes
    ranks, prefix, candidates = scratch
    keyed = lane_key[0] >= 0
    fires = 0
    left_over = 0
    looked = 0
    lane = 0
    for group in range(group_key.size):
        if keyed:
            while lane < lane_key.size and lane_key[lane] < group_key[group]:
                lane += 1
            if lane == lane_key.size:
                break
            if lane_key[lane] != group_key[group]:
                continue
        begin, end = group_start[group], group_start[group + 1]
        weighs = 0
        for i in range(begin, end):
            weighs += weight[i]
        base = rank_start[lane]
        rank_of_lane(values, begin, end, lane, grid, bounds, ranks)
        rows = row_start[lane], row_start[lane + 1]
        looks = weighs >= slack[lane]
        if looks:
            looked += rows[1] - rows[0]
        if looks and end - begin <= FEW_EVENTS and lefts.added_up[lane]:
            out, fires, slack[lane] = walk_lane(
                rows, begin, end, ranks, weight, intervals, slot, flags, lefts, out, fires
            )
            continue
        for i in range(begin, end):
            if ranks[i] >= base:
                counts[ranks[i]] += weight[i]
        lefts.added_up[lane] = looks
        if not looks:
            slack[lane] -= weighs
            continue
        add_up(counts, base, rank_start[lane + 1], prefix)
        found, lowest = tell_lane(rows, base, prefix, intervals, slot, flags, lefts, candidates)
        if (end - begin) * found > SCANNED and end - begin > SMALL_LANE:
            for k in range(found):
                row = candidates[k]
                gain = prefix[intervals[1][row] - base] - prefix[intervals[0][row] - base]
                hard = note_fire(group, row, gain, hard, left_over)
                left_over += 1
        else:
            out, fires, least = scan_fires(
                candidates, found, base, begin, end, prefix, ranks, weight, intervals, lefts, out,
                fires,
            )  # fmt: skip
            lowest = min(lowest, least)
        slack[lane] = lowest
    return out, fires, hard, left_over, looked


@kernel
def pass_rows(
    rows: Int64s, gain: Int64s, first_event: int, runs: tuple[Int64s, Int64s], zeros: Int32s,
    sums: Int64s, lefts: Lefts, out: Int64s, n: int,
) -> tuple[Int64s, int, int]:  # fmt: skip
    """Do what `walk_events` does, by `first_passage`; also return the least that a row lacks."""
    lowest = ENDLESS
    for k in range(rows.size):
        row = rows[k]
        begin, end = runs[0][k], runs[1][k]
        here = sums[0, end] - sums[0, begin]
        rest = lefts.left[row] - (gain[k] - here)
        spent = 0
        while here - spent >= rest:
            event = first_reaching(begin, end, spent + rest, zeros, sums)
            until = weight_until(begin, end, event, zeros, sums)
            rest -= until - spent
            seen = saturated(lefts.total[row], rest)
            out = note_fire(first_event + event, row, seen, out, n)
            n += 1
            spent = until
            if not lefts.repeats[row]:
                break
            rest = lefts.total[row]
        if here - spent < rest and (lefts.repeats[row] or spent == 0):
            lefts.left[row] = rest - (here - spent)
            lowest = min(lowest, lefts.left[row])
        else:
            lefts.left[row] = NEVER
    return out, n, lowest


@kernel
def add_up_lanes(
    lanes: tuple[Int64s, Int64s], intervals: tuple[Int32s, Int32s], lefts: Lefts, counts: Int64s,
    prefix: Int64s,
) -> None:  # fmt: skip
    """Tell rows of the weight that lanes have added up; none of them can fire by it."""
    row_start, rank_start = lanes
    for lane in range(row_start.size - 1):
        if lefts.added_up[lane]:
            continue
        base = rank_start[lane]
        add_up(counts, base, rank_start[lane + 1], prefix)
        for row in range(row_start[lane], row_start[lane + 1]):
            if lefts.left[row] != NEVER:
                gain = prefix[intervals[1][row] - base] - prefix[intervals[0][row] - base]
                lefts.left[row] -= gain
        lefts.added_up[lane] = 1


@dataclass(slots=True)
class IntervalTotals:
    """Intervals of one attribute, and what each of them still lacks.

    Attributes
    ----------
    rows : Rows
        In order of lane and lower end.
    lefts : Lefts
    slack : int64, a lane
    share : float
        The part of its lane's ends that an interval spans, on average.
    spent_ns : float
        What the last batch took, by the events and rows that were looked at.
    """

    rows: Rows
    lane_key: Int32s
    row_start: Int64s
    rank_start: Int64s
    bounds: Floats
    grid: tuple[Int64s, Floats, Floats, Int32s]
    intervals: tuple[Int32s, Int32s]
    lefts: Lefts
    slack: Int64s
    counts: Int64s
    share: float
    spent_ns: float
    _scratch: tuple[Int64s, Int64s] = field(repr=False)

    @classmethod
    def build(cls, rows: Rows) -> IntervalTotals:
        """Rank the ends of all rows; they lack nothing yet, see `Lefts`."""
        rows = rows.take(np.lexsort((rows.low[0], rows.key)))
        lane_key, lane_first = np.unique(rows.key, return_index=True)
        row_start = np.append(lane_first, len(rows)).astype(np.int64)
        bounds, rank_start, first, last = rank_ends(rows.low[0], rows.high[0], np.diff(row_start))
        grid_start, grid_low, grid_scale = plan_grid(bounds, rank_start)
        bucket_rank = np.empty(grid_start[-1], np.int32)
        fill_buckets(bounds, rank_start, grid_start, grid_low, grid_scale, bucket_rank)
        widest = int(np.diff(rank_start).max(initial=0)) + 1
        most = int(np.diff(row_start).max(initial=0))
        return cls(
            rows=rows,
            lane_key=lane_key,
            row_start=row_start,
            rank_start=rank_start,
            bounds=bounds,
            grid=(grid_start, grid_low, grid_scale, bucket_rank),
            intervals=(first.astype(np.int32), last.astype(np.int32)),
            lefts=Lefts.none(len(rows), lane_key.size),
            slack=np.zeros(lane_key.size, np.int64),
            counts=np.zeros(bounds.size, np.int64),
            share=float((last - first).sum()) / (len(rows) * bounds.size / lane_key.size),
            spent_ns=0.0,
            _scratch=(np.empty(widest, np.int64), np.empty(most, np.int64)),
        )

    def count(self, events: WeighedEvents, flags: Flags) -> Fires:
        """Count events; return which rows fire at which of them, in no order."""
        attribute = self.rows.shape.attributes[0]
        values = np.ascontiguousarray(events.values[attribute])
        ranks = np.empty(values.size, np.int64)
        out, n, hard, left_over, looked = count_intervals(
            (events.key, events.start, values, events.weight),
            (self.lane_key, self.row_start, self.rank_start),
            self.grid,
            self.bounds,
            self.intervals,
            self.rows.slot,
            flags,
            self.lefts,
            self.counts,
            self.slack,
            (ranks, *self._scratch),
            np.empty(FIRE_WORDS * 64, np.int64),
            np.empty(3 * 64, np.int64),
        )
        self.spent_ns = values.size * EVENT_NS + looked * ROW_NS
        if left_over:
            groups, rows, gains = hard[: 3 * left_over].reshape(-1, 3).T
            for group in np.unique(groups):
                picked = np.flatnonzero(groups == group)
                out, n = self._pass(events, ranks, int(group), rows[picked], gains[picked], out, n)
        return Fires.of_words(out, n)

    def _pass(
        self,
        events: WeighedEvents,
        ranks: Int64s,
        group: int,
        rows: Int64s,
        gains: Int64s,
        out: Int64s,
        n: int,
    ) -> tuple[Int64s, int]:
        """Find when rows of one lane fire, by a search structure over its events."""
        begin, end = int(events.start[group]), int(events.start[group + 1])
        found = passages(ranks[begin:end], events.weight[begin:end])
        runs = tuple(np.searchsorted(found.rank, side[rows]) for side in self.intervals)
        out, n, lowest = pass_rows(
            rows.copy(), gains.copy(), begin, (runs[0], runs[1]), found.zeros, found.weight,
            self.lefts, out, n,
        )  # fmt: skip
        keyed = self.rows.shape.keyed
        lane = np.searchsorted(self.lane_key, events.key[group]) if keyed else 0
        self.slack[lane] = min(self.slack[lane], lowest)
        return out, n

    def expected_ns(self, events: int) -> float:
        """Return what a batch may take at most."""
        return events * EVENT_NS + len(self.rows) * ROW_NS

    def add_up(self) -> None:
        """Bring what every row lacks up to date."""
        if not self.lefts.added_up.all():
            add_up_lanes(
                (self.row_start, self.rank_start), self.intervals, self.lefts, self.counts,
                self._scratch[0],
            )  # fmt: skip

    def expect(self, lowest: Int64s) -> None:
        """Note the least that a row of each lane lacks now; all lanes are added up."""
        self.slack[:] = lowest

    def explain(self, row: int) -> Explained:
        """Return how a row is told of weight, and what it costs."""
        lane = int(np.searchsorted(self.row_start, row, "right")) - 1
        size = int(self.row_start[lane + 1] - self.row_start[lane])
        ranks = int(self.rank_start[lane + 1] - self.rank_start[lane])
        share = float(self.intervals[1][row] - self.intervals[0][row]) / ranks
        path = f"prefix sums over {ranks:,} ends, once {self.slack[lane]:,} more has come"
        return Explained(path, self.rows.shape.attributes, share, 0.0, size, len(self.rows))

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return total_bytes(
            *self.rows.arrays(), self.lane_key, self.row_start, self.rank_start, self.bounds,
            *self.grid, *self.intervals, *self.lefts, self.slack, self.counts, *self._scratch,
        )  # fmt: skip
