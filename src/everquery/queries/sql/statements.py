"""What a text of SQL asks for: one frozen dataclass a statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from everquery.queries.begin import Begin
from everquery.queries.labels import Labels
from everquery.queries.spec import Query
from everquery.stream import Span, Stream


@dataclass(frozen=True, slots=True)
class CreateStream:
    """``CREATE STREAM name (...)``."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class AlterStream:
    """``ALTER STREAM name SET (grace = ...), ADD COLUMN ...``.

    Attributes
    ----------
    name : str
    spans : pairs of a name and a span, or None for none
    attributes : tuple of str
        Those that are new.
    """

    name: str
    spans: tuple[tuple[str, Span | None], ...] = ()
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropStream:
    """``DROP STREAM name [CASCADE]``.

    Attributes
    ----------
    name : str
    cascade : bool
        Whether its live queries are dropped with it; else there must be none.
    """

    name: str
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """``CREATE [OR REPLACE] STANDING QUERY name AS SELECT ... EMIT ... [BEGIN ...]``."""

    stream_name: str
    query: Query
    replace: bool = False
    begin: Begin | None = None


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
    """``SHOW STANDING QUERIES [LIKE pattern] [WHERE ...]``.

    Attributes
    ----------
    like : str or None
        A pattern for the id: ``%`` is anything, ``_`` one character.
    owner, kind : str or None
    labels : Labels
        All of which a query has.
    """

    like: str | None = None
    owner: str | None = None
    labels: Labels = Labels()  # noqa: RUF009 - immutable
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class ShowQuotas:
    """``SHOW QUOTAS``."""


@dataclass(frozen=True, slots=True)
class SetQuota:
    """``ALTER OWNER name SET QUOTA n`` or ``DROP QUOTA``.

    Attributes
    ----------
    owner : str or None
        None, written ``DEFAULT``, is for all owners without a quota of their own.
    limit : int or None
        None removes the quota.
    """

    owner: str | None
    limit: int | None


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    """``EXPLAIN STANDING QUERY name``."""

    query_id: str


Statement = (
    CreateStream
    | AlterStream
    | DropStream
    | CreateQuery
    | AlterQuery
    | DropQuery
    | ShowStreams
    | ShowQueries
    | ShowQuotas
    | SetQuota
    | ExplainQuery
)
