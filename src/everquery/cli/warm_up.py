"""``everquery warm-up``: compile the loops before they are needed."""

from __future__ import annotations

import warnings

import pyarrow as pa
import typer

from everquery.cli.this_process import clock_since_start
from everquery.errors import UnwritableFileError
from everquery.index import kernel_cache
from everquery.sharding.warm_up import warm_up as compile_loops
from everquery.sources.market import market_stream


def warm_up() -> None:
    """Compile all loops, so that no run has to; worth it when an image is built.

    They are kept beside the installation or, where that can't be written, in a folder of the
    user's in ~/.cache. EVERQUERY_CACHE_DIR names another folder.
    """
    clock = clock_since_start()
    _demand(kernel_cache.hopeless())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the error below says the same
        compile_loops(market_stream(), pa.timestamp("us"))
    _demand(kernel_cache.TRAFFIC.unwritten)
    where = " and ".join(str(folder) for folder in kernel_cache.TRAFFIC.used)
    typer.echo(f"the loops are ready after {clock():.1f} s, in {where}")


def _demand(reason: str) -> None:
    if reason:
        raise UnwritableFileError(f"compiled loops can't be kept ({reason}); {kernel_cache.REMEDY}")
