"""Standing queries over a streaming DataFrame."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from everquery.errors import InvalidStreamError, SparkError
from everquery.kinds.reference import described
from everquery.registry import Registry
from everquery.registry.follower import absolute_url
from everquery.shard.layout import notice_schema
from everquery.sharding.job import Job
from everquery.sharding.places import OFFSET, PATH, SOURCE
from everquery.sharding.span_events import ClockedReader
from everquery.sharding.spans import SpanReader
from everquery.sharding.telling import plain_schema
from everquery.spark.clock import clock_column
from everquery.spark.columns import WHOLE, check_columns, key_types, time_types
from everquery.spark.daemon import own_workers
from everquery.spark.event_source import EventSource, by_reference, partitions_of
from everquery.spark.partitions import MOST_SHARDS, shard_codes
from everquery.spark.quarantine_reports import HELD_OUT, OBSERVED, REGISTRY, report_quarantined
from everquery.spark.registry_source import MAX_QUERIES, NAME, RegistrySource
from everquery.spark.rows import KAFKA_PLACE, PACKED, TOLD, quoted
from everquery.spark.run_shards import RunShards
from everquery.spark.session import QUERY_SETTINGS, START_SETTINGS
from everquery.spark.shard_work import ShardWork
from everquery.spark.stages import PackEvents, PackSpans, RouteLog, UnpackNotices
from everquery.state.events import UNREADABLE
from everquery.stream import Stream

METRICS = OBSERVED
logger = logging.getLogger("everquery.spark")

_advised: set[str] = set()  # applications
SHARDS = 8


@described
def watch(
    df: DataFrame | EventSource,
    stream: Stream | str,
    *,
    registry: str,
    create: bool = False,
    shards: int = SHARDS,
    carry: Sequence[str] = (),
    dead_letters: bool = False,
    max_queries_a_batch: int = MAX_QUERIES,
    place: Sequence[str] = (),
    file_order: Literal["name", "time"] = "name",
    wide_shards: int = 1,
    clock: str | None = None,
    folder: Path | str | None = None,
    history: Path | str | None = None,
    state: Literal["changes", "reference"] = "changes",
) -> DataFrame:
    """Return the notices of a registry's standing queries over a streaming DataFrame.

    Parameters
    ----------
    df : DataFrame or EventSource
        A streaming DataFrame with the stream's columns and any others, or what `read_files`
        or `read_kafka` returns.
    stream : Stream or str
        A stream, or the name of one that the registry has.
    registry : str
        The URL of the registry; queries that come and go in it take effect in the next batch.
    create : bool
        Make the registry if it is not there. Without, that is an error: a typo in the URL would
        else be a job without queries.
    shards : int
        Into how many parts keys are divided: the most tasks that can ever work side by side. It
        stays the same for the life of a checkpoint; the number of partitions may change.
    carry : sequence of str
        Other columns of the events that notices are to have too.
    dead_letters : bool
        Whether refused events come along as rows of kind ``dead_letter``, with their reason.
    max_queries_a_batch : int
        Changes that name more wait for the next batch, so that events are not held up.
    place : sequence of str
        Columns that tell where an event stands in its source: what names its partition, and last
        its number there, such as ``["topic", "partition", "offset"]``. The events of a batch are
        taken in this order, or by time and then in this order if the stream has a time. Files
        that Spark reads, and `everquery.spark.kafka`, tell the place by themselves. Any other
        source is taken in the order of Spark's partitions, which may be another one when a batch
        is done again.
    file_order : {"name", "time"}
        How the files of a batch follow each other, if Spark reads files: by their path, as
        ``everquery run`` takes them, or by their time of change, as Spark puts them into batches.
    wide_shards : int
        How many further shards see the events of all keys, for queries that look at all of them
        together, such as thresholds without key. Without such queries 0 saves sending all events
        twice; one that comes all the same is then quarantined. Like `shards`, it stays the same
        for the life of a checkpoint.
    clock : str, optional
        For a stream with ``max_ahead``: a column that tells when an event came in, of the type of
        the time column, such as the timestamp of a Kafka record. Without it the clock is the
        timestamp of the batch, which Spark records, so that a replay agrees; times that are plain
        numbers need a column.
    folder : path, optional
        Notices are written to Parquet files in this folder, which all executors see, by the
        workers that make them: exactly once, whatever is killed. They never become rows of Spark.
        The DataFrame then has a row for each file, ``file`` and ``notices``, that any sink can
        have, such as ``noop``.
    history : path, optional
        A folder, beside the checkpoint and which all executors see, in which the shards keep the
        past as the stream's ``keep`` says, batch by batch and exactly once. Queries that are
        registered with ``begin`` are filled from it, up to the batch with which they take effect.
        Without, they begin with that batch, and a warning says so.
    state : {"changes", "reference"}
        What a batch writes into Spark's state: what it changed; or, where workers read events for
        themselves, which events it had, and all state now and then. A worker that lacks the state
        then takes in the events since again, so that the source must still have them.

    Returns
    -------
    DataFrame
        Streaming: query_id, kind, event, key, time, seq, reason, the attributes; held_back (of
        notices that sum up others); the columns of kinds, as below; notice_id, log_position, the
        version of the query set, and the carried columns. docs/spark.md says what is filled when.
        Events are end, quarantined, refused for dead letters, and those of kinds:
        {events}
        {notice columns}
        Where an attribute or a carried column has the name of one of these, that of its kind is
        before it: quantile_value.
    """
    if not isinstance(df, (DataFrame, EventSource)):
        raise SparkError("watch takes a streaming DataFrame, or a source such as of read_files")
    if isinstance(df, DataFrame) and not df.isStreaming:
        raise SparkError("watch takes a streaming DataFrame; this one is not")
    spark = df.sparkSession if isinstance(df, DataFrame) else df.spark
    schema = df.schema if isinstance(df, DataFrame) else df.columns
    log = Registry(registry, create=create)
    try:
        if isinstance(stream, str):
            stream = log.stream(stream)
        elif isinstance(stream, Stream):
            log.create_stream(stream)
        else:
            raise InvalidStreamError(f"{stream!r} is no stream")
        secret = log.shard_secret()
    finally:
        log.close()
    check_columns(schema, stream)
    shards, wide = _number("shards", shards, 1), _number("wide_shards", wide_shards, 0)
    if stream.key is None:  # one series, so one shard, which sees everything
        shards, wide = 1, 0
    set_up(spark)
    _, time_type = time_types(schema, stream)
    _, key_type = key_types(schema, stream)
    notices = notice_schema(stream, time_type, key_type, carried=carry)
    carried = _carried(schema, carry, notices)
    if history is not None and stream.keep is None:
        raise InvalidStreamError(
            f"history is {str(history)!r}, and stream {stream.name!r} keeps nothing; give it keep,"
            ' such as "all"'
        )
    kept = None if history is None else str(Path(history).absolute())
    refers = by_reference(df, state, shards + wide)
    types = time_type, carried, key_type
    job = Job(stream, shards, *types, wide, secret, history=kept, by_reference=refers)
    plain = plain_schema(notices, carried)
    codes = shard_codes(job.units)
    wanted = [name for name in (*stream.columns(), UNREADABLE) if name in schema.names]
    reader: SpanReader | None = None
    if isinstance(df, DataFrame):
        columns = {name: functions.col(quoted(name)) for name in (*wanted, *carry)}
        columns |= placed(df, place, file_order)
        columns |= clock_column(schema, stream, clock)
        # By numbers: mapInArrow can't handle names with dots or backticks.
        numbered = [column.alias(f"c{i}") for i, column in enumerate(columns.values())]
        pack = PackEvents(job, codes, list(columns), one_host(spark))
        events = df.select(*numbered).mapInArrow(pack, PACKED)
    else:
        if place or file_order != "name":
            raise SparkError(
                "place and file_order are for DataFrames; a source of ours knows its order"
            )
        said = clock_column(schema, stream, clock)
        reader = df.reads([*wanted, *carry, *([clock] if clock else ())])
        reader = ClockedReader(reader, clock) if clock else reader
        events = _spans(df, job, codes, reader, clocked=bool(said) and clock is None)
    changes = (
        spark.readStream.format(NAME)
        .options(
            url=absolute_url(registry),
            stream=stream.name,
            maxQueriesPerBatch=max_queries_a_batch,
            kinds=",".join(kind.package for kind in job.kinds),
        )
        .load()
        .mapInArrow(RouteLog(job, codes), PACKED)
    )
    # Spark asks its sources in this order how far they have come. The registry is the last: what
    # was registered before an event could be seen takes effect before it.
    rows = events.union(changes)
    if reader is not None and partitions_of(spark) == 1:
        rows = rows.coalesce(1)  # which is what the shards want: nothing is shuffled
    written = None if folder is None else Path(folder).absolute()
    run = RunShards(ShardWork(job, codes, plain, dead_letters, reader, written))
    with own_workers(spark.sparkContext):
        told = rows.groupBy("shard").transformWithState(run, TOLD, "Append", "None")
    reported = functions.lit(report_quarantined(spark, absolute_url(registry), stream.name))
    observed = told.observe(
        METRICS,
        *_figures(job.units),
        functions.collect_list("held_out").alias(HELD_OUT),
        functions.collect_list("lacking").alias("lacking"),
        functions.max(reported).alias(REGISTRY),
    )
    if written is not None:
        rows_of_files = observed.where("file IS NOT NULL")
        return rows_of_files.select("file", functions.col("told").alias("notices"))
    columns_told = from_arrow_schema(plain, prefer_timestamp_ntz=True)
    return observed.select("notices", "file").mapInArrow(UnpackNotices(), columns_told)


def _spans(
    source: EventSource,
    job: Job,
    codes: list[int],
    reader: SpanReader,
    *,
    clocked: bool,
) -> DataFrame:
    """Return the spans of a source as packed rows.

    Where all shards are in one partition, its worker reads the events. Else they are read and
    packed once, and sent to where they belong.

    Parameters
    ----------
    clocked : bool
        Whether times are compared with the timestamp of the batch.
    """
    together = partitions_of(source.spark) == 1
    rows = source.spans(together=together)
    if clocked:
        rows = rows.withColumn("named", functions.unix_micros(functions.current_timestamp()))
    if not together:
        pack = PackSpans(job, codes, reader, one_host(source.spark))
        return rows.mapInArrow(pack, PACKED)
    every = functions.explode(functions.array(*map(functions.lit, codes)))
    return rows.withColumn("shard", every).select(PACKED.names)


def one_host(spark: SparkSession) -> bool:
    """Tell whether all workers are on one host."""
    return str(spark.sparkContext.master).startswith("local")


def _carried(schema: StructType, carry: Sequence[str], notices: pa.Schema) -> pa.Schema:
    """Return the Arrow schema of the columns that notices are to have too."""
    if isinstance(carry, str):
        raise SparkError(f"carry is the string {carry!r}; give a list of names")
    for name in carry:
        if name not in schema.names:
            raise SparkError(
                f"column {name!r} is to be carried, and the events have {', '.join(schema.names)}"
            )
        if name in (*notices.names, "log_position"):
            raise SparkError(f"column {name!r} can't be carried: notices have one of that name")
    # Nullable, whatever they are in the events: a notice may be of no event that is still known.
    kept = StructType([StructField(name, schema[name].dataType) for name in dict.fromkeys(carry)])
    return to_arrow_schema(kept, timezone="UTC")


def placed(df: DataFrame, place: Sequence[str], file_order: str) -> dict[str, Column]:
    """Return the columns of `everquery.sharding.places`, or none."""
    if file_order not in ("name", "time"):
        raise SparkError(f"file_order is {file_order!r}; it takes 'name' or 'time'")
    if isinstance(place, str):
        raise SparkError(f"place is the string {place!r}; give a list of names")
    if not place and set(KAFKA_PLACE) <= set(df.columns):
        place = KAFKA_PLACE
    if not place:
        return _place_in_files(df, file_order)
    for name in place:
        if name not in df.columns:
            raise SparkError(f"place names column {name!r}, and the DataFrame has no such column")
    if not isinstance(df.schema[place[-1]].dataType, WHOLE):
        raise SparkError(f"place ends with column {place[-1]!r}, which holds no integers")
    *source, offset = place
    named = {f"{SOURCE}{i}": _sortable(df, name) for i, name in enumerate(source)}
    return {**named, OFFSET: functions.col(quoted(offset)).cast("bigint")}


def _sortable(df: DataFrame, name: str) -> Column:
    """Return a column as integers or strings, which sort in Python as they do in Spark."""
    column = functions.col(quoted(name))
    return column if isinstance(df.schema[name].dataType, WHOLE) else column.cast("string")


def _place_in_files(df: DataFrame, file_order: str) -> dict[str, Column]:
    """Return what names the part of a file that a row is of; nothing for other sources.

    Within it, rows come in order: their numbers need not be asked for, which takes Spark longer
    than all of this.
    """
    # Not by trying: Spark would write the error that it is not there to standard error.
    hidden = df._jdf.queryExecution().analyzed().metadataOutput()
    names = [hidden.apply(i).name() for i in range(hidden.size())]
    if "_metadata" in df.columns or "_metadata" not in names:
        return {}
    kind = df.select("_metadata").schema["_metadata"].dataType
    wanted = ("file_modification_time", "file_path", "file_block_start")
    if not isinstance(kind, StructType) or not set(wanted) <= set(kind.names):
        return {}
    changed, path, start = (functions.col(f"_metadata.{name}") for name in wanted)
    columns = {f"{PATH}1": path, f"{SOURCE}2": start}
    if file_order == "time":
        columns = {f"{SOURCE}0": functions.unix_micros(changed), **columns}
    return columns


def _number(name: str, given: int, least: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise SparkError(f"{name} is {given!r}; it takes an integer")
    if not least <= given <= MOST_SHARDS:
        raise SparkError(f"{name} is {given}; it takes {least} to {MOST_SHARDS}")
    return given


def set_up(spark: SparkSession) -> None:
    """Give a session our source of query changes, and the settings that jobs want."""
    spark.dataSource.register(RegistrySource)
    _advise(spark.sparkContext)
    for name, value in QUERY_SETTINGS.items():
        if name != "spark.sql.session.timeZone":  # that one is the user's
            spark.conf.set(name, value)


def _advise(context: SparkContext) -> None:
    """Say once which settings the session could only have been started with."""
    if context.applicationId in _advised:
        return
    _advised.add(context.applicationId)
    settings = context.getConf()
    missing = [name for name in START_SETTINGS if not settings.contains(name)]
    if missing:
        logger.warning(
            "this session was started without %s, so that jobs begin later and workers hand over"
            " more slowly; start it with everquery.spark.spark_settings()",
            ", ".join(missing),
        )


def _figures(shards: int) -> list[Column]:
    names = [field.name for field in TOLD.fields]
    others = ("notices", "file", "shard", "position", "held_out", "lacking")
    totals = [name for name in names if name not in others]
    return [
        functions.max("position").alias("position"),
        functions.max(functions.lit(shards)).alias("shards"),
        *(functions.sum(name).alias(name) for name in totals),
    ]
