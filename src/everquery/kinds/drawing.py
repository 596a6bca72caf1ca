"""What the Hypothesis strategies of kinds share.

Values come from a small lattice, so that ends coincide, events repeat, and boxes are entered and
left often. Needs the ``hypothesis`` package.
"""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from everquery.errors import InvalidQueryError
from everquery.queries import Interval, Query
from everquery.queries.interval import Closed
from everquery.stream import Stream

KEYS = ("a", "b", "c")
VALUES = (-math.inf, -1.0, -0.0, 0.0, 5e-324, 1.0, 2.0, 2.5, 3.0, 1e308, math.inf)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """Return intervals of any closedness over the lattice, also without ends."""
    ends = st.none() | st.sampled_from(VALUES)
    closed: Closed = draw(st.sampled_from(["left", "right", "both", "neither"]))
    low, high = draw(ends), draw(ends)
    if low is not None and high is not None and low > high:
        low, high = high, low
    try:
        return Interval(low, high, closed)
    except InvalidQueryError:  # empty
        return Interval(low, low, "both")


def boxes(stream: Stream) -> st.SearchStrategy[dict[str, Interval]]:
    """Return boxes over attributes of a stream; some hold all."""
    if not stream.attributes:
        return st.just({})
    return st.dictionaries(st.sampled_from(list(stream.attributes)), intervals())


def keys(stream: Stream) -> st.SearchStrategy[str | None]:
    """Return keys for queries, where the stream has keys, and none."""
    return st.none() | st.sampled_from(KEYS) if stream.key else st.none()


def spans(kind: type[Query], stream: Stream) -> dict[str, st.SearchStrategy[Any]]:
    """Return the spans of time of a kind, where the stream has time."""
    if stream.time is None:
        return {}
    drawn = {name: st.one_of(st.none(), st.integers(1, 6)) for name in kind.spans}
    return {**drawn, "ttl": st.one_of(st.none(), st.integers(1, 20))}
