"""Select queries that bring out what their index does."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds.samples import MANY, sampled
from everquery.kinds.select.spec import Select
from everquery.stream import Stream


def sample(stream: Stream, number: int) -> Iterator[Select]:
    """Yield the queries of a round, some of which tell what they match."""
    for i, box, key in sampled(stream):
        where = (
            f" WHERE {stream.attributes[0]} > {stream.attributes[1]}"
            if len(stream.attributes) > 1
            else ""
        )
        plan = f"SELECT *{where} BEGIN NOW - {10 + i} ROWS END NOW"
        tell = "matches" if i % 2 else "nothing"
        yield Select(f"select-{number}-{i}", plan, box=box, key=key, tell=tell)


def crowd(stream: Stream) -> Iterator[Select]:
    """Yield small boxes, enough for tiles."""
    x, y = stream.attributes
    for i in range(MANY):
        low = float(i % 50)
        box = {x: (low, low + 2), y: (low, low + 2)}
        yield Select(f"select-{i}", "SELECT * BEGIN NOW - 10 ROWS END NOW", box=box, tell="matches")
