"""Correlated queries that bring out what their index does."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds.correlated.spec import AGGREGATES, REFERENCES, RELATIONS, Correlated
from everquery.kinds.samples import sampled
from everquery.stream import Stream


def sample(stream: Stream, number: int) -> Iterator[Correlated]:
    """Yield the queries of a round: exact and not, of all events and of windows."""
    for i, _, key in sampled(stream) if stream.attributes else ():
        yield Correlated(
            f"correlated-{number}-{i}", AGGREGATES[i % 3], of=stream.attributes[-1],
            where=stream.attributes[0], compared=RELATIONS[i % 5], to=REFERENCES[i // 3 % 3],
            key=key, last=20 if i % 4 == 0 else None, epsilon=0 if i % 2 else 0.01,
            by_key=stream.key is not None and key is None and i % 10 == 0,
        )  # fmt: skip


def crowd(stream: Stream) -> Iterator[Correlated]:
    """Yield an exact query and another one, to be asked for their answers."""
    for number, epsilon in enumerate((0, 0.01)) if stream.attributes else ():
        yield Correlated(
            f"correlated-crowd-{number}", "count", where=stream.attributes[0], compared=">",
            to="avg", epsilon=epsilon,
        )  # fmt: skip
