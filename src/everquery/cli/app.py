"""The ``everquery`` command: one module a subcommand."""

from __future__ import annotations

from typing import Annotated

import typer

from everquery.cli import (
    bench,
    init,
    plot,
    query,
    quota,
    registry,
    replay,
    rescale,
    run,
    sql,
    stream,
    version,
    warm_up,
)
from everquery.cli.demo.command import demo
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
app.command("init")(init.init)
app.add_typer(stream.app, name="stream")
app.add_typer(query.app, name="query")
app.add_typer(quota.app, name="quota")
app.add_typer(registry.app, name="registry")
app.command("sql")(sql.sql)
app.command("run")(run.run)
app.command("replay")(replay.replay)
app.add_typer(plot.app, name="plot")
app.command("rescale")(rescale.rescale)
app.command("demo")(demo)
app.command("bench", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    bench.bench
)
app.command("warm-up")(warm_up.warm_up)
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
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app()
