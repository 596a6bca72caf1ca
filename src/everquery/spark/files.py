"""Events of files for `watch`, which workers read for themselves."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from everquery.errors import InvalidStreamError, SparkError, UnreadableFileError
from everquery.sources.folder_journal import first_file
from everquery.sources.formats import format_of
from everquery.sources.section_events import read_section, types_of
from everquery.sources.sections import Section
from everquery.spark.event_source import EventSource
from everquery.spark.file_source import NAME, FileSource
from everquery.stream import Stream

JOURNAL = Path("_everquery") / "files.jsonl"  # a name that readers of folders leave alone
BATCH_BYTES = 128 << 20


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
