"""What a source hands out instead of events: parts of files, ranges of a topic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # planners of Spark start a process for each look at this
    import pyarrow as pa


class SpanReader(Protocol):
    """What reads spans; it travels to workers."""

    def read(self, name: Any) -> Iterator[pa.Table]:  # noqa: ANN401 - whatever JSON can hold
        """Yield the events of a span; the same ones, whenever it is read."""
        ...


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans of a batch.

    Attributes
    ----------
    names : list
        What the reader knows each by, in order; values that JSON can hold.
    ahead : list
        Those that are likely to come next.
    clock : int, optional
        The timestamp of the batch in microseconds, for a stream with ``max_ahead``.
    """

    names: list[Any]
    ahead: Sequence[Any] = ()
    clock: int | None = None

    def to_bytes(self) -> bytes:
        """Return them as bytes, without the clock."""
        return json.dumps([self.names, list(self.ahead)]).encode()

    @classmethod
    def from_bytes(cls, content: bytes, clock: int | None = None) -> Spans:
        """Return what `to_bytes` made bytes of."""
        names, ahead = json.loads(content)
        return cls(names, ahead, clock)
