"""Streams and stateless boxes as DataFrames: Spark's own select, where and union."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from everquery.network.boxes.filter import Filter
from everquery.network.boxes.map import Map
from everquery.network.boxes.passing import Passing
from everquery.network.boxes.union import Union
from everquery.network.ends import Source
from everquery.network.expressions.lists import scope_of
from everquery.network.expressions.parsing import parse
from everquery.network.expressions.types import BOOLEAN, INTEGER, NUMBER, TEXT
from everquery.network.graph import order
from everquery.network.model import Network
from everquery.network.rows import RowType
from everquery.network.spec import Box
from everquery.spark.columns import WHOLE
from everquery.spark.network.native import NotNativeError, known, native, native_value
from everquery.spark.network.rows import schema_of, spark_schema
from everquery.spark.rows import quoted

_EXACT = WHOLE[:-1]  # whole numbers that float64 can hold, all of them


def grown(
    network: Network,
    types: Mapping[str, RowType],
    frames: Mapping[str, DataFrame],
    *,
    only: Iterable[str] | None = None,
) -> dict[str, DataFrame]:
    """Return frames, and those of all boxes that Spark can run behind them by itself.

    Parameters
    ----------
    types : of the rows behind each stream, point and box
    only : names, optional
        Boxes that are wanted; else all.
    """
    found = dict(frames)
    boxes = network.readable
    wanted = None if only is None else set(only)
    for name in order(boxes, network.streams):
        box = boxes[name]
        if name in found or not all(source in found for source in box.sources):
            continue
        if wanted is not None and name not in wanted:
            continue
        try:
            inputs = {source: (found[source], types[source]) for source in box.sources}
            found[name] = _frame(box, inputs, types[name])
        except NotNativeError:
            continue
    return found


def _frame(box: Box, inputs: Mapping[str, tuple[DataFrame, RowType]], output: RowType) -> DataFrame:
    frame, rows = inputs[box.sources[0]]
    if isinstance(box, Passing):
        return frame
    if isinstance(box, Union):
        return _union(box, inputs, output)
    if not rows.bound or not isinstance(box, (Filter, Map)):
        raise NotNativeError(box.kind)
    scope = scope_of(dict(rows.columns), *box.sources)
    if isinstance(box, Filter):
        if callable(box.where):
            raise NotNativeError(box.kind)
        return frame.where(native(parse(box.where), scope))
    if callable(box.select):
        raise NotNativeError(box.kind)
    _, items = box.items(rows)
    return frame.select(*(native_value(item.tree, scope).alias(item.name) for item in items))


def _union(
    box: Union, inputs: Mapping[str, tuple[DataFrame, RowType]], output: RowType
) -> DataFrame:
    if any(dict(rows.columns) != dict(output.columns) for _, rows in inputs.values()):
        raise NotNativeError(box.kind)
    names = [quoted(name) for name in output.columns]
    first, *others = (inputs[source][0].select(*names) for source in box.sources)
    for other in others:
        first = first.union(other)
    return first


def taken_in(frame: DataFrame, source: Source, rows: RowType) -> DataFrame:
    """Return a stream's rows as an intake lets them in: without null keys and times.

    Raises
    ------
    NotNativeError
        If rows may be refused for more than that, or wait.
    """
    stream = source.stream
    if stream.grace is not None:
        raise NotNativeError("grace")
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    columns = {}
    for name, kind in rows.columns.items():
        if name in kinds:
            columns[name] = _taken(name, kinds[name], kind, may_be_nan=name == stream.time)
        else:
            (field,) = spark_schema(schema_of(RowType({name: kind}))).fields
            columns[name] = functions.lit(None).cast(field.dataType)
    found = frame.select(*(column.alias(name) for name, column in columns.items()))
    for name in filter(None, (stream.key, stream.time)):
        column = functions.col(quoted(name))
        there = column.isNotNull()
        floats = isinstance(kinds[name], (FloatType, DoubleType))
        found = found.where(there & ~functions.isnan(column) if floats else there)
    return found


def _taken(name: str, given: DataType, kind: pa.DataType, *, may_be_nan: bool) -> Column:
    column = functions.col(quoted(name))
    if kind == NUMBER and isinstance(given, (FloatType, DoubleType)):
        number = column.cast("double")
        return number if may_be_nan else known(number)
    same = (
        (kind == NUMBER and isinstance(given, _EXACT))
        or (kind == INTEGER and isinstance(given, WHOLE))
        or (kind == TEXT and isinstance(given, StringType))
        or (kind == BOOLEAN and isinstance(given, BooleanType))
        or (pa.types.is_date32(kind) and isinstance(given, DateType))
        or (pa.types.is_timestamp(kind) and _same_moment(given, kind))
    )
    if not same:
        raise NotNativeError(f"column {name!r}")
    (field,) = spark_schema(pa.schema([(name, kind)])).fields
    return column.cast(field.dataType)


def _same_moment(given: DataType, kind: pa.DataType) -> bool:
    return isinstance(given, TimestampType if kind.tz else TimestampNTZType)


def observed(frame: DataFrame, source: Source) -> DataFrame:
    """Return a stream's rows, which Spark counts on the way: all, and those that are refused."""
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    figures = [functions.count(functions.lit(1)).alias("rows")]
    for name, reason in ((source.stream.key, "null_key"), (source.stream.time, "null_time")):
        if name is not None:
            column = functions.col(quoted(name))
            lacks = column.isNull()
            if isinstance(kinds[name], (FloatType, DoubleType)):
                lacks = lacks | functions.isnan(column)
            figures.append(functions.count_if(lacks).alias(reason))
    return frame.observe(f"everquery_network_{source.stream.name}", *figures)
