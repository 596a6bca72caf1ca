"""Engines and registries by their URL."""

from __future__ import annotations

from everquery.engine.engine import Engine
from everquery.errors import RegistryDamagedError
from everquery.registry import Registry
from everquery.registry.damage import Damage


def unreadable_streams(url: str) -> list[Damage]:
    """Return why queries of streams can't be taken together, though every row is whole."""
    found = []
    registry = Registry(url)
    for stream in registry.streams().values():
        try:
            Engine(stream, registry=registry, lazy=True, read_only=True).close()
        except RegistryDamagedError as error:
            found.append(Damage(stream.name, error.position, "change", error.reason))
    registry.close()
    return found


def open_engine(
    url: str,
    stream: str | None = None,
    *,
    lazy: bool = False,
    labels: bool = False,
    read_only: bool = False,
) -> Engine:
    """Return an engine on a registry that exists; the stream's name is needed if it has several.

    `lazy`, `labels` and `read_only` are those of `Engine`.

    Examples
    --------
    >>> import everquery as eq
    >>> engine = eq.Engine(eq.Stream("t", attributes=["x"]), registry="sqlite://")
    >>> engine.stream.name
    't'
    """
    registry = Registry(url)
    return Engine(
        registry.stream(stream),
        registry=registry,
        lazy=lazy,
        labels=labels,
        read_only=read_only,
    )
