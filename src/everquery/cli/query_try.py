"""``everquery query try``: when a query would have told something, and how often."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

from everquery.cli.given_query import given_fields, given_query, given_time
from everquery.cli.kind_options import WithFields, known_kind, what_kinds_tell
from everquery.cli.options import AsJson, RegistryUrl, StreamName, existing_registry
from everquery.cli.output import counted, print_json
from everquery.engine import Engine
from everquery.kinds import USUAL
from everquery.queries.begin import OLDEST
from everquery.queries.known import spec_of
from everquery.stream import ALL

WIDTH = 60
BARS = " ▁▂▃▄▅▆▇█"
MOST_KEYS = 5


@WithFields
def try_query(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the past of the stream is.")
    ],
    registry: RegistryUrl,
    stream: StreamName = None,
    kind: Annotated[
        str, typer.Option(metavar="KIND", callback=known_kind, help=what_kinds_tell())
    ] = USUAL,
    box: Annotated[
        list[str] | None, typer.Option(help="A range of an attribute: price=40..50; repeat.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="See only this key's events.")] = None,
    begin: Annotated[str, typer.Option(help="From where on: oldest, or a time.")] = OLDEST,
    end: Annotated[str | None, typer.Option(help="Up to where; a time.")] = None,
    as_json: AsJson = False,
    **fields: Any,  # noqa: ANN401 - an option for each field of each kind
) -> None:
    """Say when a query would have told something in the kept past; nothing is registered."""
    if not folder.is_dir():
        raise typer.BadParameter(f"{str(folder)!r} is no folder", param_hint="FOLDER")
    spec = spec_of(kind)
    given = given_fields(spec, fields, box)
    opened = existing_registry(registry)
    known = opened.stream(stream)
    opened.close()
    with Engine(replace(known, keep=known.keep or ALL), history=folder) as engine:
        integer = engine.key_type == pa.int64()
        query = given_query(spec, "tried", given, known, key=key, integer=integer)
        until = None if end is None else given_time(end)
        notices = engine.dry_run(query, begin=given_time(begin), end=until)
        held = engine.history()
    summary = summary_of(notices)
    if as_json:
        print_json(summary)
        return
    typer.echo(f"over {counted(held['events'], 'event', 'events')} it would have told")
    for line in told_in_words(notices, summary):
        typer.echo(line)


def summary_of(notices: pa.Table) -> dict[str, Any]:
    """Return how often, when and of whom a query would have told."""
    times = notices["time"].drop_null()
    by_event = pc.value_counts(notices["event"].cast(pa.string())).to_pylist()
    by_key = pc.value_counts(notices["key"].cast(notices.schema.field("key").type.value_type))
    often = sorted(by_key.to_pylist(), key=lambda each: -each["counts"])[:MOST_KEYS]
    return {
        "notices": notices.num_rows,
        "events": {each["values"]: each["counts"] for each in by_event},
        "keys": {str(each["values"]): each["counts"] for each in often},
        "first": str(pc.min(times).as_py()) if len(times) else None,
        "last": str(pc.max(times).as_py()) if len(times) else None,
        "chart": chart_of(notices),
    }


def told_in_words(notices: pa.Table, summary: dict[str, Any]) -> list[str]:
    """Return the lines that say it."""
    if not notices.num_rows:
        return ["nothing"]
    events = ", ".join(f"{count:,} {event}" for event, count in summary["events"].items())
    lines = [f"{counted(notices.num_rows, 'notice', 'notices')}: {events}"]
    if summary["first"] is not None:
        lines += [f"from {summary['first']} to {summary['last']}", summary["chart"]]
    keys = ", ".join(f"{key} {count:,}" for key, count in summary["keys"].items() if key != "None")
    return lines + ([f"most often of {keys}"] if keys else [])


def chart_of(notices: pa.Table) -> str:
    """Return how many notices there were over time, as a row of bars.

    Examples
    --------
    >>> chart_of(pa.table({"time": [0] * 8 + [30] + [59] * 4}))
    '█                             ▁                            ▄'
    """
    column = notices["time"].drop_null()
    if not len(column) or pa.types.is_null(column.type):
        return ""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    times = column.cast(pa.float64() if pa.types.is_floating(column.type) else pa.int64())
    counts, _ = np.histogram(times.to_numpy().astype(np.float64), bins=WIDTH)
    levels = np.ceil(counts / counts.max() * (len(BARS) - 1)).astype(int)
    return "".join(BARS[level] for level in levels)
