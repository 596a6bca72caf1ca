"""The stateful stage: streams packed, one operator that runs their boxes, rows of outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions

from everquery.network.model import Network
from everquery.network.rows import RowType
from everquery.sharding.spans import SpanReader
from everquery.spark.daemon import NETWORK, own_workers
from everquery.spark.event_source import EventSource, partitions_of
from everquery.spark.network.gates import CONTROL, RAW, control_source
from everquery.spark.network.processor import RunNetwork
from everquery.spark.network.rows import FIGURES, GIVEN, PIECE, PackRows, UnpackRows, spark_schema
from everquery.spark.network.work import NetworkWork
from everquery.spark.rows import quoted
from everquery.spark.watching import one_host, placed

OBSERVED = "everquery_network"
"""The name under which the figures of a batch are observed."""


@dataclass(frozen=True)
class Sources:
    """Where streams come from.

    Attributes
    ----------
    frames : mapping of str to DataFrame or EventSource
    place : mapping of str to names of columns
        As `everquery.spark.watch` has it, by stream.
    file_order : str
    control : DataFrame, optional
        Which share of which stream is shed, from the next batch on.
    """

    frames: Mapping[str, DataFrame | EventSource]
    place: Mapping[str, Sequence[str]] = field(default_factory=dict)
    file_order: str = "name"
    control: DataFrame | None = None


def given_frame(
    spark: SparkSession,
    network: Network,
    sources: Sources,
    types: Mapping[str, RowType],
    schemas: Mapping[str, pa.Schema],
    *,
    letters: bool,
) -> DataFrame:
    """Return rows of `GIVEN`: what a network's outputs are given, batch by batch.

    Parameters
    ----------
    types : of the rows of streams
    schemas : of outputs
    letters : bool
        Whether refused rows come along.
    """
    pieces: list[DataFrame] = []
    readers: dict[str, SpanReader] = {}
    for number, name in enumerate(network.streams):
        own = name.removesuffix(RAW)
        source = sources.control if name == CONTROL else sources.frames[own]
        rows_type = control_source().row_type() if name == CONTROL else types[own]
        wanted = rows_type.columns
        assert source is not None
        if isinstance(source, DataFrame):
            pieces.append(_packed(spark, source, number, own, list(wanted), sources))
        else:
            readers[name] = source.reads([one for one in wanted if one in source.schema.names])
            pieces.append(_spans(source, number))
    rows = pieces[0]
    for other in pieces[1:]:
        rows = rows.union(other)
    if partitions_of(spark) == 1:
        rows = rows.coalesce(1)  # nothing is shuffled
    work = NetworkWork(network, schemas, readers, letters=letters, one_host=one_host(spark))
    with own_workers(spark.sparkContext, NETWORK):
        given = rows.groupBy("part").transformWithState(RunNetwork(work), GIVEN, "Append", "None")
    return given.observe(OBSERVED, *(functions.sum(name).alias(name) for name in FIGURES))


def _packed(
    spark: SparkSession,
    frame: DataFrame,
    number: int,
    name: str,
    wanted: list[str],
    sources: Sources,
) -> DataFrame:
    columns = {one: functions.col(quoted(one)) for one in wanted if one in frame.columns}
    columns |= placed(frame, sources.place.get(name, ()), sources.file_order)
    numbered = [column.alias(f"c{i}") for i, column in enumerate(columns.values())]
    pack = PackRows(number, list(columns), one_host(spark))
    return frame.select(*numbered).mapInArrow(pack, PIECE)


def _spans(source: EventSource, number: int) -> DataFrame:
    spans = source.spans(together=True)
    return spans.select(
        functions.lit(0).alias("part"),
        functions.lit(number).alias("stream"),
        "source",
        "first",
        "second",
        functions.lit(None).cast("string").alias("file"),
        "payload",
    )


def unpacked(given: DataFrame, number: int, schema: pa.Schema) -> DataFrame:
    """Return the rows of one output."""
    own = given.where((functions.col("output") == number) & _is_there()).select("file", "payload")
    return own.mapInArrow(UnpackRows(), spark_schema(schema))


def _is_there() -> Column:
    return functions.col("file").isNotNull() | functions.col("payload").isNotNull()
