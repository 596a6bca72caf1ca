"""The kept past of a stream: what its shard took in, step by step, in memory and in files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Int32s
from everquery.core.times import as_time
from everquery.errors import HistoryError
from everquery.history.chunk import EXPIRE, RESET, Chunk, KeptStep, owned, rows_of
from everquery.history.files import Gap, HistoryFiles, StoredChunk
from everquery.history.places import Place
from everquery.history.replay import replay_step
from everquery.history.retention import first_kept
from everquery.shard.past import Mark, mark_of, take_on
from everquery.shard.recorder import Moment
from everquery.shard.shard import Shard
from everquery.state.accepted import Events
from everquery.stream import ALL, Stream

log = logging.getLogger("everquery.history")

COLUMNS = ("key", "time", "seq", "weight", "values")
ROWS = 1 << 18  # events of a chunk
STEPS = 1 << 14  # steps of a chunk
MEMORY = 1 << 30  # bytes of chunks that are in files, too, and still are in memory


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


class History:
    """Keeps the steps of a shard as its stream's `keep` says.

    It is the shard's recorder: steps come in by `take`, `expire` and `reset`, and cost a reference
    to arrays that the step has made anyway. They become chunks of about `ROWS` events. The oldest
    chunk is forgotten as soon as the others hold what is to be kept. With a folder, each chunk is
    also a Parquet file there.

    Parameters
    ----------
    shard : Shard
        It has taken no step that is to be kept yet.
    folder : path, optional
    rows : int, optional
        Events of a chunk, and so of a file.
    """

    def __init__(
        self, shard: Shard, folder: Path | None = None, *, rows: int | None = None
    ) -> None:
        self.stream: Stream = shard.stream
        self._shard = shard
        self._rows = ROWS if rows is None else rows
        self._chunks: list[Chunk | StoredChunk] = []
        self._open: list[KeptStep] = []
        self._open_rows = 0
        self._mark: Mark = mark_of(shard)
        self.renumberings = 0  # how often keys got other numbers
        self.files = None
        if folder is not None:
            self.files = HistoryFiles(
                folder,
                self.stream,
                lambda: self._shard.key_names,
                lambda: self._shard.time_type,
            )

    # -- what the shard tells -----------------------------------------------------------------

    def take(self, events: Events, moment: Moment) -> None:
        """Keep the accepted events of a step."""
        kept = replace(events, weight=owned(events.weight))
        self._note(KeptStep(self._shard.passage.steps - 1, kept, moment))

    def expire(self, keys: Int32s, moment: Moment) -> None:
        """Keep that keys were forgotten."""
        none = self._shard.contents.admission.no_events()
        self._note(KeptStep(self._shard.passage.steps - 1, none, moment, EXPIRE, keys))

    def reset(self, newest: int | float, moment: Moment) -> None:
        """Keep that the newest time seen was set back."""
        none = self._shard.contents.admission.no_events()
        self._note(KeptStep(self._shard.passage.steps - 1, none, moment, RESET))

    def _note(self, step: KeptStep) -> None:
        self._open.append(step)
        self._open_rows += len(step.events)
        if self._open_rows >= max(self._rows, 4 * self._mark.keys) or len(self._open) >= STEPS:
            self.seal()

    def seal(self) -> None:
        """Make a chunk of the steps since the last one, and write it to a file if there are any."""
        if not self._open:
            return
        chunk = Chunk.of(self._mark, self._open)
        self._open, self._open_rows = [], 0
        self._mark = mark_of(self._shard)
        if self.files is not None:
            self._chunks.append(self.files.write(chunk))
            self._spare_memory()
        else:
            self._chunks.append(chunk)
        self.forget()

    def sync(self) -> None:
        """Have everything in files, if there is a folder: what is there survives a restart."""
        if self.files is not None:
            self.seal()
            self.files.wait()

    # -- upkeep -------------------------------------------------------------------------------

    def forget(self) -> None:
        """Forget the oldest chunks, as far as the others hold what is to be kept."""
        first = first_kept(self._chunks, self.stream, self._mark)
        for chunk in self._chunks[:first]:
            if isinstance(chunk, StoredChunk) and self.files is not None:
                self.files.remove(chunk)
        del self._chunks[:first]

    def _spare_memory(self) -> None:
        """Leave to files what is too much for memory, the oldest first."""
        stored = [chunk for chunk in self._chunks if isinstance(chunk, StoredChunk)]
        size = sum(chunk.memory_bytes() for chunk in stored)
        for chunk in stored:
            if size <= MEMORY:
                return
            size -= chunk.memory_bytes()
            chunk.let_go()

    def compact(self) -> None:
        """Join small files, which many calls of `sync` leave behind, into larger ones."""
        if self.files is not None:
            self.files.wait()
            self._chunks = self.files.compact(self._chunks, self._numbers, self._rows)

    def renumber(self, numbers: Int32s) -> None:
        """Give all keys other numbers, by their present ones."""
        self.renumberings += 1
        self._mark = self._mark.renumbered(numbers)
        chunks: list[Chunk | StoredChunk] = []
        for chunk in self._chunks:
            if isinstance(chunk, StoredChunk):
                chunk.let_go()  # files have the names
                chunks.append(chunk)
            else:
                chunks.append(chunk.renumbered(numbers))
        self._chunks = chunks
        self._open = [
            step._replace(
                events=replace(step.events, key=numbers[step.events.key]),
                keys=None if step.keys is None else numbers[step.keys],
            )
            for step in self._open
        ]

    def close(self) -> None:
        """Write what is not in a file yet."""
        self.sync()
        if self.files is not None:
            self.files.close()

    # -- what was there before ----------------------------------------------------------------

    def open(self) -> None:
        """Go on with what the folder holds; a shard that has taken no step goes on from its end.

        The shard then knows keys, their `seq` and how far time is, as if it had taken the events.
        A shard that has taken steps, from a snapshot, forgets what is kept beyond them.
        """
        if self.files is not None:
            self._chunks.extend(self.files.open())
            if not self._shard.passage.steps and self._chunks:
                self._catch_up(self._shard)
            self.go_on_with(self._shard)
        self._shard.passage.recorder = self

    def _catch_up(self, shard: Shard) -> None:
        """Let a new shard know of keys and time what it would if it had taken all steps."""
        end = self._chunks[-1].end
        for chunk in reversed(self._chunks):
            assert isinstance(chunk, StoredChunk)
            try:
                names, kind = chunk.types()
                if shard.stream.key is not None:
                    shard.contents.keys.number_of(names)
                loaded = chunk.load(self._numbers)
            except HistoryError as error:
                log.warning("%s; the rest goes on", error)
                continue
            take_on(shard, loaded.mark)
            if kind is not None:
                shard.set_time_type(kind)
            for step in loaded.steps():
                replay_step(shard, step)
            break
        shard.passage.steps = end

    # -- another shard ------------------------------------------------------------------------

    def go_on_with(self, shard: Shard) -> None:
        """Record another shard from now on, and forget the steps that it has not taken."""
        before = self._shard.key_names
        if self._open:
            self._chunks.append(Chunk.of(self._mark, self._open))
            self._open, self._open_rows = [], 0
        if self.files is not None:
            self.files.wait()
        self._shard = shard
        numbers = self._numbers(before)
        self._chunks = [
            kept
            for chunk in self._chunks
            for kept in self._rewound(chunk, shard.passage.steps, numbers)
        ]
        self._mark = mark_of(shard)
        self.renumberings += 1
        shard.passage.recorder = self

    def _rewound(
        self, chunk: Chunk | StoredChunk, steps: int, numbers: Int32s
    ) -> Iterator[Chunk | StoredChunk]:
        """Yield what there is of a chunk before a step, with the numbers that keys have now."""
        if isinstance(chunk, StoredChunk):
            chunk.let_go()  # files have the names
            if chunk.end <= steps:
                yield chunk
                return
            assert self.files is not None
            kept = None if chunk.first >= steps else self._loaded(chunk)
            self.files.remove(chunk)
            rest = None if kept is None else kept.up_to(steps)
            if rest is not None:
                yield self.files.write(rest)
            return
        left = chunk if chunk.end <= steps else chunk.up_to(steps)
        if left is not None:
            left = left.renumbered(numbers)
            yield left if self.files is None else self.files.write(left)

    def _loaded(self, chunk: StoredChunk) -> Chunk | None:
        try:
            return chunk.load(self._numbers)
        except HistoryError as error:
            log.warning("%s; the rest goes on", error)
            return None

    def _numbers(self, names: pa.Array) -> Int32s:
        """Return the numbers that keys have now; -1 for those that are not known."""
        return self._shard.contents.keys.numbers_of_names(names)

    # -- reading ------------------------------------------------------------------------------

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


def keeps(stream: Stream) -> str:
    """Return in words what a stream keeps."""
    if stream.keep is None:
        return "nothing"
    if stream.keep == ALL:
        return "everything"
    if isinstance(stream.keep, timedelta):
        return f"the last {stream.keep}"
    return f"the last {stream.keep:,} events"
