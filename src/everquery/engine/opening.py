"""Engines and registries by their URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import everquery.registry as registries
from everquery.engine.engine import Engine
from everquery.errors import RegistryDamagedError
from everquery.stream import Stream

if TYPE_CHECKING:
    from everquery.registry.damage import Damage


def unreadable_streams(url: str) -> list[Damage]:
    """Return why queries of streams can't be taken together, though every row is whole."""
    from everquery.registry.damage import Damage  # databases only for who has one

    found = []
    registry = registries.Registry(url, create=False)
    for stream in registry.streams().values():
        try:
            Engine(stream, registry=registry, lazy=True, read_only=True).close()
        except RegistryDamagedError as error:
            found.append(Damage(stream.name, error.position, "change", error.reason))
    registry.close()
    return found


def open_engine(
    url: str,
    stream: Stream | str | None = None,
    *,
    create: bool = False,
    lazy: bool = False,
    labels: bool = False,
    all_columns: bool = False,
    read_only: bool = False,
    threads: int = 1,
    history: str | Path | None = None,
) -> Engine:
    """Return an engine on a registry; the stream's name is needed if it has several.

    `create`, `lazy`, `labels`, `all_columns`, `read_only`, `threads` and `history` are those of
    `Engine`. A registry that is made by `create` has no stream yet, so a `Stream` has to be given.

    Examples
    --------
    >>> import everquery as eq
    >>> engine = eq.Engine(eq.Stream("t", attributes=["x"]), registry="sqlite://")
    >>> engine.stream.name
    't'
    """
    registry = registries.Registry(url, create=create)
    return Engine(
        stream if isinstance(stream, Stream) else registry.stream(stream),
        registry=registry,
        lazy=lazy,
        labels=labels,
        all_columns=all_columns,
        read_only=read_only,
        threads=threads,
        history=history,
    )
