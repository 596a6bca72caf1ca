"""What is to be kept of the past: which chunks, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from everquery.shard.past import Mark
from everquery.state.said_times import span_in_units
from everquery.stream import ALL, Stream

if TYPE_CHECKING:
    from everquery.history.chunk import Chunk
    from everquery.history.stored_chunk import StoredChunk


def first_kept(chunks: Sequence[Chunk | StoredChunk], stream: Stream, now: Mark) -> int:
    """Return the place of the first chunk that is needed to hold what a stream keeps.

    Chunks go whole: what is held is never less than what is to be kept.

    Parameters
    ----------
    now : Mark
        What is known behind the last chunk.
    """
    if stream.keep == ALL or stream.keep is None:
        return 0
    if isinstance(stream.keep, timedelta):
        newest = now.values["newest"]
        if newest is None or now.time_type is None:
            return 0
        since = newest - span_in_units(stream.keep, now.time_type, str(stream.time))
        for place, chunk in enumerate(chunks):
            span = chunk.span()
            if span is not None and span[1] >= since:
                return place
        return max(len(chunks) - 1, 0)
    rows = 0
    for place in range(len(chunks) - 1, -1, -1):
        rows += len(chunks[place])
        if rows >= int(stream.keep):
            return place
    return 0


def keeps(stream: Stream) -> str:
    """Return in words what a stream keeps."""
    if stream.keep is None:
        return "nothing"
    if stream.keep == ALL:
        return "everything"
    if isinstance(stream.keep, timedelta):
        return f"the last {stream.keep}"
    return f"the last {stream.keep:,} events"
