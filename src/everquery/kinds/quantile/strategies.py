"""Quantile queries of all sorts."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from everquery.kinds.drawing import intervals, keys, spans
from everquery.kinds.quantile.spec import Quantile
from everquery.queries.interval import Interval
from everquery.stream import Stream

PHIS = (0.01, 0.1, 0.25, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0)
EPSILONS = (0.00001, 0.01, 0.1, 0.15, 0.25, 0.4, 0.9)


def _leaves_something_out(interval: Interval) -> bool:
    low, high = interval.half_open()
    return low != -math.inf or not math.isnan(high)


@st.composite
def queries(draw: st.DrawFn, query_id: str, stream: Stream) -> Quantile:
    """Return quantile queries that fit a stream."""
    key = draw(keys(stream))
    epsilon = draw(st.sampled_from(EPSILONS))
    shortest = math.ceil(1 / epsilon)
    last = draw(st.none() | st.integers(shortest, shortest + 12)) if shortest < 1_000 else None
    drawn: dict[str, Any] = {name: draw(span) for name, span in spans(Quantile, stream).items()}
    return Quantile(
        query_id,
        draw(st.sampled_from(list(stream.attributes))),
        phi=draw(st.sampled_from(PHIS)),
        epsilon=epsilon,
        key=key,
        last=last,
        by_key=stream.key is not None and key is None and draw(st.booleans()),
        when=draw(st.none() | intervals().filter(_leaves_something_out)),
        by=draw(st.none() | st.sampled_from([0.1, 0.5, 1.0, 3.0])),
        **drawn,
    )
