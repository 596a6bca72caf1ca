"""Threshold queries: batches and single elements beside stabbing, growth, and the whole engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks.findings import Findings, Table
from benchmarks.harness import Scale
from benchmarks.threshold_market import through_engine
from benchmarks.threshold_peers import Baseline, IntervalTree, RTree, Stabbing
from benchmarks.threshold_play import (
    Kind,
    Played,
    Sampled,
    Sampling,
    check_same,
    play,
    points_of,
    verify,
)
from benchmarks.threshold_ways import Ours, PaperTracking, SegIntv
from benchmarks.threshold_work import TOTAL, WORDS, Setting

NAME = "threshold"
BATCH = 100_000
STAB, RTREE = "stabbing, our range index", "stabbing, rtree"
ROUNDS = 3
BUDGET_S = 5.0  # for the lives of each contestant; who has spent it sits out the rest


def run(scale: Scale) -> Findings:
    """Compare small streams first, then measure."""
    findings = Findings(
        {
            "domain": "whole numbers of 0 .. 100,000 on each attribute, uniform elements",
            "weights": "normal (100, 15)",
            "boxes": "10% of the space, normal centres (50,000, 7,500)",
            "total": scale.pick(TOTAL, TOTAL // 1_000),
            "ends": "10% of all queries live until they are expected to fire",
            "batch": scale.pick(BATCH, BATCH // 1_000),
            "timing": f"best of up to {ROUNDS} whole lives, from the registration of all queries"
            " until none is left; queries end between batches",
        }
    )
    fires = check_all()
    findings.parameters["compared_first"] = f"{fires:,} fires of small streams"
    one_attribute(findings, scale)
    for queries in scale.pick((100_000, 1_000_000), (500, 2_000)):
        two_attributes(findings, scale, queries)
    for attributes in (1, 2):
        grow_queries(findings, scale, attributes)
        grow_totals(findings, scale, attributes)
    through_engine(findings, scale)
    return findings


def check_all() -> int:
    """Raise unless all contestants tell the same fires of small streams; return how many."""
    both: dict[str, Kind] = {
        "Baseline": Baseline,
        STAB: Stabbing,
        "DT": PaperTracking,
        "everquery": Ours,
    }
    kinds: dict[int, dict[str, Kind]] = {
        1: {**both, "ncls": IntervalTree},
        2: {**both, "Seg-Intv": SegIntv, RTREE: RTree},
    }
    fires = 0
    for attributes, contestants in kinds.items():
        small = Setting(attributes, 1_000, total=20_000, run=1_000)
        moving = replace(small, run=200, elements=3_000)
        settings = (small, replace(moving, inserts=0.3), replace(moving, fixed_load=True))
        for setting in settings:
            fires += verify(contestants, setting, [attributes])
    return fires


def setting_of(scale: Scale, attributes: int, queries: int, times: float = 1.0) -> Setting:
    """Return the static scenario, with so many times the usual total."""
    total, batch = scale.pick((TOTAL, BATCH), (TOTAL // 1_000, BATCH // 1_000))
    return Setting(attributes, queries, total=round(times * total), run=batch)


def best_of(
    kinds: dict[str, Kind], setting: Setting, sampling: Sampling | None = None
) -> dict[str, Played]:
    """Play whole lives in turns, and return each contestant's best; the first samples others."""
    best: dict[str, Played] = {}
    spent = dict.fromkeys(kinds, 0.0)
    for turn in range(ROUNDS):
        for name, kind in kinds.items():
            if spent[name] > BUDGET_S:
                continue
            played = play(kind, setting, [3], sampling if turn == 0 else None)
            check_same(f"fires of {name}", next(iter(best.values()), played), played)
            spent[name] += played.total
            if name not in best or played.total < best[name].total:
                best[name] = played
    return best


def compare(
    findings: Findings, setting: Setting, kinds: dict[str, Kind], peers: dict[str, Kind]
) -> tuple[dict[str, Played], dict[str, Sampled]]:
    """Play whole lives, sample the peers, and note a table."""
    sampling = Sampling(peers, points_of(setting), budget_s=0.3)
    best = best_of(kinds, setting, sampling)
    ours = best["everquery"]
    rows: list[list[str | float | None]] = [
        [name, ours.elements[-1] / played.total, played.total, played.total / ours.total]
        for name, played in best.items()
    ]
    rows += [
        [
            name,
            ours.elements[-1] / sampled.total(ours),
            sampled.total(ours),
            sampled.total(ours) / ours.total,
        ]
        for name, sampled in sampling.found.items()
    ]
    alone = sum(ours.seconds[1:]) / (len(ours.seconds) - 1)
    findings.tables.append(
        Table(
            f"threshold-{setting.attributes}-{setting.queries}",
            f"Threshold, {WORDS[setting.attributes]}, {setting.queries:,} queries:"
            f" a life of {ours.elements[-1]:,} elements",
            ["", "elements a second", "seconds a life", "times ours"],
            rows,
            f"Stabbing is sampled: up to 300 elements at each of {len(set(sampling.points))} points"
            " of the life, evenly spread over the space, on the queries then alive (the faster of"
            " two passes); between them, what an element costs for each live query is interpolated."
            " Registration is in, terminations are in for whole lives only. Ours takes"
            f" {ours.seconds[0]:.3g} s for registration and the first batch, and"
            f" {alone:.3g} s for a batch after that, on average.",
        )
    )
    return best, sampling.found


def one_attribute(findings: Findings, scale: Scale) -> None:
    """Batches, and one element at a time."""
    setting = setting_of(scale, 1, scale.pick(1_000_000, 2_000))
    kinds: dict[str, Kind] = {"everquery": Ours, "one element at a time (DT)": PaperTracking}
    best, sampled = compare(findings, setting, kinds, {STAB: Stabbing})
    ours, single = best.values()
    stab = sampled[STAB].total(ours)
    what = f"Threshold, one attribute, {setting.queries:,} queries"
    findings.at_least(f"{what}: a whole life in batches", ours.rate, 1_000_000, "elements a second")
    findings.at_least(
        f"{what}: in batches against stabbing", stab / ours.total, 100, "times as fast"
    )
    findings.at_least(
        f"{what}: one element at a time against stabbing", stab / single.total, 10, "times as fast"
    )


def two_attributes(findings: Findings, scale: Scale, queries: int) -> None:
    """Batches beside our box index and rtree."""
    setting = setting_of(scale, 2, queries)
    peers: dict[str, Kind] = {STAB: Stabbing, RTREE: RTree}
    best, sampled = compare(findings, setting, {"everquery": Ours}, peers)
    ours = best["everquery"]
    for name, against in ((STAB, "stabbing"), (RTREE, "rtree")):
        ratio = sampled[name].total(ours) / ours.total
        what = f"Threshold, two attributes, {queries:,} queries: in batches against {against}"
        findings.at_least(what, ratio, 20, "times as fast")


def grow_queries(findings: Findings, scale: Scale, attributes: int) -> None:
    """Whole lives with more queries."""
    sizes = scale.pick((100_000, 200_000, 500_000, 1_000_000, 2_000_000), (200, 2_000))
    grow(findings, attributes, "queries", sizes, lambda size: setting_of(scale, attributes, size))


def grow_totals(findings: Findings, scale: Scale, attributes: int) -> None:
    """Whole lives with higher totals, which last longer."""
    queries = scale.pick((1_000_000, 100_000), (2_000, 500))[attributes - 1]
    times = scale.pick((0.25, 0.5, 1.0, 2.0, 4.0), (0.25, 4.0))
    totals = [setting_of(scale, attributes, queries, each).total for each in times]
    usual = setting_of(scale, attributes, queries).total
    grow(
        findings,
        attributes,
        "total",
        totals,
        lambda total: setting_of(scale, attributes, queries, total / usual),
    )


def grow(
    findings: Findings,
    attributes: int,
    name: str,
    sizes: Sequence[int],
    setting: Callable[[int], Setting],
) -> None:
    """Play whole lives of growing size."""
    seconds = []
    rows: list[list[str | float | None]] = []
    for size in sizes:
        played = best_of({"everquery": Ours}, setting(size))["everquery"]
        seconds.append(played.total)
        grown = (seconds[-1] / seconds[0]) / (size / sizes[0])
        rows.append([f"{size:,}", played.elements[-1], played.total, grown])
    findings.tables.append(
        Table(
            f"threshold-growth-{name}-{attributes}",
            f"Threshold, {WORDS[attributes]}: growing {name}",
            [name, "elements", "seconds a life", f"time's growth over that of {name}"],
            rows,
        )
    )
    what = f"Threshold, {WORDS[attributes]}: growth of time over growth of {name}"
    what += f", from {sizes[0]:,} to {sizes[-1]:,}"
    findings.at_most(what, float(rows[-1][-1] or 0), 1.5, "times")
