"""Range queries of all sorts."""

from __future__ import annotations

from hypothesis import strategies as st

from everquery.kinds.drawing import boxes, keys, spans
from everquery.kinds.range.spec import Range
from everquery.stream import Stream


def queries(query_id: str, stream: Stream) -> st.SearchStrategy[Range]:
    """Return range queries that fit a stream."""
    return st.builds(
        Range, st.just(query_id), boxes(stream), key=keys(stream), **spans(Range, stream)
    )
