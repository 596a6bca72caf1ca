"""``everquery demo``: a million standing queries over a simulated market."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from everquery.cli.demo.drive import run_embedded, run_on_spark
from everquery.cli.demo.plan import Plan
from everquery.cli.demo.report import print_summary
from everquery.cli.group import INTERRUPTED
from everquery.cli.numbers import parse_share
from everquery.cli.options import CORES, Cores, RunEngine
from everquery.cli.this_process import clock_since_start
from everquery.sources.market import LARGEST_FLUCTUATION

FLUCTUATIONS = ("0.01%", "0.02%", "0.05%", "0.1%")
# Seconds, events a batch, queries that are changed: a file of the market is read in one piece.
DEFAULTS = {RunEngine.embedded: (20.0, 100_000, 100), RunEngine.spark: (30.0, 500_000, 1_000)}


def share(text: str, option: str, *, below: float) -> float:
    """Read a share of the domain, given as a percentage or as a number."""
    try:
        value = parse_share(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < below:
        raise typer.BadParameter(
            f"{text!r} is no share; give one such as 0.01% or 0.0001, below {below:.0%}",
            param_hint=option,
        )
    return value


def demo(
    engine: Annotated[
        RunEngine,
        typer.Option(help="Run on Spark in local mode, or embedded in this process alone."),
    ] = RunEngine.spark,
    queries: Annotated[
        int, typer.Option(min=1, help="Standing queries: 80% border, 10% range, 10% threshold.")
    ] = 1_000_000,
    symbols: Annotated[int, typer.Option(min=1, help="Symbols of the market.")] = 2_000,
    events: Annotated[int | None, typer.Option(min=1, help="Stop after this many events.")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Events a batch, or a file.", show_default="500000, embedded 100000"
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Stop after this long, from the first result on.",
            show_default="30, embedded 20, or none with --events",
        ),
    ] = None,
    changes: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Queries registered, and dropped, by a second process while the market runs;"
            " embedded: before each batch.",
            show_default="1000, embedded 100",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal markets.")] = 7,
    fluctuations: Annotated[
        list[str] | None,
        typer.Option(
            "--fluctuation",
            help="Mean step of a price as a share of its domain; several take turns.",
            show_default=", ".join(FLUCTUATIONS),
        ),
    ] = None,
    width: Annotated[
        str, typer.Option(help="Width of the queries, as a share of the domain.")
    ] = "0.1%",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Keep registry, events, notices and Spark's log in this new folder.",
            show_default="a temporary one",
        ),
    ] = None,
    cores: Cores = CORES,
    as_json: Annotated[bool, typer.Option("--json", help="Print only a summary in JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the summary.")] = False,
) -> None:
    """Watch a simulated market with a million standing queries.

    Prices are random walks with the fluctuation levels of the BMQ-Index paper. Each query watches a
    range of one symbol's price: what enters and leaves it, every trade inside, or the trade with
    which so many shares have changed hands inside. Some are added and dropped while the market
    runs.
    """
    clock = clock_since_start()
    usual_seconds, usual_size, usual_changes = DEFAULTS[engine]
    plan = Plan(
        queries=queries,
        symbols=symbols,
        batch_size=usual_size if batch_size is None else batch_size,
        events=events,
        seconds=usual_seconds if seconds is None and events is None else seconds,
        changes=usual_changes if changes is None else changes,
        fluctuations=tuple(
            share(level, "--fluctuation", below=LARGEST_FLUCTUATION)
            for level in fluctuations or FLUCTUATIONS
        ),
        width=share(width, "--width", below=1.0),
        seed=seed,
    )
    console = Console(highlight=False)
    silent = quiet or as_json
    if engine is RunEngine.spark:
        summary = run_on_spark(plan, out, console, cores=cores, clock=clock, silent=silent)
    else:
        if out is not None:
            raise typer.BadParameter("the embedded demo writes nothing", param_hint="--out")
        summary = run_embedded(plan, console, clock=clock, silent=silent)
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        print_summary(summary, console)
        if engine is RunEngine.spark and out is None:
            console.print("--out FOLDER keeps registry, events and notices.", style="dim")
    if summary["interrupted"]:
        raise typer.Exit(INTERRUPTED)
