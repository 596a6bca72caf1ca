"""Silence queries of all sorts."""

from __future__ import annotations

from hypothesis import strategies as st

from everquery.kinds.drawing import KEYS, keys, spans
from everquery.kinds.silence.spec import Silence
from everquery.stream import Stream

LATER = ("d", "e")  # keys that no event has


def queries(query_id: str, stream: Stream) -> st.SearchStrategy[Silence]:
    """Return silence queries that fit a stream; none does if it has no time."""
    named = keys(stream) | st.sampled_from([*KEYS, *LATER]) if stream.key else st.none()
    drawn = {**spans(Silence, stream), "after": st.integers(1, 9)}
    return st.builds(Silence, st.just(query_id), key=named, **drawn)
