"""The tables of the contest: rates, the ratio to the best rival, and who is ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.findings import Findings, Table
from benchmarks.rivals.contest import Cell
from benchmarks.rivals.ours import Ours, Pushed

Cells = dict[int, list[Cell]]  # by the number of queries, one for each size of batches
Row = list[str | float | None]
OURS, PUSHED = Ours.name, Pushed.name
NOT_NAMED = (
    " Those with sums tell in which batch a query fires, and not at which event: the first ratio"
    " leaves them out."
)


def verdict(cell: Cell, names: Sequence[str]) -> tuple[float | None, str]:
    """Return ours against the best of these, and who is ahead."""
    seconds = {name: cell.seconds[name] for name in names if name in cell.seconds}
    if not seconds:
        return None, OURS
    best = min(seconds, key=seconds.__getitem__)
    ratio = seconds[best] / cell.seconds[OURS]
    return ratio, best if ratio < 1 else OURS


def note_batches(
    findings: Findings, kind: str, cells: Cells, not_naming: Sequence[str] = ()
) -> None:
    """Add the table of a kind: million events a second."""
    names = list(next(iter(cells.values()))[-1].seconds | _reasons(cells))
    names = [name for name in names if name == OURS or not name.startswith(OURS)]
    naming = [name for name in names if name != OURS and name not in not_naming]
    columns = ["queries, batch", *names, "told an event", "ours / best other", "ahead"]
    if not_naming:
        columns += ["ours / best of all", "ahead of all"]
    rows: list[Row] = []
    for queries, line in cells.items():
        for cell in line:
            row: Row = [f"{queries:,}, {cell.size:,}"]
            row += [_cell(cell, name) for name in names]
            row += [cell.told, *verdict(cell, naming)]
            if not_naming:
                row += verdict(cell, [*naming, *not_naming])
            rows.append(row)
    behind = sum(row[-1] != OURS for row in rows)
    findings.tables.append(
        Table(
            f"rivals-{kind}",
            f"Beside rivals, {kind}: million events a second, a core",
            columns,
            rows,
            f"Another one is ahead in {behind} of {len(rows)} cells."
            + (NOT_NAMED if not_naming else ""),
        )
    )


def note_single_events(findings: Findings, played: Mapping[str, Cells]) -> None:
    """Add the table of calls with one event: microseconds."""
    rows: list[Row] = []
    for kind, cells in played.items():
        for queries, (cell, *_) in cells.items():
            others = [name for name in cell.seconds if not name.startswith(OURS)]
            best = min(others, key=cell.seconds.__getitem__)
            ours = min(s for name, s in cell.seconds.items() if name.startswith(OURS))
            seconds = cell.seconds
            rows.append(
                [
                    f"{kind}, {queries:,}",
                    1e6 * seconds[OURS],
                    1e6 * seconds[PUSHED],
                    *(_fastest(seconds, library) for library in ("NumPy", "Polars", "DuckDB")),
                    seconds[best] / ours,
                    OURS if ours <= seconds[best] else best,
                ]
            )
    columns = ["kind, queries", OURS, PUSHED, "NumPy", "Polars", "DuckDB"]
    findings.tables.append(
        Table(
            "rivals-one",
            "Beside rivals: microseconds of a call with one event",
            [*columns, "best other / ours", "ahead"],
            rows,
            "Of several ways in NumPy the fastest.",
        )
    )


def _fastest(seconds: Mapping[str, float], library: str) -> float | None:
    found = [1e6 * s for name, s in seconds.items() if name.startswith(library)]
    return min(found, default=None)


def _reasons(cells: Cells) -> dict[str, float]:
    return dict.fromkeys(
        (name for line in cells.values() for c in line for name in c.left_out), 0.0
    )


def _cell(cell: Cell, name: str) -> str | float | None:
    rate = cell.rate(name)
    return cell.left_out.get(name) if rate is None else rate / 1e6
