"""bmq-index Figures 6 to 9: our region-segment lists beside DiffRMQ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchmarks.diff_rmq import DiffRMQ, Grouping, NclsStabber, OurStabber
from benchmarks.findings import Curves, Figure, Findings, Panel, Table
from benchmarks.harness import Scale, Stopwatch, check_count, check_equal
from benchmarks.workloads import PRICES, Feed, border_bounds, content_wide
from everquery.index.arrays import Bytes, Floats, Int32s, Int64s
from everquery.index.region_segments import RegionSegments
from everquery.index.rows import Grouped, Rows, Step
from everquery.index.virtual_constructs import ContainmentIntervals

NAME = "border_figures"
OURS = "everquery"
TWICE = "DiffRMQ, own range index"
REMEMBERING = "DiffRMQ, own, remembering"
NCLS = "DiffRMQ, ncls"
CONTESTANTS = (OURS, TWICE, REMEMBERING, NCLS)
PAPERS_CEI = "the paper's CEI, L = 16"


@dataclass(frozen=True)
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
    codes: Bytes
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
        self._flags = np.ones(len(rows), np.uint8)
        self._seen = np.zeros(streams, np.uint8)
        self._last = np.zeros((1, streams))
        self.crossings: Int64s = np.empty(1 << 12, np.int64)
        self.codes: Bytes = np.empty(1 << 12, np.uint8)
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
        self.crossings, self.codes, n, visited = self._segment.walk(
            step, self.crossings, self.codes
        )
        self.looked_at += visited
        self._seen[group_key] = 1
        self._last[:, group_key] = values[:, start[1:] - 1]
        return n

    def nbytes(self) -> int:
        """Return the bytes of the lists and of the stream table."""
        return self._segment.nbytes() + self._seen.nbytes + self._last.nbytes


def run(scale: Scale) -> Findings:
    """Measure all settings of the four figures; the setting that they share is measured once."""
    most = scale.pick(100_000, 2_000)
    tenths = scale.pick([1, 2, 4, 6, 8, 10], [1, 10])
    settings = {
        "6": [Point(most * tenth // 10) for tenth in tenths],
        "7": [Point(most, width=tenth / 10_000) for tenth in tenths],
        "8": [Point(most, fluctuation=tenth / 10_000) for tenth in tenths],
    }
    findings = Findings(
        {
            "D": PRICES,
            "streams": scale.pick(2_000, 50),
            "tuples_a_stream": scale.pick(1_000, 100),
            "batch": scale.pick(100_000, 1_000),
            "steps": "normal, with a mean size of FL * D, reflected at the domain's ends",
            "timing": "median over batches; grouping by stream, searching, writing out and"
            " remembering the last values are inside, first sights are not",
        }
    )
    done = {point: measure(scale, point, findings) for line in settings.values() for point in line}
    findings.figures = [
        effect_of_queries(settings["6"], done),
        effect_of_width(settings["7"], done),
        effect_of_fluctuation(settings["8"], done),
        storage_figure("9a", "N", settings["6"], done),
        storage_figure("9b", "W", settings["7"], done),
    ]
    ask(findings, settings, done)
    return findings


def measure(scale: Scale, point: Point, findings: Findings) -> Measured:
    """Let all contestants take the same batches in turns; compare what they write."""
    streams, size = findings.parameters["streams"], findings.parameters["batch"]
    low, high = border_bounds(scale.generator(8), point.queries, point.width)
    feed = Feed.walk(
        scale.generator(9),
        streams=streams,
        ticks=findings.parameters["tuples_a_stream"],
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
            if turn < 3 or watches[name].timing.total < 1.0:
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
            np.sort(c.crossings[: written[name]] << 1 | c.codes[: written[name]])
            for name, c in contestants.items()
        )
        for name, found in zip(names[1:], others, strict=True):
            check_equal(f"crossings of {name}", expected, found)


def papers_cei(low: Floats, high: Floats) -> float:
    """Return the bytes of the index that the paper put under DiffRMQ."""
    index = ContainmentIntervals.build(
        low.astype(np.int64), high.astype(np.int64), domain=PRICES, length=16
    )
    return float(index.nbytes())


def _figure(
    number: str,
    what: str,
    label: str,
    x: list[float],
    points: Sequence[Point],
    done: dict[Point, Measured],
    paper: str,
) -> Figure:
    efficiency, ns = Curves(CONTESTANTS), Curves(CONTESTANTS)
    for point in points:
        efficiency.add(done[point].efficiency)
        ns.add(done[point].ns)
    first, last = done[points[0]].ns, done[points[-1]].ns
    seen = " ".join(
        f"At {label} = {at:,g}: {_ratios(each)}." for at, each in ((x[0], first), (x[-1], last))
    )
    return Figure(
        name=f"bmq-{number}",
        title=f"bmq-index Figure {number}: {what}",
        x_label=label,
        x=x,
        panels=[
            Panel("search efficiency", "SE, %", efficiency.series, log_y=False),
            Panel("search, crossings written out", "ns an event", ns.series, log_y=False),
        ],
        paper=paper,
        seen=seen,
        log_x=False,
    )


def _ratios(ns: dict[str, float]) -> str:
    return ", ".join(
        f"{name} takes {ns[name] / ns[OURS]:.2f} times ours" for name in CONTESTANTS[1:]
    )


def effect_of_queries(points: Sequence[Point], done: dict[Point, Measured]) -> Figure:
    """Figure 6."""
    paper = (
        "SE of the BMQ-Index is 100% whatever N is, far above DiffRMQ's, whose search takes much"
        " longer. BMQ-Index takes slightly longer with more queries, for its larger result."
    )
    x = [float(point.queries) for point in points]
    title = "effect of the number of queries (W = 0.1%, FL = 0.01%)"
    return _figure("6", title, "N", x, points, done, paper)


def effect_of_width(points: Sequence[Point], done: dict[Point, Measured]) -> Figure:
    """Figure 7."""
    paper = (
        "DiffRMQ's SE falls fast as queries get wider, and its search takes longer; the BMQ-Index"
        " stays near 100% and takes constant time."
    )
    x = [100 * point.width for point in points]
    title = f"effect of the width of queries (N = {points[0].queries:,}, FL = 0.01%)"
    return _figure("7", title, "W, % of the domain", x, points, done, paper)


def effect_of_fluctuation(points: Sequence[Point], done: dict[Point, Measured]) -> Figure:
    """Figure 8."""
    paper = (
        "SE of the BMQ-Index falls slowly and DiffRMQ's rises as FL grows; the BMQ-Index searches"
        " faster as long as FL is below W, and is slightly slower where they are equal."
    )
    x = [100 * point.fluctuation for point in points]
    title = f"effect of the fluctuation level (N = {points[0].queries:,}, W = 0.1%)"
    return _figure("8", title, "FL, % of the domain", x, points, done, paper)


def storage_figure(
    number: str, label: str, points: Sequence[Point], done: dict[Point, Measured]
) -> Figure:
    """Figure 9."""
    names = (OURS, TWICE, NCLS, PAPERS_CEI)
    curves = Curves(names)
    for point in points:
        curves.add(done[point].nbytes)
    x = [float(p.queries) if label == "N" else 100 * p.width for p in points]
    ours = [done[point].nbytes[OURS] / point.queries for point in points]
    return Figure(
        name=f"bmq-{number}",
        title=f"bmq-index Figure {number}: storage, effect of {label}",
        x_label="N" if label == "N" else "W, % of the domain",
        x=x,
        panels=[Panel("storage", "bytes", curves.series)],
        paper="The BMQ-Index takes the least, as it stores a query twice; it is constant in W,"
        " while the CEI under DiffRMQ grows with W.",
        seen=f"Ours takes {min(ours):.1f} to {max(ours):.1f} bytes a query, stream table included.",
        log_x=False,
    )


def ask(findings: Findings, settings: dict[str, list[Point]], done: dict[Point, Measured]) -> None:
    """Note the figures that the issue asks for."""
    point = settings["6"][-1]
    here = done[point]
    what = f"Border, N = {point.queries:,}, W = 0.1%, FL = 0.01%"
    findings.tables.append(
        Table(
            "border-peers",
            f"{what}: {here.notices:.1f} notices an event",
            ["index", "ns an event", "spread", "times ours", "SE, %", "bytes"],
            [
                [
                    name,
                    here.ns[name],
                    here.spread[name],
                    here.ns[name] / here.ns[OURS],
                    here.efficiency[name],
                    here.nbytes[name],
                ]
                for name in CONTESTANTS
            ],
            "DiffRMQ as the paper has it searches the previous and the current value of each event."
            " 'Remembering' searches each value once and keeps its set for the next event.",
        )
    )
    ratio = here.ns[TWICE] / here.ns[OURS]
    findings.at_least(
        f"{what}: against DiffRMQ over our own range index", ratio, 5, "times as fast"
    )
    findings.at_least(f"{what}: search efficiency", here.efficiency[OURS], 99, "%")
    sizes = [done[each].nbytes[OURS] for each in settings["7"]]
    change = max(sizes) / min(sizes)
    findings.at_most("Border: storage over all W, largest over smallest", change, 1, "times")
