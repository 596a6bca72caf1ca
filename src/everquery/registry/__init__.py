"""The durable, ordered log of query changes."""

from everquery.registry.log import Base, Entry, Registry

__all__ = ["Base", "Entry", "Registry"]
