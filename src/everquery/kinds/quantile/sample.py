"""Quantile queries that bring out what their index does."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds.quantile.spec import Quantile
from everquery.kinds.samples import SAMPLE, sampled
from everquery.stream import Stream

WINDOW = 10_000  # rows; of a window as long as this only samples are kept


def sample(stream: Stream, number: int) -> Iterator[Quantile]:
    """Yield the queries of a round: of whole streams and windows, of all keys and of each."""
    for i, _, key in sampled(stream) if stream.attributes else ():
        yield Quantile(
            f"quantile-{number}-{i}", stream.attributes[0], phi=(1 + i) / SAMPLE, epsilon=0.1,
            key=key, last=20 if i % 4 == 0 else None,
            by_key=stream.key is not None and key is None and i % 2 > 0,
        )  # fmt: skip


def crowd(stream: Stream) -> Iterator[Quantile]:
    """Yield queries whose summaries no longer hold every row."""
    x = stream.attributes[0]
    yield Quantile("all", x, phi=0.5, epsilon=0.1)
    yield Quantile("last", x, phi=0.5, epsilon=0.1, last=WINDOW)
