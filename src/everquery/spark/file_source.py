"""Files of events as a source whose events never become rows of Spark.

Offsets are numbers of the sections in a journal, which notes files in the order in which they were
found, with their size and time of change. Workers read the sections themselves, and refuse a file
that is not what it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from everquery.errors import InvalidStreamError, SparkError, UnreadableFileError
from everquery.sharding.spans import Spans
from everquery.sources.folder_journal import FolderJournal, first_file
from everquery.sources.formats import format_of
from everquery.sources.sections import Section, read_section, types_of
from everquery.spark.event_source import EventSource, grouped, span_rows
from everquery.spark.registry_source import end_quietly
from everquery.spark.rows import PACKED
from everquery.stream import Stream

NAME = "everquery_files"
JOURNAL = Path("_everquery") / "files.jsonl"  # a name that readers of folders leave alone
BATCH_BYTES = 128 << 20
LOOK_SECONDS = 0.05
LOOK_SHARE = 10  # of the time: a look that takes long is not repeated at once


def read_files(
    spark: SparkSession,
    stream: Stream,
    inputs: Sequence[Path | str],
    *,
    schema: pa.Schema | None = None,
    journal: Path | str | None = None,
    integer_keys: bool = False,
    max_bytes_a_batch: int = BATCH_BYTES,
    max_files_a_batch: int | None = None,
) -> EventSource:
    """Return the events of files and folders, for `watch`.

    Spark only learns which parts of which files a batch has; the workers that hold the shards read
    the events themselves. That is several times as fast as a DataFrame of the same files.

    Parameters
    ----------
    spark : SparkSession
    stream : Stream
    inputs : sequence of paths
        Files, and folders whose files are taken by name; files that come later are taken when they
        come. Parquet, Arrow, CSV, JSON lines and JSON arrays, by the suffix, also compressed.
    schema : Arrow schema, optional
        The types of the columns. Without, those of the first file, which must be there then.
    journal : path, optional
        Where it is noted which files have been found, and in which order: numbers in checkpoints
        mean places in it, so it is kept as long as they are. Without, ``_everquery/files.jsonl`` in
        the folder; for several inputs, or a file, one in the first folder whose name follows from
        their paths. Jobs over the same inputs can share it.
    integer_keys : bool
        Whether the keys in CSV are integers.
    max_bytes_a_batch : int
        About how much a batch has; a row group, or 32 MB of lines, is the least.
    max_files_a_batch : int, optional
        Of how many files a batch has something, at most.

    A file that has changed, or is gone, when a batch must be done again is an error that names it.
    """
    if not isinstance(stream, Stream):
        raise InvalidStreamError(f"{stream!r} is no stream")
    paths = _paths(inputs)
    for name, most in (("bytes", max_bytes_a_batch), ("files", max_files_a_batch)):
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise SparkError(f"max_{name}_a_batch is {most!r}; it takes an integer of at least 1")
    if schema is not None and not isinstance(schema, pa.Schema):
        raise SparkError(f"schema is {schema!r}; it takes an Arrow schema")
    if schema is None:
        schema = _schema(first_file(paths, wait=None), stream, integer_keys=integer_keys)
    spark.dataSource.register(FileSource)
    where = _beside(paths) if journal is None else Path(journal)
    options = {
        "inputs": json.dumps([str(path.absolute()) for path in paths]),
        "journal": str(where.absolute()),
        "maxBytes": str(max_bytes_a_batch),
        "maxFiles": "" if max_files_a_batch is None else str(max_files_a_batch),
    }

    def reads(names: Sequence[str]) -> FileReader:
        wanted = pa.schema([field for field in schema if field.name in names])
        return FileReader(stream, wanted, integer_keys)

    return EventSource(spark, stream, schema, NAME, options, reads)


def _paths(inputs: Sequence[Path | str]) -> list[Path]:
    if isinstance(inputs, (str, Path)) or not isinstance(inputs, Iterable):
        raise SparkError(f"inputs is {inputs!r}; give a list of paths")
    paths = []
    for path in inputs:
        if not isinstance(path, (str, Path)):
            raise SparkError(f"inputs has {path!r}, which is no path")
        paths.append(Path(path))
    if not paths:
        raise SparkError("inputs is empty; give files and folders")
    for path in paths:
        if not path.exists():
            raise UnreadableFileError(f"{path} is not there")
    return paths


def _beside(paths: list[Path]) -> Path:
    """Return where the journal of some inputs is; that of others must be elsewhere."""
    folder = paths[0] if paths[0].is_dir() else paths[0].parent
    if not os.access(folder, os.W_OK):
        raise SparkError(
            f"which files have been found is noted in a journal, and {folder} can't be written to;"
            " say where with read_files(..., journal=...)"
        )
    if paths == [folder]:
        return folder / JOURNAL
    named = json.dumps([str(path.absolute()) for path in paths])
    digest = hashlib.blake2b(named.encode(), digest_size=8).hexdigest()
    return folder / JOURNAL.with_stem(f"{JOURNAL.stem}-{digest}")


def _schema(path: Path, stream: Stream, *, integer_keys: bool) -> pa.Schema:
    """Return the types of the stream's columns and, of Parquet, those of all others."""
    known = types_of(path, stream, integer_keys=integer_keys)
    if format_of(path) == "parquet":
        for field in pq.read_schema(path):
            if field.name not in known.names:
                known = known.append(field.remove_metadata())
    return known


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads sections of files, in workers."""

    stream: Stream
    schema: pa.Schema
    integer_keys: bool

    def read(self, name: Any) -> Iterator[pa.Table]:  # noqa: ANN401 - what JSON makes of a section
        """Yield the events of a section."""
        section = Section(**name)
        yield from read_section(section, self.stream, self.schema, integer_keys=self.integer_keys)


class FileSource(DataSource):
    """The streaming source ``everquery_files`` of spans; made by `read_files`."""

    @classmethod
    def name(cls) -> str:
        """Return the source's name."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns."""
        return PACKED

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what hands out spans."""
        return FileStreamReader(self.options)


class FileStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Hands out the sections of a journal from offset to offset.

    Spark keeps one in a process of the driver, for offsets and partitions; `read` runs in
    executors.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._inputs = [Path(name) for name in json.loads(options["inputs"])]
        self._path = Path(options["journal"])
        self._together = options["together"] == "True"
        self._most_bytes = int(options["maxBytes"])
        self._most_files = int(options["maxFiles"]) if options["maxFiles"] else None
        self._journal: FolderJournal | None = None
        self._target: int | None = None
        self._next_look = 0.0

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset of a new query."""
        return {"section": 0, "journal": self._following().name}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much a batch may have."""
        return ReadMaxBytes(self._most_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note which files there are now."""
        journal = self._following()
        journal.look(finished=False)
        self._target = len(journal.sections)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch."""
        journal = self._following()
        self._look(journal)
        first = self._number(start)
        last = len(journal.sections) if self._target is None else self._target
        if isinstance(limit, ReadAllAvailable):
            return self._offset(max(first, last))
        return self._offset(self._end(first, last))

    def _look(self, journal: FolderJournal) -> None:
        now = time.monotonic()
        if self._target is None and now >= self._next_look:
            journal.look(finished=True)
            took = time.monotonic() - now
            self._next_look = now + max(LOOK_SECONDS, LOOK_SHARE * took)

    def _end(self, begin: int, last: int) -> int:
        """Return the end of a batch that begins with a section."""
        sections = self._following().sections
        end, size, files = begin, 0, set[str]()
        while end < last:
            size += sections[end].size
            files.add(sections[end].path)
            if end > begin and size > self._most_bytes:
                break
            if self._most_files is not None and len(files) > self._most_files:
                break
            end += 1
        return end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return how much has been found."""
        return self._offset(len(self._following().sections))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the sections between two offsets."""
        sections = self._following().sections
        first, last = self._number(start), self._number(end)
        names = [asdict(section) for section in sections[first:last]]
        ahead = []
        if self._together:
            further = len(sections) if self._target is None else self._target
            ahead = [asdict(section) for section in sections[last : self._end(last, further)]]
        groups = grouped(names, self._together)
        return [
            InputPartition((first + i, Spans(group, ahead).to_bytes()))
            for i, group in enumerate(groups)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what names the sections of a partition."""
        first, spans = partition.value
        yield from span_rows(first, Spans.from_bytes(spans))

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is given up: the journal is small."""

    def stop(self) -> None:
        """Nothing is open."""
        end_quietly()

    def _offset(self, section: int) -> dict[str, Any]:
        return {"section": section, "journal": self._following().name}

    def _number(self, offset: dict[str, Any]) -> int:
        """Return the number of a section; raise if it is none of this journal."""
        journal = self._following()
        number = int(offset["section"])
        if offset.get("journal", journal.name) != journal.name or number > len(journal.sections):
            raise SparkError(
                f"the checkpoint counts files by another journal than {self._path}, which notes"
                f" {len(journal.sections)} parts of files; put back the journal that the checkpoint"
                " was made with, or begin a new checkpoint"
            )
        return number

    def _following(self) -> FolderJournal:
        if self._journal is None:
            self._journal = FolderJournal(self._path, self._inputs)
        return self._journal
