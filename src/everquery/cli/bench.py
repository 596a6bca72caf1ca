"""``everquery bench``: the benchmarks of the source checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

import everquery

NOT_HERE = """\
The benchmarks are part of the source checkout, not of the installed package. To run them:

    git clone <the everquery repository> && cd everquery && make bench
"""


def checkout() -> Path | None:
    """Return the folder of the checkout that this package runs from, or that is the current one."""
    for folder in (Path(everquery.__file__).parents[2], Path.cwd()):
        if (folder / "benchmarks" / "__main__.py").is_file():
            return folder
    return None


def bench(context: typer.Context) -> None:
    """Run the benchmarks against the papers' figures and our peers; arguments are passed on."""
    folder = checkout()
    if folder is None:
        typer.echo(NOT_HERE, err=True, nl=False)
        raise typer.Exit(1)
    command = [sys.executable, "-m", "benchmarks", *context.args]
    raise typer.Exit(subprocess.run(command, cwd=folder, check=False).returncode)
