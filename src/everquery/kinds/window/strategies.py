"""Window queries of all sorts.

Approximate ones have so small an epsilon that what a test can hold is still exact, and no sums,
whose bounds have room for rounding: tests of their own look after both. An l1 norm of values that
can't be below 0 is such a sum.
"""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from everquery.kinds.drawing import boxes, intervals, keys, spans
from everquery.kinds.window.spec import NORMS, STATISTICS, Window
from everquery.queries.interval import Interval
from everquery.stream import Stream

EPSILONS = (0, 0, 0.001, 0.01)
SUMS = ("sum", "mean", "variance")


def _leaves_something_out(interval: Interval) -> bool:
    low, high = interval.half_open()
    return low != -math.inf or not math.isnan(high)


def _is_positive(interval: Interval | tuple[Any, Any] | None) -> bool:
    if isinstance(interval, tuple):
        interval = Interval(*interval)
    return interval is not None and interval.half_open()[0] >= 0


@st.composite
def queries(draw: st.DrawFn, query_id: str, stream: Stream) -> Window:
    """Return window queries that fit a stream."""
    key = draw(keys(stream))
    by_key = stream.key is not None and key is None and draw(st.booleans())
    statistic = draw(st.sampled_from(STATISTICS if stream.attributes else STATISTICS[:1]))
    names = st.sampled_from(list(stream.attributes)) if stream.attributes else st.none()
    when = draw(st.none() | intervals().filter(_leaves_something_out))
    drawn: dict[str, Any] = {name: draw(span) for name, span in spans(Window, stream).items()}
    timed = drawn.pop("span", None)
    if timed is None or when is not None:
        drawn.pop("every", None)
    if when is None or (stream.key is not None and key is None and not by_key):
        drawn.pop("dwell", None)
    attribute = draw(names if statistic != "count" else st.none() | names)
    box = draw(st.just({}) | boxes(stream))
    is_sum = statistic in SUMS or (statistic == "l1" and _is_positive(box.get(attribute or "")))
    return Window(
        query_id,
        statistic,
        attribute,
        per=draw(names) if statistic in NORMS else None,
        box=box,
        key=key,
        by_key=by_key,
        last=draw(st.integers(1, 6)) if timed is None else None,
        span=timed,
        epsilon=0 if is_sum else draw(st.sampled_from(EPSILONS)),
        when=when,
        **drawn,
    )
