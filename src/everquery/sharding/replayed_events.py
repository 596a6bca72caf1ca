"""Events of earlier batches, for shards that are built anew from a state that refers to them."""

from __future__ import annotations

import json
from dataclasses import replace

from everquery.errors import EventsGoneError, RecordsLostError, UnreadableFileError
from everquery.sharding.packing import Packer, Unpacked
from everquery.sharding.span_events import Divided, divided
from everquery.sharding.spans import SpanReader, Spans
from everquery.sharding.taking import Placed
from everquery.stream import Stream

KEPT_EVENTS = 4_000_000  # that wait for other shards; those of further spans are read for each


class ReplayedEvents:
    """Reads spans again, mostly once for all shards of a task.

    Parameters
    ----------
    reader : SpanReader
    packer : Packer
    """

    def __init__(self, reader: SpanReader, packer: Packer) -> None:
        self._reader, self._packer = reader, packer
        self._read: dict[tuple[str, int | None, Stream], Divided] = {}
        self._events = 0

    def of_shard(self, spans: Spans, shard: int, stream: Stream) -> list[Placed]:
        """Return a shard's events of a batch, by the stream as it was then.

        Raises
        ------
        EventsGoneError
            If they can't be read again.
        """
        packer = replace(self._packer, stream=stream)
        try:
            found = [self._span(name, spans.clock, shard, packer) for name in spans.names]
        except (UnreadableFileError, RecordsLostError) as error:
            raise EventsGoneError(
                f"shard {shard} is to be built anew from its last whole state and the events since"
                f" then, which can't be read again: {error}. Without them, begin a new checkpoint"
            ) from error
        return [((i, j), part) for i, parts in enumerate(found) for j, part in enumerate(parts)]

    def _span(self, name: object, clock: int | None, shard: int, packer: Packer) -> list[Unpacked]:
        key = json.dumps(name), clock, packer.stream
        known = self._read.get(key, {})
        if shard in known:
            return known.pop(shard)
        found = divided(self._reader, packer, name, clock)
        mine = found.pop(shard)
        if key not in self._read and self._events < KEPT_EVENTS:
            self._read[key] = found
            self._events += sum(len(part.arrivals) for parts in found.values() for part in parts)
        return mine
