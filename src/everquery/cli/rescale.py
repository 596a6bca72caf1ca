"""``everquery rescale``: another number of tasks for a Spark job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def rescale(
    checkpoint: Annotated[
        Path, typer.Argument(help="The checkpoint of a job that is stopped.", show_default=False)
    ],
    partitions: Annotated[
        int,
        typer.Option(min=1, help="How many tasks are to work side by side.", show_default=False),
    ],
    sink: Annotated[
        Path | None,
        typer.Option(help="The folder of notices, if the job writes files.", show_default=False),
    ] = None,
) -> None:
    """Divide the state of a stopped Spark job anew; the job goes on from there when it starts."""
    # Spark is slow to import, and not everybody has it.
    from everquery.spark import local_session, stop_session
    from everquery.spark.rescale import partitions_of
    from everquery.spark.rescale import rescale as divide

    before = partitions_of(str(checkpoint))
    spark = local_session("everquery rescale")
    try:
        divide(spark, str(checkpoint), partitions, file_sink=str(sink) if sink else None)
    finally:
        stop_session(spark)
    typer.echo(f"{checkpoint}: {before} partitions before, {partitions} now")
