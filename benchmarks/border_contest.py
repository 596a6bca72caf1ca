"""Our region-segment lists and DiffRMQ on the same stream: what each crossing costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchmarks.diff_rmq import DiffRMQ, Grouping, NclsStabber, OurStabber
from benchmarks.harness import Scale, Stopwatch, check_count, check_equal
from benchmarks.papers.virtual_constructs import ContainmentIntervals
from benchmarks.workloads import PRICES, Feed, border_bounds, content_wide
from everquery.core.arrays import Floats, Int32s, Int64s
from everquery.index.rows import Grouped, Rows, Step
from everquery.kinds.border.region_segments import RegionSegments

OURS = "everquery"
TWICE = "DiffRMQ, own range index"
REMEMBERING = "DiffRMQ, own, remembering"
NCLS = "DiffRMQ, ncls"
CONTESTANTS = (OURS, TWICE, REMEMBERING, NCLS)
PAPERS_CEI = "the paper's CEI, L = 16"
BUDGET_S = 1.5  # of a contestant in one setting, which is at least two batches


@dataclass(frozen=True, order=True)
class Point:
    """One setting: queries, their width and the fluctuation level as shares of the domain."""

    queries: int
    width: float = 0.001
    fluctuation: float = 0.0001


@dataclass(frozen=True)
class Measured:
    """What one setting showed, by contestant."""

    ns: dict[str, float]
    spread: dict[str, float]
    efficiency: dict[str, float]
    nbytes: dict[str, float]
    notices: float


class Contestant(Protocol):
    """What takes batches of interleaved events and writes crossings."""

    crossings: Int64s
    looked_at: int

    def first_sight(self, key: Int32s, value: Floats) -> None:
        """Take in where each stream begins."""

    def process(self, key: Int32s, value: Floats) -> int:
        """Write the crossings of a batch; return how many."""

    def nbytes(self) -> int:
        """Return the bytes of the structures."""


class OurBorders:
    """Our index with the engine's grouping and stream table around it."""

    def __init__(self, rows: Rows, streams: int) -> None:
        self._segment = RegionSegments.build(rows)
        self._group = Grouping(streams)
        self._flags = np.ones(len(rows), np.uint16)
        self._seen = np.zeros(streams, np.uint8)
        self._last = np.zeros((1, streams))
        self.crossings: Int64s = np.empty(1 << 12, np.int64)
        self.looked_at = 0

    def first_sight(self, key: Int32s, value: Floats) -> None:
        """Take in where each stream begins."""
        self.process(key, value)
        self.looked_at = 0

    def process(self, key: Int32s, value: Floats) -> int:
        """Group the batch, walk, and remember the last values."""
        group_key, start, member = self._group(key)
        values = value[member][None]
        step = Step(
            Grouped(group_key, start, 2 * member + 1, values),
            np.zeros(key.size, np.uint8),
            self._seen,
            self._last,
            self._flags,
            all_live=True,
        )
        self._segment.make_room(step.seen.size)
        self.crossings, n, visited = self._segment.walk(step, self.crossings)
        self.looked_at += visited
        self._seen[group_key] = 1
        self._last[:, group_key] = values[:, start[1:] - 1]
        return n

    def nbytes(self) -> int:
        """Return the bytes of the lists and of the stream table."""
        return self._segment.nbytes() + self._seen.nbytes + self._last.nbytes


def measure(scale: Scale, point: Point, *, streams: int, ticks: int, size: int) -> Measured:
    """Let all contestants take the same batches in turns; compare what they write."""
    low, high = border_bounds(scale.generator(8), point.queries, point.width)
    feed = Feed.walk(
        scale.generator(9),
        streams=streams,
        ticks=ticks,
        fluctuation=point.fluctuation,
    )
    contestants = build(content_wide(low, high), streams)
    watches = {name: Stopwatch() for name in CONTESTANTS}
    first = feed.first_sight()
    for contestant in contestants.values():
        contestant.first_sight(first.key, first.value)
    events, notices = 0, dict.fromkeys(CONTESTANTS, 0)
    for turn, batch in enumerate(feed.batches(size)):
        written = {}
        for name, contestant in contestants.items():
            if turn < 3 or watches[name].timing.total < BUDGET_S:
                watch = watches[name] if turn else Stopwatch()
                written[name] = watch(contestant.process, batch.key, batch.value)
                notices[name] += written[name]
        compare(contestants, written, exactly=turn == 0)
        if OURS in written:
            events += size
    papers = papers_cei(low, high)
    return Measured(
        ns={name: watch.timing.median / size * 1e9 for name, watch in watches.items()},
        spread={name: watch.timing.spread for name, watch in watches.items()},
        efficiency={n: 100 * notices[n] / max(1, c.looked_at) for n, c in contestants.items()},
        nbytes={**{name: c.nbytes() for name, c in contestants.items()}, PAPERS_CEI: papers},
        notices=notices[OURS] / events,
    )


def build(rows: Rows, streams: int) -> dict[str, Contestant]:
    """Return the contestants over the same queries."""
    n = len(rows)
    own = OurStabber(rows)
    return {
        OURS: OurBorders(rows, streams),
        TWICE: DiffRMQ(own, queries=n, streams=streams, remember=False),
        REMEMBERING: DiffRMQ(own, queries=n, streams=streams, remember=True),
        NCLS: DiffRMQ(NclsStabber(rows), queries=n, streams=streams, remember=False),
    }


def compare(contestants: dict[str, Contestant], written: dict[str, int], *, exactly: bool) -> None:
    """Raise unless all wrote the same crossings; their number only, unless `exactly`."""
    names = list(written)
    for name in names[1:]:
        check_count(f"crossings of {name}", written[names[0]], written[name])
    if exactly:
        expected, *others = (
            np.sort(c.crossings[: written[name]]) for name, c in contestants.items()
        )
        for name, found in zip(names[1:], others, strict=True):
            check_equal(f"crossings of {name}", expected, found)


def papers_cei(low: Floats, high: Floats) -> float:
    """Return the bytes of the index that the paper put under DiffRMQ."""
    index = ContainmentIntervals.build(
        low.astype(np.int64), high.astype(np.int64), domain=PRICES, length=16
    )
    return float(index.nbytes())
