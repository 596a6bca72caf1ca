"""The ``everquery`` command: one module a subcommand."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from everquery.cli import bench, demo, version
from everquery.errors import EverqueryError

app = typer.Typer(
    name="everquery",
    help="Standing queries over live streams: registered once, answered for ever.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("bench", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    bench.bench
)
app.command("version")(version.version)


def _print_version(wanted: bool) -> None:
    if wanted:
        version.version()
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; an error of everquery's is one line, not a traceback."""
    try:
        app()
    except EverqueryError as error:
        typer.echo(f"everquery: {error}", err=True)
        sys.exit(2)
