"""``everquery init``: make a registry."""

from __future__ import annotations

import typer

from everquery.cli.options import AsJson, RegistryUrl
from everquery.cli.output import counted, print_json
from everquery.registry import Registry


def init(registry: RegistryUrl, as_json: AsJson = False) -> None:
    """Make a registry, or check that one is there and can be used."""
    opened = Registry(registry, create=True)
    streams = list(opened.streams())
    opened.close()
    if as_json:
        print_json({"registry": opened.shown, "streams": streams})
        return
    typer.echo(f"{opened.shown} is ready, with {counted(len(streams), 'stream')}")
