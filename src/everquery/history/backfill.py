"""Queries that begin in the past: the kept events are replayed for them, and they go on live.

The replay runs in a shard of their own, chunk by chunk, and the engine's lock is free in between:
events go on meanwhile. What is left is replayed under the lock, and the queries' state is handed
over. So there is no gap, and no overlap.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace

import pyarrow as pa

from everquery.core.crew import ALONE
from everquery.errors import HistoryError, InvalidQueryError
from everquery.history.before import PastBefore
from everquery.history.chunk import Chunk, KeptStep
from everquery.history.finding import Finder
from everquery.history.history import History
from everquery.history.places import Place
from everquery.history.replay import joined_steps, replay_step, split_at
from everquery.queries.begin import OLDEST, Begin
from everquery.queries.changes import Register, RegisterBlocks
from everquery.shard.past import (
    check_movable,
    check_one_stream,
    hand_over,
    kinds_of,
    mark_of,
    shard_at,
)
from everquery.shard.shard import Shard
from everquery.shard.untold import as_backfill, fit

log = logging.getLogger("everquery.history")

Registration = Register | RegisterBlocks


class Backfill:
    """One registration that begins in the past.

    Parameters
    ----------
    lock : context manager
        The engine's.
    shard, history : functions
        Return what the engine has now.
    change : Register or RegisterBlocks
    begin : Begin
    end : Begin, optional
        Where the replay ends.
    tried : bool
        Whether the queries are only tried: their ids may be those of live ones.
    """

    def __init__(
        self,
        lock: AbstractContextManager[None],
        shard: Callable[[], Shard],
        history: History | None,
        change: Registration,
        begin: Begin,
        end: Begin | None = None,
        *,
        tried: bool = False,
    ) -> None:
        self._lock = lock
        self._shard = shard
        self._history = history
        self._change = change
        self._begin = begin
        self._end = end
        self._is_tried = tried
        self._side: Shard | None = None
        self._started = False
        self._registered = False
        self._at = 0  # the next batch
        self._from = Place(0)
        self._until: Place | None = None
        self._numbering = 0
        self._lost_before = 0  # batches before this one are known to be lost
        self.notices: list[pa.Table] = []

    # -- the replay ---------------------------------------------------------------------------

    def run(self) -> None:
        """Replay all whole chunks; the lock is taken for moments only."""
        with self._lock:
            self._start()
        while True:
            with self._lock:
                chunk = self._next()
            if chunk is None:
                return
            self._replay(chunk)

    def finish(self) -> None:
        """Replay what is left; the lock is held."""
        if not self._started:
            self._start()
        while (chunk := self._next(open_too=True)) is not None:
            self._replay(chunk)
        if self._side is None:  # they begin now
            shard = self._shard()
            self._side = shard_at(shard, mark_of(shard), ALONE)
        self._register()

    def hand_over(self) -> None:
        """Let the queries go on in the engine's shard; `finish` was called under the same lock."""
        assert self._side is not None
        shard = self._shard()
        hand_over(self._side, shard, self._change)
        if not self._begin.silent:
            shard.teller.untold += [as_backfill(table) for table in self.notices]

    def _start(self) -> None:
        """Find the place where the queries begin."""
        shard, history = self._shard(), self._history
        check_one_stream(self._change)
        if not self._is_tried:
            shard.check(self._change)
            check_movable(self._change, shard)
        if history is None:
            raise HistoryError(
                f"begin is {self._begin}, and stream {shard.stream.name!r} keeps nothing of its"
                " past; give it keep, such as 1_000_000 events or 1h, or leave out begin"
            )
        finder = Finder(shard, history, self._lost_before)
        self._from = finder.find(self._begin, "begin")
        self._until = None if self._end is None else finder.find(self._end, "end")
        if self._until is not None and self._until < self._from:
            raise InvalidQueryError(
                f"begin is {self._begin}, at place {self._from}, and end is {self._end}, at place"
                f" {self._until}: it would end before it begins"
            )
        shard.queries.know_keys(self._change)
        self._numbering = history.renumberings
        self._started, self._registered = True, False
        self._side, self._at = None, self._from.batch
        self.notices = []

    def _next(self, *, open_too: bool = False) -> Chunk | None:
        """Return the chunk with the next batch; None if there is none, or only the open one."""
        history = self._history
        assert history is not None
        if history.renumberings != self._numbering:
            self._start()  # keys have other numbers by now
        if self._until is not None and self._at > self._until.batch:
            return None
        parts = zip(history.bounds(), history.chunks(), strict=True)
        for number, ((first, end), load) in enumerate(parts):
            if end <= self._at:
                continue
            if number >= history.sealed and not open_too:
                return None
            try:
                if first > self._at:
                    raise HistoryError(f"batches {self._at} to {first - 1}")
                chunk = load()
            except HistoryError as error:
                lost = str(error).removeprefix("a part of the past is lost: ")
                self._miss(lost, first if first > self._at else end)
                return self._next(open_too=open_too)
            self._make_side(chunk)
            return chunk
        return None

    def _miss(self, lost: str, after: int) -> None:
        """Begin behind a part of the past that is lost, if that is fine; raise if it is not."""
        if self._begin.at != OLDEST:
            raise HistoryError(
                f"begin is {self._begin}, and a part of the past since then is lost: {lost}; begin"
                f" at place ({after}, 0) or later"
            )
        log.warning("a part of the past is lost: %s; queries begin at batch %d", lost, after)
        self._lost_before = max(self._lost_before, after)
        self._start()

    def _make_side(self, chunk: Chunk) -> None:
        """Have the shard in which the queries begin, with all keys that there are by now."""
        shard = self._shard()
        if self._side is None:
            self._at = chunk.first
            self._side = shard_at(shard, chunk.mark, ALONE)
            if shard.time_type is not None:
                self._side.set_time_type(shard.time_type)
        names, known = shard.key_names, self._side.known_keys
        if shard.stream.key is not None and len(names) > known:
            self._side.contents.keys.number_of(names.slice(known))

    def _replay(self, chunk: Chunk) -> None:
        """Replay the steps of a chunk, those before the queries' begin without them."""
        side = self._side
        assert side is not None
        before: list[KeptStep] = []
        after: list[KeptStep] = []
        for step in chunk.steps():
            if step.number < self._at or (self._until and step.number > self._until.batch):
                continue
            if self._until is not None and step.number == self._until.batch:
                step = split_at(step, _position(step, self._until), side)[0]
                if not self._until.position:
                    break
            if step.number < self._from.batch:
                before.append(step)
            elif step.number > self._from.batch or not self._from.position:
                after.append(step)
            else:
                _replay_joined(before, side)
                first, rest = split_at(step, _position(step, self._from), side)
                before = [first]
                after.append(rest)
        _replay_joined(before, side)
        if after or chunk.end > self._from.batch:
            self._register()
        steps: Iterable[KeptStep] = after
        if not self._once_a_batch():
            steps = joined_steps(after, side)
        for step in steps:
            self._tell(replay_step(side, step))
        self._at = chunk.end

    def _register(self) -> None:
        if not self._registered:
            assert self._side is not None
            if self._history is not None:
                past = PastBefore(self._history, self._from, self._lock)
                for index in self._side.contents.indexes.values():
                    index.past = past
            plain = replace(self._change, begin=None)
            self._side.apply(plain)
            self._side.queries.settle()
            self._registered = True

    def _tell(self, notices: pa.Table | None) -> None:
        if notices is not None and notices.num_rows:
            self.notices.append(notices)

    def _once_a_batch(self) -> bool:
        """Tell whether what the queries tell depends on where batches end."""
        kinds = self._shard().contents.kinds
        return any(kinds[kind].once_a_batch for kind in kinds_of(self._change))

    def table(self) -> pa.Table:
        """Return all notices."""
        assert self._side is not None
        tables = [fit(table, self._side.schema()) for table in self.notices]
        return pa.concat_tables([self._side.schema().empty_table(), *tables])


def _position(step: KeptStep, place: Place) -> int:
    if place.position > len(step.events):
        raise InvalidQueryError(
            f"there is no place {place}: batch {place.batch} has {len(step.events):,} events"
        )
    return place.position


def _replay_joined(steps: list[KeptStep], side: Shard) -> None:
    for step in joined_steps(steps, side):
        replay_step(side, step)
