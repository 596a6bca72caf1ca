"""What the demo on Spark leaves behind: a summary, for machines and for people."""

from __future__ import annotations

from importlib.metadata import version
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from everquery.cli.demo_report import Rows, plan_as_json, print_sides, table_titled
from everquery.cli.numbers import percent, rate
from everquery.cli.spark_demo import SparkDemo

MEANINGS = {
    "open": "shards: live arrays found, or built from state",
    "unpack": "shards: packed events as columns",
    "changes": "shards: query changes applied",
    "events": "shards: events matched with queries",
    "merge": "shards: indexes merged",
    "commit": "shards: state written",
    "spark_query_planning": "Spark: the plan of the batch",
    "spark_latest_offset": "Spark: what is new in the sources",
    "spark_get_batch": "Spark: the batch put together",
    "spark_wal_commit": "Spark: the batch noted as begun",
    "spark_commit_offsets": "Spark: the batch noted as done",
    "spark_rest": "Spark: files read, events packed, Parquet written",
}
SLOWEST = 6


def summarise(demo: SparkDemo, *, interrupted: bool) -> dict[str, Any]:
    """Return what a run has done; nothing in it that JSON can't say."""
    plan, tally = demo.plan, demo.tally
    demo.told.read_new()
    ended = demo.ended()
    timed = tally.batches[1:]
    seconds = max(tally.run_seconds, 1e-9)
    return {
        "version": version("everquery"),
        "engine": "spark",
        "interrupted": interrupted,
        "plan": {**plan_as_json(plan), "cores": demo.cores},
        "events": tally.events,
        "batches": len(tally.batches),
        "events_per_second": tally.timed_events / seconds,
        "notices": tally.notices,
        "notices_by_event": demo.told.by_event,
        "notices_per_second": tally.timed_notices / seconds,
        "refused": tally.refused,
        "queries": {
            kind: count + tally.registered[kind] - tally.dropped[kind] - ended[kind]
            for kind, count in plan.by_kind().items()
        },
        "registered_live": dict(tally.registered),
        "dropped_live": dict(tally.dropped),
        "ended_by_firing": ended,
        "log_position": max((batch.position for batch in tally.batches), default=0),
        "rebuilt": tally.rebuilt,
        "seconds": {
            **{f"to {name}": spent for name, spent in tally.seconds.items()},
            "first_result": tally.first_result_seconds,
            "run": tally.run_seconds,
            "in_all": demo.clock(),
            "trigger_median": _median([batch.seconds for batch in timed]),
            "trigger_longest": max((batch.seconds for batch in timed), default=0.0),
            "lag_median": _median(tally.lags),
            "change_in_effect_median": _median(tally.effect_seconds),
        },
        "stages": stages(demo),
    }


def stages(demo: SparkDemo) -> list[dict[str, Any]]:
    """Return the stages of the batches behind the first, the slowest first.

    Shards work at the same time, so what they spend is divided by how many there are.
    """
    timed = demo.tally.batches[1:]
    shards = max(1, demo.cores)
    spent: dict[str, float] = {}
    for batch in timed:
        inside = 0.0
        for stage, seconds in batch.stages.items():
            if stage == "spark_add_batch":
                continue
            mine = seconds if stage.startswith("spark_") else seconds / shards
            inside += 0.0 if stage.startswith("spark_") else mine
            spent[stage] = spent.get(stage, 0.0) + mine
        rest = max(0.0, batch.stages.get("spark_add_batch", 0.0) - inside)
        spent["spark_rest"] = spent.get("spark_rest", 0.0) + rest
    in_all = sum(batch.seconds for batch in timed) or 1.0
    found = [
        {
            "stage": stage,
            "meaning": MEANINGS.get(stage, stage),
            "seconds": seconds,
            "share": seconds / in_all,
            "seconds_a_batch": seconds / len(timed),
        }
        for stage, seconds in spent.items()
    ]
    return sorted(found, key=lambda each: -float(each["seconds"]))


def _median(values: list[float]) -> float:
    return median(values) if values else 0.0


def print_spark_summary(summary: dict[str, Any], console: Console) -> None:
    """Print a run's summary."""
    print_sides(summary, _run_rows(summary), _query_rows(summary), console)
    if summary["stages"]:
        console.print(_stage_table(summary["stages"][:SLOWEST]))


def _run_rows(summary: dict[str, Any]) -> Rows:
    seconds = summary["seconds"]
    return [
        ("events", f"{summary['events']:,}"),
        ("  a second", rate(summary["events_per_second"])),
        ("notices", f"{summary['notices']:,}"),
        *((f"  {event}", f"{count:,}") for event, count in summary["notices_by_event"].items()),
        ("  a second", rate(summary["notices_per_second"])),
        ("refused", f"{summary['refused']:,}"),
        ("batches", f"{summary['batches']:,}"),
        ("trigger, median", f"{seconds['trigger_median']:.2f} s"),
        ("lag, median", f"{seconds['lag_median']:.2f} s"),
    ]


def _query_rows(summary: dict[str, Any]) -> Rows:
    seconds = summary["seconds"]
    first = seconds["first_result"]
    return [
        *((f"{kind} queries", f"{count:,}") for kind, count in summary["queries"].items()),
        ("registered live", f"{sum(summary['registered_live'].values()):,}"),
        ("dropped live", f"{sum(summary['dropped_live'].values()):,}"),
        ("ended by firing", f"{sum(summary['ended_by_firing'].values()):,}"),
        ("in effect after", f"{seconds['change_in_effect_median']:.2f} s"),
        ("time to compile", f"{seconds.get('to compile', 0.0):.1f} s"),
        ("time to register", f"{seconds.get('to register', 0.0):.1f} s"),
        ("first batch", f"{seconds.get('to first batch', 0.0):.1f} s"),
        ("first result after", "none yet" if first is None else f"{first:.1f} s"),
        ("run time", f"{seconds['run']:.1f} s"),
        ("in all", f"{seconds['in_all']:.1f} s"),
    ]


def _stage_table(found: list[dict[str, Any]]) -> Table:
    table = table_titled("Slowest stages, without the first batch")
    table.add_column("stage", no_wrap=True)
    for name in ("a batch", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in found:
        share = percent(round(each["share"], 3))
        table.add_row(each["meaning"], f"{each['seconds_a_batch'] * 1e3:,.1f} ms", share)
    return table
