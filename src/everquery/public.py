"""The public names and where they come from. `everquery` loads them when it is asked for one."""

from everquery.engine import Engine, open_engine
from everquery.engine.callbacks import Callback
from everquery.engine.notice import Notice
from everquery.engine.results import Answer, Explanation, Registered
from everquery.errors import (
    DuplicateQueryError,
    EverqueryError,
    InvalidBatchError,
    InvalidQueryError,
    InvalidStreamError,
    InvalidTableError,
    QuotaError,
    RegistryDamagedError,
    RegistryError,
    SnapshotError,
    TornEngineError,
    UnknownQueryError,
    UnknownStreamError,
)
from everquery.kinds.border.spec import Border
from everquery.kinds.quantile.spec import Quantile
from everquery.kinds.range.spec import Range
from everquery.kinds.silence.spec import Silence
from everquery.kinds.threshold.spec import Threshold
from everquery.queries import Box, Interval, Query
from everquery.queries.sql import InvalidSqlError
from everquery.registry import Registry
from everquery.sinks.readable import readable
from everquery.stream import Stream

open = open_engine  # noqa: A001 - `eq.open(url)` reads well, and nobody imports * from here

__all__ = [
    "Answer",
    "Border",
    "Box",
    "Callback",
    "DuplicateQueryError",
    "Engine",
    "EverqueryError",
    "Explanation",
    "Interval",
    "InvalidBatchError",
    "InvalidQueryError",
    "InvalidSqlError",
    "InvalidStreamError",
    "InvalidTableError",
    "Notice",
    "Quantile",
    "Query",
    "QuotaError",
    "Range",
    "Registered",
    "Registry",
    "RegistryDamagedError",
    "RegistryError",
    "Silence",
    "SnapshotError",
    "Stream",
    "Threshold",
    "TornEngineError",
    "UnknownQueryError",
    "UnknownStreamError",
    "open",
    "readable",
]
