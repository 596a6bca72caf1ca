"""continuous-quantiles Figures 5 to 15: the paper's ways, one element at a time, beside batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from benchmarks.findings import Curves, Figure, Findings, Panel, Series, Table
from benchmarks.harness import Scale
from benchmarks.quantile_grouping import NAMES, OURS, grouped, grouping_figures
from benchmarks.quantile_play import (
    BUDGET_S,
    POINTS,
    Changing,
    Played,
    check_answers,
    play_asynchronous,
    play_batches,
    play_changing_batches,
    play_summary,
    points_of,
    sample_asynchronous,
    sample_eager,
    sample_synchronous,
    usual_wait,
)
from benchmarks.quantile_windows import clusters_of, window_figures
from benchmarks.quantile_work import (
    EPSILON,
    GRID,
    STREAMS,
    Queries,
    arrivals,
    batches,
    draw_queries,
    stream,
    uncontained,
)
from benchmarks.threshold_figures import ratios
from everquery.core.arrays import Floats

NAME = "quantile_figures"
CASU, CSU, SU, EAGER = "CASU", "CSU", "SU", "eager"
SMALL = "everquery, batches of 1,000"
ALONE = "summary alone"
BINS = 20
FEWER = 1_000  # times fewer evaluations than events times queries


class Measured:
    """Streams, queries and the runs that several figures share."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.elements, self.shorter = scale.pick((5_000_000, 2_000_000), (20_000, 8_000))
        self.piece, self.batch = scale.pick((50_000, 100_000), (1_000, 2_000))
        self.streams = {
            kind: stream(kind, self.elements, scale.generator(9, i))
            for i, kind in enumerate(STREAMS)
        }
        self.queries = draw_queries(scale.pick(2_000_000, 2_000), scale.generator(8))
        self.by_a = clusters_of(self.queries)

    @cached_property
    def asynchronous(self) -> dict[str, Played]:
        """CASU by QC_A, on all streams."""
        return {
            kind: play_asynchronous(values, self.by_a, self.piece)
            for kind, values in self.streams.items()
        }


def run(scale: Scale) -> Findings:
    """Measure all eleven figures."""
    measured = Measured(scale)
    findings = Findings(
        {
            "summary_epsilon": EPSILON,
            "epsilon_of_queries": "0.005 to 0.02 from Figure 8 to 12 and in 15, else 0 to 1",
            "elements": measured.elements,
            "elements_of_figures_8_and_12_to_15": measured.shorter,
            "batch": measured.batch,
        }
    )
    findings.figures = [
        *grouping_figures(findings, scale),
        fires_figure(findings, measured),
        unclustered_figure(measured),
        predefined_figure(findings, measured),
        arriving_figure(measured),
        batches_figure("12", "semisort", measured),
        *window_figures(scale),
        batches_figure("15", "words", measured),
    ]
    findings.tables.append(how_they_ran(measured))
    return findings


def fires_figure(findings: Findings, measured: Measured) -> Figure:
    """Figure 8: triggers that fire, and time, by clusters of QC_A and QC_B."""
    groups = grouped(measured.queries, "b")
    bounds = grouped(measured.queries, "a").cost(EPSILON) / groups.cost(EPSILON)
    by_b = Queries(groups.low, groups.high, EPSILON)
    x = np.linspace(0, measured.shorter, 11)[1:].tolist()
    fires, spent, told = [], [], []
    for kind in ("semisort", "uniform"):
        values = measured.streams[kind][: measured.shorter]
        played = {
            "QC_A": measured.asynchronous[kind],
            "QC_B": play_asynchronous(values, by_b, measured.piece),
        }
        fired: Series = {}
        seconds: Series = {}
        for name, each in played.items():
            fired[name] = [*np.interp(x, each.elements, each.fired).tolist()]
            seconds[name] = [*np.interp(x, each.elements, np.cumsum(each.seconds)).tolist()]
        fires.append(Panel(f"{kind}, fires", "triggers fired", fired, log_y=False))
        spent.append(Panel(f"{kind}, time", "seconds", seconds, log_y=False))
        most = {name: line[-1] or 0.0 for name, line in fired.items()}
        ratio = most["QC_A"] / most["QC_B"]
        told.append(
            f"{kind}: {ratio:.3g} times as many fires by QC_A as by QC_B"
            f" ({most['QC_A'] / len(measured.by_a):,.0f} and {most['QC_B'] / len(by_b):,.0f} a"
            f" cluster; a trigger of QC_A waits {usual_wait(values, measured.by_a):.2g} of the"
            " stream at its end)"
        )
        what = f"Quantiles, CASU on {kind}: fires by QC_A over fires by QC_B"
        findings.at_most(what, ratio, 1, "times")
    narrow = float(np.median(measured.by_a.high - measured.by_a.low)) / 2
    clusters = f"{len(measured.by_a):,} clusters by QC_A, {len(by_b):,} by QC_B"
    return Figure(
        "quantiles-8",
        "continuous-quantiles Figure 8: CASU by QC_A and by QC_B",
        "elements",
        x,
        [*fires, *spent],
        PAPER["8"],
        f"{clusters}. {'; '.join(told)}. The bound on fires that QC_A makes least (Theorem 6) is"
        f" {bounds:.3g} times that of QC_B, but triggers wait far longer than it says, by half the"
        f" width of their clusters ({narrow:.2g} of the stream): it is for a cluster in the middle"
        " of the widest gap, and most are nearer to a tuple. So clusters fire about equally"
        " often, and the fewest of them fire the least.",
        log_x=False,
    )


def unclustered_figure(measured: Measured) -> Figure:
    """Figure 9: queries that are not clustered."""
    scale = measured.scale
    queries = uncontained(scale.pick(1_000_000, 1_000), scale.generator(10))
    clusters = clusters_of(queries)
    x = points_of(measured.elements)
    panels = []
    for i, (kind, values) in enumerate(measured.streams.items()):
        asynchronous = sample_asynchronous(values, queries, scale.generator(11, i))
        synchronous = sample_synchronous(values, queries)
        eager = sample_eager(values, queries, scale.pick(20_000, 200))
        sampled = {CASU: asynchronous, SU: synchronous, EAGER: eager}
        series: Series = {SMALL: play_batches(values, clusters, scale.pick(1_000, 100)).around(x)}
        for name, each in sampled.items():
            series[name] = [1e6 * seconds for seconds in each.each]
        whole = asynchronous.total(measured.elements)
        panels.append(Panel(f"{kind} (CASU: {whole:,.0f} s a stream)", "µs an element", series))
    last = panels[0].series
    return Figure(
        "quantiles-9",
        f"continuous-quantiles Figure 9: {len(queries):,} queries without clusters",
        "elements",
        [float(at) for at in x],
        panels,
        PAPER["9"],
        f"At the end of the uniform stream an element takes {last[CASU][-1]:.3g} µs with CASU,"
        f" {last[SU][-1]:.3g} with SU and {last[EAGER][-1]:,.0f} if every query is evaluated. Ours"
        f" has the same queries in {len(clusters):,} clusters: {last[SMALL][-1]:.3g} µs. The paper"
        " does not say how its queries were kept from containing each other; here lower and upper"
        " ends are paired in order. SU would end in minutes, unlike in the paper. Whether that is"
        " for the queries, the machine, or a pass that takes each query once was not measured.",
    )


def predefined_figure(findings: Findings, measured: Measured) -> Figure:
    """Figure 10: a given set of queries."""
    x = bins(measured.elements)
    panels = []
    for kind, values in measured.streams.items():
        asynchronous = measured.asynchronous[kind]
        small = play_batches(values, measured.by_a, measured.scale.pick(1_000, 100))
        ours = play_batches(values, measured.by_a, measured.batch)
        ordered = np.sort(values)
        for name, played in ((CASU, asynchronous), (OURS, ours), (SMALL, small)):
            check_answers(f"{name} on {kind}", ordered, measured.by_a, played)
        series = {
            OURS: ours.per_element(x),
            SMALL: small.per_element(x),
            CASU: asynchronous.per_element(x),
            CSU: sample_synchronous(values, measured.by_a).per_element(x),
            ALONE: play_summary(values, EPSILON, measured.piece).per_element(x),
        }
        panels.append(Panel(kind, "µs an element", series))
        pairs = measured.elements * len(measured.queries)
        what = f"Quantiles, {len(measured.queries):,} queries, {kind}: events times queries over"
        findings.at_least(
            f"{what} evaluations of clusters, CASU", pairs / asynchronous.evaluated[-1], FEWER, ""
        )
    findings.at_least(
        f"Quantiles, {len(measured.queries):,} queries: events times queries over evaluations of"
        " clusters, ours in batches of 1,000",
        pairs / small.evaluated[-1],
        FEWER,
        "",
    )
    return Figure(
        "quantiles-10",
        f"continuous-quantiles Figure 10: {len(measured.queries):,} given queries",
        "elements",
        x,
        panels,
        PAPER["10"],
        " ".join(f"At the end, {panel.title}: {ratios(panel.series)}." for panel in panels),
        log_x=False,
    )


def arriving_figure(measured: Measured) -> Figure:
    """Figure 11: queries that come at any element."""
    x = bins(measured.elements)
    panels = []
    changes = arrivals(len(measured.queries), measured.elements, measured.scale.generator(12))
    for kind in ("semisort", "normal"):
        values = measured.streams[kind]
        played, sampled = Changing(measured.queries, changes).play(values, measured.piece)
        ours = play_changing_batches(values, measured.queries, changes, measured.batch)
        series = {
            OURS: ours.per_element(x),
            CASU: played.per_element(x),
            CSU: sampled.per_element(x),
        }
        panels.append(Panel(kind, "µs an element", series))
    return Figure(
        "quantiles-11",
        f"continuous-quantiles Figure 11: {len(measured.queries):,} queries that come one by one",
        "elements",
        x,
        panels,
        PAPER["11"],
        " ".join(f"At the end, {panel.title}: {ratios(panel.series)}." for panel in panels),
        log_x=False,
    )


def batches_figure(number: str, kind: str, measured: Measured) -> Figure:
    """Figures 12 and 15: batches of queries that come and go."""
    scale, elements = measured.scale, measured.shorter
    if kind == "words":
        values: Floats = stream(kind, elements, scale.generator(15))
    else:
        values = measured.streams[kind][:elements]
    skewed = draw_queries(len(measured.queries), scale.generator(16), is_zipf=True)
    spent, sent = Curves((OURS, CASU, CSU)), Curves((OURS, CASU, CSU))
    for i, name in enumerate(NAMES):
        queries = skewed if name.startswith("zipf") else measured.queries
        count = 10 if name.endswith("10") else 20
        changes = batches(len(queries), count, elements, scale.generator(17, i))
        played, sampled = Changing(queries, changes).play(values, measured.piece)
        ours = play_changing_batches(values, queries, changes, measured.batch)
        spent.add({OURS: ours.total, CASU: played.total, CSU: sampled.total(elements)})
        sent.add(
            {
                OURS: ours.evaluated[-1],
                CASU: played.evaluated[-1],
                CSU: sampled.evaluated(elements),
            }
        )
    panels = [Panel("time of a stream", "seconds", spent.series)]
    if number == "12":
        panels.append(Panel("messages", "evaluations of clusters", sent.series))
    told = [f"{name}: {ratios(spent.series, place)}" for place, name in enumerate(NAMES)]
    return Figure(
        f"quantiles-{number}",
        f"continuous-quantiles Figure {number}: queries in batches, {elements:,} elements ({kind})",
        "batches",
        [1.0, 2.0, 3.0, 4.0],
        panels,
        PAPER[number],
        f"{'; '.join(told)}.",
        log_x=False,
        x_names=list(NAMES),
    )


def bins(elements: int) -> list[float]:
    """Return the ends of equal parts of a stream."""
    ends: list[float] = np.linspace(0, elements, BINS + 1)[1:].tolist()
    return ends


PAPER = {
    "8": "Both take about as long, but QC_B fires more triggers, and so sends more messages.",
    "9": "CASU takes about 1,000 elements a second, more of them later on; SU is too slow to end.",
    "10": "CASU takes more than 10,000 elements a second, CSU more than 1,000; both become quicker"
    " as the stream goes on, for triggers wait longer.",
    "11": "CASU takes at least 10,000 elements a second.",
    "12": "CASU depends little on how queries come and go; CSU takes longer and sends more.",
    "15": "100 million words of news: as in Figure 12.",
}


def how_they_ran(measured: Measured) -> Table:
    """Say what was run whole, and what was sampled."""
    rows: Sequence[list[str]] = [
        [OURS, f"`Clusters` and `Summaries`, batches of {measured.batch:,}", "whole streams"],
        [SMALL, "the same, smaller batches", "whole"],
        [CASU, "Algorithm 4, a heap of triggers (Numba)", "whole; sampled in Figure 9"],
        [CSU, "Algorithm 3, one trigger for all (Numba)", "sampled; whole in 13 and 14"],
        [SU, "Algorithm 3 on queries without clusters", "sampled"],
        [EAGER, "first hit for every query at every element", "sampled, 20,000 of the queries"],
    ]
    return Table(
        "quantiles-contestants",
        "continuous-quantiles Figures 8 to 15: how the contestants ran",
        ["contestant", "structure", "run"],
        [[*row] for row in rows],
        "The paper's ways keep all answers right after every element, ours after every batch; ours"
        " evaluates all clusters then, and changes of queries take effect between batches. Sampled:"
        f" at {len(POINTS)} points of the stream, on the summary and the clusters then there, for"
        f" {BUDGET_S} s each, and between them on a line through the logarithms. In Figure 9 the"
        " triggers of a sample of CASU are set to a random share of what they wait, as they are"
        " spread in a stream that has run for long. The windows of Figures 13 and 14 are ours for"
        " both ways; CSU evaluates after every epsilon N / 2 elements. Zipf: phi and epsilon each"
        f" take {GRID:,} values with Zipf's frequencies. The news of Figure 15 are not to be had:"
        " its stream is made of words with Zipf's frequencies, and is as long as that of Figure 12."
        " The paper's ways look for the best tuple of a cluster only as far as it can be, where the"
        " paper looks at all that are good enough: that favours them. Peaks of ours in Figure 11"
        " are groupings of all queries, which need not be done between batches.",
    )
