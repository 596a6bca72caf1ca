"""The process that Spark's Python workers are forked from, with what they need loaded before.

A worker of Spark's own daemon imports everything, and loads all compiled loops, in the middle of
its first batch. Here that is done once, and the memory is shared by all workers of a host.
``spark.python.daemon.module`` names this module (`everquery.spark.spark_settings`).
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext

STAGE = "EVERQUERY_STAGE"
SHARDS, NETWORK = "shards", "network"


@contextmanager
def own_workers(context: SparkContext, stage: str = SHARDS) -> Iterator[None]:
    """Give the stage that is defined meanwhile workers of its own.

    Spark keeps idle workers in a queue for each environment. From one that all stages share, a
    stage gets another worker in every batch, which has no live arrays.
    """
    context.environment[STAGE] = stage
    try:
        yield
    finally:
        del context.environment[STAGE]


def load(*, loops: bool, network: bool = False) -> None:
    """Import what workers run, and load its loops."""
    import pyarrow as pa
    import pyspark.worker  # noqa: F401 - it is what a worker does

    if network:
        import everquery.spark.network.work
    else:
        import everquery.spark.shard_work  # noqa: F401

    if loops:
        from everquery.sharding.warm_up import warm_up
        from everquery.stream import Stream

        warm_up(Stream("s", key="k", time="t", attributes=["x"], weight="w"), pa.int64())
    gc.collect()
    gc.freeze()  # what is shared should not be written to by every worker's collection


def _load_quietly() -> None:
    """Load what can be: what fails here fails in a worker, too, whose errors Spark tells."""
    standard_output = os.dup(1)
    os.dup2(2, 1)  # Spark reads there where the daemon listens
    try:
        stage = os.environ.get(STAGE)
        load(loops=stage == SHARDS, network=stage == NETWORK)
    except Exception:
        traceback.print_exc()
    finally:
        os.dup2(standard_output, 1)
        os.close(standard_output)


if __name__ == "__main__":
    from pyspark.daemon import manager

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads do not live through a fork
    if sys.argv[1:] == ["pyspark.worker"]:  # there are daemons for planning, too
        _load_quietly()
    manager()
