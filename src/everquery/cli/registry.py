"""``everquery registry``: find damage of a registry, and repair it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from everquery.cli.group import FAILED
from everquery.cli.options import AsJson
from everquery.cli.output import counted, print_json, print_table
from everquery.engine import unreadable_streams
from everquery.registry import Registry
from everquery.registry.damage import Damage

SHOWN_IDS = 20  # of a damaged row, in a table; all are in the JSON

app = typer.Typer(help="Find damage of a registry, and repair it.", no_args_is_help=True)

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        envvar="EVERQUERY_REGISTRY",
        help="Where the queries are: sqlite:///queries.db, postgresql://user@host/database.",
    ),
]


@app.command("check")
def check(url: Url, as_json: AsJson = False) -> None:
    """Look at every row of every stream; list each that is damaged, and exit with 1 if one is."""
    found = _damages(url)
    _print(found, as_json=as_json)
    if found:
        raise typer.Exit(FAILED)


@app.command("repair")
def repair(
    url: Url,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Keep what is whole, and list what is lost; in one transaction."""
    found = _damages(url)
    _print(found, as_json=as_json)
    if not found:
        return
    if not yes:
        typer.confirm("go on without what is lost?", abort=True, err=True)
    opened = Registry(url, damaged=True)
    opened.repair()
    opened.close()
    left = _damages(url)
    if left:
        typer.echo("this is left:", err=True)
        _print(left, as_json=False, err=True)
        raise typer.Exit(FAILED)
    typer.echo("the registry is whole", err=as_json)


def _damages(url: str) -> list[Damage]:
    opened = Registry(url, damaged=True, create=False)
    found = opened.find_damage()
    opened.close()
    return found or unreadable_streams(url)


def _print(found: Sequence[Damage], *, as_json: bool, err: bool = False) -> None:
    if as_json:
        print_json([asdict(damage) for damage in found])
        return
    if not found:
        typer.echo("every row is whole")
        return
    rows = [
        [each.stream or None, each.position, each.what, each.reason, _shown(each.ids)]
        for each in found
    ]
    print_table(["stream", "position", "what", "reason", "queries"], rows)
    typer.echo(f"{counted(len(found), 'thing')} damaged", err=err)


def _shown(ids: Sequence[str]) -> str | None:
    if not ids:
        return None
    more = f" and {len(ids) - SHOWN_IDS:,} more" if len(ids) > SHOWN_IDS else ""
    return ", ".join(ids[:SHOWN_IDS]) + more
