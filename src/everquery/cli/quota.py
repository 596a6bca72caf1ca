"""``everquery quota``: how many live queries owners may have."""

from __future__ import annotations

from typing import Annotated

import typer

from everquery.cli.options import AsJson, RegistryUrl, StreamName, existing_engine
from everquery.cli.output import counted, print_json, print_table
from everquery.engine.statements import show_quotas

app = typer.Typer(help="How many live queries owners may have.", no_args_is_help=True)

Owner = Annotated[str, typer.Argument(metavar="OWNER", help="Whose queries.")]
Limit = Annotated[int, typer.Argument(metavar="N", min=0, help="How many may be live.")]


@app.command("set")
def set_quota(owner: Owner, limit: Limit, registry: RegistryUrl, stream: StreamName = None) -> None:
    """Set an owner's quota; queries that are live already stay."""
    with existing_engine(registry, stream) as engine:
        engine.set_quota(owner, limit)
        live = engine.live_of(owner)
    typer.echo(f"{owner!r} may have {counted(limit, 'live query', 'live queries')}; {live:,} are")


@app.command("default")
def set_default(limit: Limit, registry: RegistryUrl, stream: StreamName = None) -> None:
    """Set the quota of all owners without one of their own."""
    with existing_engine(registry, stream) as engine:
        engine.set_quota(None, limit)
    typer.echo(f"any other owner may have {counted(limit, 'live query', 'live queries')}")


@app.command("drop")
def drop(
    registry: RegistryUrl,
    owner: Annotated[
        str | None, typer.Argument(metavar="OWNER", help="Whose; without, the default.")
    ] = None,
    stream: StreamName = None,
) -> None:
    """Remove an owner's quota, or the default."""
    with existing_engine(registry, stream) as engine:
        engine.set_quota(owner, None)
    typer.echo(f"removed the quota of {owner!r}" if owner else "removed the default quota")


@app.command("list")
def list_quotas(registry: RegistryUrl, stream: StreamName = None, as_json: AsJson = False) -> None:
    """List quotas, and how much of each is used."""
    with existing_engine(registry, stream) as engine:
        rows = show_quotas(engine).to_pylist()
    if as_json:
        print_json(rows)
        return
    print_table(
        ["owner", "quota", "live"],
        [[row["owner"] or "(any other)", row["quota"], row["live"]] for row in rows],
    )
