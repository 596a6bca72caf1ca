"""Whole calls of everquery beside NumPy by hand, Polars and DuckDB, on a core each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from benchmarks.findings import Figure, Findings, Panel
from benchmarks.harness import Scale
from benchmarks.rivals.by_duckdb import DuckBorders, DuckRanges, DuckSums
from benchmarks.rivals.by_numpy import NumpyBorders, NumpyLists, NumpySorted
from benchmarks.rivals.by_polars import THREADS, PolarsBorders, PolarsRanges, PolarsSums
from benchmarks.rivals.contest import BLOCKS, BUDGET_S, LIMIT_S, Builder, Cell, Contest, Pace
from benchmarks.rivals.live import until_live
from benchmarks.rivals.ours import Ours, Pushed
from benchmarks.rivals.tables import Cells, note_batches, note_single_events
from benchmarks.rivals.thresholds_by_numpy import NumpyNamed, NumpySums
from benchmarks.rivals.work import MATCHES, SHARE, Borders, Ranges, Thresholds, Work

NAME = "rivals"
OURS, PUSHED = Ours.name, Pushed.name


@dataclass(frozen=True)
class Kind:
    """A workload and who takes part: the second one is whom the others catch up with."""

    work: type[Any]
    builders: tuple[Builder, ...]
    reference: str
    not_naming: tuple[str, ...] = ()  # tell that a query fires, and not at which event


KINDS = (
    Kind(Borders, (Ours, NumpyBorders, PolarsBorders, DuckBorders, Pushed), NumpyBorders.name),
    Kind(
        Ranges, (Ours, NumpyLists, NumpySorted, PolarsRanges, DuckRanges, Pushed), NumpyLists.name
    ),
    Kind(
        Thresholds,
        (Ours, NumpyNamed, NumpySums, PolarsSums, DuckSums, Pushed),
        NumpyNamed.name,
        (NumpySums.name, PolarsSums.name, DuckSums.name),
    ),
)


def run(scale: Scale) -> Findings:
    """Play all kinds with all numbers of queries and all sizes of batches."""
    if THREADS != 1:
        raise RuntimeError(f"Polars has {THREADS} threads: it was imported before the benchmark")
    sizes = scale.pick((1_000, 100_000, 1_000_000), (200, 2_000))
    paces = scale.pick(
        (Pace(1, 20, 150), Pace(100, 10, 60), Pace(1_000, 5, 30), Pace(100_000, 1, 6)),
        (Pace(1, 5, 6), Pace(100, 3, 6), Pace(1_000, 1, 6)),
    )
    findings = Findings(
        {
            "border": "W = 0.1%, FL = 0.01% on 2,000 whole keys (quick: 20)",
            "range": f"about {MATCHES} matches an event",
            "threshold": f"boxes of {100 * SHARE:.0f}% of the space on average, weights of 100;"
            " 1% of the queries fire in 100,000 events",
            "threads": "one each",
            "polars": version("polars"),
            "duckdb": version("duckdb"),
            "timing": f"median call of the least disturbed of {BLOCKS} blocks of calls, about"
            f" {BUDGET_S} s in all; calls of more than {LIMIT_S:.0f} s are left out",
        }
    )
    played = {kind.work.kind: play(scale, kind, sizes, paces) for kind in KINDS}
    for kind in KINDS:
        note_batches(findings, kind.work.kind, played[kind.work.kind], kind.not_naming)
    note_single_events(findings, played)
    live = until_live(findings, Borders(scale, sizes[-1]), KINDS[0].builders)
    ask(findings, sizes, played, live)
    findings.figures.append(picture(sizes[-1], played))
    return findings


def play(scale: Scale, kind: Kind, sizes: Sequence[int], paces: Sequence[Pace]) -> Cells:
    """Return the cells of a kind, by the number of queries."""
    cells: Cells = {}
    for queries in sizes:
        work: Work = kind.work(scale, queries)
        contest = Contest(work, kind.builders, kind.reference)
        cells[queries] = [contest.play(pace) for pace in paces]
        contest.close()
    return cells


def ask(
    findings: Findings, sizes: Sequence[int], played: dict[str, Cells], live: dict[str, float]
) -> None:
    """Note the numbers that were asked for."""
    most = sizes[-1]
    borders = {cell.size: cell for cell in played["border"][most]}
    what = f"{most:,} borders"
    for size, limit in ((1, 40), (100, 60), (1_000, 150)):
        micros = 1e6 * borders[size].seconds[OURS]
        findings.at_most(f"{what}: `process` of {size:,} events", micros, limit, "us")
    micros = 1e6 * borders[1].seconds[PUSHED]
    findings.at_most(f"{what}: `push` of one event", micros, 15, "us")
    findings.at_most(f"{what}: from `register` to live", live[OURS], 50, "us")
    for queries in sizes:
        for kind, limit in (("border", 1), ("range", 2), ("threshold", 1)):
            cell = played[kind][queries][-1]
            ratio = against_best(cell)
            findings.at_least(
                f"{queries:,} queries of kind {kind}, batches of {cell.size:,}:"
                " against the best of NumPy, Polars and DuckDB",
                ratio,
                limit,
                "times as fast",
            )


def against_best(cell: Cell) -> float:
    """Return how many times as fast ours is as the best of the others."""
    others = [s for name, s in cell.seconds.items() if not name.startswith(OURS)]
    return min(others) / cell.seconds[OURS]


def picture(queries: int, played: dict[str, Cells]) -> Figure:
    """Return events a second over the size of batches."""
    panels = []
    for kind, cells in played.items():
        names = [name for name in cells[queries][0].seconds if name != PUSHED]
        series = {name: [cell.rate(name) for cell in cells[queries]] for name in names}
        panels.append(Panel(f"{kind}", "events a second", series))
    sizes = [float(cell.size) for cell in next(iter(played.values()))[queries]]
    title = f"Beside what a user would pick instead: {queries:,} queries, one core"
    return Figure("rivals", title, "events a batch", sizes, panels)
