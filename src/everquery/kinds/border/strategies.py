"""Border queries of all sorts."""

from __future__ import annotations

from hypothesis import strategies as st

from everquery.kinds.border.spec import EVENTS, Border
from everquery.kinds.drawing import boxes, keys, spans
from everquery.stream import Stream


def queries(query_id: str, stream: Stream) -> st.SearchStrategy[Border]:
    """Return border queries that fit a stream."""
    emit = st.sampled_from([EVENTS, EVENTS, ("enter",), ("leave",)])
    return st.builds(
        Border, st.just(query_id), boxes(stream), key=keys(stream), silent=st.booleans(),
        emit=emit, **spans(Border, stream),
    )  # fmt: skip
