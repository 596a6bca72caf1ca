"""The durable, ordered log of query changes."""

from importlib import import_module
from typing import TYPE_CHECKING

import everquery.kinds  # noqa: F401 - who reads the log must know the queries that it holds

if TYPE_CHECKING:
    from everquery.registry.away import AwayRegistry
    from everquery.registry.log import Registry
    from everquery.registry.reading import Base, Entry
else:
    _HOMES = {"AwayRegistry": "away", "Base": "reading", "Entry": "reading", "Registry": "log"}

    def __getattr__(name: str) -> object:
        """Load what talks to databases when it is asked for: that takes a fifth of a second."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return found


__all__ = ["AwayRegistry", "Base", "Entry", "Registry"]
