"""The embedded runtime: standing queries in one Python process."""

from everquery.engine.engine import Engine, open_registry
from everquery.engine.opening import damaged_registry, open_engine, unreadable_streams

__all__ = ["Engine", "damaged_registry", "open_engine", "open_registry", "unreadable_streams"]
