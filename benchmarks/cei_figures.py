"""cei-index Figures 14 to 19: what the virtual constructs cost, and ours beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from benchmarks.findings import Curves, Figure, Findings, Panel, ratio_sentence
from benchmarks.harness import Scale
from benchmarks.papers.virtual_constructs import (
    ContainmentIntervals,
    LogarithmicIntervals,
    UnitIntervals,
    lci_lists,
    mean_pieces_bounds_cei,
    mean_pieces_bounds_lci,
)
from benchmarks.peers import IntervalTrees, Ncls, OurIntervals, PaperConstruct
from benchmarks.stabbing import Builder, stab
from benchmarks.workloads import Intervals
from everquery.index.containment import count_pieces

NAME = "cei_figures"
OURS = "everquery"
W = 200
L = 16
LARGEST_TREE = 160_000  # queries; intervaltree takes 14 us a query to build
SLOW_VALUES = 500


def run(scale: Scale) -> Findings:
    """Measure all figures."""
    large, small = scale.pick((1 << 20, 65_536), (1 << 14, 2_048))
    sizes = scale.pick([5_000 << i for i in range(8)], [500, 1_000, 2_000])
    findings = Findings(
        {
            "r": [large, small],
            "W": W,
            "L": L,
            "searches": scale.pick(50_000, 1_000),
            "searches_of_intervaltree": SLOW_VALUES,
            "timing": "best of up to 7 rounds, all contestants in turns",
        }
    )
    findings.figures = [
        pieces_figure(scale, large),
        length_figure(scale, "15", large, "large"),
        length_figure(scale, "16", small, "small"),
        width_figure(scale, small),
        size_figure(scale, "18", large, "large", sizes),
        size_figure(scale, "19", small, "small", sizes),
    ]
    return findings


def _draw(scale: Scale, domain: int, widest: int, queries: int) -> Intervals:
    return Intervals.draw(
        scale.generator(1, domain, widest, queries),
        domain=domain,
        widest=widest,
        queries=queries,
        values=scale.pick(50_000, 1_000),
    )


def _constructs(length: int) -> dict[str, Builder]:
    return {
        "UI": partial(PaperConstruct, UnitIntervals, length=length),
        "LCI": partial(PaperConstruct, LogarithmicIntervals, length=length),
        "CEI": partial(PaperConstruct, ContainmentIntervals, length=length),
    }


def pieces_figure(scale: Scale, domain: int) -> Figure:
    """Figure 14: pieces of all queries, beside the bounds of Table 2."""
    work = _draw(scale, domain, W, scale.pick(100_000, 2_000))
    n = work.low.size
    lengths = [1 << level for level in range(8)]
    names = [f"{kind}{part}" for kind in ("CEI", "LCI") for part in ("", " lower", " upper")]
    curves = Curves([*names, "UI"])
    for level, length in enumerate(lengths):
        cei, lci = mean_pieces_bounds_cei(W, length), mean_pieces_bounds_lci(W, length)
        curves.add(
            {
                "CEI": count_pieces(work.low, work.high, level),
                "CEI lower": n * cei[0],
                "CEI upper": n * cei[1],
                "LCI": lci_lists(work.low, work.high, level, domain)[1].size,
                "LCI lower": n * lci[0],
                "LCI upper": n * lci[1],
                "UI": count_pieces(work.low, work.high, 0),
            }
        )
    series = curves.series
    seen = ratio_sentence(
        series,
        lengths,
        L,
        ("UI", "CEI"),
        lambda x: f"At L = {L} UIs are {x:.1f} times as many as CEIs",
    ) + ratio_sentence(
        series, lengths, L, ("CEI", "LCI"), lambda x: f", and CEIs {x:.2f} times as many as LCIs."
    )
    inside = all(
        low <= count * 1.01 and count <= high * 1.01
        for kind in ("CEI", "LCI")
        for low, count, high in zip(
            *(_numbers(series[f"{kind}{part}"]) for part in (" lower", "", " upper")), strict=True
        )
    )
    seen += f" Counts are {'' if inside else 'NOT '}within the bounds, give or take 1%, at every L."
    return Figure(
        name="cei-14",
        title=f"cei-index Figure 14: pieces of {n:,} queries, W = {W}, r = {domain:,}",
        x_label="L",
        x=[float(length) for length in lengths],
        panels=[Panel("pieces", "pieces of all queries", series)],
        paper="The bounds of Table 2 are accurate; UIs need by far the most pieces, and CEIs more"
        " than LCIs.",
        seen=seen,
    )


def length_figure(scale: Scale, number: str, domain: int, size: str) -> Figure:
    """Figures 15 and 16: the impact of L."""
    work = _draw(scale, domain, W, scale.pick(100_000, 2_000))
    levels = scale.pick(range(9), range(0, 6, 2))
    x, panels = _sweep(
        ((1 << level, work, {**_constructs(1 << level), OURS: _ours(level)}) for level in levels),
        scale,
    )
    storage, search = panels
    most = x[-1]
    seen = "".join(
        (
            _say(search, x, most, ("LCI", "CEI"), "At L = {at:g} LCI takes {ratio:.1f} times CEI"),
            _say(
                search, x, 1, (OURS, "UI"), "; at L = 1 ours over ranks takes {ratio:.2f} times UI"
            ),
            _say(
                storage, x, most, (OURS, "CEI"), ". Ours takes {ratio:.2f} times CEI's storage at"
            ),
            f" L = {most:g}. The engine takes the smallest L that keeps within 20 pieces a query.",
        )
    )
    return Figure(
        name=f"cei-{number}",
        title=f"cei-index Figure {number}: impact of L, r {size} ({domain:,}),"
        f" W = {W}, n = {work.low.size:,}",
        x_label="L",
        x=x,
        panels=panels,
        paper="UI: high storage, fastest search, both whatever L is. CEI: low storage that falls as"
        " L grows, search that grows slowly. LCI: search grows fast with L (2L - 1 lists), and with"
        " a large r its storage grows too. CEI is better than LCI in both everywhere.",
        seen=seen,
    )


def width_figure(scale: Scale, domain: int) -> Figure:
    """Figure 17: the impact of W."""
    n = scale.pick(50_000, 1_000)
    widths = scale.pick([10 << i for i in range(6)], [10, 80])
    x, panels = _sweep(
        ((widest, _draw(scale, domain, widest, n), _peers(n)) for widest in widths), scale
    )
    return Figure(
        name="cei-17",
        title=f"cei-index Figure 17: impact of W, L = {L}, r = {domain:,}, n = {n:,}",
        x_label="W",
        x=x,
        panels=panels,
        paper="UI: high storage, fast search. CEI: both low. All three beat IS-lists in search, CEI"
        " by almost 20 times at W = 10. (IS-lists are replaced by intervaltree and ncls here.)",
        seen=_seen_peers(panels, x, x[0]) + _seen_peers(panels, x, x[-1]),
    )


def size_figure(scale: Scale, number: str, domain: int, size: str, sizes: list[int]) -> Figure:
    """Figures 18 and 19: the impact of n."""
    x, panels = _sweep(((n, _draw(scale, domain, W, n), _peers(n)) for n in sizes), scale)
    return Figure(
        name=f"cei-{number}",
        title=f"cei-index Figure {number}: impact of n, r {size} ({domain:,}), W = {W}, L = {L}",
        x_label="n",
        x=x,
        panels=panels,
        paper="CEI searches faster than LCI and IS-lists and close to UI. IS-lists search slowest."
        " With a large r and few queries IS-lists take less storage, because the constructs"
        " keep a pointer each; not with a small r or many queries.",
        seen=_seen_peers(panels, x, x[0]) + _seen_peers(panels, x, x[-1]),
    )


def _ours(levels: int | None) -> Builder:
    return partial(OurIntervals, levels=levels)


def _peers(n: int) -> dict[str, Builder]:
    trees: dict[str, Builder] = {"intervaltree": IntervalTrees} if n <= LARGEST_TREE else {}
    return {**_constructs(L), OURS: _ours(None), "ncls": Ncls, **trees}


def _sweep(
    points: Iterable[tuple[int, Intervals, dict[str, Builder]]], scale: Scale
) -> tuple[list[float], list[Panel]]:
    """Return the x values, and a panel each for storage and search time."""
    x: list[float] = []
    names = ("UI", "LCI", "CEI", OURS, "ncls", "intervaltree")
    storage, search = Curves(names), Curves(names)
    for at, work, builders in points:
        found = stab(work, builders, slow_values=scale.pick(SLOW_VALUES, 50))
        x.append(float(at))
        storage.add({name: each.nbytes for name, each in found.items()})
        search.add({name: each.ns for name, each in found.items()})
    panels = [
        Panel("storage", "bytes", _present(storage)),
        Panel("search, matches written out", "ns a search", _present(search)),
    ]
    return x, panels


def _present(curves: Curves) -> dict[str, list[float | None]]:
    return {name: line for name, line in curves.series.items() if any(line)}


def _say(panel: Panel, x: list[float], at: float, pair: tuple[str, str], sentence: str) -> str:
    say: Callable[[float], str] = lambda ratio: sentence.format(at=at, ratio=ratio)  # noqa: E731
    return ratio_sentence(panel.series, x, at, pair, say)


def _seen_peers(panels: list[Panel], x: list[float], at: float) -> str:
    storage, search = panels
    return "".join(
        (
            f"At {at:,g}: search by ",
            _say(search, x, at, ("ncls", OURS), "ncls {ratio:.1f}"),
            _say(search, x, at, ("intervaltree", OURS), ", by intervaltree {ratio:,.0f}"),
            _say(search, x, at, ("CEI", OURS), ", by the paper's CEI {ratio:.2f}"),
            _say(search, x, at, ("UI", OURS), ", by UI {ratio:.2f} times ours"),
            _say(storage, x, at, (OURS, "CEI"), "; our storage {ratio:.2f} times the CEI's"),
            _say(storage, x, at, (OURS, "UI"), " and {ratio:.2f} times the UI's. "),
        )
    )


def _numbers(line: list[float | None]) -> list[float]:
    return [value for value in line if value is not None]
