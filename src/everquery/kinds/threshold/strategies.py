"""Threshold queries of all sorts."""

from __future__ import annotations

from hypothesis import strategies as st

from everquery.kinds.drawing import boxes, keys, spans
from everquery.kinds.threshold.spec import Threshold
from everquery.stream import Stream


@st.composite
def queries(draw: st.DrawFn, query_id: str, stream: Stream) -> Threshold:
    """Return threshold queries that fit a stream."""
    by_key = stream.key is not None and draw(st.booleans())
    count = draw(st.booleans())
    subtract = stream.weight is not None and not count and draw(st.booleans())
    return Threshold(
        query_id,
        draw(boxes(stream)),
        key=None if by_key else draw(keys(stream)),
        total=draw(st.integers(1, 12)),
        repeat=draw(st.booleans()),
        count=count,
        by_key=by_key,
        negative="subtract" if subtract else "ignore",
        **{name: draw(span) for name, span in spans(Threshold, stream).items()},
    )
