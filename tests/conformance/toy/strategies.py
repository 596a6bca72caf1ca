"""Queries of all sorts."""

from __future__ import annotations

from hypothesis import strategies as st

from everquery.kinds.drawing import boxes, keys, spans
from everquery.stream import Stream
from tests.conformance.toy.spec import Nth


def queries(query_id: str, stream: Stream) -> st.SearchStrategy[Nth]:
    """Return queries that fit a stream."""
    return st.builds(
        Nth, st.just(query_id), boxes(stream), key=keys(stream), nth=st.integers(1, 5),
        at_once=st.booleans(), **spans(Nth, stream),
    )  # fmt: skip
