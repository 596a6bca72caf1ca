"""What the samples of kinds share: boxes and keys that meet the events of a warm-up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from everquery.queries.spec import Key
from everquery.stream import Stream

KEYS = 8
SAMPLE = 40  # queries of a round, of each kind
MANY = 400  # queries of a crowd, and events of its batches


def sampled(stream: Stream) -> Iterator[tuple[int, dict[str, Any], Key | None]]:
    """Yield numbers, boxes and keys of queries, some of them without key."""
    for i in range(SAMPLE):
        low = float(i % 7)
        box = dict.fromkeys(stream.attributes, (low, low + 1.0 + i % 3))
        yield i, box, None if stream.key is None or i % 5 == 0 else f"key-{i % KEYS}"
