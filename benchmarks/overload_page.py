"""The numbers and the picture of docs/networks-quality.md: ``python -m benchmarks.overload_page``.

They come from the runs of `benchmarks/shedding.py` in which work takes as long as costs say, and so
are the same on every machine.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import ROOT, Scale
from benchmarks.plots import draw
from benchmarks.report import grid
from benchmarks.shedding import by_costs

MARK, END_MARK = "<!-- made by python -m benchmarks.overload_page -->", "<!-- /made -->"


def write(page: Path, plots: Path, scale: Scale) -> None:
    """Draw utility over time, and put the table between the two marks of the page."""
    findings = by_costs(scale)
    for figure in findings.figures:
        draw(figure, plots)
    (table,) = findings.tables
    head, _, rest = page.read_text(encoding="utf-8").partition(MARK)
    _, _, tail = rest.partition(END_MARK)
    lines = "\n".join(grid(table.columns, table.rows)).strip()
    page.write_text(f"{head}{MARK}\n{lines}\n{END_MARK}{tail}", encoding="utf-8")


if __name__ == "__main__":
    write(ROOT / "docs" / "networks-quality.md", ROOT / "docs" / "plots", Scale(quick=False))
