"""What the stateful stage of a network's job does with a batch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Row

from everquery.network.model import Network
from everquery.network.runtime.run import Run
from everquery.network.runtime.tables import LETTERS
from everquery.sharding.journal import Store
from everquery.sharding.left_tables import blob_of
from everquery.sharding.places import OFFSET, first_source, order_of
from everquery.sharding.spans import SpanReader, Spans
from everquery.sharding.wire import table_of_bytes
from everquery.spark.network import state
from everquery.spark.network.gates import RAW, Gate
from everquery.spark.network.gathering import GATHERED
from everquery.spark.network.rows import FIGURES, plain_rows, sent, without_offset
from everquery.spark.rows import SPAN_NAMES
from everquery.spark.stages import Left, Worker

DEAD_LETTERS = -1  # the number of this output
MOST_LIVE = 4

_live: OrderedDict[str, tuple[str, Run]] = OrderedDict()  # of this process, by job


@dataclass(frozen=True)
class NetworkWork:
    """Pieces of streams to rows of outputs.

    Attributes
    ----------
    network : Network
    schemas : mapping of str to schema
        The outputs, and the types in which each leaves the process.
    readers : mapping of str to SpanReader
        What reads the spans of streams, where pieces name these.
    letters : bool
        Whether refused rows become rows of an output, too.
    one_host : bool
    token : str
        Names the job in the processes that work on it.
    """

    network: Network
    schemas: Mapping[str, pa.Schema]
    readers: Mapping[str, SpanReader] = field(default_factory=dict)
    letters: bool = False
    one_host: bool = False
    token: str = field(default_factory=lambda: uuid4().hex)

    def run(self, rows: Iterator[Any], store: Store) -> Iterator[Row]:
        """Run one batch."""
        began = perf_counter()
        batches = self._batches(rows)
        run, rebuilt = self._take_up(store)
        refused, shed = _refused(run), _shed(run)
        found = run.process(batches)
        token = uuid4().hex
        figures = {
            "rows": sum(batch.num_rows for batch in batches.values()),
            "told": sum(table.num_rows for table in found.values()),
            "refused": _refused(run) - refused,
            "shed": _shed(run) - shed,
            "rebuilt": int(rebuilt),
            "state_bytes": state.save(store, run.snapshot(), token),
            "seconds": perf_counter() - began,
        }
        letters = run.drain_dead_letters()
        self._keep(run, token)
        yield from self._given(found, letters, figures)
        Worker.rest()

    def _take_up(self, store: Store) -> tuple[Run, bool]:
        """Return the run as the last batch left it, and whether it had to be made from its state.

        It is taken out of this process's memory: a task that fails leaves none.
        """
        token = state.token_of(store)
        live = _live.pop(self.token, None)
        if live is not None and live[0] == token:
            return live[1], False
        run = self.network.start()
        if token is not None:
            run.restore(state.load(store))
        return run, True

    def _keep(self, run: Run, token: str) -> None:
        _live[self.token] = token, run
        while len(_live) > MOST_LIVE:
            _live.popitem(last=False)

    def _batches(self, rows: Iterator[Any]) -> dict[str, pa.Table]:
        """Return the rows of each stream, in the order that all runtimes share."""
        names = list(self.network.streams)
        pieces: dict[str, list[tuple[Any, pa.Table]]] = {}
        for row in rows:
            name = names[row.stream]
            if row.source == SPAN_NAMES:
                tables = self._read(name, Spans.from_bytes(row.payload))
                found = [((), row.first, i, table) for i, table in enumerate(tables)]
            else:
                table = table_of_bytes(blob_of(row.file) if row.file else row.payload)
                metadata = table.schema.metadata or {}
                found = [(first_source(metadata), row.first, row.second, table)]
            pieces.setdefault(name, []).extend((key, table) for *key, table in found)
        return {name: _in_order(pieces[name]) for name in names if name in pieces}

    def _read(self, stream: str, spans: Spans) -> Iterator[pa.Table]:
        reader = self.readers[stream]
        return (table for name in spans.names for table in reader.read(name))

    def _given(
        self, found: Mapping[str, pa.Table], letters: pa.Table, figures: dict[str, Any]
    ) -> Iterator[Row]:
        left = Left.by_this_task() if self.one_host else None
        tables = [
            (number, plain_rows(found[name], schema))
            for number, (name, schema) in enumerate(self.schemas.items())
        ]
        if self.letters:
            tables.append((DEAD_LETTERS, _named(letters)))
        yield Row(output=DEAD_LETTERS, file=None, payload=None, **figures)
        nothing = {name: type(figures[name])(0) for name in FIGURES}
        for number, table in tables:
            for payload, file in sent(table, left):
                yield Row(output=number, file=file, payload=payload, **nothing)


def _named(letters: pa.Table) -> pa.Table:
    """Return dead letters under the names that streams and boxes have for the user."""
    names = letters.column("box").to_pylist()
    names = [name.removesuffix(RAW).removesuffix(GATHERED) for name in names]
    return letters.set_column(0, "box", pa.array(names, pa.string())).cast(LETTERS)


def _in_order(pieces: list[tuple[Any, pa.Table]]) -> pa.Table:
    tables = [table for _, table in sorted(pieces, key=lambda piece: piece[0])]
    parts = [(table.schema.metadata or {}, table.num_rows, _offsets(table)) for table in tables]
    order = order_of(parts)
    rows = pa.concat_tables([without_offset(table) for table in tables])
    return rows if order is None else rows.take(pa.array(order))


def _offsets(table: pa.Table) -> Any:  # noqa: ANN401 - numbers, or None
    if OFFSET not in table.column_names:
        return None
    return table.column(OFFSET).combine_chunks().fill_null(0).to_numpy(zero_copy_only=False)


def _refused(run: Run) -> int:
    return sum(filter(None, run.stats().column("dead_letters").to_pylist()))


def _shed(run: Run) -> int:
    """Return how many rows gates have kept back, give or take a constant."""
    rows = run.stats().select(["what", "name", "kind", "rows_in", "rows_out"]).to_pylist()
    gates = {row["name"] for row in rows if row["kind"] == Gate.kind}
    passed = sum(row["rows_out"] or 0 for row in rows if row["kind"] == Gate.kind)
    into = {f"{name}{RAW} -> {name}" for name in gates}
    came = sum(row["rows_in"] or 0 for row in rows if row["what"] == "arc" and row["name"] in into)
    return int(came - passed)
