"""The kept past up to a place, for queries that begin there and look back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

from everquery.core.arrays import Array
from everquery.history.chunk import Chunk, rows_of
from everquery.history.history import History
from everquery.history.kept_past import pieces_of
from everquery.history.places import Place
from everquery.state.accepted import Events


class PastBefore:
    """What a stream kept when it was at a place, as far as it is kept still.

    Parameters
    ----------
    history : History
    place : Place
    lock : context manager
        The engine's, which the history is read under.
    """

    def __init__(self, history: History, place: Place, lock: AbstractContextManager[None]) -> None:
        self.stream = history.stream
        self._history = history
        self._place = place
        self._lock = lock

    def pieces(self) -> Iterator[tuple[Mapping[str, Array], int | float | None]]:
        """Yield the events before the place, as `History.pieces` does."""
        with self._lock:
            chunks = list(self._history.read(end=self._place))
        for chunk in chunks:
            whole = chunk.up_to(self._place.batch)
            if whole is not None:
                yield from pieces_of(whole.events(), whole.resets())
            rest = self._begun(chunk, 0 if whole is None else len(whole))
            if rest is not None:
                yield from pieces_of(rest, [])

    def _begun(self, chunk: Chunk, row: int) -> Events | None:
        """Return the events of the place's own batch that lie before it."""
        place = self._place
        if not place.position or not chunk.first <= place.batch < chunk.end:
            return None
        return rows_of(chunk.events(), row, row + place.position)

    def lost(self) -> int | float | None:
        """Return how far time had come with the events that are gone; None if none is."""
        with self._lock:
            return self._history.lost()

    def whole_rows(self) -> int | None:
        """Return None: what the queries told before is told with what is there."""
        return None
