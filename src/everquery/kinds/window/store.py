"""All lanes of one family of statistics: how events come in, and what is told of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from everquery.core.arrays import Array, Int64s, total_bytes
from everquery.index.access_paths import BoxSegment
from everquery.index.flags import Flags
from everquery.kinds.window.bucket_taking import DONE, NEGATIVE, take_buckets
from everquery.kinds.window.bucket_telling import ask_buckets, look_at_buckets
from everquery.kinds.window.families import COUNT_BUCKETS, VALUE_SAMPLES
from everquery.kinds.window.grouped_queries import GroupedQueries
from everquery.kinds.window.runs import RUN, TOLD, Runs
from everquery.kinds.window.sample_taking import take_samples
from everquery.kinds.window.taking import take_runs
from everquery.kinds.window.telling import Told, ask_lane, look_again
from everquery.state.pairs import SLOT_MASK


class Store(GroupedQueries):
    """The lanes of one family; see `GroupedQueries`."""

    def take(self, runs: Runs, marks: Array, values: Array, flags: Flags) -> Told:
        """Take events in; return what is told."""
        self.counts[RUN:] = 0, -1, 0, 0
        if self.layout >= COUNT_BUCKETS:
            self._take_buckets(runs, marks, values)
            return self._look_at_buckets(runs.lane, runs.end - 1, self.never, flags)
        if self.layout >= VALUE_SAMPLES:
            self._take_samples(runs, marks, values)
            return self._look_again(runs.lane, runs.end - 1, self.never, flags)
        told = Told.room(64, self.dtype)
        while True:
            done, told = take_runs(
                self.layout, self.name.timed, self.name.exact, runs, marks, values, flags,
                self.groups, self.members, self.lanes, self.pools, self.never, self.counts, told,
            )  # fmt: skip
            if done:
                return first_told(told, int(self.counts[TOLD]))
            self.make_room()

    def _take_buckets(self, runs: Runs, marks: Array, values: Array) -> None:
        while True:
            ending = take_buckets(
                self.layout, self.name.timed, runs, marks, values, self.groups, self.lanes,
                self.pools, self.counts,
            )  # fmt: skip
            if ending == DONE:
                return
            if ending == NEGATIVE:
                self.make_room_below_zero()
            else:
                self.make_room()

    def _take_samples(self, runs: Runs, marks: Array, values: Array) -> None:
        while not take_samples(
            self.layout, self.name.timed, runs, marks, values, self.groups, self.lanes, self.pools,
            self.counts,
        ):  # fmt: skip
            self.make_room()

    def ask(self, lane: int, statistic: int, window: Any, now: Any) -> tuple[Any, ...]:  # noqa: ANN401
        """Return what a window of a lane is now, and from when on it will be whole."""
        lanes = self.lanes
        seen, begun = lanes.seen[lane], lanes.begun[lane]
        if self.name.timed and now is not None:
            seen = max(seen, now) if lanes.limit[lane] else now
        extent = np.array([window, seen], self.dtype)
        if self.layout >= COUNT_BUCKETS:
            found = ask_buckets(self.layout, statistic, lane, extent, lanes, self.pools)
        else:
            error = float(self.groups.error[lanes.pair[lane] & SLOT_MASK])
            found = ask_lane(
                self.layout, statistic, self.name.exact, error, lane, extent, lanes, self.pools
            )
        missing = None
        if not self.name.timed:
            missing = int(window - (seen - begun)) if seen - begun < window else None
        elif begun > -self.never[0] and 0 <= seen - begun < window:
            missing = (begun + window).item()
        return *found, missing

    def close(self, now: Any, flags: Flags) -> Told:  # noqa: ANN401 - a mark
        """Return what is told of windows of time that have changed since time has come this far."""
        lanes, used = self.lanes, self.used
        picked = np.flatnonzero((lanes.soonest[:used] <= now) & (lanes.limit[:used] > 0))
        if not picked.size:
            return Told.room(0, self.dtype)
        until = np.full(1, now, self.dtype)
        if self.layout >= COUNT_BUCKETS:
            return self._look_at_buckets(picked, np.zeros(0, np.int64), until, flags)
        return self._look_again(picked, np.zeros(0, np.int64), until, flags)

    def _look_again(self, lanes: Int64s, places: Int64s, now: Array, flags: Flags) -> Told:
        n, told = look_again(
            self.layout, self.name.timed, self.name.exact, lanes, places, now, flags, self.members,
            self.lanes, self.pools, self.never, Told.room(64, self.dtype),
        )  # fmt: skip
        return first_told(told, n)

    def _look_at_buckets(self, lanes: Int64s, places: Int64s, now: Array, flags: Flags) -> Told:
        group, start = self.lanes.pair[lanes] & SLOT_MASK, self.members.start
        most = int((start[group + 1] - start[group]).sum())
        told = Told.room(most, self.dtype)
        n = look_at_buckets(
            self.layout, self.name.timed, lanes, places, now, flags, self.members, self.lanes,
            self.pools, self.never, told,
        )  # fmt: skip
        return first_told(told, n)

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return self.lane_bytes() + total_bytes(*self.groups) + self.boxes.nbytes()

    def searched(self) -> Iterator[BoxSegment]:
        """Yield the segments that find events for groups."""
        yield from self.boxes


def first_told(told: Told, n: int) -> Told:
    """Return the first `n` of what was told, as rows."""
    numbers, figures = told.numbers[: 5 * n].reshape(n, 5), told.figures[: 3 * n].reshape(n, 3)
    return Told(numbers, figures, told.moment[:n])
