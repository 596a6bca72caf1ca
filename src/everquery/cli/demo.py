"""``everquery demo``: a million standing queries over a simulated market."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from everquery.cli.demo_job import DemoJob, Plan
from everquery.cli.demo_report import print_summary, summarise
from everquery.cli.demo_view import LineView, LiveView, View
from everquery.cli.numbers import parse_share
from everquery.cli.this_process import clock_since_start, interruptible
from everquery.sources.market import LARGEST_FLUCTUATION

DEFAULT_SECONDS = 20.0
FLUCTUATIONS = ("0.01%", "0.02%", "0.05%", "0.1%")
INTERRUPTED = 130  # as shells say it: 128 + SIGINT


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
    queries: Annotated[
        int, typer.Option(min=1, help="Standing queries: 90% border, 10% range.")
    ] = (1_000_000),
    symbols: Annotated[int, typer.Option(min=1, help="Symbols of the market.")] = 2_000,
    events: Annotated[int | None, typer.Option(min=1, help="Stop after this many events.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Events a batch.")] = 100_000,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Stop after this long.", show_default="20, or none with --events"
        ),
    ] = None,
    changes: Annotated[
        int, typer.Option(min=0, help="Queries registered, and dropped, before each batch.")
    ] = 100,
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
    as_json: Annotated[bool, typer.Option("--json", help="Print only a summary in JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the summary.")] = False,
) -> None:
    """Watch a simulated market with a million standing queries.

    Prices are random walks with the fluctuation levels of the BMQ-Index paper. Each query watches a
    range of one symbol's price; some are added and dropped while the market runs.
    """
    clock = clock_since_start()
    plan = Plan(
        queries=queries,
        symbols=symbols,
        batch_size=batch_size,
        events=events,
        seconds=DEFAULT_SECONDS if seconds is None and events is None else seconds,
        changes=changes,
        fluctuations=tuple(
            share(level, "--fluctuation", below=LARGEST_FLUCTUATION)
            for level in fluctuations or FLUCTUATIONS
        ),
        width=share(width, "--width", below=1.0),
        seed=seed,
    )
    console = Console(highlight=False)
    job = DemoJob(plan, clock=clock)
    with job.engine:
        interrupted = _run(job, _view(job, console, silent=quiet or as_json))
        summary = summarise(job, interrupted=interrupted)
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        print_summary(summary, console)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _view(job: DemoJob, console: Console, *, silent: bool) -> View:
    if silent:
        return View(job, console)
    live = console.is_interactive and console.file.isatty()
    return (LiveView if live else LineView)(job, console)


def _run(job: DemoJob, view: View) -> bool:
    """Run until the plan is fulfilled or Ctrl-C is pressed; tell whether it was."""
    with view:
        view.warming_up()
        try:
            job.warm_up()
        except KeyboardInterrupt:  # nothing has begun that could be left half done
            return True
        return _run_warm(job, view)


def _run_warm(job: DemoJob, view: View) -> bool:
    with interruptible() as pressed:
        for done in job.register():
            view.registering(done)
            if pressed():
                return True
        for beat in job.run():
            view.running(beat)
            if pressed():
                return True
    return False
