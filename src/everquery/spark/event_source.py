"""Events that never become rows of Spark: a source that hands out spans, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from everquery.errors import SparkError
from everquery.sharding import live
from everquery.sharding.spans import SpanReader, Spans
from everquery.spark.planning import end_quietly
from everquery.spark.rows import PACKED, SPAN_NAMES
from everquery.stream import Stream

_ROW = to_arrow_schema(PACKED)  # a source must say exactly what can't be null


@dataclass(frozen=True, slots=True)
class EventSource:
    """Events that workers read for themselves; `watch` takes it where it takes a DataFrame.

    Attributes
    ----------
    spark : SparkSession
    stream : Stream
    schema : the Arrow types of the events' columns
    format : the name of the source of Spark that hands out spans
    options : those of that source
    reads : function
        Takes the names of the columns that are wanted, and returns what reads them from spans.
    """

    spark: SparkSession
    stream: Stream
    schema: pa.Schema
    format: str
    options: Mapping[str, str]
    reads: Callable[[Sequence[str]], SpanReader]

    @property
    def columns(self) -> StructType:
        """The types of the events' columns, as Spark calls them."""
        return from_arrow_schema(self.schema, prefer_timestamp_ntz=True)

    def spans(self, *, together: bool) -> DataFrame:
        """Return a stream of spans, as rows of `PACKED` without shards.

        Parameters
        ----------
        together : bool
            Whether one worker reads all spans of a batch, which it then gets in one row; else each
            is a row and a task of its own.
        """
        options = {**self.options, "together": str(together)}
        return self.spark.readStream.format(self.format).options(**options).load()


class SpanSource(DataSource):
    """A streaming source of spans; each has a name, and what hands out its spans."""

    def schema(self) -> StructType:
        """Return the columns."""
        return PACKED


class SpanStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Hands out spans from offset to offset.

    Spark keeps one in a process of the driver, for offsets and partitions; `read` runs in
    executors.

    Parameters
    ----------
    together : bool
        As of `EventSource.spans`.
    """

    def __init__(self, *, together: bool) -> None:
        self._together = together

    def _divided(
        self, names: Sequence[Any], ahead: Sequence[Any], first: int
    ) -> list[InputPartition]:
        """Return partitions that name spans, numbered from `first` on."""
        groups: list[list[Any]] = [[name] for name in names]
        if self._together:
            groups = [list(names)] if names else []
        return [
            InputPartition((first + i, Spans(group, ahead).to_bytes()))
            for i, group in enumerate(groups)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the names of a partition's spans as a row of `PACKED`, of no shard yet."""
        first, spans = partition.value
        row = {
            "shard": 0,
            "source": SPAN_NAMES,
            "first": first,
            "second": 0,
            "named": 0,
            "operation": None,
            "payload": spans,
            "digest": None,
        }
        yield pa.RecordBatch.from_pylist([row], _ROW)

    def commit(self, end: dict[str, Any]) -> None:
        """Give nothing up: offsets are in the checkpoint."""

    def stop(self) -> None:
        """Close nothing: what is open ends with the process."""
        end_quietly()


def partitions_of(spark: SparkSession) -> int:
    """Return into how many partitions Spark divides state."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 0)


def by_reference(source: DataFrame | EventSource, state: str, shards: int) -> bool:
    """Tell whether the state of a job refers to its events; raise if it can't."""
    if state not in ("changes", "reference"):
        raise SparkError(f"state is {state!r}; it takes 'changes' or 'reference'")
    if state == "changes":
        return False
    if isinstance(source, DataFrame):
        raise SparkError(
            "state='reference' needs events that can be read again, and a DataFrame can't promise"
            " that; give what read_files or read_kafka returns, or leave state out"
        )
    if (partitions := partitions_of(source.spark)) != 1:
        raise SparkError(
            "state='reference' needs one partition of state, whose worker reads the events, and"
            f" spark.sql.shuffle.partitions is {partitions}; set it to 1, or leave state out"
        )
    if shards > live.MOST:
        raise SparkError(
            f"state='reference' is for {live.MOST} shards at most, which a worker keeps from batch"
            f" to batch, and these are {shards}, wide ones among them; give fewer, or leave state"
            " out"
        )
    return True
