"""Queries for a warm-up."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds.samples import sampled
from everquery.stream import Stream
from tests.conformance.toy.spec import Nth


def sample(stream: Stream, number: int) -> Iterator[Nth]:
    """Yield the queries of a round."""
    for i, box, key in sampled(stream):
        yield Nth(f"nth-{number}-{i}", box, key=key, nth=1 + i)
