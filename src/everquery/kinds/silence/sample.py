"""Silence queries that bring out what their index does."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds.samples import sampled
from everquery.kinds.silence.spec import Silence
from everquery.stream import Stream


def sample(stream: Stream, number: int) -> Iterator[Silence]:
    """Yield the queries of a round, if the stream has time."""
    if stream.time is not None:
        for i, _, key in sampled(stream):
            yield Silence(f"silence-{number}-{i}", after=1 + i % 4, key=key)
