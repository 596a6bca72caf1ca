"""``everquery warm-up``: compile the loops before they are needed."""

from __future__ import annotations

import pyarrow as pa
import typer

from everquery.cli.this_process import clock_since_start
from everquery.sharding.warm_up import warm_up as compile_loops
from everquery.sources.market import market_stream


def warm_up() -> None:
    """Compile all loops, so that no run has to; worth it when an image is built.

    They are cached beside the installation, or in ~/.cache where that can't be written.
    """
    clock = clock_since_start()
    compile_loops(market_stream(), pa.timestamp("us"))
    typer.echo(f"the loops are ready after {clock():.1f} s")
