"""Border queries that bring out what their index does."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds.border.spec import Border
from everquery.kinds.samples import sampled
from everquery.stream import Stream


def sample(stream: Stream, number: int) -> Iterator[Border]:
    """Yield the queries of a round, some of them with rules of time."""
    for i, box, key in sampled(stream):
        yield Border(f"border-{number}-{i}", box, key=key)
        if stream.time is not None:
            yield Border(f"dwell-{number}-{i}", box, key=key, dwell=1 + i % 4, throttle=1 + i)
