"""What an engine answers with, besides Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from everquery.kinds.answer import Answer

__all__ = ["Answer", "Explanation", "Registered"]


@dataclass(frozen=True, slots=True)
class Registered:
    """What became of a table of queries.

    Attributes
    ----------
    registered : int
        How many rows are live queries now.
    errors : pyarrow.Table
        ``row``, ``id`` and ``reason`` of each row that was skipped.
    """

    registered: int
    errors: pa.Table


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query is evaluated; prints as text.

    Attributes
    ----------
    query_id, kind : str
    path : str
        The structure that finds the query.
    attributes : tuple of str
        The attributes by which it is found.
    candidate_share : float
        The share of the events of its lane (its key's, or all) that look at the query.
    cost_ns : float
        Nanoseconds that the query is expected to add to such an event.
    lane_queries, segment_queries : int
        How many queries share the lane within its segment, and the segment.
    """

    query_id: str
    kind: str
    path: str
    attributes: tuple[str, ...]
    candidate_share: float
    cost_ns: float
    lane_queries: int
    segment_queries: int

    def __str__(self) -> str:
        return (
            f"{self.kind} query {self.query_id!r}: {self.path} on {', '.join(self.attributes)}; "
            f"looked at by {self.candidate_share:.3%} of the events of its lane of"
            f" {self.lane_queries:,} queries, {self.cost_ns:.3g} ns an event"
            f" (segment of {self.segment_queries:,})"
        )
