"""What the demo leaves behind: a summary, as a dictionary for machines and as tables for people."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from everquery.cli.demo_job import DemoJob, Level, Plan
from everquery.cli.numbers import megabytes, percent, rate
from everquery.cli.this_process import peak_bytes

Rows = list[tuple[str, str]]


def summarise(job: DemoJob, *, interrupted: bool) -> dict[str, Any]:
    """Return what a run has done; nothing in it that JSON can't say."""
    plan, tally, stats = job.plan, job.tally, job.engine.stats()
    return {
        "version": version("everquery"),
        "interrupted": interrupted,
        "plan": plan_as_json(plan),
        "events": tally.events,
        "batches": tally.batches,
        "events_per_second": _ratio(tally.events, tally.run_seconds),
        "events_per_process_second": _ratio(tally.events, tally.process_seconds),
        "notices": tally.all_notices,
        "notices_by_event": dict(tally.notices),
        "notices_at_registration": tally.told_at_registration,
        "notices_per_second": _ratio(tally.all_notices, tally.run_seconds),
        "levels": [_level(level) for level in tally.levels.values()],
        "queries": {kind: stats["queries"][kind] for kind in plan.by_kind()},
        "registered_live": dict(tally.registered),
        "dropped_live": dict(tally.dropped),
        "ended_by_firing": dict(tally.ended),
        "dead_letters": stats["dead_letters"],
        "seconds": {
            "warm_up": tally.warm_up_seconds,
            "generate_queries": tally.generate_seconds,
            "register": tally.register_seconds,
            "first_result": tally.first_result_seconds,
            "run": tally.run_seconds,
            "market": tally.market_seconds,
            "changes": tally.change_seconds,
            "process": tally.process_seconds,
        },
        "bytes": {name: size for name, size in stats["bytes"].items() if size},
        "peak_resident_bytes": peak_bytes(),
    }


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """Return what a run was asked to do."""
    return {**asdict(plan), "queries": plan.by_kind(), "fluctuations": list(plan.fluctuations)}


def print_sides(summary: dict[str, Any], run: Rows, queries: Rows, console: Console) -> None:
    """Print what was done, and what of queries, side by side; 80 columns are enough."""
    if summary["interrupted"]:
        console.print("Stopped; this is what was done until then.", style="yellow")
    sides = Table.grid(expand=False, padding=(0, 2))
    sides.add_row(listing("Run", run), listing("Queries", queries))
    console.print(sides)


def print_summary(summary: dict[str, Any], console: Console) -> None:
    """Print a run's summary."""
    print_sides(summary, _run_rows(summary), _query_rows(summary), console)
    if summary["batches"]:
        console.print(_levels(summary))
    console.print(listing("Bytes by structure", _byte_rows(summary)))


def _level(level: Level) -> dict[str, Any]:
    return {
        "fluctuation": level.fluctuation,
        "batches": level.batches,
        "events": level.events,
        "notices": level.notices,
        "process_seconds": level.seconds,
        "events_per_process_second": _ratio(level.events, level.seconds),
    }


def _ratio(count: float, by: float) -> float:
    return count / by if by else 0.0


def _run_rows(summary: dict[str, Any]) -> Rows:
    return [
        ("events", f"{summary['events']:,}"),
        ("  a second, overall", rate(summary["events_per_second"])),
        ("  a second, engine", rate(summary["events_per_process_second"])),
        ("notices", f"{summary['notices']:,}"),
        *((f"  {event}", f"{count:,}") for event, count in summary["notices_by_event"].items()),
        ("  a second, overall", rate(summary["notices_per_second"])),
        ("dead letters", f"{summary['dead_letters']:,}"),
        ("run time", f"{summary['seconds']['run']:.1f} s"),
    ]


def _query_rows(summary: dict[str, Any]) -> Rows:
    seconds = summary["seconds"]
    first = seconds["first_result"]
    return [
        *((f"{kind} queries", f"{count:,}") for kind, count in summary["queries"].items()),
        ("registered live", f"{sum(summary['registered_live'].values()):,}"),
        ("dropped live", f"{sum(summary['dropped_live'].values()):,}"),
        ("ended by firing", f"{sum(summary['ended_by_firing'].values()):,}"),
        ("told at registration", f"{summary['notices_at_registration']:,}"),
        ("time to warm up", f"{seconds['warm_up']:.2f} s"),
        ("time to register", f"{seconds['register']:.2f} s"),
        ("first result after", "none yet" if first is None else f"{first:.2f} s"),
        ("peak memory", megabytes(summary["peak_resident_bytes"])),
    ]


def _byte_rows(summary: dict[str, Any]) -> Rows:
    total = sum(summary["bytes"].values())
    queries = sum(summary["queries"].values())
    return [
        *((name, megabytes(size)) for name, size in summary["bytes"].items()),
        ("in all", megabytes(total)),
        ("a query", f"{_ratio(total, queries):.0f} bytes"),
    ]


def table_titled(title: str) -> Table:
    """Return a table with a title."""
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE)


def listing(title: str, rows: Rows) -> Table:
    """Return names and values as a table."""
    table = table_titled(title)
    table.show_header = False
    table.add_column(no_wrap=True, min_width=19)
    table.add_column(justify="right", no_wrap=True, min_width=10)
    for name, value in rows:
        table.add_row(name, value)
    return table


def _levels(summary: dict[str, Any]) -> Table:
    table = table_titled("By fluctuation level (mean step as a share of the domain)")
    for name in ("level", "events", "in the engine", "a batch", "notices", "per event"):
        table.add_column(name, justify="right", no_wrap=True)
    for level in summary["levels"]:
        if not level["batches"]:  # stopped before its turn
            continue
        table.add_row(
            percent(level["fluctuation"]),
            f"{level['events']:,}",
            rate(level["events_per_process_second"]),
            f"{_ratio(level['process_seconds'] * 1e3, level['batches']):.1f} ms",
            f"{level['notices']:,}",
            f"{_ratio(level['notices'], level['events']):.3f}",
        )
    return table
