"""What the demo leaves behind: a summary, as a dictionary for machines and as tables for people.

A summary has what every run tells and what its runtime adds. A row or a table is printed where the
summary has what it shows, so that there is one report for all runtimes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from everquery.cli.demo.run import Run
from everquery.cli.numbers import megabytes, percent, rate

Summary = dict[str, Any]
Rows = list[tuple[str, str]]
SLOWEST = 6  # stages


def summarise(run: Run, *, interrupted: bool) -> Summary:
    """Return what a run has done; nothing in it that JSON can't say."""
    run.recent()  # brings the tally up
    plan, tally, numbers = run.plan, run.tally, run.numbers()
    seconds = max(tally.run_seconds, 1e-9)
    return {
        "version": version("everquery"),
        "engine": run.engine_name,
        "interrupted": interrupted,
        "plan": {
            **asdict(plan),
            "queries": plan.by_kind(),
            "fluctuations": list(plan.fluctuations),
            **numbers.pop("plan", {}),
        },
        "events": tally.events,
        "batches": tally.batches,
        "events_per_second": (tally.events - tally.untimed_events) / seconds,
        "notices": tally.notices,
        "notices_by_event": dict(tally.by_event),
        "notices_per_second": (tally.notices - tally.untimed_notices) / seconds,
        "queries": run.queries(),
        "registered_live": dict(tally.registered),
        "dropped_live": dict(tally.dropped),
        "ended_by_firing": dict(tally.ended),
        "seconds": {
            "first_result": tally.first_result_seconds,
            "run": tally.run_seconds,
            "in_all": run.clock(),
            **numbers.pop("seconds"),
        },
        **numbers,
    }


def print_summary(summary: Summary, console: Console) -> None:
    """Print a run's summary; 80 columns are enough."""
    if summary["interrupted"]:
        console.print("Stopped; this is what was done until then.", style="yellow")
    sides = Table.grid(expand=False, padding=(0, 2))
    run, queries = _rows(summary, _RUN), _rows(summary, _QUERIES)
    sides.add_row(_listing("Run", run), _listing("Queries", queries))
    console.print(sides)
    for name, table in _TABLES.items():
        if summary.get(name) and summary["batches"]:
            console.print(table(summary))


# -- names and values -----------------------------------------------------------------------------


def _count(value: Any) -> str:  # noqa: ANN401 - a number of JSON
    return f"{value:,}"


def _sum(value: dict[str, int]) -> str:
    return f"{sum(value.values()):,}"


def _time(value: float | None) -> str:
    return "none yet" if value is None else f"{value:.2f} s"


def _times(value: float) -> str:
    return f"{value:.2f} times"


Shown = list[tuple[str, str, Callable[[Any], str]]]

# Names, where in the summary the values are, and how they are printed. "{}" is each entry of a
# dictionary.
_RUN: Shown = [
    ("events", "events", _count),
    ("  a second", "events_per_second", rate),
    ("  a second, engine", "events_per_process_second", rate),
    ("notices", "notices", _count),
    ("  {}", "notices_by_event", _count),
    ("  a second", "notices_per_second", rate),
    ("dead letters", "dead_letters", _count),
    ("refused", "refused", _count),
    ("batches", "batches", _count),
    ("trigger, median", "seconds.trigger_median", _time),
    ("a no-op of Spark", "no_op_events_per_second", rate),
    ("  trigger rate of it", "trigger_rate_of_no_op", _times),
    ("lag, median", "seconds.lag_median", _time),
    ("peak memory", "peak_resident_bytes", megabytes),
]
_QUERIES: Shown = [
    ("{} queries", "queries", _count),
    ("registered live", "registered_live", _sum),
    ("dropped live", "dropped_live", _sum),
    ("ended by firing", "ended_by_firing", _sum),
    ("told at registration", "notices_at_registration", _count),
    ("in effect after", "seconds.change_in_effect_median", _time),
    ("time to warm up", "seconds.warm_up", _time),
    ("time to compile", "seconds.to compile", _time),
    ("time to register", "seconds.register", _time),
    ("first batch", "seconds.to first batch", _time),
    ("first result after", "seconds.first_result", _time),
    ("run time", "seconds.run", _time),
    ("in all", "seconds.in_all", _time),
]


def _rows(summary: Summary, shown: Shown) -> Rows:
    rows = []
    for name, where, text in shown:
        *above, last = where.split(".")
        found = summary[above[0]] if above else summary
        if last not in found:
            continue
        if "{}" in name:
            rows += [(name.format(each), text(value)) for each, value in found[last].items()]
        else:
            rows.append((name, text(found[last])))
    return rows


def _titled(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE)


def _listing(title: str, rows: Rows) -> Table:
    table = _titled(title)
    table.show_header = False
    table.add_column(no_wrap=True, min_width=19)
    table.add_column(justify="right", no_wrap=True, min_width=10)
    for name, value in rows:
        table.add_row(name, value)
    return table


# -- tables ---------------------------------------------------------------------------------------


def _levels(summary: Summary) -> Table:
    table = _titled("By fluctuation level (mean step as a share of the domain)")
    for name in ("level", "events", "in the engine", "a batch", "notices", "per event"):
        table.add_column(name, justify="right", no_wrap=True)
    for level in summary["levels"]:
        if level["batches"]:  # not stopped before its turn
            table.add_row(
                percent(level["fluctuation"]),
                f"{level['events']:,}",
                rate(level["events_per_process_second"]),
                f"{level['process_seconds'] * 1e3 / level['batches']:.1f} ms",
                f"{level['notices']:,}",
                f"{level['notices'] / level['events']:.3f}",
            )
    return table


def _stages(summary: Summary) -> Table:
    table = _titled("Slowest stages, without the first batch")
    table.add_column("stage", no_wrap=True)
    for name in ("a batch", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    for stage in summary["stages"][:SLOWEST]:
        share = percent(round(stage["share"], 3))
        table.add_row(stage["meaning"], f"{stage['seconds_a_batch'] * 1e3:,.1f} ms", share)
    return table


def _bytes(summary: Summary) -> Table:
    total = sum(summary["bytes"].values())
    queries = max(1, sum(summary["queries"].values()))
    rows = [(name, megabytes(size)) for name, size in summary["bytes"].items()]
    rows += [("in all", megabytes(total)), ("a query", f"{total / queries:.0f} bytes")]
    return _listing("Bytes by structure", rows)


_TABLES = {"levels": _levels, "stages": _stages, "bytes": _bytes}
