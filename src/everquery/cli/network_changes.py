"""``everquery network attach`` and ``detach``: changes of a network that another process runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from everquery.errors import InvalidNetworkError
from everquery.network.control import DONE, REFUSED, Control, begin_of
from everquery.network.runtime.points import NOW

LOOK_SECONDS = 0.05

Folder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="What `network run` was given with --control."),
]
Wait = Annotated[
    float, typer.Option("--wait", help="Seconds to wait until a run has made the change.")
]


def attach(
    folder: Folder,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Boxes and outputs, in YAML as in a network.")
    ],
    begin: Annotated[
        str, typer.Option("--begin", help="now, oldest, or a time: from when on.")
    ] = NOW,
    wait: Wait = 10.0,
) -> None:
    """Attach boxes to connection points of a network that runs with --control."""
    control = Control(folder)
    _told(control, control.attach(file, begin_of(begin)), wait)


def detach(
    folder: Folder,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Boxes and outputs.")],
    wait: Wait = 10.0,
) -> None:
    """Take boxes and outputs out of a network that runs with --control."""
    control = Control(folder)
    _told(control, control.detach(names), wait)


def _told(control: Control, number: int, wait: float) -> None:
    """Print what became of a change; one that was refused is an error."""
    end = time.monotonic() + wait
    while (answer := control.answer(number)) is None and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    if answer is None:
        typer.echo(
            f"change {number} waits: no run has made it yet. The one that follows"
            f" {control.folder} does before its next batch, or the next one at its start"
        )
    elif REFUSED in answer:
        raise InvalidNetworkError(f"change {number} was refused: {answer[REFUSED]}")
    else:
        typer.echo(f"change {number} is made, after batch {answer[DONE]}")
