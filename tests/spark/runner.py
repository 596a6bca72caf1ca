"""The Spark runtime with the methods of an engine, for the conformance suite."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
import tempfile
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import everquery as eq
from everquery.sharding.telling import LETTER, plain_schema
from tests.spark.job import FRAME, JobFolder, Source, process_all, start, told

PUBLISH = """
    BEGIN IMMEDIATE;
    INSERT INTO main.everquery_changes SELECT * FROM ours.everquery_changes
    WHERE first >= (SELECT head FROM main.everquery_streams);
    UPDATE main.everquery_streams SET head = (SELECT head FROM ours.everquery_streams);
    COMMIT;
"""


class SparkRunner:
    """A streaming query that gets a few files for every batch, the largest of which is the last.

    Spark reads larger files first.

    Only one runs at a time: one that begins stops the one before it, which goes on from its
    checkpoint when it gets the next batch.
    """

    running = None

    def __init__(self, stream: eq.Stream, *, spark, root, source: Source = FRAME) -> None:
        self.spark = spark
        self.stream = stream
        self.folder = JobFolder(Path(tempfile.mkdtemp(dir=root)), source)
        self.registrar = eq.Engine(stream, registry=self.folder.registry, create=True)
        self.live = self.folder.root / "live.db"  # the registry that Spark follows
        eq.Engine(stream, registry=f"sqlite:///{self.live}", create=True)
        self.files = 0
        self.batch = -1  # the last one of which the notices have been returned
        self.letters: list[pa.Table] = []

    def register(self, query, **options) -> None:
        self.registrar.register(query, **options)

    def register_table(self, table, *, kind: str) -> None:
        self.registrar.register_table(table, kind=kind)

    def deregister(self, query_id: str) -> None:
        self.registrar.deregister(query_id)

    def pause(self, query_id: str) -> None:
        self.registrar.pause(query_id)

    def resume(self, query_id: str) -> None:
        self.registrar.resume(query_id)

    def compact(self) -> None:
        """Compact the registry that Spark follows, which may be ahead of it."""
        self._publish()
        with eq.Engine(
            self.stream, registry=f"sqlite:///{self.live}", lazy=True, create=True
        ) as engine:
            engine.compact_registry()

    def process(self, batch: pa.Table | pa.RecordBatch, *, now: int | None = None) -> pa.Table:
        if isinstance(batch, pa.RecordBatch):
            batch = pa.Table.from_batches([batch])
        if self.stream.max_ahead is not None:
            clock = pa.repeat(pa.scalar(now, pa.int64()), batch.num_rows)
            batch = batch.append_column("clock", clock)
        self._publish()
        self._write(batch)
        process_all(self._run(self._all_columns(batch.schema)), self.folder)
        new = told(self.folder, after=self.batch)
        self.batch = self.query.lastProgress["batchId"]
        if new.num_rows:
            refused = pc.equal(new["kind"], LETTER)
            self.letters.append(new.filter(refused).select(["key", "time", "reason"]))
            new = new.filter(pc.invert(refused))
        return self._plain(new)

    def _write(self, batch: pa.Table) -> None:
        """Write the files of a batch; folders in folders only Spark looks into."""
        cuts = [0, batch.num_rows // 5, batch.num_rows // 2, batch.num_rows]
        parts = [batch.slice(a, b - a) for a, b in pairwise(cuts) if b > a]
        if self.folder.source.kind == "files":
            self.folder.write(self.files, batch)
        else:
            self.folder.write_together(self.files, parts or [batch])
        self.files += 1

    def _all_columns(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema with the columns that this batch lacks, and a later one may have."""
        for name in self.stream.columns():
            if name not in schema.names:
                kind = pa.int64() if name == self.stream.weight else pa.float64()
                schema = schema.append(pa.field(name, kind))
        return schema

    def _publish(self) -> None:
        """Let Spark see all changes since the last batch at once, as an engine does."""
        with sqlite3.connect(self.live, isolation_level=None) as connection:
            connection.execute(f"ATTACH '{self.folder.root / 'queries.db'}' AS ours")
            connection.executescript(PUBLISH)
        connection.close()

    def _plain(self, notices: pa.Table) -> pa.Table:
        if not notices.num_rows:
            notices = plain_schema(self.registrar._shard.schema(), pa.schema([])).empty_table()
        return notices.drop_columns(["log_position"])

    def _run(self, schema: pa.Schema):
        if SparkRunner.running is not self:
            SparkRunner.stop()
            options = {"registry": f"sqlite:///{self.live}", "dead_letters": True, "files": 9}
            if self.stream.max_ahead is not None:
                options["clock"] = "clock"
            self.query = start(self.spark, self.folder, self.stream, schema, **options)
            SparkRunner.running = self
        return self.query

    @classmethod
    def stop(cls) -> None:
        """Stop the one that runs."""
        if cls.running is not None:
            cls.running.query.stop()
            cls.running = None

    def dead_letters(self) -> pa.Table:
        empty = pa.table({"reason": pa.array([], pa.string())})
        return pa.concat_tables([empty, *self.letters], promote_options="permissive")

    def stats(self) -> dict:
        reasons = self.dead_letters()["reason"].to_pylist()
        return {
            "queries": self.registrar.stats()["queries"],
            "dead_letters_by_reason": {reason: reasons.count(reason) for reason in set(reasons)},
        }

    def queries(self) -> pa.Table:
        return self.registrar.queries()

    def snapshot(self) -> bytes:
        """Return what leads to the folder: the state is there, in the checkpoint."""
        apart = ("spark", "query", "registrar")
        kept = {name: value for name, value in vars(self).items() if name not in apart}
        return pickle.dumps((kept, self.registrar.snapshot()))

    def restore(self, snapshot: bytes) -> None:
        """Go on in a folder with a new streaming query."""
        self.close()
        kept, registrar = pickle.loads(snapshot)
        vars(self).update(kept)
        self.registrar = eq.Engine(self.stream, registry=self.folder.registry, create=True)
        self.registrar.restore(registrar)
        SparkRunner.stop()

    def close(self) -> None:
        if SparkRunner.running is self:
            SparkRunner.stop()
        self.registrar.close()
        shutil.rmtree(self.folder.root, ignore_errors=True)
