"""The past that a job's shards keep, in batch jobs: what queries would have told."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from everquery.core.arrow_bytes import checked_table, table_bytes
from everquery.errors import HistoryError, InvalidQueryError
from everquery.history.backfill import Backfill
from everquery.history.history import History
from everquery.queries import Query
from everquery.queries.begin import OLDEST, Begin, read_begin
from everquery.queries.changes import Register
from everquery.registry import Registry
from everquery.shard import Shard
from everquery.shard.untold import plain_columns
from everquery.sharding.routing import Shards, part_of
from everquery.stream import Stream


def dry_run(
    spark: SparkSession,
    history: Path | str,
    queries: Query | Iterable[Query],
    *,
    registry: str,
    stream: str | None = None,
    begin: Any = OLDEST,  # noqa: ANN401 - "oldest" or a time
    end: Any = None,  # noqa: ANN401 - as above
    wide_shards: int = 1,
) -> pa.Table:
    """Return the notices that queries would have told in the past that a job keeps.

    A task for each shard reads the files of that shard; no event becomes a row of Spark. Nothing
    is registered, and a job that runs is not disturbed.

    Parameters
    ----------
    history : path
        The folder that `watch` was given.
    registry : str
        The URL of the job's registry, which has the stream and divides keys among shards.
    begin, end : "oldest" or a time
        Places mean other events to each shard, and can't be given.
    wide_shards : int
        That of the job.

    Raises
    ------
    HistoryError
        If there is no past, or `begin` is before what is kept.
    """
    since = read_begin(begin)
    until = None if end is None else read_begin(end, name="end")
    if since.is_place or (until is not None and until.is_place):
        raise InvalidQueryError('on Spark, begin and end are "oldest" or times: shards count alone')
    folders = sorted(Path(history).absolute().glob("shard-*"))
    if not folders:
        raise HistoryError(f"{str(history)!r} has no past of a job; give the folder of its history")
    log = Registry(registry, create=False)
    try:
        known, secret = log.stream(stream), log.shard_secret()
    finally:
        log.close()
    several = (queries,) if isinstance(queries, Query) else tuple(queries)
    change = Register(tuple(part for each in several for part in each.parts()))
    wide = 0 if known.key is None else wide_shards
    shards = Shards(len(folders) - wide, wide, secret)
    parts = [part_of(change, number, shards, known) for number in range(len(folders))]
    tried = [
        TriedShard(str(folder), known, part, since, until)
        for folder, part in zip(folders, parts, strict=True)
        if isinstance(part, Register) and part.queries
    ]
    found = spark.sparkContext.parallelize(tried, max(1, len(tried))).map(TriedShard.run).collect()
    tables = [checked_table(content, "notices") for content in found]
    return pa.concat_tables(tables, promote_options="permissive").sort_by("time")


@dataclass(frozen=True)
class TriedShard:
    """Queries that are tried on the past of one shard."""

    folder: str
    stream: Stream
    change: Register
    begin: Begin
    end: Begin | None

    def run(self) -> bytes:
        """Return the notices as bytes."""
        shard = Shard(self.stream)
        past = History(shard, Path(self.folder))
        past.open()
        shard.passage.recorder = None
        backfill = Backfill(
            nullcontext(), lambda: shard, past, self.change, self.begin, self.end, tried=True
        )
        backfill.finish()
        return table_bytes(plain_columns(backfill.table()))
