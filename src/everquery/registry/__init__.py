"""The durable, ordered log of query changes."""

import everquery.kinds  # noqa: F401 - who reads the log must know the queries that it holds
from everquery.registry.log import Registry
from everquery.registry.reading import Base, Entry

__all__ = ["Base", "Entry", "Registry"]
