"""range-thresholding Figures 3 to 8: what an operation costs, and what a whole stream takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.findings import Curves, Figure, Findings, Panel, Series, Table
from benchmarks.harness import Scale
from benchmarks.threshold_engine import check_all
from benchmarks.threshold_peers import Baseline, IntervalTree, RTree
from benchmarks.threshold_play import (
    Kind,
    Played,
    Sampled,
    Sampling,
    amortized,
    check_same,
    play,
    points_of,
)
from benchmarks.threshold_ways import Ours, PaperTracking, SegIntv
from benchmarks.threshold_work import TOTAL, WORDS, Setting

NAME = "threshold_figures"
OURS, DT = "everquery", "DT"
PEERS: dict[int, dict[str, Kind]] = {
    1: {"Baseline": Baseline, "interval tree": IntervalTree},
    2: {"Baseline": Baseline, "Seg-Intv": SegIntv, "R-tree": RTree},
}
POINTS = (0.0, 0.35, 0.65, 0.98)  # of a stream, where contestants are sampled
QUICK_S = 2.0  # a stream that takes less is taken twice
MOST_X = 20  # places along a stream that a figure shows
MOST_TRACKED = {1: 2_000_000, 2: 200_000}  # queries; more take too much memory, or time
MOST_SAMPLED = {1: 2_000_000, 2: 1_000_000}


@dataclass(frozen=True)
class Result:
    """Whole streams of ours and DT, and samples of the others."""

    ours: Played
    tracking: Played | None
    sampled: dict[str, Sampled]

    def per_operation(self, runs: Sequence[int]) -> Series:
        """Return microseconds an operation, on average until the end of some runs."""
        series: Series = {OURS: [*self.ours.per_operation()]}
        if self.tracking is not None:
            series[DT] = [*self.tracking.per_operation()]
        for name, each in self.sampled.items():
            series[name] = [*amortized(self.ours, each.seconds(self.ours))]
        return {name: [line[run] for run in runs] for name, line in series.items()}

    def seconds(self) -> dict[str, float | None]:
        """Return the seconds of the whole stream."""
        spent: dict[str, float | None] = {OURS: self.ours.total}
        if self.tracking is not None:
            spent[DT] = self.tracking.total
        return {**spent, **{name: each.total(self.ours) for name, each in self.sampled.items()}}


class Measured:
    """Results by setting; what several figures share is measured once."""

    def __init__(self) -> None:
        self._done: dict[Setting, Result] = {}

    def __call__(self, setting: Setting) -> Result:
        """Take contestants through a stream, as far as they can."""
        if setting not in self._done:
            size, attributes = setting.queries, setting.attributes
            peers = PEERS[attributes] if size <= MOST_SAMPLED[attributes] else {}
            sampling = Sampling(peers, points_of(setting, POINTS))
            ours = play(Ours, setting, [5], sampling)
            if ours.total < QUICK_S:  # the first time, others were in the way
                ours = min(ours, play(Ours, setting, [5]), key=lambda played: played.total)
            tracking = None
            if size <= MOST_TRACKED[attributes]:
                tracking = play(PaperTracking, setting, [5])
                check_same("fires of DT and ours", ours, tracking)
            self._done[setting] = Result(ours, tracking, sampling.found)
        return self._done[setting]


def run(scale: Scale) -> Findings:
    """Compare small streams, then measure all settings of the six figures."""
    check_all()
    measured = Measured()
    total, batch = scale.pick((TOTAL, 100_000), (TOTAL // 1_000, 100))
    one, two, more = scale.pick((1_000_000, 100_000, 1_000_000), (1_000, 300, 600))
    static = [Setting(1, one, total, batch), Setting(2, two, total, batch)]
    large = Setting(2, more, total, batch)
    few = scale.pick(50_000, 300)
    moving = {"total": total, "run": batch // 2, "elements": 3 * total // 20}
    dynamic = [Setting(1, one, **moving), Setting(2, few, **moving)]
    sizes = scale.pick([50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000], [300, 1_000])
    totals = [round(times * total) for times in scale.pick((0.25, 1, 4), (0.25, 1))]
    chances = scale.pick([0.1, 0.3, 0.5], [0.1, 0.3])
    usual = [insert(each, 0.3, one) for each in dynamic]
    by_size = [[replace(each, queries=size) for size in sizes] for each in static]
    by_total = [[replace(each, total=size) for size in totals] for each in static]
    by_chance = [[insert(each, chance, one) for chance in chances] for each in dynamic]
    fixed = [replace(each, fixed_load=True) for each in dynamic]
    return Findings(
        {
            "total": total,
            "run": batch,
            "run_of_figures_6_to_8": batch // 2,
            "elements": 3 * total // 20,
        },
        figures=[
            over_stream("3", "static queries", [*static, large], measured),
            over_settings("4", "queries", sizes, by_size, measured),
            over_settings("5", "total", totals, by_total, measured),
            over_stream("6", "new queries with a chance of 0.3", usual, measured),
            over_settings("7", "p_ins", chances, by_chance, measured),
            over_stream("8", "a new query for each that leaves", fixed, measured),
        ],
        tables=[how_they_ran()],
    )


def insert(setting: Setting, chance: float, usual: int) -> Setting:
    """Return a stream with new queries, as many for each that is there at first as with `usual`."""
    return replace(setting, inserts=chance * setting.queries / usual)


PAPER = {
    "3": "DT takes a fraction of a millisecond an operation, less than half of any other way on one"
    " attribute and about a tenth on two; all others take nearly a millisecond. Building shows at"
    " the beginning, and bumps of DT where trees are built anew.",
    "4": "All grow with the number of queries; DT grows the least, and its lead widens.",
    "5": "As in Figure 4: the higher the total, the longer the stream and the lead of DT.",
    "6": "The same order as in Figure 3; joins of trees add bumps to DT.",
    "7": "More new queries take more time in every way; DT stays ahead.",
    "8": "DT stays far ahead where the load never falls; the R-tree falls behind even the Baseline,"
    " as it is poor at changes of large boxes that overlap.",
}


def over_stream(number: str, what: str, settings: Sequence[Setting], measured: Measured) -> Figure:
    """Figures 3, 6 and 8: the cost of an operation, as the stream goes on."""
    results = [measured(setting) for setting in settings]
    count = min(len(result.ours.elements) for result in results)
    runs = range(count - 1, -1, -max(1, count // MOST_X))[::-1]
    panels = [
        Panel(title_of(setting), "µs an operation", result.per_operation(runs))
        for setting, result in zip(settings, results, strict=True)
    ]
    return Figure(
        name=f"rts-{number}",
        title=f"range-thresholding Figure {number}: {what}",
        x_label="elements",
        x=[float(results[0].ours.elements[run]) for run in runs],
        panels=panels,
        paper=PAPER[number],
        seen=" ".join(f"At the end, {panel.title}: {ratios(panel.series)}." for panel in panels),
        log_x=False,
    )


def over_settings(
    number: str,
    label: str,
    x: Sequence[float],
    lines: Sequence[Sequence[Setting]],
    measured: Measured,
) -> Figure:
    """Figures 4, 5 and 7: the time of a whole stream."""
    panels = []
    for settings in lines:
        curves = Curves((OURS, DT, *PEERS[settings[0].attributes]))
        for setting in settings:
            curves.add(measured(setting).seconds())
        title = WORDS[settings[0].attributes] if label == "queries" else title_of(settings[0])
        panels.append(Panel(title, "seconds a stream", curves.series))
    seen = [
        f"At {label} = {x[place]:,}, {panel.title}: {ratios(panel.series, place)}."
        for panel in panels
        for place in (0, len(x) - 1)
    ]
    return Figure(
        name=f"rts-{number}",
        title=f"range-thresholding Figure {number}: time of a stream by {label}",
        x_label=label,
        x=[float(each) for each in x],
        panels=panels,
        paper=PAPER[number],
        seen=" ".join(seen),
        log_x=label != "p_ins",
    )


def title_of(setting: Setting) -> str:
    """Return what a panel shows."""
    return f"{WORDS[setting.attributes]}, {setting.queries:,} queries"


def ratios(series: Series, place: int = -1) -> str:
    """Return how much longer than ours the others take at one place."""
    ours = series[OURS][place]
    pairs = [(name, line[place]) for name, line in series.items() if name != OURS]
    told = [
        f"{name} takes {times(each / ours)} times ours" for name, each in pairs if each and ours
    ]
    return ", ".join(told) or "ours alone"


def times(ratio: float) -> str:
    """Return a ratio in few digits."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def how_they_ran() -> Table:
    """Say what was run whole, and what was sampled."""
    return Table(
        "rts-contestants",
        "range-thresholding Figures 3 to 8: how the contestants ran",
        ["contestant", "structure", "run"],
        [
            [OURS, "`ThresholdIndex`, one batch a run", "whole streams"],
            [DT, "endpoint trees, one element at a time; trees joined and built anew", "whole"],
            ["Baseline", "a loop over all queries (Numba)", "sampled"],
            ["interval tree", "ncls and counters; one attribute", "sampled"],
            ["Seg-Intv", "segment tree of interval trees (Numba) and counters", "sampled"],
            ["R-tree", "rtree and counters", "sampled"],
        ],
        "Sampled: a whole stream would take hours, so that up to 300 elements are timed at"
        f" {len(POINTS)} points of the stream, on the queries then alive, and their fires are"
        " checked; the curves are what that makes of the whole stream, with the registration of"
        " the first queries, but without later registrations and terminations, which favours them."
        " Queries come and go between runs of elements, for all contestants alike. DT on two"
        f" attributes has at most {MOST_TRACKED[2]:,} queries (about 200 tree nodes each), and"
        " in Figures 6 and 7 the chance of a new query is scaled with the number of first ones.",
    )
