"""Events that never become rows of Spark: a source that hands out spans, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from everquery.sharding.spans import SpanReader, Spans
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


def span_rows(first: int, spans: Spans) -> Iterator[pa.RecordBatch]:
    """Yield spans as a row of `PACKED`, of no shard yet."""
    row = {
        "shard": 0,
        "source": SPAN_NAMES,
        "first": first,
        "second": 0,
        "named": 0,
        "operation": None,
        "payload": spans.to_bytes(),
        "digest": None,
    }
    yield pa.RecordBatch.from_pylist([row], _ROW)


def grouped(names: Sequence[Any], together: bool) -> list[list[Any]]:
    """Return names of spans as one group, or each as one of its own."""
    return ([list(names)] if names else []) if together else [[name] for name in names]
