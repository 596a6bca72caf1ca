"""Plays one workload through all contestants: told the same first, then timed in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness import Stopwatch, Timing, check_count
from benchmarks.rivals.contestant import Contestant
from benchmarks.rivals.work import Events, Work

LIMIT_S = 20.0  # a call that takes longer, or is expected to, is left out
BUDGET_S = 0.35  # of a contestant in a cell, after which it sits out the rest
BLOCKS = 3  # a contestant takes so many batches in a row, so that it finds its data in the cache

Builder = Callable[[Any], Contestant]


@dataclass(frozen=True)
class Pace:
    """How many batches of a size are played: some to compare, then some to time."""

    size: int
    compared: int
    timed: int


@dataclass
class Cell:
    """What one size of batches showed: the seconds of a call, or why there are none.

    The seconds are the median of a block, of the least disturbed one.
    """

    size: int
    told: float = 0.0  # an event, of all that were played
    seconds: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def rate(self, name: str) -> float | None:
        """Return events a second."""
        seconds = self.seconds.get(name)
        return None if seconds is None else self.size / seconds


class Contest:
    """Contestants over one workload.

    Parameters
    ----------
    work : Work
    builders : of the contestants; the others are compared with the first one
    reference : name of the second one, which plays every batch too, for others to catch up with
    """

    def __init__(self, work: Work, builders: Sequence[Builder], reference: str) -> None:
        self._work = work
        self._playing = {each.name: each for each in (build(work) for build in builders)}
        self._leader = next(iter(self._playing.values()))
        self._reference = self._playing[reference]
        self._reference.plays_all = True
        self._calls: dict[str, list[tuple[int, float]]] = {name: [] for name in self._playing}

    def play(self, pace: Pace) -> Cell:
        """Play batches of one size."""
        cell = Cell(pace.size)
        playing = self._allowed(cell)
        self._compare(pace, playing)
        blocks: dict[str, list[Timing]] = {contestant.name: [] for contestant in playing}
        told = events = 0
        for block in range(BLOCKS):
            batches = [self._work.take(pace.size) for _ in range(block, pace.timed, BLOCKS)]
            counts: list[int] = []
            for contestant in playing:
                done = blocks[contestant.name]
                slow = len(done) > 1 and sum(timing.total for timing in done) > 2 * BUDGET_S
                if contestant.plays_all or not slow:
                    done.append(self._play_block(contestant, batches, counts))
            told, events = told + sum(counts), events + pace.size * len(counts)
        for name, done in blocks.items():
            cell.seconds[name] = min(timing.median for timing in done)
            self._calls[name].append((pace.size, cell.seconds[name]))
        cell.told = told / events
        self._settle()
        return cell

    def close(self) -> None:
        """Let go of all contestants."""
        for contestant in self._playing.values():
            contestant.close()

    def _allowed(self, cell: Cell) -> list[Contestant]:
        """Return who plays, and note why others do not."""
        allowed = []
        for name, contestant in self._playing.items():
            largest = contestant.largest_batch
            expected = 0.0 if contestant.plays_all else self._expected(contestant, cell.size)
            if largest is not None and cell.size > largest:
                cell.left_out[name] = f"takes {largest} event a call"
            elif expected > LIMIT_S:
                cell.left_out[name] = f"left out: {expected:,.0f} s a call expected"
            else:
                allowed.append(contestant)
        return allowed

    def _expected(self, contestant: Contestant, size: int) -> float:
        """Return what a call should take; where that is too much, a tenth of it is tried first.

        Small batches differ by little, so that the line through them says little of large ones.
        """
        expected = expected_seconds(self._calls[contestant.name], size)
        if not LIMIT_S < expected < 10 * LIMIT_S:
            return expected
        watch = Stopwatch()
        watch(contestant.process, contestant.prepare(self._work.take(-(-size // 10))))
        contestant.catch_up(self._reference)
        return min(expected, 10 * watch.timing.total)

    def _compare(self, pace: Pace, playing: Sequence[Contestant]) -> None:
        """Raise unless all tell the same of the same events; nothing has been timed yet."""
        batches = [self._work.take(pace.size) for _ in range(pace.compared)]
        expected = []
        for contestant in playing:
            watch = Stopwatch()
            for number, events in enumerate(batches):
                if watch.timing.total > BUDGET_S and not contestant.plays_all:
                    break
                found = watch(contestant.process, contestant.prepare(events))
                told = contestant.told(found, events)
                check_count(
                    f"columns of {contestant.name}", told.query.size, contestant.count(found)
                )
                if contestant is self._leader:
                    expected.append(told)
                told.check(contestant.name, expected[number], named=contestant.names_events)
        self._settle()

    def _play_block(
        self, contestant: Contestant, batches: list[Events], counts: list[int]
    ) -> Timing:
        """Time one contestant; the first one says how many batches the others may play."""
        watch = Stopwatch()
        leads = contestant is self._leader
        for number, events in enumerate(batches if leads else batches[: len(counts)]):
            enough = number > 0 and watch.timing.total > BUDGET_S / BLOCKS
            if enough and (leads or not contestant.plays_all):
                break
            found = watch(contestant.process, contestant.prepare(events))
            if leads:
                counts.append(contestant.count(found))
            check_count(f"told by {contestant.name}", counts[number], contestant.count(found))
        if not contestant.plays_all:
            contestant.catch_up(self._reference)
        return watch.timing

    def _settle(self) -> None:
        for contestant in self._playing.values():
            if not contestant.plays_all:
                contestant.catch_up(self._reference)


def expected_seconds(calls: Sequence[tuple[int, float]], size: int) -> float:
    """Return what a call of this size should take, by the two largest sizes before it."""
    if len(calls) < 2:
        return 0.0
    (fewer, short), (more, longer) = calls[-2:]
    slope = max(0.0, longer - short) / (more - fewer)
    return longer + slope * (size - more)
