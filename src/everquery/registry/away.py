"""A registry that could not be opened yet: every use of it tries again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everquery.errors import RegistryError
from everquery.registry.follower import check_file
from everquery.registry.log import Registry
from everquery.stream import Stream


class AwayRegistry:
    """Stands for a registry until it can be opened, and passes everything on to it from then on.

    While it can't be opened, whatever it is asked raises a `RegistryError`. A SQLite file that is
    not there is not made anew: it is expected back.

    Parameters
    ----------
    url : str
    stream : Stream
        Which the registry has, or is to have.
    opened : function
        Opens the registry at a URL.
    """

    def __init__(self, url: str, stream: Stream, opened: Callable[..., Registry]) -> None:
        self._url = url
        self._stream = stream
        self._open = opened
        self._registry: Registry | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the registry has
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._opened(), name)

    def _opened(self) -> Registry:
        if self._registry is None:
            check_file(self._url)
            registry = self._open(self._url, create=False)
            try:
                registry.create_stream(self._stream)
            except RegistryError:
                registry.close()
                raise
            self._registry = registry
        return self._registry
