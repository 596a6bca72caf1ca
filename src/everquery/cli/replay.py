"""``everquery replay``: what would have been reported, by query."""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console

from everquery.cli.event_job import EventJob, open_inputs
from everquery.cli.event_view import EventView
from everquery.cli.group import INTERRUPTED
from everquery.cli.options import AsJson, IntegerKeys, RegistryUrl, StreamName, existing_engine
from everquery.cli.output import print_json, print_table
from everquery.cli.run import Files, Form, TextFormat
from everquery.cli.this_process import clock_since_start, interruptible

PARTS = 64  # partial counts that are kept before they are added up


class CountsByQuery:
    """How often each query reported each event."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []

    def add(self, notices: pa.Table) -> None:
        """Count notices."""
        if notices.num_rows:
            counts = notices.select(["query_id", "event"]).append_column(
                "count", pa.repeat(pa.scalar(1, pa.int64()), notices.num_rows)
            )
            self._parts.append(_summed(counts))
            if len(self._parts) >= PARTS:
                self._parts = [_summed(pa.concat_tables(self._parts))]

    def by_query(self) -> list[tuple[str, dict[str, int]]]:
        """Return each query's counts by event, most notices first, ties by id."""
        counts: dict[str, dict[str, int]] = {}
        if self._parts:
            for row in _summed(pa.concat_tables(self._parts)).to_pylist():
                counts.setdefault(row["query_id"], {})[row["event"]] = row["count"]
        return sorted(counts.items(), key=lambda item: (-sum(item[1].values()), item[0]))


def _summed(counts: pa.Table) -> pa.Table:
    """Return the sums of counts by query and event."""
    texts = counts.cast(
        pa.schema([("query_id", pa.string()), ("event", pa.string()), ("count", pa.int64())])
    )
    summed = texts.group_by(["query_id", "event"]).aggregate([("count", "sum")])
    return summed.select(["query_id", "event", "count_sum"]).rename_columns(
        ["query_id", "event", "count"]
    )


def replay(
    files: Files,
    registry: RegistryUrl,
    stream: StreamName = None,
    top: Annotated[
        int, typer.Option(min=0, help="List so many queries, those with most notices first.")
    ] = 20,
    form: Form = TextFormat.jsonl,
    integer_keys: IntegerKeys = False,
    as_json: AsJson = False,
) -> None:
    """Tell what the registered queries would have reported of these events, by query.

    Nothing is written, neither notices nor to the registry.
    """
    counts = CountsByQuery()
    opened = existing_engine(registry, stream, lazy=False, read_only=True)
    with interruptible() as stop, opened as engine:
        inputs = open_inputs(files, engine, form=form.value, integer_keys=integer_keys, stop=stop)
        job = EventJob(engine, inputs, clock=clock_since_start(), stop=stop)
        with EventView(job, Console(stderr=True), wanted=not as_json) as view:
            for source, piece, notices in job.run():
                counts.add(notices)
                view.update(source, piece)
        found = counts.by_query()
        stats = engine.stats()
        there = sum(stats["queries"].values()) + stats["ended"]
        told = {"queries": there, "queries_with_notices": len(found)}
        if as_json:
            listed = [{"query_id": name, **events} for name, events in found[:top]]
            print_json(job.summary() | told | {"by_query": listed})
        else:
            _print(job, found, top)
            typer.echo(f"{len(found):,} of {there:,} queries reported something")
    if job.interrupted:
        raise typer.Exit(INTERRUPTED)


def _print(job: EventJob, found: list[tuple[str, dict[str, int]]], top: int) -> None:
    events = sorted({event for _, counts in found for event in counts})
    rows = [
        [name, *(counts.get(event, 0) for event in events), sum(counts.values())]
        for name, counts in found[:top]
    ]
    if rows:
        print_table(["query", *events, "notices"], rows)
    for line in job.summary_lines():
        typer.echo(line)
