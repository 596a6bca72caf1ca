"""``everquery run``: events in, notices out."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from everquery.cli.event_job import STDIN, EventJob, open_inputs
from everquery.cli.event_view import EventView
from everquery.cli.group import INTERRUPTED
from everquery.cli.options import AsJson, IntegerKeys, RegistryUrl, StreamName, existing_engine
from everquery.cli.output import print_json
from everquery.cli.this_process import clock_since_start, interruptible
from everquery.sinks import (
    BackgroundWriter,
    JsonLinesWriter,
    NoticeWriter,
    TextWriter,
    open_writer,
)


class TextFormat(StrEnum):
    """What standard input holds."""

    jsonl = "jsonl"
    csv = "csv"


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES...", help="CSV, JSON lines, Parquet or Arrow files; - is standard input."
    ),
]
Form = Annotated[TextFormat, typer.Option("--format", help="What standard input holds.")]


def run(
    files: Files,
    registry: RegistryUrl,
    stream: StreamName = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write notices to a .jsonl or .parquet file.")
    ] = None,
    form: Form = TextFormat.jsonl,
    integer_keys: IntegerKeys = False,
    labels: Annotated[
        bool, typer.Option("--labels", help="Tell the owner and labels of each query too.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    as_json: AsJson = False,
) -> None:
    """Process events, and tell what the standing queries notice.

    Notices go to the terminal, as lines or (--json) as JSON lines, or to a file. Queries that are
    registered meanwhile take part from the next batch on. Ctrl-C stops between two batches.
    """
    opened = existing_engine(registry, stream, lazy=False, labels=labels)
    with interruptible() as stop, opened as engine:
        inputs = open_inputs(files, engine, form=form.value, integer_keys=integer_keys, stop=stop)
        job = EventJob(engine, inputs, clock=clock_since_start(), stop=stop)
        to_terminal = out in (None, Path(STDIN)) and sys.stdout.isatty()
        console = Console(stderr=True)
        with (
            _writer(out, as_json=as_json) as writer,
            EventView(job, console, wanted=not quiet and not to_terminal) as view,
        ):
            for source, piece, notices in job.run():
                writer.write(notices)
                view.update(source, piece)
        if not quiet:
            _summarise(job, as_json=as_json, to_stderr=out in (None, Path(STDIN)))
    if job.interrupted:
        raise typer.Exit(INTERRUPTED)


def _writer(out: Path | None, *, as_json: bool) -> NoticeWriter:
    if out is None and not as_json:
        return TextWriter(sys.stdout.buffer, colour=sys.stdout.isatty())
    if out is None or out == Path(STDIN):
        return JsonLinesWriter(sys.stdout.buffer)
    return BackgroundWriter(open_writer(out))


def _summarise(job: EventJob, *, as_json: bool, to_stderr: bool) -> None:
    if as_json:
        print_json(job.summary(), err=to_stderr)
        return
    for line in job.summary_lines():
        typer.echo(line, err=to_stderr)
