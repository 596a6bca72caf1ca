"""Standing queries over live streams: registered once, answered for ever.

>>> import everquery as eq
>>> stream = eq.Stream("trades", key="symbol", attributes=["price"])
>>> engine = eq.Engine(stream)
>>> engine.register(eq.Range("cheap", {"price": (0, 10)}))
"""

from everquery.engine import Engine, Explanation, Registered
from everquery.errors import (
    DuplicateQueryError,
    EverqueryError,
    InvalidBatchError,
    InvalidQueryError,
    InvalidStreamError,
    InvalidTableError,
    SnapshotError,
    UnknownQueryError,
)
from everquery.queries import Border, Box, Interval, Query, Range
from everquery.stream import Stream

__all__ = [
    "Border",
    "Box",
    "DuplicateQueryError",
    "Engine",
    "EverqueryError",
    "Explanation",
    "Interval",
    "InvalidBatchError",
    "InvalidQueryError",
    "InvalidStreamError",
    "InvalidTableError",
    "Query",
    "Range",
    "Registered",
    "SnapshotError",
    "Stream",
    "UnknownQueryError",
]
