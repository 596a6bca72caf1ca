"""Options that several commands take, and the registry that they name."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from everquery.engine import Engine, open_engine
from everquery.errors import RegistryError
from everquery.registry import Registry
from everquery.registry.addresses import shown_url

CORES = 2


class RunEngine(StrEnum):
    """What runs the queries."""

    spark = "spark"
    embedded = "embedded"


Cores = Annotated[int, typer.Option(min=1, help="Spark: tasks that run at a time.")]
RegistryUrl = Annotated[
    str,
    typer.Option(
        "--registry",
        "-r",
        envvar="EVERQUERY_REGISTRY",
        metavar="URL",
        help="Where the queries are: sqlite:///queries.db, postgresql://user@host/database.",
    ),
]
StreamName = Annotated[
    str | None,
    typer.Option(
        "--stream",
        "-s",
        envvar="EVERQUERY_STREAM",
        metavar="NAME",
        help="Which stream, if the registry has several.",
    ),
]
IntegerKeys = Annotated[
    bool,
    typer.Option(
        "--integer-keys",
        help="Read the keys of a CSV as integers, also where no query has one yet.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def existing_registry(url: str) -> Registry:
    """Return the registry at a URL; a file that is not there is not made."""
    expect_file(url)
    return Registry(url)


def existing_engine(
    url: str,
    stream: str | None,
    *,
    lazy: bool = True,
    labels: bool = False,
    read_only: bool = False,
) -> Engine:
    """Return an engine on a registry that is there; a lazy one indexes nothing before a batch."""
    expect_file(url)
    return open_engine(url, stream, lazy=lazy, labels=labels, read_only=read_only)


def expect_file(url: str) -> None:
    """Raise if a SQLite file is not there."""
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):
        return  # the registry says what is wrong with it
    name = address.database
    if address.get_backend_name() != "sqlite" or not name or name.startswith((":", "file:")):
        return
    if not Path(name).exists():
        shown = shown_url(address)
        raise RegistryError(
            f"there is no registry {shown}; make it with: everquery init -r {shown}"
        )


def has_integer_keys(engine: Engine) -> bool:
    """Tell whether the queries' keys are integers; nothing else is known of events to come."""
    return bool(engine.key_type == pa.int64())


def has_text_keys(engine: Engine) -> bool:
    """Tell whether the queries' keys are strings."""
    return bool(engine.key_type == pa.string())
