"""A network over streaming DataFrames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import to_arrow_schema

from everquery.errors import InvalidNetworkError, SparkError
from everquery.network.boxes.watch import Watch
from everquery.network.expressions.types import UNKNOWN
from everquery.network.model import Network
from everquery.network.rows import RowType
from everquery.network.runtime.intake import Intake
from everquery.network.runtime.tables import LETTERS
from everquery.spark.columns import check_columns
from everquery.spark.event_source import EventSource
from everquery.spark.network.frames import grown, observed, taken_in
from everquery.spark.network.gates import control_source, gated
from everquery.spark.network.gathering import with_gathering
from everquery.spark.network.native import NotNativeError
from everquery.spark.network.parts import SPARK, WATCH, behind_registry, part_of, ways_of
from everquery.spark.network.rows import schema_of, spark_schema
from everquery.spark.network.stage import Sources, given_frame, unpacked
from everquery.spark.network.starting import Started, Write, start
from everquery.spark.network.work import DEAD_LETTERS
from everquery.spark.rows import quoted
from everquery.spark.watching import SHARDS, set_up, watch

Frame = DataFrame | EventSource


class Watched(Mapping[str, DataFrame]):
    """The outputs of a network on Spark: a streaming DataFrame for each, by name.

    Each runs what leads to it. `start` runs all of them, with what they have in common once.

    Attributes
    ----------
    network : Network
    types : mapping of str to RowType
        Of the rows behind every stream, point and box, as the sources have turned out.
    ways : mapping of str to str
        How each stream, point and box is run: ``spark``, by Spark's own operators; ``state``, in
        the stateful stage; ``watch``, as `everquery.spark.watch` does, or behind that.
    """

    def __init__(
        self, network: Network, spark: SparkSession, sources: Sources, options: Mapping[str, Any]
    ) -> None:
        self.network, self.spark, self.sources = network, spark, sources
        self._options = dict(options)
        _check_sources(network, sources.frames)
        self.types = network.infer(
            {name: _row_type(network, name, frame) for name, frame in sources.frames.items()}
        )
        self._native = grown(network, self.types, self._taken_in())
        self.ways, self.bases = ways_of(network, self._native)
        self._notices: dict[str, DataFrame] = {}
        self._check_behind()

    def _taken_in(self) -> dict[str, DataFrame]:
        """Return the streams that Spark itself takes in; gates stand in the stateful stage."""
        found: dict[str, DataFrame] = {}
        if self.sources.control is not None:
            return found
        for name, frame in self.sources.frames.items():
            source = self.network.streams[name]
            if isinstance(frame, DataFrame):
                try:
                    found[name] = taken_in(observed(frame, source), source, self.types[name])
                except NotNativeError:
                    continue
        return found

    def _check_behind(self) -> None:
        """Raise if a box behind a registry's notices is none that Spark can run."""
        for base in dict.fromkeys(self.bases.values()):
            reached = self.behind(base, self._notices_of(base))
            for name, own in self.bases.items():
                if own == base and name not in reached:
                    raise behind_registry(name, self.network.readable[name], base)

    # -- frames -------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self.network.outputs:
            raise KeyError(name)
        return self.frame(self.network.outputs[name].source)

    def __iter__(self) -> Iterator[str]:
        return iter(self.network.outputs)

    def __len__(self) -> int:
        return len(self.network.outputs)

    def frame(self, name: str) -> DataFrame:
        """Return what comes out of a stream, point or box."""
        if self.ways[name] == SPARK:
            return self._native[name]
        if self.ways[name] == WATCH:
            base = self.bases[name]
            return self.behind(base, self._notices_of(base))[name]
        given, schemas = self.given({name: name}, letters=False)
        return unpacked(given, 0, schemas[name])

    @property
    def dead_letters(self) -> DataFrame:
        """The rows that streams and boxes refuse: who refused each, why, and the row as JSON."""
        given, _ = self.given(self.run_here(), letters=True)
        return unpacked(given, DEAD_LETTERS, LETTERS)

    def run_here(self) -> dict[str, str]:
        """Return the outputs that are not behind a registry's notices, with their sources."""
        sources = {name: output.source for name, output in self.network.outputs.items()}
        return {name: source for name, source in sources.items() if self.ways[source] != WATCH}

    def given(
        self, outputs: Mapping[str, str], *, letters: bool
    ) -> tuple[DataFrame, dict[str, pa.Schema]]:
        """Return what the stateful stage gives some outputs, and their schemas in order."""
        if not outputs:
            raise InvalidNetworkError("all outputs are notices of registries")
        part = with_gathering(part_of(self.network, outputs), self.types)
        if self.sources.control is not None:
            part = gated(part, self.network)
        schemas = {name: schema_of(self.types[source]) for name, source in outputs.items()}
        frame = given_frame(self.spark, part, self.sources, self.types, schemas, letters=letters)
        return frame, schemas

    def behind(self, base: str, notices: DataFrame) -> dict[str, DataFrame]:
        """Return the frames of a watch box, of its notices, and of all boxes behind it."""
        return grown(self.network, self.types, {base: notices})

    def _notices_of(self, name: str) -> DataFrame:
        if name not in self._notices:
            self._notices[name] = self._watched(name)
        return self._notices[name]

    def _watched(self, name: str) -> DataFrame:
        box = self.network.boxes[name]
        assert isinstance(box, Watch)
        assert box.registry is not None
        source = box.sources[0]
        options = dict(self._options)
        if source in self.network.streams:
            rows: Frame = self.sources.frames[source]
            if isinstance(rows, DataFrame):
                options["place"] = self.sources.place.get(source, ())
                options["file_order"] = self.sources.file_order
        else:
            rows = self.frame(source)
        stream = box.watched(self.types[source])
        notices = watch(rows, stream, registry=box.registry, **options)
        schema = spark_schema(schema_of(self.types[name]))
        return notices.select(
            *(functions.col(quoted(one.name)).cast(one.dataType).alias(one.name) for one in schema)
        )

    # -- running ------------------------------------------------------------------------------

    def start(
        self,
        checkpoint: Any,  # noqa: ANN401 - a path
        write: Mapping[str, Write],
        *,
        dead_letters: Write | None = None,
        **trigger: Any,  # noqa: ANN401 - as Spark has it
    ) -> Started:
        """Run outputs together: what they have in common is read and worked on once.

        Parameters
        ----------
        checkpoint : path
            The folder of the checkpoints.
        write : mapping of str to function or path
            What is done with the new rows of each output: a function of a DataFrame and the
            batch's number, or a folder that gets Parquet files, in a folder for each batch. A
            batch that is done again has the same number and the same rows: a folder is written
            over, and a function has to do likewise.
        dead_letters : function or path, optional
            The same for refused rows.
        **trigger
            As `DataStreamWriter.trigger` takes it, such as ``availableNow=True``.
        """
        return start(self, checkpoint, write, dead_letters, trigger)


def watch_network(
    network: Network,
    spark: SparkSession,
    sources: Mapping[str, Frame],
    *,
    place: Mapping[str, Sequence[str]] | None = None,
    file_order: Literal["name", "time"] = "name",
    control: DataFrame | None = None,
    shards: int = SHARDS,
    wide_shards: int = 1,
) -> Watched:
    """Return the outputs of a network over streaming DataFrames; `Network.watch` calls it.

    Parameters
    ----------
    sources : mapping of str to DataFrame or EventSource
        A streaming DataFrame for each stream of the network, or what `read_files` or `read_kafka`
        returns.
    place : mapping of str to names of columns, optional
        By stream: columns that tell where a row stands in its source, as `everquery.spark.watch`
        takes them.
    file_order : {"name", "time"}
        How the files of a batch follow each other, where Spark reads files.
    control : DataFrame, optional
        A streaming DataFrame with the columns ``stream`` and ``rate``: from the next batch on, that
        share of the stream's rows is shed. With it, all boxes run in the stateful stage.
    shards, wide_shards : int
        Of watch boxes that follow a registry, as `everquery.spark.watch` takes them.
    """
    set_up(spark)
    if control is not None:
        if not control.isStreaming:
            raise SparkError("control takes a streaming DataFrame; this one is not")
        check_columns(control.schema, control_source().stream)
    return Watched(
        network,
        spark,
        Sources(dict(sources), dict(place or {}), file_order, control),
        {"shards": shards, "wide_shards": wide_shards},
    )


def _check_sources(network: Network, frames: Mapping[str, Frame]) -> None:
    for name in frames:
        if name not in network.streams:
            raise SparkError(
                f"network {network.name!r} has no stream {name!r}; it has"
                f" {', '.join(network.streams)}"
            )
    for name, source in network.streams.items():
        frame = frames.get(name)
        if not isinstance(frame, (DataFrame, EventSource)) or (
            isinstance(frame, DataFrame) and not frame.isStreaming
        ):
            raise SparkError(
                f"stream {name!r} needs a streaming DataFrame, or a source such as of read_files,"
                f" and has {'none' if frame is None else frame}"
            )
        check_columns(
            frame.schema if isinstance(frame, DataFrame) else frame.columns, source.stream
        )


def _row_type(network: Network, name: str, frame: Frame) -> RowType:
    """Return the type of a stream's rows, with what the source knows of it."""
    intake = Intake(network.streams[name])
    schema = (
        to_arrow_schema(frame.schema, timezone="UTC")
        if isinstance(frame, DataFrame)
        else frame.schema
    )
    checked = intake.check(schema.empty_table())
    kinds = {
        column: checked.column(column).type if kind == UNKNOWN else kind
        for column, kind in intake.row_type.columns.items()
    }
    return intake.row_type.but(columns=kinds)
