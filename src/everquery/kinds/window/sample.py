"""Window queries that bring out what their index does."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds.samples import sampled
from everquery.kinds.window.spec import NORMS, STATISTICS, Window
from everquery.stream import Stream


def sample(stream: Stream, number: int) -> Iterator[Window]:
    """Yield the queries of a round: exact and approximate ones, of all keys and of each."""
    for i, box, key in sampled(stream) if stream.attributes else ():
        statistic = STATISTICS[i % len(STATISTICS)]
        timed = stream.time is not None and i % 3 == 0
        yield Window(
            f"window-{number}-{i}", statistic, stream.attributes[0],
            box=box if i % 2 else {}, key=key, epsilon=0.1 if i % 4 < 2 else 0,
            per=stream.attributes[-1] if statistic in NORMS else None,
            last=None if timed else 20, span=5 if timed else None,
            by_key=stream.key is not None and key is None and i % 2 > 0,
        )  # fmt: skip


def crowd(stream: Stream) -> Iterator[Window]:
    """Yield queries whose lanes are thinned, or have samples and sketches."""
    x = stream.attributes[0]
    for statistic in ("count", "sum", "variance"):
        yield Window(statistic, statistic, x, epsilon=0.1, last=1_000)
    for statistic in ("distinct", *NORMS):
        per = stream.attributes[-1] if statistic in NORMS else None
        yield Window(statistic, statistic, x, per=per, epsilon=0.5, last=1_000)
