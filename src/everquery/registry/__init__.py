"""The durable, ordered log of query changes."""

from everquery.registry.log import Registry
from everquery.registry.reading import Base, Entry

__all__ = ["Base", "Entry", "Registry"]
