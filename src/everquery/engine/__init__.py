"""The embedded runtime: standing queries in one Python process."""

from everquery.engine.engine import Engine
from everquery.engine.opening import open_engine, unreadable_streams

__all__ = ["Engine", "open_engine", "unreadable_streams"]
