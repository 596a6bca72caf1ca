"""Keeps the past of a stream: what its shard takes in, step by step, in memory and in files."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from everquery.core.arrays import Int32s
from everquery.errors import HistoryError
from everquery.history.chunk import EXPIRE, RESET, Chunk, KeptStep, owned
from everquery.history.kept_past import KeptPast
from everquery.history.replay import replay_step
from everquery.history.retention import first_kept
from everquery.history.stored_chunk import StoredChunk
from everquery.shard.past import mark_of, take_on
from everquery.shard.recorder import Moment
from everquery.shard.shard import Shard
from everquery.state.accepted import Events

log = logging.getLogger("everquery.history")

ROWS = 1 << 18  # events of a chunk
STEPS = 1 << 14  # steps of a chunk
MEMORY = 1 << 30  # bytes of chunks that are in files, too, and still are in memory


class History(KeptPast):
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
        super().__init__(shard, folder)
        self._rows = ROWS if rows is None else rows
        self.renumberings = 0  # how often keys got other numbers

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
