"""The public names and where they come from. `everquery` loads them when it is asked for one."""

from typing import TYPE_CHECKING

import everquery.registry as registries
from everquery.engine import Engine, open_engine
from everquery.engine.callbacks import Callback
from everquery.engine.notice import Notice
from everquery.engine.results import Answer, Explanation, Registered
from everquery.errors import (
    AnswerTooLargeError,
    DuplicateQueryError,
    EverqueryError,
    HistoryError,
    InvalidBatchError,
    InvalidNetworkError,
    InvalidQueryError,
    InvalidStreamError,
    InvalidTableError,
    QuotaError,
    RegistryDamagedError,
    RegistryError,
    RowsGoneError,
    SnapshotError,
    TornEngineError,
    UnknownQueryError,
    UnknownStreamError,
)
from everquery.kinds.answer import place_of
from everquery.kinds.border.spec import Border
from everquery.kinds.correlated.questions import CorrelatedAnswer
from everquery.kinds.correlated.spec import Correlated
from everquery.kinds.quantile.spec import Quantile
from everquery.kinds.range.spec import Range
from everquery.kinds.select.spec import Select
from everquery.kinds.silence.spec import Silence
from everquery.kinds.threshold.spec import Threshold
from everquery.kinds.window.questions import WindowAnswer
from everquery.kinds.window.spec import Window
from everquery.queries import Box, Interval, Query
from everquery.queries.sql import InvalidSqlError
from everquery.sinks.readable import readable
from everquery.stream import Stream

if TYPE_CHECKING:
    from everquery.network import Network
    from everquery.registry import Registry
else:

    def __getattr__(name: str) -> object:
        """Load what takes long when it is asked for: databases, the reader of SQL expressions."""
        if name == "Network":
            from everquery.network import Network

            return Network
        if name != "Registry":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return registries.Registry


open = open_engine  # noqa: A001 - `eq.open(url)` reads well, and nobody imports * from here

__all__ = [
    "Answer",
    "AnswerTooLargeError",
    "Border",
    "Box",
    "Callback",
    "Correlated",
    "CorrelatedAnswer",
    "DuplicateQueryError",
    "Engine",
    "EverqueryError",
    "Explanation",
    "HistoryError",
    "Interval",
    "InvalidBatchError",
    "InvalidNetworkError",
    "InvalidQueryError",
    "InvalidSqlError",
    "InvalidStreamError",
    "InvalidTableError",
    "Network",
    "Notice",
    "Quantile",
    "Query",
    "QuotaError",
    "Range",
    "Registered",
    "Registry",
    "RegistryDamagedError",
    "RegistryError",
    "RowsGoneError",
    "Select",
    "Silence",
    "SnapshotError",
    "Stream",
    "Threshold",
    "TornEngineError",
    "UnknownQueryError",
    "UnknownStreamError",
    "Window",
    "WindowAnswer",
    "open",
    "place_of",
    "readable",
]
