"""Threshold queries of all sorts."""

from __future__ import annotations

from hypothesis import strategies as st

from everquery.kinds.drawing import boxes, keys, spans
from everquery.kinds.threshold.spec import Threshold
from everquery.stream import Stream


def queries(query_id: str, stream: Stream) -> st.SearchStrategy[Threshold]:
    """Return threshold queries that fit a stream."""
    return st.builds(
        Threshold, st.just(query_id), boxes(stream), key=keys(stream), total=st.integers(1, 12),
        repeat=st.booleans(), count=st.booleans(), **spans(Threshold, stream),
    )  # fmt: skip
