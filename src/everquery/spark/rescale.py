"""Move a checkpoint to another number of partitions."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from everquery.errors import SparkError


def rescale(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Divide the state of a stopped query anew, so that as many tasks can work side by side.

    The query goes on from there when it is started again with any setting of
    ``spark.sql.shuffle.partitions``: the checkpoint remembers its own number. More partitions than
    the query has shards stay empty.

    Raises
    ------
    SparkError
        If the checkpoint is not one of a stopped query, or has that many already.
    """
    if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
        raise SparkError(f"partitions is {partitions!r}; it takes an integer of at least 1")
    for query in spark.streams.active:
        if query.isActive:
            raise SparkError("a query runs in this session; stop it before its state is moved")
    now = partitions_of(checkpoint)
    if now == partitions:
        raise SparkError(f"the checkpoint has {now} partitions already; nothing is changed")
    spark._streamingCheckpointManager.repartition(checkpoint, partitions)


def partitions_of(checkpoint: str) -> int:
    """Return into how many partitions the state of a checkpoint is divided."""
    folder = Path(checkpoint.removeprefix("file:")) / "offsets"
    batches = sorted(int(path.name) for path in folder.glob("[0-9]*")) if folder.is_dir() else []
    if not batches:
        raise SparkError(f"{checkpoint} is no checkpoint of a query that has run")
    for line in (folder / str(batches[-1])).read_text().splitlines():
        if line.startswith("{") and "conf" in line:
            settings = json.loads(line).get("conf", {})
            if "spark.sql.shuffle.partitions" in settings:
                return int(settings["spark.sql.shuffle.partitions"])
    raise SparkError(f"{checkpoint} does not say into how many partitions its state is divided")
