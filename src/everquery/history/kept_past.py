"""What is kept of a stream's past, and how it is read: by place, by time, as a table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Int32s
from everquery.core.times import as_time
from everquery.errors import HistoryError
from everquery.history.chunk import Chunk, KeptStep, rows_of
from everquery.history.files import HistoryFiles
from everquery.history.places import Place
from everquery.history.stored_chunk import Gap, StoredChunk
from everquery.shard.past import Mark, mark_of
from everquery.shard.shard import Shard
from everquery.state.accepted import Events
from everquery.stream import Stream

log = logging.getLogger("everquery.history")

COLUMNS = ("key", "time", "seq", "weight", "values")


class Held(NamedTuple):
    """What a history holds.

    Attributes
    ----------
    events, batches : int
    oldest, newest : Place
        Of the first event that is held, and behind the last one.
    since, until : number or None
        The least and the largest time, in the unit of the time column.
    memory_bytes, file_bytes, files : int
    lost : list of Gap
        What is missing in between.
    """

    events: int
    batches: int
    oldest: Place
    newest: Place
    since: int | float | None
    until: int | float | None
    memory_bytes: int
    file_bytes: int
    files: int
    lost: list[Gap]


class KeptPast:
    """The chunks of a shard's past, the oldest first, and the steps since the last chunk.

    Parameters
    ----------
    shard : Shard
    folder : path, optional
        Where chunks are files, too.
    """

    def __init__(self, shard: Shard, folder: Path | None) -> None:
        self.stream: Stream = shard.stream
        self._shard = shard
        self._chunks: list[Chunk | StoredChunk] = []
        self._open: list[KeptStep] = []
        self._open_rows = 0
        self._mark: Mark = mark_of(shard)
        self.files = None
        if folder is not None:
            self.files = HistoryFiles(
                folder,
                self.stream,
                lambda: self._shard.key_names,
                lambda: self._shard.time_type,
            )

    @property
    def place(self) -> Place:
        """Where the next event will stand."""
        return Place(self._shard.passage.steps, 0)

    def chunks(self) -> list[Callable[[], Chunk]]:
        """Return what gives each chunk, the oldest first; files are read when they are asked.

        Raises
        ------
        HistoryError
            From such a call, if a file is damaged or gone: it says which span is lost.
        """
        found: list[Callable[[], Chunk]] = [
            partial(chunk.load, self._numbers)
            if isinstance(chunk, StoredChunk)
            else partial(_itself, chunk)
            for chunk in self._chunks
        ]
        if self._open:
            found.append(partial(_itself, Chunk.of(self._mark, self._open)))
        return found

    def pieces(self) -> Iterator[tuple[Mapping[str, Array], int | float | None]]:
        """Yield all events that are kept, in order: key, time, seq, weight and values.

        With each piece comes the time that was set back to behind it, None if it was not.
        """
        for chunk in self.read():
            yield from pieces_of(chunk.events(), chunk.resets())

    def lost(self) -> int | float | None:
        """Return how far time had come with the events that are gone; None if none is."""
        gaps = [] if self.files is None else self.files.gaps(self._chunks)
        unseen = self.stream.time is not None and self.newest_before is None
        if not gaps and (unseen or not self.oldest.batch):
            return None
        reached = [self.newest_before if self.oldest.batch else None]
        for gap in gaps:
            behind = [chunk.newest_before for chunk in self._chunks if chunk.first >= gap.end]
            reached.append(gap.until if gap.until is not None else [*behind, self._newest()][0])
        return max((time for time in reached if time is not None), default=0)

    def _newest(self) -> int | float | None:
        return self._mark.values["newest"]

    def whole_rows(self) -> int | None:
        """Return how many events are kept since the last part that is lost; None if none is."""
        gaps = [] if self.files is None else self.files.gaps(self._chunks)
        if not gaps:
            return None
        rows = 0
        for chunk in self._chunks:
            damaged = isinstance(chunk, StoredChunk) and chunk.damage is not None
            if chunk.first >= gaps[-1].first and not damaged:
                rows += len(chunk)
        return rows + self._open_rows

    @property
    def sealed(self) -> int:
        """How many chunks are whole: no more steps are added to them."""
        return len(self._chunks)

    @property
    def newest_before(self) -> int | float | None:
        """The newest time that had been seen before the oldest event that is kept."""
        return self._chunks[0].newest_before if self._chunks else self._newest()

    def bounds(self) -> list[tuple[int, int]]:
        """Return the first batch of each chunk, and the one behind its last."""
        found = [(chunk.first, chunk.end) for chunk in self._chunks]
        if self._open:
            found.append((self._open[0].number, self._open[-1].number + 1))
        return found

    @property
    def oldest(self) -> Place:
        """The place of the oldest event that is kept; where the next one will stand if none is."""
        bounds = self.bounds()
        return Place(bounds[0][0], 0) if bounds else self.place

    def place_at(self, time: int | float) -> Place:
        """Return the place of the first kept event, in their order, that is not before a time.

        Without one, it is where the next event will stand. If it may be in a part that is lost, it
        is where that part begins.
        """
        end: int | None = None  # of the chunk before
        for chunk in [*self._chunks, *([Chunk.of(self._mark, self._open)] if self._open else [])]:
            before = chunk.newest_before
            if end is not None and end < chunk.first and before is not None and before >= time:
                return Place(end)
            end = chunk.end
            span = chunk.span()
            if span is None or span[1] < time:
                continue
            loaded = self._loaded(chunk) if isinstance(chunk, StoredChunk) else chunk
            if loaded is None:
                return Place(chunk.first)
            return loaded.place_of(int(np.argmax(loaded.events().time >= time)))
        return self.place

    def check(self) -> None:
        """Read all files once, so that `held` lists what is damaged."""
        for chunk in self._chunks:
            if isinstance(chunk, StoredChunk):
                chunk.check()

    def read(self, begin: Place | None = None, end: Place | None = None) -> Iterator[Chunk]:
        """Yield the chunks that hold the events from a place up to another, whole.

        A file that is damaged or gone is left out, with a warning; `held` lists what is lost.
        """
        first = 0 if begin is None else begin.batch
        for (start, stop), load in zip(self.bounds(), self.chunks(), strict=True):
            if stop <= first or (end is not None and start > end.batch):
                continue
            try:
                yield load()
            except HistoryError as error:
                log.warning("%s; the rest goes on", error)

    def table(self, begin: Place | None = None, end: Place | None = None) -> pa.Table:
        """Return kept events as an Arrow table: batch, position, seq and the stream's columns."""
        tables = []
        for chunk in self.read(begin, end):
            batch, position = chunk.batches(), chunk.positions()
            chosen = np.ones(batch.size, np.bool_)
            if begin is not None:
                chosen &= (batch > begin.batch) | (
                    (batch == begin.batch) & (position >= begin.position)
                )
            if end is not None:
                chosen &= (batch < end.batch) | ((batch == end.batch) & (position < end.position))
            rows = np.flatnonzero(chosen)
            columns = {"batch": batch[rows], "position": position[rows]}
            tables.append(self._table(chunk.events().take(rows), columns))
        if not tables:
            none = self._shard.contents.admission.no_events()
            empty = np.empty(0, np.int64)
            return self._table(none, {"batch": empty, "position": empty})
        return pa.concat_tables(tables)

    def _table(self, events: Events, columns: Mapping[str, Any]) -> pa.Table:
        stream, shard = self.stream, self._shard
        found: dict[str, Any] = {**columns, "seq": events.seq}
        if stream.key is not None:
            keys = pa.DictionaryArray.from_arrays(pa.array(events.key), shard.key_names)
            found[stream.key] = keys
        if stream.time is not None:
            found[stream.time] = as_time(events.time, shard.time_type or pa.null())
        for name, values in zip(stream.attributes, events.values, strict=True):
            found[name] = pa.array(values, from_pandas=True)  # unknown values are null
        if stream.weight is not None and stream.weight not in found:
            found[stream.weight] = events.weight
        return pa.table(found)

    def held(self) -> Held:
        """Return what is held: how many events, from where to where, and its size."""
        chunks: list[Chunk | StoredChunk] = list(self._chunks)
        if self._open:
            chunks.append(Chunk.of(self._mark, self._open))
        spans = [span for span in (chunk.span() for chunk in chunks) if span is not None]
        timed = self.stream.time is not None and spans
        stored = [chunk for chunk in chunks if isinstance(chunk, StoredChunk)]
        memory = sum(
            chunk.memory_bytes() if isinstance(chunk, StoredChunk) else chunk.nbytes()
            for chunk in chunks
        )
        return Held(
            sum(map(len, chunks)),
            sum(chunk.end - chunk.first for chunk in chunks),
            self.oldest,
            self.place,
            min(least for least, _ in spans) if timed else None,
            max(most for _, most in spans) if timed else None,
            memory,
            sum(chunk.file_bytes for chunk in stored),
            len(stored),
            [] if self.files is None else self.files.gaps(chunks),
        )

    def _loaded(self, chunk: StoredChunk) -> Chunk | None:
        try:
            return chunk.load(self._numbers)
        except HistoryError as error:
            log.warning("%s; the rest goes on", error)
            return None

    def _numbers(self, names: pa.Array) -> Int32s:
        """Return the numbers that keys have now; -1 for those that are not known."""
        return self._shard.contents.keys.numbers_of_names(names)


def pieces_of(
    events: Events, resets: list[tuple[int, int | float]]
) -> Iterator[tuple[Mapping[str, Array], int | float | None]]:
    """Yield columns of events, and the time that was set back to behind each piece, or None."""
    begin = 0
    for end, time in [*resets, (len(events), None)]:
        piece = rows_of(events, begin, end)
        yield {name: getattr(piece, name) for name in COLUMNS}, time
        begin = end


def _itself(chunk: Chunk) -> Chunk:
    return chunk
