"""``everquery query invoke``: the answer of a query over the past that a folder keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from everquery.cli.options import AsJson, RegistryUrl, StreamName, existing_engine
from everquery.cli.output import counted, print_json, print_table
from everquery.engine.engine import Engine
from everquery.kinds.answer import place_of
from everquery.registry import Registry


def invoke(
    query_id: Annotated[str, typer.Argument(metavar="ID", help="The query's id.")],
    registry: RegistryUrl,
    history: Annotated[
        list[str],
        typer.Option(
            help="The folder with the kept past of the stream, while no run writes to it; of a"
            " join, stream=folder for each stream."
        ),
    ],
    stream: StreamName = None,
    limit: Annotated[int | None, typer.Option(help="Read a page of at most so many rows.")] = None,
    after: Annotated[
        str | None, typer.Option(help="Go on behind the page that ended at this place.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Show what changed since the answer with this place.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the answer of a select query over its window, as of the end of the kept past."""
    folders = dict(each.split("=", 1) for each in history if "=" in each)
    with existing_engine(registry, stream, read_only=True) as found:
        names = list(folders) or [found.stream.name]
    opened = Registry(registry)
    for name in [*folders.values(), *(each for each in history if "=" not in each)]:
        if not Path(name).is_dir():
            raise typer.BadParameter(f"{name} is no folder", param_hint="--history")
    engine: Engine
    if folders:
        engine = Engine(names, registry=opened, history=folders, read_only=True)
    else:
        engine = Engine(names[0], registry=opened, history=history[0], read_only=True)
    with engine:
        answer = engine.invoke(query_id, limit=limit, after=after, since=since)
    rows = answer.to_pylist()
    if as_json:
        print_json({"rows": rows, "place": place_of(answer)})
        return
    print_table(answer.column_names, [list(row.values()) for row in rows])
    typer.echo(f"{counted(len(rows), 'row', 'rows')}; place {place_of(answer)}")
