"""All outputs of a network at once: as few streaming queries as there are parts that share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, functions
from pyspark.sql.streaming.query import StreamingQuery

from everquery.errors import InvalidNetworkError
from everquery.network.runtime.tables import LETTERS
from everquery.spark.failures import wait_for
from everquery.spark.network.frames import grown, observed, taken_in
from everquery.spark.network.parts import STATE, WATCH
from everquery.spark.network.stage import unpacked
from everquery.spark.network.work import DEAD_LETTERS
from everquery.spark.rows import quoted

if TYPE_CHECKING:
    from everquery.spark.network.watching import Watched

BatchWriter = Callable[[DataFrame, int], None]
Write = BatchWriter | Path | str
ROWS = "rows"

Divide = Callable[[DataFrame], Mapping[str, DataFrame]]
"""From the rows of a batch to those of each output."""


@dataclass(frozen=True)
class Started:
    """The streaming queries of a network.

    Attributes
    ----------
    queries : mapping of str to StreamingQuery
        ``rows`` for all boxes but those behind a registry's notices, and one for each watch box
        that follows a registry, by its name.
    """

    queries: Mapping[str, StreamingQuery]

    def wait(self) -> None:
        """Wait until all have ended.

        Raises
        ------
        EverqueryError
            If that is why one failed.
        """
        for query in self.queries.values():
            wait_for(query)

    def stop(self) -> None:
        """Stop all."""
        for query in self.queries.values():
            query.stop()


def start(
    watched: Watched,
    checkpoint: Path | str,
    write: Mapping[str, Write],
    letters: Write | None,
    trigger: Mapping[str, Any],
) -> Started:
    """Start the queries that outputs need; `Watched.start` says more."""
    writers = {name: _writer(one) for name, one in write.items()}
    for name in writers:
        if name not in watched.network.outputs:
            raise InvalidNetworkError(
                f"there is no output {name!r}; there are {', '.join(watched.network.outputs)}"
            )
    jobs: dict[str, tuple[DataFrame, Divide, dict[str, BatchWriter]]] = {}
    here = {name: source for name, source in watched.run_here().items() if name in writers}
    if here or letters is not None:
        own = {name: writers[name] for name in here}
        if letters is not None or any(watched.ways[one] == STATE for one in here.values()):
            jobs[ROWS] = (*_by_state(watched, here, letters is not None), own)
        else:
            jobs[ROWS] = (*_by_spark(watched, here), own)
        if letters is not None:
            own[""] = _writer(letters)
    for base in dict.fromkeys(watched.bases.values()):
        behind = _behind(watched, base, writers)
        if behind:
            jobs[base] = (
                *_by_notices(watched, base, behind),
                {one: writers[one] for one in behind},
            )
    queries = {}
    for name, (frame, divide, own) in jobs.items():
        writer = frame.writeStream.foreachBatch(_each(divide, own)).trigger(**trigger or _QUICK)
        queries[name] = writer.option("checkpointLocation", f"{checkpoint}/{name}").start()
    return Started(queries)


_QUICK = {"processingTime": "0 seconds"}


def _behind(watched: Watched, base: str, writers: Mapping[str, Any]) -> dict[str, str]:
    outputs = watched.network.outputs
    return {
        name: outputs[name].source
        for name in writers
        if watched.ways[outputs[name].source] == WATCH
        and watched.bases[outputs[name].source] == base
    }


def _by_state(
    watched: Watched, outputs: Mapping[str, str], letters: bool
) -> tuple[DataFrame, Divide]:
    frame, schemas = watched.given(outputs or watched.run_here(), letters=letters)

    def divide(given: DataFrame) -> dict[str, DataFrame]:
        found = {
            name: unpacked(given, number, schema)
            for number, (name, schema) in enumerate(schemas.items())
        }
        return {**found, "": unpacked(given, DEAD_LETTERS, LETTERS)}

    return frame, divide


def _by_spark(watched: Watched, outputs: Mapping[str, str]) -> tuple[DataFrame, Divide]:
    """Return the rows of all streams, one behind the other, and what makes outputs of them."""
    network, types = watched.network, watched.types
    frames = {
        name: frame
        for name, frame in watched.sources.frames.items()
        if watched.ways[name] != STATE and isinstance(frame, DataFrame)
    }
    together: DataFrame | None = None
    for number, (name, frame) in enumerate(frames.items()):
        columns = [
            functions.struct(*map(quoted, other.columns)).alias(f"s{i}")
            if i == number
            else functions.lit(None).cast(other.schema).alias(f"s{i}")
            for i, other in enumerate(frames.values())
        ]
        tagged = observed(frame, network.streams[name])
        tagged = tagged.select(functions.lit(number).alias("stream"), *columns)
        together = tagged if together is None else together.union(tagged)
    assert together is not None

    def divide(rows: DataFrame) -> dict[str, DataFrame]:
        streams = {}
        for number, name in enumerate(frames):
            own = rows.where(functions.col("stream") == number).select(f"s{number}.*")
            streams[name] = taken_in(own, network.streams[name], types[name])
        found = grown(network, types, streams)
        return {output: found[source] for output, source in outputs.items()}

    return together, divide


def _by_notices(
    watched: Watched, base: str, outputs: Mapping[str, str]
) -> tuple[DataFrame, Divide]:
    def divide(notices: DataFrame) -> dict[str, DataFrame]:
        found = watched.behind(base, notices)
        return {output: found[source] for output, source in outputs.items()}

    return watched.frame(base), divide


def _each(divide: Divide, writers: Mapping[str, BatchWriter]) -> BatchWriter:
    def write(batch: DataFrame, number: int) -> None:
        shared = len(writers) > 1
        rows = batch.persist() if shared else batch
        try:
            found = divide(rows)
            for name, writer in writers.items():
                writer(found[name], number)
        finally:
            if shared:
                rows.unpersist()

    return write


def _writer(write: Write) -> BatchWriter:
    if callable(write):
        return write
    folder = Path(write)

    def parquet(rows: DataFrame, number: int) -> None:
        rows.write.mode("overwrite").parquet(str(folder / f"batch={number:09}"))

    return parquet
