"""The durable, ordered log of query changes."""

from everquery.registry.log import Entry, Registry

__all__ = ["Entry", "Registry"]
