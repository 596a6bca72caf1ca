"""Threshold queries that bring out what their index does."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds.samples import MANY, sampled
from everquery.kinds.threshold.spec import Threshold
from everquery.stream import Stream

TALLIED = 4  # of so many queries, one is by key or starts again


def sample(stream: Stream, number: int) -> Iterator[Threshold]:
    """Yield the queries of a round: every other one repeats, and some are tallied."""
    for i, box, key in sampled(stream):
        tallied = i % TALLIED == 0
        yield Threshold(
            f"threshold-{number}-{i}", box, key=key, total=1 + i, repeat=i % 2 > 0,
            by_key=tallied and stream.key is not None and key is None,
            negative="subtract" if tallied and stream.weight is not None else "ignore",
        )  # fmt: skip


def crowd(stream: Stream) -> Iterator[Threshold]:
    """Yield wide boxes and intervals, enough for sweeps."""
    x, y = stream.attributes
    for i in range(MANY):
        high = 50.0 + i
        yield Threshold(f"wide-{i}", {x: (0, high), y: (0, high)}, total=1 + i)
        yield Threshold(f"line-{i}", {x: (0, high)}, total=1 + i, repeat=True)
