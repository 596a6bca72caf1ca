"""A job in a folder: Parquet files in, standing queries of a SQLite file, Parquet files out.

What the job should have told follows from its checkpoint: it says which files and which version of
the query set each batch had, and an embedded engine is run over the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

import everquery as eq
from everquery.registry import Registry
from everquery.sharding.routing import known_part
from everquery.sharding.telling import LETTER
from everquery.spark import read_files, watch
from tests.conformance.histories import rows_by_key

PARTITIONS = "spark.sql.shuffle.partitions"


class Source(NamedTuple):
    """How a job reads its files, and into how many partitions its state is divided."""

    kind: Literal["frame", "files"] = "frame"
    partitions: int = 2

    @property
    def ahead(self) -> int:
        """How many files wait at a time: workers that read for themselves read the next ones."""
        return 1 if self.kind == "frame" else 2


FRAME = Source()
ONE_READS = Source("files", 1)  # who has the shards
TWO_READ = Source("files", 2)  # and send what they have read to who has the shards
SOURCES = {"frame": FRAME, "one reads": ONE_READS, "two read": TWO_READ}


@dataclass(frozen=True)
class JobFolder:
    """Where everything of a job is."""

    root: Path
    source: Source = FRAME

    def __post_init__(self) -> None:
        self.events.mkdir(parents=True, exist_ok=True)

    @property
    def events(self) -> Path:
        return self.root / "events"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def notices(self) -> Path:
        return self.root / "notices"

    @property
    def journal(self) -> Path:
        return self.root / "files.jsonl"

    @property
    def registry(self) -> str:
        return f"sqlite:///{self.root / 'queries.db'}"

    def file_names(self) -> list[str]:
        return [file.name for file in self.events.iterdir()]

    def write(self, number: int, events: pa.Table) -> None:
        """Add a file of events, at once."""
        hidden = self.root / f".{number:05}.parquet"
        pq.write_table(events, hidden)
        hidden.rename(self.events / f"{number:05}.parquet")

    def write_together(self, number: int, parts: list[pa.Table]) -> None:
        """Add a folder of files of events, at once."""
        hidden = self.root / f".{number:05}"
        hidden.mkdir()
        for i, events in enumerate(parts):
            pq.write_table(events, hidden / f"{i} of {len(parts)}+%20.parquet")
        hidden.rename(self.events / f"{number:05}")


def start(spark, folder: JobFolder, stream: eq.Stream, schema: pa.Schema, *, files=1, **options):
    """Start a job, or go on with it; every batch has `files` files at most."""
    registry = options.pop("registry", folder.registry)
    trigger = options.pop("trigger", {"processingTime": "0 seconds"})
    with partitioned(spark, folder.source.partitions):
        events = _source(spark, folder, stream, schema, files)
        writer = watch(events, stream, registry=registry, **options).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(folder.checkpoint)).trigger(**trigger)
        return writer.start(str(folder.notices))


def _source(spark, folder: JobFolder, stream: eq.Stream, schema: pa.Schema, files: int):
    if folder.source.kind == "files":
        options = {"journal": folder.journal, "max_files_a_batch": files}
        return read_files(spark, stream, [folder.events], schema=schema, **options)
    source = spark.readStream.schema(from_arrow_schema(schema, prefer_timestamp_ntz=True))
    source = source.option("maxFilesPerTrigger", files).option("recursiveFileLookup", True)
    return source.parquet(str(folder.events))


@contextmanager
def partitioned(spark, partitions: int) -> Iterator[None]:
    """Let jobs that are started divide their state into so many partitions."""
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, partitions)
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS, before)


def process_all(query, folder: JobFolder) -> None:
    """Wait until all files have been taken in; raise if the query fails."""
    query.processAllAvailable()
    while folder.source.kind == "files" and len(files_read(folder)) < len(folder.file_names()):
        query.processAllAvailable()  # it does not look all the time


# -- what is in the folder --------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """What the checkpoint says of a batch."""

    number: int
    position: int
    files: list[Path]


def batches_of(folder: JobFolder) -> Iterator[Batch]:
    """Yield the batches that were committed."""
    files = _files_of_journal(folder.journal) or _files_of_source(folder.checkpoint / "sources")
    done = -1
    for number in sorted(_numbers(folder.checkpoint / "commits")):
        place, source = _offsets((folder.checkpoint / "offsets" / str(number)).read_text())
        new = [file for at, file in files if done < at <= source]
        yield Batch(number, place, new)
        done = max(done, source)


def files_read(folder: JobFolder) -> list[Path]:
    """Return the files of all batches that were committed."""
    return [file for batch in batches_of(folder) for file in batch.files]


def committed(folder: JobFolder) -> int:
    """Return the number of the last batch that is committed, or -1."""
    return max(_numbers(folder.checkpoint / "commits"), default=-1)


def planned(folder: JobFolder) -> int:
    """Return the number of the last batch that was begun, or -1."""
    return max(_numbers(folder.checkpoint / "offsets"), default=-1)


def forget_last_batch(folder: JobFolder, *, told: bool) -> int:
    """Let the last batch be done again, and return its number.

    The sink skips a batch that it has; with `told`, it has forgotten it, too.
    """
    last = committed(folder)
    sink = folder.notices / "_spark_metadata"
    for log in (folder.checkpoint / "commits", *([sink] if told else [])):
        for name in (f"{last}", f".{last}.crc"):
            (log / name).unlink(missing_ok=True)  # each tenth entry of a sink has another name
    return last


def _numbers(log: Path) -> list[int]:
    return [int(file.name) for file in log.glob("*") if file.name.isdigit()]


def _offsets(text: str) -> tuple[int, int]:
    """Return the position of the registry and the offset of the files."""
    position, source = 0, -1
    for line in text.splitlines()[2:]:
        offset = {} if line == "-" else json.loads(line)
        position = offset.get("position", position)
        source = offset.get("logOffset", offset.get("section", source + 1) - 1)
    return position, source


def _files_of_journal(journal: Path) -> list[tuple[int, Path]]:
    """Return all files that a journal notes, each with the number of its only section."""
    lines = journal.read_text().splitlines()[1:] if journal.exists() else []
    return [(at, Path(section["path"])) for at, (section,) in enumerate(map(json.loads, lines))]


def _files_of_source(logs: Path) -> list[tuple[int, Path]]:
    """Return all files that the file source has seen, each with its offset."""
    found = {
        (entry["batchId"], entry["path"])
        for source in logs.glob("[0-9]*")
        for _, log in _logs(source)
        for entry in _entries(log)
    }
    return [(at, _path(url)) for at, url in sorted(found)]


def _entries(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()[1:] if line.startswith("{")]


def _path(url: str) -> Path:
    return Path(unquote(urlparse(url).path))


def told(folder: JobFolder, *, after: int = -1) -> pa.Table:
    """Return the notices that the sink vouches for, of the batches after one."""
    seen: set[Path] = set()
    tables = []
    for number, log in sorted(_logs(folder.notices / "_spark_metadata")):
        # Every tenth one has the files of all batches before it as well.
        new = {_path(entry["path"]) for entry in _entries(log)} - seen
        seen |= new
        if number > after:
            tables += [pq.ParquetFile(path).read() for path in sorted(new)]
    return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


def _logs(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the entries of a log of Spark's that is compacted now and then."""
    for file in folder.glob("*"):
        number, _, rest = file.name.partition(".")
        if number.isdigit() and rest in ("", "compact"):
            yield int(number), file


# -- what it should be ------------------------------------------------------------------------


def expected(
    folder: JobFolder, stream: eq.Stream, *, registry: str | None = None
) -> tuple[pa.Table, pa.Table]:
    """Return what an engine that nothing disturbs tells of the same batches, and its letters."""
    log = Registry(registry or folder.registry)
    entries = list(log.read(stream, 0))
    log.close()
    engine = eq.Engine(stream, all_columns=True)
    tables, letters = [], []
    for batch in batches_of(folder):
        while entries and entries[0].position < batch.position:
            # Who pauses a query may not know that it has ended by itself.
            engine._log.apply(known_part(entries.pop(0).change, engine._shard.queries.live))
        notices = engine.process(_events(batch.files) or _no_events(folder))
        at = pa.repeat(pa.scalar(batch.position, pa.int64()), notices.num_rows)
        tables.append(notices.append_column("log_position", at))
        letters.append(engine._shard.dead_letters.drain())
    return tuple(pa.concat_tables(each, promote_options="permissive") for each in (tables, letters))


def _events(files: list[Path]) -> pa.Table | None:
    """Return the events of files by name, which is not the order in which Spark reads them."""
    return pa.concat_tables(map(pq.read_table, sorted(files))) if files else None


def _no_events(folder: JobFolder) -> pa.Table:
    return pq.read_table(next(folder.events.iterdir())).slice(0, 0)


def assert_exact(folder: JobFolder, stream: eq.Stream, *, least: int = 1, registry=None) -> None:
    """Assert that the sink has each notice once, in order within each key, and all of them."""
    everything = told(folder)
    refused = pc.equal(everything["kind"], LETTER)
    actual = everything.filter(pc.invert(refused))
    wanted, letters = expected(folder, stream, registry=registry)
    assert _letters(everything.filter(refused), stream) == _letters(letters, stream)
    ours, theirs = rows_by_key(actual), rows_by_key(wanted)
    for key in ours.keys() | theirs.keys():
        got, want = ours.get(key, []), theirs.get(key, [])
        if got != want:
            at = next((i for i, (a, b) in enumerate(zip(got, want, strict=False)) if a != b), None)
            at = min(len(got), len(want)) if at is None else at
            raise AssertionError(
                f"key {key!r}: notice {at} of {len(got)} (expected {len(want)}) differs:\n"
                f"  got      {got[at : at + 1]}\n  expected {want[at : at + 1]}"
            )
    assert actual.num_rows >= least, f"only {actual.num_rows} notices"
    assert len(actual["notice_id"].unique()) == len(wanted["notice_id"].unique())
    assert sorted(files_read(folder)) == sorted(folder.events.iterdir())


def _letters(table: pa.Table, stream: eq.Stream) -> list[str]:
    columns = ["reason", "key", "time", *stream.attributes]
    return sorted(map(repr, table.select(columns).to_pylist()))
