"""``everquery stream``: the streams of a registry."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from everquery.cli.options import AsJson, RegistryUrl, existing_engine, existing_registry
from everquery.cli.output import counted, print_json, print_record, print_table
from everquery.cli.values import parse_span
from everquery.engine import Engine
from everquery.stream import ALL, ALTERABLE, Stream

app = typer.Typer(help="The streams of a registry.", no_args_is_help=True)

NONE = "none"
Name = Annotated[str, typer.Argument(metavar="NAME", help="The stream's name.")]


@app.command("create")
def create(
    name: Name,
    registry: RegistryUrl,
    attributes: Annotated[
        list[str] | None,
        typer.Option("--attribute", "-a", help="A numeric column that queries restrict; repeat."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The column that says what an event is about.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="The column with the event's time.")] = None,
    weight: Annotated[str | None, typer.Option(help="A column of positive integers.")] = None,
    grace: Annotated[
        str | None,
        typer.Option(help="How long events are held back so that disorder costs nothing: 5s."),
    ] = None,
    expire_after: Annotated[
        str | None, typer.Option(help="A key without events for this long leaves its boxes: 1h.")
    ] = None,
    max_ahead: Annotated[
        str | None, typer.Option(help="How far events may be ahead of the clock: 1h.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="How much of the past is kept: 1000000 events, 1h, or all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a stream; one of this name that is there must be the same."""
    stream = Stream(
        name,
        key=key,
        time=time,
        attributes=attributes or [],
        weight=weight,
        grace=parse_span(grace, "--grace"),
        expire_after=parse_span(expire_after, "--expire-after"),
        max_ahead=parse_span(max_ahead, "--max-ahead"),
        keep=_parse_keep(keep),
    )
    opened = existing_registry(registry)
    opened.create_stream(stream)
    opened.close()
    if as_json:
        print_json(_record(stream))
    else:
        typer.echo(f"stream {name!r} is there: {', '.join(stream.columns())}")


@app.command("alter")
def alter(
    name: Name,
    registry: RegistryUrl,
    grace: Annotated[
        str | None, typer.Option(help="How long events are held back: 5s, a number, or none.")
    ] = None,
    expire_after: Annotated[
        str | None, typer.Option(help="After how long a silent key leaves its boxes; or none.")
    ] = None,
    max_ahead: Annotated[
        str | None, typer.Option(help="How far events may be ahead of the clock; or none.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="How much of the past is kept: 1000000, 1h, all, or none.")
    ] = None,
    attributes: Annotated[
        list[str] | None,
        typer.Option("--attribute", "-a", help="A further numeric column of the events; repeat."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give a stream other spans, or further attributes; its queries stay.

    Runs that are under way go on with the stream as it was. A checkpoint of Spark, or a snapshot,
    goes on with other spans, but not with further attributes: then start anew.
    """
    given = {
        "grace": (grace, "--grace"),
        "expire_after": (expire_after, "--expire-after"),
        "max_ahead": (max_ahead, "--max-ahead"),
        "keep": (keep, "--keep"),
    }
    spans = {
        field: None
        if text.strip().lower() == NONE
        else _parse_keep(text)
        if field == "keep"
        else parse_span(text, option)
        for field, (text, option) in given.items()
        if text is not None
    }
    if not spans and not attributes:
        raise typer.BadParameter("give --grace, --expire-after, --max-ahead, --keep or --attribute")
    opened = existing_registry(registry)
    stream = opened.alter_stream(name, attributes=attributes or (), **spans)
    opened.close()
    record = _record(stream)
    if as_json:
        print_json(record)
        return
    told = ", ".join(
        f"{option[2:]} {record[field] or NONE}" for field, (_, option) in given.items()
    )
    typer.echo(f"stream {name!r} has {', '.join(stream.attributes)}; {told}")


@app.command("drop")
def drop(
    name: Name,
    registry: RegistryUrl,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Drop it with its live queries, and do not ask.")
    ] = False,
) -> None:
    """Remove a stream, with its queries and quotas."""
    with existing_engine(registry, name, read_only=True) as engine:
        live, position = engine.queries().num_rows, engine.position
    queries = counted(live, "live query", "live queries")
    if live and not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(
                f"stream {name!r} has {queries}; --yes drops it with them", param_hint="--yes"
            )
        typer.confirm(f"Drop stream {name!r} with {queries}?", abort=True)
    opened = existing_registry(registry)
    opened.drop_stream(name, head=position)
    opened.close()
    typer.echo(f"dropped stream {name!r} with {queries}")


@app.command("list")
def list_streams(registry: RegistryUrl, as_json: AsJson = False) -> None:
    """List the streams."""
    opened = existing_registry(registry)
    records = [_record(stream) for stream in opened.streams().values()]
    opened.close()
    if as_json:
        print_json(records)
        return
    for record in records:
        record["attributes"] = ", ".join(record["attributes"])
    names = ("name", "key", "time", "attributes", "weight", *ALTERABLE)
    print_table(names, [[record[name] for name in names] for record in records])


@app.command("show")
def show(
    registry: RegistryUrl,
    name: Annotated[
        str | None, typer.Argument(help="The stream's name; not needed if there is one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a stream, and how many changes its log of queries has seen."""
    opened = existing_registry(registry)
    stream = opened.stream(name)
    record = _record(stream) | {"position": opened.head(stream.name)}
    opened.close()
    if as_json:
        print_json(record)
        return
    record["attributes"] = ", ".join(record["attributes"])
    print_record(record)


@app.command("history")
def history(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Where the past is: Engine(..., history=FOLDER)."),
    ],
    registry: RegistryUrl,
    name: Annotated[
        str | None, typer.Argument(help="The stream's name; not needed if there is one.")
    ] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Join small files; no engine may be using them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is held of a stream's past: how much, from when to when, and what is lost."""
    if not folder.is_dir():
        raise typer.BadParameter(f"{str(folder)!r} is no folder", param_hint="FOLDER")
    opened = existing_registry(registry)
    stream = opened.stream(name)
    opened.close()
    if stream.keep is None:
        stream = replace(stream, keep=ALL)  # what is there is shown
    with Engine(stream, history=folder) as engine:
        if compact:
            engine.compact_history()
        record = engine.history(check=True)
    lost = record.pop("lost")
    shown = {
        "events": f"{record['events']:,}",
        "batches": f"{record['batches']:,}",
        "places": f"{record['oldest']} to {record['newest']}",
        "times": "-" if record["since"] is None else f"{record['since']} to {record['until']}",
        "files": f"{record['files']:,}",
        "size": f"{record['file_bytes'] / 1e6:,.1f} MB",
        "lost": "nothing" if not lost else "; ".join(lost),
    }
    if as_json:
        plain = {
            key: value if isinstance(value, (int, float, type(None))) else str(value)
            for key, value in record.items()
        }
        print_json({**plain, "lost": lost})
    else:
        print_record(shown)


def _parse_keep(text: str | None) -> Any:  # noqa: ANN401 - what `Stream.keep` takes
    if text is not None and text.strip().lower() == ALL:
        return ALL
    return parse_span(text, "--keep")


def _record(stream: Stream) -> dict[str, Any]:
    record = asdict(stream) | {"attributes": list(stream.attributes)}
    for span in ALTERABLE:
        if isinstance(record[span], timedelta):
            record[span] = f"{record[span].total_seconds():g}s"
    return record
