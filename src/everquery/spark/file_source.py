"""Files of events as a stream of Spark, read as the embedded runtime reads them.

Spark's own file source takes files by their time of change, and guesses at types. This one takes
them in the order of the journal; offsets are numbers of its sections.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from everquery.sources.folder_journal import FolderJournal
from everquery.sources.sections import Section, read_section
from everquery.spark.registry_source import end_quietly
from everquery.state.events import UNREADABLE, UNREADABLE_TYPE
from everquery.stream import ROLES, Stream

NAME = "everquery_files"
BATCH_BYTES = 128 << 20
LOOK_SECONDS = 0.5


def event_files(
    spark: SparkSession,
    stream: Stream,
    inputs: Sequence[Path],
    *,
    schema: pa.Schema,
    journal: Path,
    integer_keys: bool = False,
) -> DataFrame:
    """Return the events of files and folders as a streaming DataFrame.

    Parameters
    ----------
    spark : SparkSession
    stream : Stream
    inputs : sequence of Path
    schema : the types of the columns, as `everquery.sources.sections.types_of` finds them
    journal : Path
        Where it is noted which files have been found; it belongs to the checkpoint.
    integer_keys : bool
        Whether the keys of a CSV are integers.
    """
    spark.dataSource.register(FileSource)
    schema = schema.append(pa.field(UNREADABLE, UNREADABLE_TYPE))
    columns = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    options = {
        "inputs": json.dumps([str(path.absolute()) for path in inputs]),
        "journal": str(journal.absolute()),
        "stream": json.dumps({role: getattr(stream, role) for role in ROLES}),
        "columns": columns.json(),
        "integerKeys": str(integer_keys),
    }
    return spark.readStream.format(NAME).options(**options).load()


class FileSource(DataSource):
    """The streaming source ``everquery_files``; made by `event_files`."""

    @classmethod
    def name(cls) -> str:
        """Return the source's name."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns."""
        return StructType.fromJson(json.loads(self.options["columns"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what reads the files."""
        return FileStreamReader(self.options, schema)


class FileStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the sections of a journal from offset to offset.

    Spark keeps one in a process of the driver, for offsets and partitions; `read` runs in
    executors.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._inputs = [Path(name) for name in json.loads(options["inputs"])]
        self._path = Path(options["journal"])
        self._stream = Stream(**json.loads(options["stream"]))
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._integer_keys = options["integerKeys"] == "True"
        self._journal: FolderJournal | None = None
        self._target: int | None = None
        self._looked = 0.0

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset of a new query."""
        return {"section": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much a batch may have."""
        return ReadMaxBytes(BATCH_BYTES)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note which files there are now."""
        journal = self._following()
        journal.look(finished=False)
        self._target = len(journal.sections)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch."""
        journal = self._following()
        if self._target is None and time.monotonic() - self._looked >= LOOK_SECONDS:
            journal.look(finished=True)
            self._looked = time.monotonic()
        last = len(journal.sections) if self._target is None else self._target
        most = float("inf") if isinstance(limit, ReadAllAvailable) else BATCH_BYTES
        end, size = int(start["section"]), 0
        while end < last and (size == 0 or size + journal.sections[end].size <= most):
            size += journal.sections[end].size
            end += 1
        return {"section": end}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return how much has been found."""
        return {"section": len(self._following().sections)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the sections between two offsets."""
        sections = self._following().sections[int(start["section"]) : int(end["section"])]
        return [InputPartition(asdict(section)) for section in sections]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of a section."""
        section = Section(**partition.value)
        yield from read_section(
            section, self._stream, self._schema, integer_keys=self._integer_keys
        )

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is given up: the journal is small."""

    def stop(self) -> None:
        """Nothing is open."""
        end_quietly()

    def _following(self) -> FolderJournal:
        if self._journal is None:
            self._journal = FolderJournal(self._path, self._inputs)
        return self._journal
