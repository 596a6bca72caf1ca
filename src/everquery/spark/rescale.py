"""Move a checkpoint to another number of partitions."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from everquery.errors import SparkError


def rescale(
    spark: SparkSession, checkpoint: str, partitions: int, *, file_sink: str | None = None
) -> None:
    """Divide the state of a stopped query anew, so that as many tasks can work side by side.

    The query goes on from there when it is started again with any setting of
    ``spark.sql.shuffle.partitions``: the checkpoint remembers its own number. More partitions than
    the query has shards stay empty.

    Parameters
    ----------
    spark : SparkSession
    checkpoint : str
        The folder of the checkpoint.
    partitions : int
    file_sink : str, optional
        The folder that the query writes its notices to, if it writes files. Spark counts the
        division as a batch, and readers of the folder miss a batch that its log does not have.

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
    log = None if file_sink is None else _folder(file_sink) / "_spark_metadata"
    if log is not None and not log.is_dir():
        raise SparkError(f"{file_sink} is no folder that a query writes files to")
    spark._streamingCheckpointManager.repartition(checkpoint, partitions)
    if log is not None:
        _note_batch(log, _batches(checkpoint)[-1], _interval(spark))


def partitions_of(checkpoint: str) -> int:
    """Return into how many partitions the state of a checkpoint is divided."""
    offsets = _folder(checkpoint) / "offsets"
    batches = _batches(checkpoint)
    if not batches:
        raise SparkError(f"{checkpoint} is no checkpoint of a query that has run")
    for line in (offsets / str(batches[-1])).read_text().splitlines():
        if line.startswith("{") and "conf" in line:
            settings = json.loads(line).get("conf", {})
            if "spark.sql.shuffle.partitions" in settings:
                return int(settings["spark.sql.shuffle.partitions"])
    raise SparkError(f"{checkpoint} does not say into how many partitions its state is divided")


def _folder(path: str) -> Path:
    return Path(path.removeprefix("file://").removeprefix("file:"))


def _batches(checkpoint: str) -> list[int]:
    names = (path.name for path in (_folder(checkpoint) / "offsets").glob("[0-9]*"))
    return sorted(int(name) for name in names if name.isdigit())


def _interval(spark: SparkSession) -> int:
    return int(spark.conf.get("spark.sql.streaming.fileSink.log.compactInterval") or 10)


def _note_batch(log: Path, batch: int, interval: int) -> None:
    """Enter a batch without files into the log of a file sink, as Spark would."""
    if (batch + 1) % interval:
        (log / str(batch)).write_text("v1")
        return
    lines: list[str] = []
    first = max(0, batch - interval)  # the last batch whose entry has all before it
    compacted = log / f"{first}.compact"
    if compacted.is_file():
        lines += compacted.read_text().splitlines()[1:]
    for number in range(first, batch):
        if (log / str(number)).is_file():
            lines += (log / str(number)).read_text().splitlines()[1:]
    (log / f"{batch}.compact").write_text("\n".join(["v1", *lines]))
