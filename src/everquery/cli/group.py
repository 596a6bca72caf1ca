"""What every command shares: errors in one line, exit codes, and ``--debug``."""

from __future__ import annotations

import errno
import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from everquery.errors import EverqueryError

FAILED = 1
INTERRUPTED = 130  # as shells say it: 128 + SIGINT


class CommandGroup(TyperGroup):
    """The outermost group: an error of everquery's, or of the system's, is one line and exit 1.

    ``--debug`` may stand anywhere on the line; then the traceback comes first.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's, wherever Typer has it
        """Find ``--debug`` wherever it stands."""
        end = args.index("--") if "--" in args else len(args)
        if "--debug" in args[:end]:
            args = ["--debug", *(arg for arg in args[:end] if arg != "--debug"), *args[end:]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - likewise
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("everquery: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except (EverqueryError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader of our output has left; click ends quietly
            if ctx.params.get("debug"):
                typer.echo(traceback.format_exc(), err=True, nl=False)
            typer.echo(f"everquery: {error}", err=True)
            raise typer.Exit(FAILED) from None
