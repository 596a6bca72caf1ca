"""The ``everquery`` command. A subcommand's module is loaded when the subcommand is used."""

from __future__ import annotations

from typing import Annotated

import typer

from everquery.cli import version
from everquery.cli.group import CommandGroup

app = typer.Typer(
    name="everquery",
    cls=CommandGroup,
    help="Standing queries over live streams: registered once, answered for ever.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


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
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app()
