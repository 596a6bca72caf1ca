"""``everquery warm-up``: compile the loops before they are needed."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pyarrow as pa
import typer

from everquery.cli.demo.embedded import EmbeddedRun
from everquery.cli.demo.plan import Plan
from everquery.cli.this_process import clock_since_start
from everquery.core import kernel_cache
from everquery.engine import Engine
from everquery.errors import UnwritableFileError
from everquery.queries import Quantile, Query, Range, Threshold
from everquery.sharding.warm_up import warm_up as compile_loops
from everquery.sources.market import market_stream
from everquery.stream import Stream

MANY = 400  # queries of a kind, and events of a batch
WINDOW = 10_000  # rows; of a window as long as this only samples are kept


def warm_up() -> None:
    """Compile all loops, so that no run has to; worth it when an image is built.

    They are kept beside the installation or, where that can't be written, in a folder of the
    user's in ~/.cache. EVERQUERY_CACHE_DIR names another folder.
    """
    clock = clock_since_start()
    _demand(kernel_cache.hopeless())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the error below says the same
        _compile()
    _demand(kernel_cache.TRAFFIC.unwritten)
    where = " and ".join(str(folder) for folder in kernel_cache.TRAFFIC.used)
    where = f", in {where}" if where else ": NUMBA_DISABLE_JIT is set, so that none are compiled"
    typer.echo(f"the loops are ready after {clock():.1f} s{where}")


def _compile() -> None:
    """Run tiny jobs of streams with one and several attributes, with and without key and time."""
    compile_loops(market_stream(), pa.timestamp("us"))
    boxes = Stream("boxes", key="key", time="time", attributes=["x", "y"], weight="weight")
    compile_loops(boxes, pa.timestamp("us"))
    compile_loops(Stream("values", attributes=["x"]), pa.null())
    EmbeddedRun(Plan(), clock=time.perf_counter).warm_up()
    _compile_for_many(boxes)


def _compile_for_many(stream: Stream) -> None:
    """Run what only more queries and events call for, such as tiles and sweeps; ask for answers."""
    x, y = stream.attributes
    queries: list[Query] = [
        Quantile("all", x, phi=0.5, epsilon=0.1),
        Quantile("last", x, phi=0.5, epsilon=0.1, last=WINDOW),
    ]
    for i in range(MANY):
        low, high = float(i % 50), 50.0 + i
        queries += [
            Range(f"range-{i}", {x: (low, low + 2), y: (low, low + 2)}),
            Threshold(f"wide-{i}", {x: (0, high), y: (0, high)}, total=1 + i),
            Threshold(f"line-{i}", {x: (0, high)}, total=1 + i, repeat=True),
        ]
    with Engine(stream) as engine:
        engine.register(queries)
        for number in range(3):
            engine.process(_events(stream, number))
            engine.answer("all")
            engine.answer("last")
            engine.pause("all")
            engine.resume("all")
        engine.quantiles(x, phi=[0.5, 0.9], last=WINDOW)
        engine.quantiles(x, phi=[0.5, 0.9])
        engine.deregister(["all", "last"])
        engine.process(_events(stream, 3))


def _events(stream: Stream, number: int) -> pa.Table:
    place = np.arange(MANY)
    values = dict.fromkeys(stream.attributes, place % 50 + 0.5)
    times = pa.array(place + MANY * number).cast(pa.timestamp("us"))
    keys = pa.array([f"key-{i % 3}" for i in place])
    return pa.table({"key": keys, "time": times, "weight": np.ones(MANY, np.int64), **values})


def _demand(reason: str) -> None:
    if reason:
        raise UnwritableFileError(f"compiled loops can't be kept ({reason}); {kernel_cache.REMEDY}")
