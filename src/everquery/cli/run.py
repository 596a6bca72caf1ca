"""``everquery run``: events in, notices out."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from everquery.cli.event_job import STDIN, EventJob, check_inputs, open_inputs
from everquery.cli.event_view import EventView
from everquery.cli.group import INTERRUPTED
from everquery.cli.options import (
    CORES,
    AsJson,
    Cores,
    IntegerKeys,
    RegistryUrl,
    RunEngine,
    StreamName,
    existing_engine,
)
from everquery.cli.output import print_json
from everquery.cli.run_outputs import OUT, Keeper, Outputs, all_closed
from everquery.cli.run_state import RunState, StateFile
from everquery.cli.spark_run import RunPlan, SparkRun, batch_line
from everquery.cli.this_process import clock_since_start, interruptible


class TextFormat(StrEnum):
    """What standard input holds."""

    jsonl = "jsonl"
    csv = "csv"


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES...",
        help="CSV, JSON (both also .gz, .zst), Parquet or Arrow files, or folders of them;"
        " - is standard input.",
    ),
]
Form = Annotated[TextFormat, typer.Option("--format", help="What standard input holds.")]


def run(
    files: Files,
    registry: RegistryUrl,
    stream: StreamName = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Write notices to a .jsonl or .parquet file; on Spark to a folder of such files.",
        ),
    ] = None,
    dead_letters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write refused events with reasons to a .csv, .jsonl or .parquet."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Go on where the run with this file ended, or was killed."
        ),
    ] = None,
    state_every: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How often --state is saved.")
    ] = 10.0,
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep the past of the stream there, as its keep says, for queries that begin in"
            " it.",
        ),
    ] = None,
    runtime: Annotated[
        RunEngine, typer.Option("--engine", help="Run in this process, or on Spark in local mode.")
    ] = RunEngine.embedded,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Spark: go on with files that come later.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Spark: go on where the run with this folder ended. Without it, start anew.",
        ),
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Spark: keep metrics in a file, as Prometheus text."),
    ] = None,
    cores: Cores = CORES,
    form: Form = TextFormat.jsonl,
    integer_keys: IntegerKeys = False,
    labels: Annotated[
        bool, typer.Option("--labels", help="Tell the owner and labels of each query too.")
    ] = False,
    all_columns: Annotated[
        bool,
        typer.Option(
            "--all-columns",
            help="Give notices the columns of all kinds, also of those without a query.",
        ),
    ] = False,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only",
            help="Leave the registry as it is: queries that end in this run stay in it.",
        ),
    ] = False,
    threads: Annotated[
        int, typer.Option(min=1, help="Threads that divide the work of large batches.")
    ] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    as_json: AsJson = False,
) -> None:
    """Process events, and tell what the standing queries notice.

    Notices go to the terminal, as lines or (--json) as JSON lines, or to a file. Queries that are
    registered meanwhile take part from the next batch on. Ctrl-C, or the signal TERM, stops between
    two batches. A threshold that fires once, or a query whose ttl passes, ends in the registry too,
    unless --read-only is given; a run on Spark never writes to the registry's log.
    """
    if runtime is RunEngine.spark:
        _refuse(
            {
                "--labels": labels,
                "--dead-letters": dead_letters,
                "--state": state,
                "--history": history,
                "--threads": threads > 1,
            },
            runtime=RunEngine.embedded,
        )
        plan = RunPlan(
            inputs=[Path(name) for name in files],
            registry=registry,
            stream=stream,
            follow=follow,
            out=out,
            checkpoint=checkpoint,
            metrics=metrics,
            cores=cores,
            integer_keys=integer_keys,
            as_json=as_json,
        )
        _run_on_spark(plan, quiet=quiet)
        return
    _refuse(
        {"--follow": follow, "--checkpoint": checkpoint, "--metrics": metrics},
        runtime=RunEngine.spark,
    )
    outputs = Outputs(out, dead_letters, as_json)
    with ExitStack() as stack:
        kept = _state_file(state, outputs, files)
        if kept is not None:
            stack.callback(kept.close)
        known = RunState() if kept is None else kept.load()
        engine = stack.enter_context(
            existing_engine(
                registry,
                stream,
                lazy=False,
                labels=labels,
                all_columns=all_columns,
                read_only=read_only,
                threads=threads,
                history=history,
                snapshot=known.snapshot,
            )
        )
        stop = stack.enter_context(interruptible())
        clock = clock_since_start()
        inputs = open_inputs(files, engine, form=form.value, integer_keys=integer_keys, stop=stop)
        if kept is not None:
            check_inputs(inputs, known)
        job = EventJob(
            engine, inputs, clock=clock, stop=stop, state=None if kept is None else known
        )
        to_terminal = outputs.to_stdout and sys.stdout.isatty()
        writers = outputs.open(known)
        with (
            all_closed(writers),
            EventView(job, Console(stderr=True), wanted=not quiet and not to_terminal) as view,
        ):
            keeper = Keeper(
                engine, outputs, writers, state=known, file=kept, every=state_every, clock=clock
            )
            for source, piece, notices in job.run():
                keeper.take(job, source, piece, notices)
                view.update(source, piece)
            keeper.save(job, ended=True)
        if late := writers[OUT].left_out:
            typer.echo(
                f"{out} lacks {', '.join(late)}: the first query with such columns came while the"
                " file was written; --all-columns has them from the start",
                err=True,
            )
        if not quiet:
            _summarise(job, as_json=as_json, to_stderr=outputs.to_stdout)
    if job.interrupted:
        raise typer.Exit(INTERRUPTED)


def _state_file(path: Path | None, outputs: Outputs, inputs: list[str]) -> StateFile | None:
    """Return the file of a run's state, which must be a run that can be gone on with."""
    if path is None:
        return None
    if STDIN in inputs:
        raise typer.BadParameter(
            "standard input can't be read again after a crash; name files, or leave out --state",
            param_hint="FILES",
        )
    for option, output in outputs.files().items():
        if output.suffix.lower() in (".parquet", ".pq"):
            raise typer.BadParameter(
                "a run with --state goes on with its files, and Parquet can't be gone on with;"
                " write .jsonl",
                param_hint=option,
            )
    return StateFile(path)


def _run_on_spark(plan: RunPlan, *, quiet: bool) -> None:
    if Path(STDIN) in plan.inputs:
        raise typer.BadParameter(
            "Spark reads no standard input: after a crash it could not be read again;"
            " name files or folders, or run with --engine embedded",
            param_hint="FILES",
        )
    with interruptible() as stop:
        run = SparkRun(plan, clock=clock_since_start(), stop=stop)
        for batch in run.batches():
            if not quiet:
                typer.echo(batch_line(batch), err=True)
        if not quiet:
            _summarise(run, as_json=plan.as_json, to_stderr=plan.out in (None, Path(STDIN)))
    if run.interrupted:
        raise typer.Exit(INTERRUPTED)


def _refuse(options: dict[str, object], *, runtime: RunEngine) -> None:
    """Refuse what only the other runtime does."""
    for name, value in options.items():
        if value:
            raise typer.BadParameter(f"it needs --engine {runtime}", param_hint=name)


def _summarise(job: EventJob | SparkRun, *, as_json: bool, to_stderr: bool) -> None:
    if as_json:
        print_json(job.summary(), err=to_stderr)
        return
    for line in job.summary_lines():
        typer.echo(line, err=to_stderr)
