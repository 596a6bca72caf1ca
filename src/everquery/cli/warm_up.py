"""``everquery warm-up``: compile the loops before they are needed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pyarrow as pa
import typer

from everquery.cli.demo.embedded import EmbeddedRun
from everquery.cli.demo.plan import Plan
from everquery.cli.this_process import clock_since_start
from everquery.core import kernel_cache
from everquery.engine import Engine
from everquery.errors import UnwritableFileError
from everquery.kinds import KINDS, Kind
from everquery.kinds.samples import MANY
from everquery.sharding.warm_up import warm_up as compile_loops
from everquery.sources.market import market_stream
from everquery.stream import Stream

SOME = 2  # queries of a kind that are asked and paused
BOXES = Stream("boxes", key="key", time="time", attributes=["x", "y"], weight="weight")
HELPER = "from everquery.cli.warm_up import help_to_compile; help_to_compile()"
_SILENT: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)


def warm_up() -> None:
    """Compile all loops, so that no run has to; worth it when an image is built.

    They are kept beside the installation or, where that can't be written, in a folder of the
    user's in ~/.cache. EVERQUERY_CACHE_DIR names another folder.
    """
    clock = clock_since_start()
    _demand(kernel_cache.hopeless())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the error below says the same
        with _few_collections():
            _compile()
    _demand(kernel_cache.TRAFFIC.unwritten)
    where = " and ".join(str(folder) for folder in kernel_cache.TRAFFIC.used)
    where = f", in {where}" if where else ": NUMBA_DISABLE_JIT is set, so that none are compiled"
    typer.echo(f"the loops are ready after {clock():.1f} s{where}")


def _compile() -> None:
    """Compile most loops in two processes, each those of some kinds, and all others in this one."""
    alone = (os.cpu_count() or 1) == 1 or bool(getattr(numba.config, "DISABLE_JIT", False))
    helper = None if alone else subprocess.Popen([sys.executable, "-c", HELPER], **_SILENT)
    if helper is not None:
        try:
            compile_share(0, BOXES)
        finally:
            helper.wait()  # whatever it could not do is done below
    compile_loops(market_stream(), pa.timestamp("us"))
    compile_loops(BOXES, pa.timestamp("us"))
    compile_loops(Stream("values", attributes=["x"]), pa.null())
    EmbeddedRun(Plan(), clock=time.perf_counter).warm_up()
    _compile_for_many(BOXES, KINDS.values())


def help_to_compile() -> None:
    """Compile what the other process does not; without times, so that it alone has alert rules."""
    with _few_collections():
        compile_share(1, replace(BOXES, time=None))


@contextmanager
def _few_collections() -> Iterator[None]:
    """Look for garbage less often: compilers leave little, and a fifth of the time goes into it."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def compile_share(which: int, stream: Stream) -> None:
    """Compile the loops of every second kind of query, from the first or the second on."""
    kinds = list(KINDS.values())[which::2]
    compile_loops(stream, pa.null() if stream.time is None else pa.timestamp("us"), kinds)
    _compile_for_many(stream, kinds)


def _compile_for_many(stream: Stream, kinds: Iterable[Kind]) -> None:
    """Run what only more queries and events call for, such as tiles and sweeps; ask for answers."""
    crowds = {kind.name: list(kind.crowd(stream)) for kind in kinds}
    with Engine(stream) as engine:
        engine.register([query for crowd in crowds.values() for query in crowd])
        for number in range(3):
            engine.process(_events(stream, number))
            live = set(engine.queries()["id"].to_pylist())
            for name, crowd in crowds.items():
                some = [query.id for query in crowd if query.id in live][:SOME]
                _ask(engine, KINDS[name], some)
                engine.pause(some[:1])
                engine.resume(some[:1])
        engine.deregister(engine.queries()["id"].to_pylist()[::2])
        engine.process(_events(stream, 3))


def _ask(engine: Engine, kind: Kind, ids: list[str]) -> None:
    """Ask queries of a kind all questions that are about one query."""
    for name, question in kind.questions.items():
        if question.of_query:
            for query_id in ids:
                getattr(engine, name)(query_id)


def _events(stream: Stream, number: int) -> pa.Table:
    place = np.arange(MANY)
    values = dict.fromkeys(stream.attributes, place % 50 + 0.5)
    times = pa.array(place + MANY * number).cast(pa.timestamp("us"))
    keys = pa.array([f"key-{i % 3}" for i in place])
    return pa.table({"key": keys, "time": times, "weight": np.ones(MANY, np.int64), **values})


def _demand(reason: str) -> None:
    if reason:
        raise UnwritableFileError(f"compiled loops can't be kept ({reason}); {kernel_cache.REMEDY}")
