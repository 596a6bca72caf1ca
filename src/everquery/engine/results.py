"""What an engine returns, besides Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from everquery.kinds.answer import Answer

__all__ = ["Answer", "Explanation", "Registered"]


@dataclass(frozen=True, slots=True)
class Registered:
    """The result of registering a table of queries.

    Attributes
    ----------
    registered : int
        How many rows are live queries now.
    errors : pyarrow.Table
        ``row``, ``id`` and ``reason`` of each row that was skipped.
    changed, unchanged : int
        How many of them replaced a query that said something else, or had another owner or other
        labels; and how many were live already, just like this.
    dropped : int
        How many queries ended with them.
    """

    registered: int
    errors: pa.Table
    changed: int = 0
    unchanged: int = 0
    dropped: int = 0

    @property
    def added(self) -> int:
        """How many of them are new."""
        return self.registered - self.changed - self.unchanged


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query is evaluated; prints as text.

    Attributes
    ----------
    query_id, kind : str
    path : str
        The structure that finds the query.
    attributes : tuple of str
        The attributes by which that structure finds it; none, if it restricts none.
    candidate_share : float
        The share of the events of its lane (those of its key, or all) for which the query has to
        be looked at.
    cost_ns : float
        How many nanoseconds the query is expected to add to an event of its lane, on average.
    lane_queries : int
        How many queries of its segment are in its lane, this one included.
    segment_queries : int
        How many queries are in its segment, this one included.
    further : tuple of str
        What only its kind has to say: of a select query, what is kept for it.
    """

    query_id: str
    kind: str
    path: str
    attributes: tuple[str, ...]
    candidate_share: float
    cost_ns: float
    lane_queries: int
    segment_queries: int
    further: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f" on {', '.join(self.attributes)}" if self.attributes else ""
        return (
            f"{self.kind} query {self.query_id!r}: {self.path}{by}; "
            f"looked at by {self.candidate_share:.3%} of the events of its lane of"
            f" {self.lane_queries:,} queries, {self.cost_ns:.3g} ns an event"
            f" (segment of {self.segment_queries:,})"
            + "".join(f"; {each}" for each in self.further)
        )
