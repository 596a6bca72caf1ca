"""``everquery version``: what is installed."""

from __future__ import annotations

from importlib.metadata import version as installed

import typer


def version() -> None:
    """Print the version of everquery."""
    typer.echo(f"everquery {installed('everquery')}")
