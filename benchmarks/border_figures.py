"""bmq-index Figures 6 to 9: our region-segment lists beside DiffRMQ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.border_contest import (
    CONTESTANTS,
    NCLS,
    OURS,
    PAPERS_CEI,
    TWICE,
    Measured,
    Point,
    measure,
)
from benchmarks.findings import Curves, Figure, Findings, Panel, Table
from benchmarks.harness import Scale
from benchmarks.workloads import PRICES

NAME = "border_figures"


def run(scale: Scale) -> Findings:
    """Measure all settings of the four figures; the setting that they share is measured once."""
    most = scale.pick(100_000, 2_000)
    streams, ticks, size = scale.pick((2_000, 1_000, 100_000), (50, 100, 1_000))
    tenths = scale.pick([1, 2, 4, 6, 8, 10], [1, 10])
    settings = {
        "6": [Point(most * tenth // 10) for tenth in tenths],
        "7": [Point(most, width=tenth / 10_000) for tenth in tenths],
        "8": [Point(most, fluctuation=tenth / 10_000) for tenth in tenths],
    }
    findings = Findings(
        {
            "D": PRICES,
            "streams": streams,
            "tuples_a_stream": ticks,
            "batch": size,
            "steps": "normal, with a mean size of FL * D, reflected at the domain's ends",
            "timing": "median over batches; grouping by stream, searching, writing out and"
            " remembering the last values are inside, first sights are not",
        }
    )
    sizes = {"streams": streams, "ticks": ticks, "size": size}
    points = {point for line in settings.values() for point in line}
    done = {point: measure(scale, point, **sizes) for point in sorted(points)}
    findings.figures = [
        effect_of_queries(settings["6"], done),
        effect_of_width(settings["7"], done),
        effect_of_fluctuation(settings["8"], done),
        storage_figure("9a", "N", settings["6"], done),
        storage_figure("9b", "W", settings["7"], done),
    ]
    ask(findings, settings, done)
    return findings


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
    figure = _figure("7", title, "W, % of the domain", x, points, done, paper)
    jumps = (
        f" Where W equals FL our SE is {done[points[0]].efficiency[OURS]:.0f}%: steps are normal"
        " here, so that many are longer than such a box is wide, and jump over it."
    )
    return replace(figure, seen=figure.seen + jumps)


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
