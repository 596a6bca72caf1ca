"""``everquery query``: the standing queries of a stream."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import pyarrow.compute as pc
import typer

from everquery.cli.given_query import given_fields, given_query, given_time
from everquery.cli.kind_options import (
    WithFields,
    known_kind,
    what_kinds_tell,
)
from everquery.cli.options import AsJson, RegistryUrl, StreamName, existing_engine, has_integer_keys
from everquery.cli.output import counted, print_json, print_record, print_table
from everquery.cli.query_invoke import invoke
from everquery.cli.query_load import load
from everquery.cli.query_try import try_query
from everquery.cli.values import parse_labels, shown_range
from everquery.errors import UnknownQueryError
from everquery.kinds import KINDS, USUAL
from everquery.queries.known import spec_of
from everquery.stream import Stream

app = typer.Typer(help="The standing queries of a stream.", no_args_is_help=True)
app.command("load")(load)
app.command("invoke")(invoke)
app.command("try")(try_query)

SHOWN = 100

QueryId = Annotated[str, typer.Argument(metavar="ID", help="The query's id.")]
QueryIds = Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of queries.")]


@app.command("add")
@WithFields
def add(
    query_id: QueryId,
    registry: RegistryUrl,
    stream: StreamName = None,
    kind: Annotated[
        str, typer.Option(metavar="KIND", callback=known_kind, help=what_kinds_tell())
    ] = USUAL,
    box: Annotated[
        list[str] | None,
        typer.Option(
            help="A range of an attribute: price=40..50 holds 40 and not 50; [40..50], (40..50),"
            " 40.. and ..50 say it otherwise. Repeat for a box."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="See only this key's events.")] = None,
    integer_key: Annotated[
        bool, typer.Option("--integer-key", help="The stream's keys are integers.")
    ] = False,
    owner: Annotated[str | None, typer.Option(help="Whose query it is.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="A label, team=fx; repeat.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Let it replace the live query with its id, if any.")
    ] = False,
    begin: Annotated[
        str | None,
        typer.Option(help="Begin in the past that runs keep: oldest, or a time."),
    ] = None,
    silent_past: Annotated[
        bool, typer.Option("--silent-past", help="With --begin: do not tell what lies in the past.")
    ] = False,
    **fields: Any,  # noqa: ANN401 - an option for each field of each kind
) -> None:
    """Register a query."""
    spec = spec_of(kind)
    given = given_fields(spec, fields, box, owner, label)
    with existing_engine(registry, stream) as engine:
        integer = integer_key or has_integer_keys(engine)
        query = given_query(spec, query_id, given, engine.stream, key=key, integer=integer)
        since = None if begin is None else given_time(begin)
        engine.register(query, replace=replace, begin=since, silent=silent_past)
        typer.echo(f"query {query_id!r} is live on stream {engine.stream.name!r}")


@app.command("list")
def list_queries(
    registry: RegistryUrl,
    stream: StreamName = None,
    owner: Annotated[str | None, typer.Option(help="Only of this owner.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Only with this label, team=fx; repeat for all of.")
    ] = None,
    like: Annotated[
        str | None, typer.Option(help="Only ids like this: % is anything, _ one character.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", callback=known_kind, help="Only of this kind.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, help="At most so many.", show_default=f"{SHOWN}; all with --json"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List queries in the order of registration."""
    wanted = parse_labels(label or [])
    with existing_engine(registry, stream) as engine:
        table = engine.queries(like=like, owner=owner, labels=wanted, kind=kind)
        definition = engine.stream
    found = table.num_rows
    if limit is None and not as_json:
        limit = SHOWN
    table = table if limit is None else table.slice(0, limit)
    records = [_record(row, definition) for row in table.to_pylist()]
    if as_json:
        print_json(records)
        return
    names = ["id", "kind", "key", "box", "emit", "state", "owner", "labels"]
    for listed in (each.listed for each in KINDS.values() if each.listed):
        name, texts = listed.title, [listed.text(record) for record in records]
        records = [record | {name: text} for record, text in zip(records, texts, strict=True)]
        if any(texts):
            names.insert(names.index("state"), name)
    print_table(names, [_row(record, names) for record in records])
    more = f", {table.num_rows:,} shown (--limit)" if table.num_rows < found else ""
    typer.echo(counted(found, "query", "queries") + more)


def _record(row: dict[str, Any], stream: Stream) -> dict[str, Any]:
    box = {}
    for name in stream.attributes:
        low, high = row.pop(f"{name}_lo"), row.pop(f"{name}_hi")
        if low is not None or high is not None:
            box[name] = shown_range(low, high)
    row["labels"] = json.loads(row["labels"]) if row["labels"] else {}
    return row | {"box": box}


def _row(record: dict[str, Any], names: list[str]) -> list[object]:
    values = dict(record)
    for name in ("box", "labels"):
        values[name] = ", ".join(f"{k}={v}" for k, v in record[name].items()) or None
    if values["key"] is not None:
        values["key"] = str(values["key"])
    return [values[name] for name in names]


@app.command("show")
def show(
    query_id: QueryId, registry: RegistryUrl, stream: StreamName = None, as_json: AsJson = False
) -> None:
    """Show a query."""
    with existing_engine(registry, stream) as engine:
        table = engine.queries()
        found = table.filter(pc.equal(table["id"], query_id)).to_pylist()
        definition = engine.stream
    if not found:
        raise UnknownQueryError(f"no live query has the id {query_id!r}")
    record = _record(found[0], definition)
    if as_json:
        print_json(record)
    else:
        names = list(record)
        print_record(dict(zip(names, _row(record, names), strict=True)))


@app.command("drop")
def drop(ids: QueryIds, registry: RegistryUrl, stream: StreamName = None) -> None:
    """End queries; with an unknown id among them, none is ended."""
    with existing_engine(registry, stream) as engine:
        found = engine.parts(ids)
        engine.deregister(found)
    typer.echo(f"dropped {counted(len(found), 'query', 'queries')}")


@app.command("pause")
def pause(ids: QueryIds, registry: RegistryUrl, stream: StreamName = None) -> None:
    """Let queries emit nothing until they are resumed."""
    with existing_engine(registry, stream) as engine:
        found = engine.parts(ids)
        engine.pause(found)
    typer.echo(f"paused {counted(len(found), 'query', 'queries')}")


@app.command("resume")
def resume(ids: QueryIds, registry: RegistryUrl, stream: StreamName = None) -> None:
    """Let paused queries emit again."""
    with existing_engine(registry, stream) as engine:
        found = engine.parts(ids)
        engine.resume(found)
    typer.echo(f"resumed {counted(len(found), 'query', 'queries')}")


@app.command("quarantined")
def quarantined(
    registry: RegistryUrl,
    stream: StreamName = None,
    give_back: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Let jobs try this query again, anew; repeat for more."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the queries that Spark jobs run without, because they made work fail."""
    with existing_engine(registry, stream) as engine:
        if give_back:
            engine.give_back(give_back)
            typer.echo(f"gave back {counted(len(set(give_back)), 'query', 'queries')}")
            return
        found = engine.quarantined()
    if as_json:
        print_json(found.to_pylist())
        return
    by = ["position", "id", "kind", "reason", "job"]
    records = (
        found.group_by(by)
        .aggregate([("shard", "count")])
        .sort_by([("position", "ascending"), ("id", "ascending")])
    )
    names = ["id", "kind", "position", "job", "shards", "reason"]
    rows = [row | {"shards": row["shard_count"]} for row in records.to_pylist()]
    print_table(names, [[row[name] for name in names] for row in rows])
    typer.echo(counted(len(set(found["id"].to_pylist())), "query", "queries"))


@app.command("explain")
def explain(
    query_id: QueryId, registry: RegistryUrl, stream: StreamName = None, as_json: AsJson = False
) -> None:
    """Tell how a query is evaluated, and what it is expected to cost."""
    with existing_engine(registry, stream) as engine:
        parts = engine.parts(query_id)
        found = [engine.explain(part) for part in parts]
    if not as_json:
        for each in found:
            typer.echo(str(each))
        return
    names = ("query_id", "kind", "path", "attributes", "candidate_share", "cost_ns")
    records = [
        {name: _number(getattr(each, name)) for name in (*names, "lane_queries", "segment_queries")}
        for each in found
    ]
    print_json(records[0] if parts == [query_id] else records)


def _number(value: object) -> object:
    """Return a value as JSON has it: NaN is null."""
    return None if isinstance(value, float) and math.isnan(value) else value
