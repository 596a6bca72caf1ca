"""Places in the past, as users say them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from everquery.core.times import as_time
from everquery.errors import HistoryError, InvalidBatchError, InvalidQueryError
from everquery.history.history import History
from everquery.history.places import Place
from everquery.history.retention import keeps
from everquery.queries.begin import OLDEST, Begin
from everquery.shard.shard import Shard
from everquery.state.said_times import time_in_units


class Finder:
    """Finds places in the past.

    Parameters
    ----------
    shard : Shard
    history : History
    lost_before : int
        Batches before this one are known to be lost.
    """

    def __init__(self, shard: Shard, history: History, lost_before: int = 0) -> None:
        self._shard = shard
        self._history = history
        self._lost_before = lost_before

    def find(self, said: Begin, name: str) -> Place:
        """Return the place that `begin` or `end` says.

        Raises
        ------
        HistoryError
            If it is before what is kept.
        InvalidQueryError
            If it is no time of the stream's type, or has not come yet.
        """
        if said.at == OLDEST:
            kept = [first for first, _ in self._history.bounds() if first >= self._lost_before]
            return Place(kept[0]) if kept else self._history.place
        return self._at_place(said, name) if said.is_place else self._at_time(said, name)

    def _at_place(self, said: Begin, name: str) -> Place:
        place, now = Place(*said.at), self._history.place
        if place > now:
            raise InvalidQueryError(f"{name} is place {place}, and the next event is at {now}")
        if place < self._history.oldest:
            raise self._too_early(f"place {place}", name)
        return place

    def _at_time(self, said: Begin, name: str) -> Place:
        shard, history = self._shard, self._history
        if shard.stream.time is None:
            raise InvalidQueryError(
                f"{name} is {said}, and stream {shard.stream.name!r} has no times; give a place"
                ' (batch, position), or "oldest"'
            )
        kind, newest = shard.time_type, shard.times.newest
        if kind is None or newest is None:
            return history.place  # no event has come
        try:
            time = time_in_units(said.at, kind)
        except InvalidBatchError as error:
            raise InvalidQueryError(f"{name}: {error}") from None
        if time > newest:
            if name == "end":
                return history.place
            raise InvalidQueryError(
                f"begin is {said}, after the newest time seen, {_shown(newest, kind)}; to begin"
                " with the next event, leave it out"
            )
        before = history.newest_before
        if history.oldest.batch and before is not None and time <= before:
            raise self._too_early(str(said), name)
        return history.place_at(time)

    def _too_early(self, said: str, name: str) -> HistoryError:
        history, kind = self._history, self._shard.time_type
        since = history.held().since
        time = "" if since is None or kind is None else f", at time {_shown(since, kind)}"
        return HistoryError(
            f"{name} is {said}, before what is kept: the oldest is at place {history.oldest}{time}"
            f" (stream {self._shard.stream.name!r} keeps {keeps(self._shard.stream)})"
        )


def _shown(time: int | float, kind: pa.DataType) -> str:
    return str(as_time(np.array([time]), kind)[0].as_py())
