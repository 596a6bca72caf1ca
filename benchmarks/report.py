"""Writes ``benchmarks.md`` from the result files, and from nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.findings import Figure, Record, Table
from benchmarks.plots import draw, short_number

ORDER = (
    "rivals",
    "rivals_jvm",
    "range_peers",
    "range_boxes",
    "border_figures",
    "border_engine",
    "threshold",
    "quantile_engine",
    "quantile_summary",
    "windows",
    "correlated",
    "select",
    "data_shapes",
    "live_changes",
    "history",
    "cold_start",
    "registry",
    "network",
    "shedding",
    "linear_road",
    "spark_runtime",
    "spark_quantiles",
    "spark_scale",
    "spark_networks",
    "cei_figures",
    "threshold_figures",
    "quantile_figures",
)
TITLES = {
    "rivals": "Beside what a user would pick instead",
    "rivals_jvm": "Beside Esper and Flink",
    "range_peers": "Range queries on one attribute",
    "range_boxes": "Range queries on two attributes",
    "border_figures": "Border queries: bmq-index Figures 6 to 9",
    "border_engine": "Border queries through the engine",
    "threshold": "Threshold queries",
    "quantile_engine": "Quantile queries",
    "spark_quantiles": "Quantile queries on Spark",
    "spark_scale": "The Spark runtime on a cluster",
    "select": "Select queries: PSoup Figures 7 to 11 and Table 2",
    "spark_networks": "Networks on Spark",
    "data_shapes": "Equal values and crowded queries",
    "live_changes": "Changes while events flow",
    "history": "The kept past",
    "cold_start": "First notice of a fresh process",
    "registry": "The registry and the command line",
    "shedding": "Networks under overload",
    "spark_runtime": "The Spark runtime",
    "cei_figures": "Range queries: cei-index Figures 14 to 19",
    "threshold_figures": "Threshold queries: range-thresholding Figures 3 to 8",
    "quantile_figures": "Quantile queries: continuous-quantiles Figures 5 to 15",
    "quantile_summary": "Quantile summaries beside KLL",
    "windows": "Window queries",
    "network": "A chain of boxes",
    "linear_road": "Networks: Linear Road",
    "correlated": "Correlated aggregates: correlated-aggregates Figures 4 to 13",
}
MARK, END_MARK = "<!-- measured: written by python -m benchmarks -->", "<!-- /measured -->"
_BORDER = "Border, 1,000,000 key-filtered queries, FL = 0.01%: `process`"
_RANGE = "Range, one attribute: search"
_BESIDE = "batches of 100,000: against the best of NumPy, Polars and DuckDB"
SUMMARY = {
    "events through 1,000,000 border queries on 2,000 keys": f"{_BORDER}, string keys",
    "the same with dictionary-encoded keys": f"{_BORDER}, dictionary keys",
    "event rate while 10,000 queries a second are registered": (
        "Border: event rate with 10,000 registrations a second, all cores"
    ),
    "events through 1,000,000 threshold queries, over a whole life": (
        "Threshold, one attribute, 1,000,000 queries: a whole life in batches"
    ),
    "the same against counting what a range index finds": (
        "Threshold, one attribute, 1,000,000 queries: in batches against stabbing"
    ),
    "events through 2,000,000 quantile queries, a normal stream, all notices written": (
        "2,000,000 quantile queries, normal, batches of 1,000,000: engine, all notices"
    ),
    "registering a table of 1,000,000 border queries": (
        "`register_table` of 1,000,000 border queries, index included"
    ),
    "the same into a SQLite registry": (
        "Loading 1,000,000 border queries into SQLite, index included"
    ),
    "single registrations by another process, each live with the next batch": (
        "Single registrations by another process, live with the next batch"
    ),
    "resident memory of a border query, without its id": (
        "Resident memory a border query, without the ids"
    ),
    "finding the ranges around a value among 100,000 (9.6 matches)": (
        f"{_RANGE} (HINT in C++: 576 ns)"
    ),
    "against ncls": f"{_RANGE} against ncls",
    "against superintervals": f"{_RANGE} against superintervals",
    "against rtree, 100,000 squares": (
        "Range, two attributes, 100,000 squares: search against rtree"
    ),
    "1,000,000 borders in batches of 100,000, beside the best of NumPy, Polars and DuckDB": (
        f"1,000,000 queries of kind border, {_BESIDE}"
    ),
    "100,000 ranges, 10 matches an event, likewise": f"100,000 queries of kind range, {_BESIDE}",
    "100,000 thresholds, likewise": f"100,000 queries of kind threshold, {_BESIDE}",
    "first notice of a fresh process, compilation included": (
        "First notice of a fresh process, empty cache, compilation included"
    ),
}
INTRO = """\
# Benchmarks

Made by `make bench` (`python -m benchmarks`) from the files in `benchmarks/results`; do not edit.
`python -m benchmarks --quick` runs everything in tiny sizes, `--only range_peers` one subject, and
`python benchmarks/compare.py OLD NEW` shows the ratios of two folders of results.

Workloads are seeded and have the papers' parameters. Contestants run in the same process, in turns,
on one core, and their results are compared before anything is timed. Warm-up is outside the timing.
A spread is how far the median of the rounds is above the best one, as a share of it.
"""


def write_report(results: Path, report: Path, plots: Path) -> None:
    """Draw all figures and write the page."""
    records = [Record.read(path) for path in results.glob("*.json")]
    records.sort(key=lambda record: ORDER.index(record.subject))
    for record in records:
        for figure in record.findings.figures:
            draw(figure, plots)
    folder = plots.relative_to(report.parent).as_posix()
    lines = [INTRO, *_provenance(records), *_asked(records)]
    for record in records:
        lines += _section(record, folder)
    report.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def write_summary(results: Path, readme: Path) -> None:
    """Put the measured numbers into the README, between its two marks."""
    checks = [
        check for path in results.glob("*.json") for check in Record.read(path).findings.checks
    ]
    measured = {check.what: f"{_number(check.measured)} {check.unit}" for check in checks}
    rows = [[what, measured[figure]] for what, figure in SUMMARY.items() if figure in measured]
    head, _, rest = readme.read_text(encoding="utf-8").partition(MARK)
    _, _, tail = rest.partition(END_MARK)
    table = "\n".join(grid(["", "measured"], rows)).strip()
    readme.write_text(f"{head}{MARK}\n{table}\n{END_MARK}{tail}", encoding="utf-8")


def _provenance(records: Sequence[Record]) -> list[str]:
    lines = []
    for machine in {str(record.provenance["machine"]): record for record in records}.values():
        facts = dict(machine.provenance["machine"])
        head = f"{facts.pop('cpu')}, {facts.pop('cores')} cores, {facts.pop('system')}"
        lines.append(f"Machine: {head}; {', '.join(f'{k} {v}' for k, v in facts.items())}.\n")
    if any(record.provenance["quick"] for record in records):
        lines.append("**Quick mode: tiny sizes. These numbers prove nothing but that it runs.**\n")
    rows = [
        [
            f"[{TITLES[record.subject]}](#{_anchor(TITLES[record.subject])})",
            record.subject,
            record.provenance["commit"][:10]
            + (" + changes" if record.provenance["uncommitted_changes"] else ""),
            record.provenance["seconds"],
        ]
        for record in records
    ]
    return [*lines, *grid(["", "subject", "commit", "seconds to run"], rows)]


def _anchor(title: str) -> str:
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def _asked(records: Iterable[Record]) -> list[str]:
    rows = [
        [
            check.what,
            check.asked,
            f"{_number(check.measured)} {check.unit}".strip(),
            "yes" if check.met else "**no**",
        ]
        for record in records
        for check in record.findings.checks
    ]
    met = sum(row[-1] == "yes" for row in rows)
    head = f"## Asked and measured\n\n{met} of {len(rows)} are met.\n"
    return [head, *grid(["figure", "asked", "measured", "met"], rows)]


def _section(record: Record, plots: str) -> list[str]:
    lines = [f"## {TITLES[record.subject]}\n"]
    facts = [f"{name} = {value}" for name, value in record.findings.parameters.items()]
    lines.append(f"Parameters: {'; '.join(facts)}.\n")
    for table in record.findings.tables:
        lines += _table(table)
    for figure in record.findings.figures:
        lines += _figure(figure, plots)
    return lines


def _table(table: Table) -> list[str]:
    lines = [f"### {table.title}\n", *grid(table.columns, table.rows)]
    return [*lines, f"{table.note}\n"] if table.note else lines


def _figure(figure: Figure, plots: str) -> list[str]:
    lines = [f"### {figure.title}\n", f"![{figure.title}]({plots}/{figure.name}.png)\n"]
    if figure.paper:
        lines.append(f"The paper: {figure.paper}\n")
    if figure.seen:
        lines.append(f"This run: {figure.seen.strip()}\n")
    for panel in figure.panels:
        columns = [figure.x_label, *panel.series]
        lines.append(f"{panel.title.capitalize()} ({panel.y_label}):\n")
        places: list[str] | list[float] = figure.x_names or figure.x
        rows = [
            [x, *values]
            for x, values in zip(places, zip(*panel.series.values(), strict=True), strict=True)
        ]
        lines += grid(columns, rows)
    return lines


def grid(columns: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> list[str]:
    """Return a table in Markdown."""
    cells = [list(row) for row in rows]
    rule = [
        "---" if any(isinstance(cell, str) for cell in column) else "---:"
        for column in zip(*cells, strict=True)
    ]
    lines = [columns, rule, *([_number(cell) for cell in row] for row in cells)]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def _number(cell: str | float | None) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if cell == int(cell) and abs(cell) < 1e15:
        return f"{int(cell):,}" if abs(cell) < 1e7 else short_number(cell)
    if abs(cell) >= 1e6:
        return short_number(cell)
    return f"{cell:,.0f}" if abs(cell) >= 1_000 else f"{cell:.3g}"
