"""What a text of SQL asks for: one frozen dataclass a statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from everquery.queries.spec import Query
from everquery.stream import Stream


@dataclass(frozen=True, slots=True)
class CreateStream:
    """``CREATE STREAM name (...)``."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """``CREATE STANDING QUERY name AS SELECT ... EMIT ...``."""

    stream_name: str
    query: Query


@dataclass(frozen=True, slots=True)
class AlterQuery:
    """``ALTER STANDING QUERY name PAUSE`` or ``RESUME``."""

    query_id: str
    action: Literal["pause", "resume"]


@dataclass(frozen=True, slots=True)
class DropQuery:
    """``DROP STANDING QUERY name``."""

    query_id: str


@dataclass(frozen=True, slots=True)
class ShowStreams:
    """``SHOW STREAMS``."""


@dataclass(frozen=True, slots=True)
class ShowQueries:
    """``SHOW STANDING QUERIES``, perhaps with a ``LIKE`` pattern (``%`` and ``_``) for the id."""

    like: str | None = None


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    """``EXPLAIN STANDING QUERY name``."""

    query_id: str


Statement = (
    CreateStream | CreateQuery | AlterQuery | DropQuery | ShowStreams | ShowQueries | ExplainQuery
)
