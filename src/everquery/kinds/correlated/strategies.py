"""Exact correlated queries of all sorts: what others tell depends on batches."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from everquery.kinds.correlated.spec import AGGREGATES, COUNT, REFERENCES, RELATIONS, Correlated
from everquery.kinds.drawing import intervals, keys, spans
from everquery.queries.interval import Interval
from everquery.stream import Stream

FACTORS = (1.0, 0.5, 2.0, 1e-300, 1e300)


def _leaves_something_out(interval: Interval) -> bool:
    low, high = interval.half_open()
    return low != float("-inf") or high == high


@st.composite
def queries(draw: st.DrawFn, query_id: str, stream: Stream) -> Correlated:
    """Return correlated queries with an epsilon of 0 that fit a stream."""
    key = draw(keys(stream))
    by_key = stream.key is not None and key is None and draw(st.booleans())
    compared = draw(st.sampled_from(RELATIONS))
    aggregate = draw(st.sampled_from(AGGREGATES))
    attributes = st.sampled_from(list(stream.attributes))
    factor = draw(st.sampled_from(FACTORS))
    drawn: dict[str, Any] = {name: draw(span) for name, span in spans(Correlated, stream).items()}
    last = draw(st.none() | st.integers(1, 6))
    when = draw(st.none() | intervals().filter(_leaves_something_out))
    if last is not None:
        drawn.pop("span", None)
    if when is None or (stream.key is not None and key is None and not by_key):
        drawn.pop("dwell", None)
    return Correlated(
        query_id,
        aggregate,
        of=draw(attributes if aggregate != COUNT else st.none() | attributes),
        where=draw(attributes),
        compared=compared,
        to=draw(st.sampled_from(REFERENCES)),
        factor=factor if compared == "within" else factor * draw(st.sampled_from([1, 1, 1, -1])),
        last=last,
        key=key,
        by_key=by_key,
        epsilon=0,
        when=when,
        **drawn,
    )
