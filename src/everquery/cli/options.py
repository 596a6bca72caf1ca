"""Options that several commands take, and the registry that they name."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from everquery.engine import Engine, open_engine
from everquery.registry import Registry

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
    """Return the registry at a URL; one that is not there is not made."""
    return Registry(url, create=False)


def existing_engine(
    url: str,
    stream: str | None,
    *,
    lazy: bool = True,
    labels: bool = False,
    all_columns: bool = False,
    read_only: bool = False,
    threads: int = 1,
    history: Path | None = None,
    snapshot: bytes | None = None,
) -> Engine:
    """Return an engine on a registry that is there; a lazy one indexes nothing before a batch."""
    if snapshot is None:
        return open_engine(
            url,
            stream,
            lazy=lazy,
            labels=labels,
            all_columns=all_columns,
            read_only=read_only,
            threads=threads,
            history=history,
        )
    registry = existing_registry(url)
    return Engine(
        registry.stream(stream),
        registry=registry,
        lazy=lazy,
        labels=labels,
        all_columns=all_columns,
        read_only=read_only,
        threads=threads,
        history=history,
        snapshot=snapshot,
    )


def has_integer_keys(engine: Engine) -> bool:
    """Tell whether the queries' keys are integers; nothing else is known of events to come."""
    return bool(engine.key_type == pa.int64())


def has_text_keys(engine: Engine) -> bool:
    """Tell whether the queries' keys are strings."""
    return bool(engine.key_type == pa.string())
