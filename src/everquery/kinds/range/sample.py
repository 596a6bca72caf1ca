"""Range queries that bring out what their index does."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds.range.spec import Range
from everquery.kinds.samples import MANY, sampled
from everquery.stream import Stream


def sample(stream: Stream, number: int) -> Iterator[Range]:
    """Yield the queries of a round, some of them with rules of time."""
    for i, box, key in sampled(stream):
        if stream.time is not None:
            yield Range(f"throttle-{number}-{i}", box, key=key, ttl=10 + i, throttle=1 + i)
        yield Range(f"range-{number}-{i}", box, key=key)


def crowd(stream: Stream) -> Iterator[Range]:
    """Yield small boxes, enough for tiles."""
    x, y = stream.attributes
    for i in range(MANY):
        low = float(i % 50)
        yield Range(f"range-{i}", {x: (low, low + 2), y: (low, low + 2)})
