"""The registry's log as a stream of Spark: queries are a stream too.

Offsets are positions of the log. The driver reads it, over one connection, and sends the rows
along with the tasks: executors need no way to the database, and a SQLite file is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.ipc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from everquery.errors import SparkError
from everquery.spark.planning import end_quietly

if TYPE_CHECKING:
    from everquery.registry.follower import Follower, Place
    from everquery.registry.rows import LogRow

NAME = "everquery_registry"
SCHEMA = "position long, number int, count long, operation string, payload binary, digest binary"
MAX_QUERIES = 200_000
PARTITION_BYTES = 4 << 20
ROW_BYTES = 4 << 20  # Java holds several copies of a row at a time

_ARROW = pa.schema(
    [
        ("position", pa.int64()),
        ("number", pa.int32()),
        ("count", pa.int64()),
        ("operation", pa.string()),
        ("payload", pa.binary()),
        ("digest", pa.binary()),
    ]
)


class RegistrySource(DataSource):
    """The streaming source ``everquery_registry``: one row for each entry of a stream's log.

    Options: ``url`` of the registry, ``stream`` (its name), and ``maxQueriesPerBatch``, how many
    queries the changes of a batch may name (200,000); a change that names more comes alone, and
    the first batch of a new query has all there is. ``kinds`` names the packages of the kinds of
    query that may be in the log, which are those of everquery unless said otherwise.

    Columns: ``position``, ``number`` (the order of rows is by these two), ``count``,
    ``operation``, ``payload`` and ``digest``; see `everquery.registry.rows.LogRow`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the source's name."""
        return NAME

    def schema(self) -> str:
        """Return the columns."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what reads the log."""
        return RegistryStreamReader(self.options)


class RegistryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the log of a stream's queries from offset to offset.

    Spark keeps one in a process of the driver, for offsets and partitions; `read` runs in
    executors.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        absent = [name for name in ("url", "stream") if not options.get(name)]
        if absent:
            raise SparkError(f"{NAME} needs the option {absent[0]!r}")
        self._kinds = list(filter(None, options.get("kinds", "").split(",")))
        self._url, self._stream = options["url"], options["stream"]
        self._queries = _count(options.get("maxQueriesPerBatch", str(MAX_QUERIES)))
        self._target: int | None = None
        self._follower: Follower | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset of a new query."""
        return asdict(_place({}))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how many queries a batch may name."""
        return ReadMaxRows(self._queries)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where the log ends now."""
        self._target = self._following().target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch."""
        queries = None if isinstance(limit, ReadAllAvailable) else self._queries
        end = self._following().latest(_place(start), queries=queries, furthest=self._target)
        return asdict(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the end of the log, as far as it is known."""
        head = self._following().head
        return None if head is None else {"position": head}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the rows between two offsets."""
        if start == end:
            return []
        rows = self._following().rows(_place(start), _place(end))
        return [InputPartition(_packed(part)) for part in _parts(self._cut(rows))]

    def _cut(self, rows: list[LogRow]) -> list[LogRow]:
        if all(len(row.payload) <= ROW_BYTES for row in rows):
            return rows
        from everquery.sharding.routing import cut_rows

        return cut_rows(rows, self._following().definition(), ROW_BYTES)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        with pa.ipc.open_stream(partition.value) as reader:
            yield from reader

    def commit(self, end: dict[str, Any]) -> None:
        """Note that nothing before an offset will be asked for again."""
        self._following().commit(_place(end))

    def stop(self) -> None:
        """Give up the registry."""
        if self._follower is not None:
            self._follower.close()
        end_quietly()

    def _following(self) -> Follower:
        if self._follower is None:
            from everquery.kinds import kind_in
            from everquery.registry.follower import Follower

            for package in self._kinds:
                kind_in(package)
            self._follower = Follower(self._url, self._stream)
        return self._follower


def _place(offset: dict[str, Any]) -> Place:
    from everquery.registry.follower import Place

    return Place(**offset)


def _count(value: str) -> int:
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise SparkError(f"maxQueriesPerBatch is {value!r}; it takes an integer of at least 1")
    return int(value)


def _parts(rows: list[LogRow]) -> Iterator[list[LogRow]]:
    """Yield runs of rows, each small enough to go along with a task."""
    part: list[LogRow] = []
    size = 0
    for row in rows:
        if part and size + len(row.payload) > PARTITION_BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row.payload) + 64
    if part:
        yield part


def _packed(rows: list[LogRow]) -> bytes:
    columns = [[getattr(row, name) for row in rows] for name in _ARROW.names]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _ARROW.types, strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _ARROW) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=_ARROW))
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
