"""What the stateful stage of a job does with the rows of a shard."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Row

from everquery.core.arrow_bytes import table_bytes
from everquery.registry.rows import LogRow
from everquery.sharding.head import refers_to_events
from everquery.sharding.job import Job
from everquery.sharding.journal import Store
from everquery.sharding.left_tables import blob_of, clear_up, leave
from everquery.sharding.operator import Input, Output, run_batch
from everquery.sharding.packing import Unpacked
from everquery.sharding.replayed_events import ReplayedEvents
from everquery.sharding.span_events import span_events
from everquery.sharding.spans import SpanReader, Spans
from everquery.sharding.telling import plain_letters, plain_notices, plain_quarantined
from everquery.sharding.wire import cut
from everquery.spark.notice_files import write_notices
from everquery.spark.quarantine_reports import told_as
from everquery.spark.rows import LOG, SPAN_NAMES, TOLD
from everquery.spark.stages import Worker, packer_of

NOTICES_BYTES = 1 << 19  # of a row of Spark: Java holds several copies of it at a time


@dataclass(frozen=True)
class ShardWork:
    """Packed rows of shards to notices.

    Attributes
    ----------
    job : Job
    codes : the grouping value of each shard
    plain : the schema of notices that leave the process
    letters : bool
        Whether refused events become rows, too.
    reader : SpanReader, optional
        What reads the spans, if rows name these.
    folder : Path, optional
        Where notices are written; else they are sent.
    token : str
        Names the job in the processes that work on it.
    """

    job: Job
    codes: list[int]
    plain: pa.Schema
    letters: bool
    reader: SpanReader | None = None
    folder: Path | None = None
    token: str = field(default_factory=lambda: uuid4().hex)

    def begin(self) -> None:
        """Begin a task."""
        clear_up(time.monotonic())

    def run(self, code: int, rows: Iterator[Any], store: Store) -> Iterator[Row]:
        """Run one batch of one shard."""
        shard = self.codes.index(code)
        log: list[LogRow] = []
        events: list[tuple[tuple[int, ...], bytes | pa.Buffer | Unpacked]] = []
        spans: list[Spans] = []
        packed = False
        for row in rows:
            if row.source == LOG:
                part = row.operation, row.payload, row.digest or b""
                log.append(LogRow(row.first, row.second, row.named, *part))
            elif row.source == SPAN_NAMES:
                spans.append(Spans.from_bytes(row.payload, row.named or None))
                events += self._read(spans[-1], shard)
            elif row.operation or row.payload:
                blob = blob_of(row.operation) if row.operation else row.payload
                events.append(((row.first, row.second), blob))
                packed = True
        # A shard without events comes along until its state refers to no earlier ones: else those
        # would have to be kept for ever.
        if log or events or refers_to_events(self.job, shard, store):
            again = spans[0] if len(spans) == 1 and not packed else None
            given = Input(log, events, again)
            output = run_batch(self.job, shard, given, store, self._past)
            yield from self._rows(shard, output)
        Worker.rest()

    def _read(self, spans: Spans, shard: int) -> list[tuple[tuple[int, ...], Unpacked]]:
        assert self.reader is not None
        here = span_events(self.token, self.reader, packer_of(self.job))
        return here.of_shard(spans, shard)

    @cached_property
    def _past(self) -> ReplayedEvents | None:
        """What reads the events of earlier batches; it forgets them with the task."""
        return None if self.reader is None else ReplayedEvents(self.reader, packer_of(self.job))

    def _rows(self, shard: int, output: Output) -> Iterator[Row]:
        position, plain = output.position, self.plain
        told = [plain_notices(output.notices, position, plain, output.carried)]
        if output.quarantined:
            told.append(plain_quarantined(output.quarantined, shard, position, plain))
        if self.letters:
            lost = output.letters_carried
            told.append(plain_letters(output.letters, shard, position, plain, lost))
        notices = pa.concat_tables(told)
        figures: dict[str, Any] = {field.name: 0 for field in TOLD.fields}
        figures |= {f"{stage}_seconds": seconds for stage, seconds in output.seconds.items()}
        figures |= {
            "events": output.events,
            "partial": output.partial.events,
            "told": output.notices.num_rows,
            "refused": output.letters.num_rows,
            "quarantined": len(output.quarantined),
            "queries": output.queries,
            "rebuilt": int(output.found == "rebuilt"),
            "ran": 1,
        }
        once = {
            "held_out": None if output.held_out is None else told_as(shard, output.held_out),
            "lacking": json.dumps(dict(output.partial.by_column))
            if output.partial.events
            else None,
        }
        for blob, file in self._told(notices, shard):
            here = {"notices": blob, "file": file, "shard": shard, "position": position, **once}
            yield Row(**{**figures, **here})
            figures, once = _zeros(figures), dict.fromkeys(once)

    def _told(self, notices: pa.Table, shard: int) -> Iterator[tuple[bytes | None, str | None]]:
        """Yield notices as bytes, or the name of the file that they are in; at least once."""
        if self.folder is not None:
            written = notices.num_rows > 0
            yield None, str(write_notices(notices, self.folder, shard)) if written else None
            return
        file = leave(notices)
        if file is not None:
            yield None, file
            return
        for part in cut(notices, NOTICES_BYTES):
            yield table_bytes(part) if part.num_rows else None, None


def _zeros(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the same without figures: they are counted in the first row of a shard."""
    return {name: type(value)(0) for name, value in figures.items()}
