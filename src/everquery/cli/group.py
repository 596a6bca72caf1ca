"""What every command shares: errors in one line, exit codes, and ``--debug``."""

from __future__ import annotations

import errno
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from everquery.cli.commands import SUBCOMMANDS
from everquery.errors import EverqueryError

FAILED = 1
INTERRUPTED = 130  # as shells say it: 128 + SIGINT


class CommandGroup(TyperGroup):
    """The outermost group: an error of everquery's, or of the system's, is one line and exit 1.

    ``--debug`` may stand anywhere on the line; then the traceback comes first. What everquery's
    loggers warn of is a line on standard error. Subcommands are loaded when they are used.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - Typer's
        super().__init__(**options)
        self._unloaded = dict(SUBCOMMANDS)
        for name, each in SUBCOMMANDS.items():
            self.add_command(TyperCommand(name, help=each.help))  # which --help shows

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - click's
        """Load the subcommand that is wanted."""
        if args and args[0] in self._unloaded:
            self.add_command(self._unloaded.pop(args[0]).load(args[0]), args[0])
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's, wherever Typer has it
        """Find ``--debug`` wherever it stands."""
        end = args.index("--") if "--" in args else len(args)
        if "--debug" in args[:end]:
            args = ["--debug", *(arg for arg in args[:end] if arg != "--debug"), *args[end:]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - likewise
        """Run the command."""
        try:
            with _warnings_shown():
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


class _Lines(logging.Handler):
    """Writes what is logged as lines on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"everquery: {record.getMessage()}", err=True)


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """Let people see what everquery's loggers warn of."""
    logger, handler = logging.getLogger("everquery"), _Lines(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
