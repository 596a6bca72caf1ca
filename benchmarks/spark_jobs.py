"""Streaming jobs that the Spark runtime is measured beside; importable by Spark's workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, functions
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

import everquery as eq

# Without time: the files come again and again, and time would run backwards.
STREAM = eq.Stream("trades", key="symbol", attributes=["price"])
WEIGHED = eq.Stream("sales", key="symbol", attributes=["price"], weight="shares")
COUNT = StructType([StructField("count", LongType())])
NOTICE = StructType(
    [StructField(name, StringType()) for name in ("query_id", "kind", "event", "key")]
    + [StructField("seq", LongType()), StructField("price", DoubleType())]
)
_NOTICE_ARROW = to_arrow_schema(NOTICE)
_engines: dict[str, eq.Engine] = {}


def no_op(df: DataFrame) -> DataFrame:
    """Return the same rows, through Python and back."""

    def same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return df.mapInArrow(same, df.schema)


def _by_shard(df: DataFrame) -> Any:
    shard = functions.expr("pmod(hash(symbol), 2)").cast("int").alias("shard")
    return df.select(shard, "symbol", "price").groupBy("shard")


class _Empty(StatefulProcessor):
    """Reads and writes one small value a batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._value = handle.getValueState("value", COUNT)

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,
    ) -> Iterator[pd.DataFrame]:
        seen = sum(len(frame) for frame in rows)
        before = self._value.get()
        self._value.update((seen + (before[0] if before else 0),))
        yield pd.DataFrame({"count": [seen]})

    def close(self) -> None:
        pass


def empty(df: DataFrame) -> DataFrame:
    """Return an empty stateful job over the same source."""
    frame: DataFrame = _by_shard(df).transformWithStateInPandas(_Empty(), COUNT, "Append", "None")
    return frame


class _RowByRow(StatefulProcessor):
    """The same logic as ours, with one row an event; its state is not even kept."""

    def __init__(self, registry: str) -> None:
        self._registry = registry

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._value = handle.getValueState("value", COUNT)

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,
    ) -> Iterator[pd.DataFrame]:
        if self._registry not in _engines:
            _engines[self._registry] = eq.Engine(STREAM, registry=self._registry)
        told = 0
        for frame in rows:
            batch = pa.Table.from_pandas(frame[["symbol", "price"]], preserve_index=False)
            notices = _engines[self._registry].process(batch).select(NOTICE.names)
            told += notices.num_rows
            yield notices.cast(_NOTICE_ARROW).to_pandas()
        self._value.update((told,))

    def close(self) -> None:
        pass


def row_by_row(df: DataFrame, registry: str) -> DataFrame:
    """Return our logic as a job to which Spark gives every event as a row."""
    frame: DataFrame = _by_shard(df).transformWithStateInPandas(
        _RowByRow(registry), NOTICE, "Append", "None"
    )
    return frame


def range_join(df: DataFrame, queries: DataFrame) -> DataFrame:
    """Return what a Spark user writes today: a join of events with a table of ranges."""
    table = functions.broadcast(queries)
    inside = (df.symbol == table.key) & (df.price >= table.price_lo) & (df.price < table.price_hi)
    return df.join(table, inside).select("id", "symbol", "price")
