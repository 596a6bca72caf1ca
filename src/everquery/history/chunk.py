"""A run of steps: their events as columns, and what was known of keys and time before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.history.places import Place
from everquery.shard.past import Mark
from everquery.shard.recorder import Moment
from everquery.state.accepted import Events, join_events

EVENTS, EXPIRE, RESET = range(3)  # what a step did
MANY = 8_192  # events a step from which on the arrays of steps are left as they are


class KeptStep(NamedTuple):
    """One step of the past.

    Attributes
    ----------
    number : int
        Its batch.
    events : Events
        Those that were accepted, in order; none for steps that are not `EVENTS`.
    moment : Moment
        How far time was at its end.
    did : int
        `EVENTS`; `EXPIRE`, keys were forgotten; or `RESET`, time was set back.
    keys : int32
        Those that were forgotten.
    """

    number: int
    events: Events
    moment: Moment
    did: int = EVENTS
    keys: Int32s | None = None


@dataclass(slots=True)
class Chunk:
    """Steps of the past, one behind the other, that are kept and forgotten together.

    Attributes
    ----------
    mark : Mark
        What was known of keys and time before the first of them.
    first : int
        The batch of the first step; the others follow without gap.
    lengths : int64, shape (steps,)
        How many events each step has.
    moments : list of Moment
    special : dict from step, counted from the first, to what it did and the keys it forgot
    pieces : list of Events
        All events in order; where steps are large, each piece is one of them.
    """

    mark: Mark
    first: int
    lengths: Int64s
    moments: list[Moment]
    special: dict[int, tuple[int, Int32s]]
    pieces: list[Events] = field(repr=False)

    @classmethod
    def of(cls, mark: Mark, steps: Sequence[KeptStep]) -> Chunk:
        """Return steps as a chunk; events of small steps are copied together, once."""
        lengths = np.array([len(step.events) for step in steps], np.int64)
        pieces = [step.events for step in steps]
        if len(steps) > 1 and lengths.sum() < MANY * len(steps):
            pieces = [join_events(pieces)]
        special = {
            at: (step.did, np.empty(0, np.int32) if step.keys is None else step.keys)
            for at, step in enumerate(steps)
            if step.did != EVENTS
        }
        moments = [step.moment for step in steps]
        return cls(mark, steps[0].number, lengths, moments, special, pieces)

    @property
    def newest_before(self) -> int | float | None:
        """The newest time that had been seen before the first step."""
        return self.mark.values["newest"]

    @property
    def end(self) -> int:
        """The batch behind the last step."""
        return self.first + self.lengths.size

    def __len__(self) -> int:
        """Return how many events there are."""
        return int(self.lengths.sum())

    def events(self) -> Events:
        """Return all events as one."""
        if len(self.pieces) > 1:
            self.pieces = [join_events(self.pieces)]
        return self.pieces[0]

    def steps(self) -> Iterator[KeptStep]:
        """Yield the steps; their events share memory with the chunk."""
        whole = len(self.pieces) == self.lengths.size
        ends = np.cumsum(self.lengths)
        for at, moment in enumerate(self.moments):
            if whole:
                events = self.pieces[at]
            else:
                events = rows_of(self.events(), int(ends[at] - self.lengths[at]), int(ends[at]))
            did, keys = self.special.get(at, (EVENTS, None))
            yield KeptStep(self.first + at, events, moment, did, keys)

    def resets(self) -> list[tuple[int, int | float]]:
        """Return behind how many of the events time was set back, and to what."""
        ends = np.cumsum(self.lengths)
        found = []
        for at, (did, _) in sorted(self.special.items()):
            newest = self.moments[at].newest
            if did == RESET and newest is not None:
                found.append((int(ends[at]), newest))
        return found

    def batches(self) -> Int64s:
        """Return the batch of each event."""
        return np.repeat(np.arange(self.first, self.end), self.lengths)

    def positions(self) -> Int64s:
        """Return the position of each event in its batch."""
        starts = np.cumsum(self.lengths) - self.lengths
        return np.arange(len(self)) - np.repeat(starts, self.lengths)

    def place_of(self, row: int) -> Place:
        """Return the place of an event, given by its number in the chunk."""
        ends = np.cumsum(self.lengths)
        step = int(np.searchsorted(ends, row, "right"))
        return Place(self.first + step, row - int(ends[step] - self.lengths[step]))

    def up_to(self, batch: int) -> Chunk | None:
        """Return the steps before a batch; None if there are none."""
        kept = [step for step in self.steps() if step.number < batch]
        return Chunk.of(self.mark, kept) if kept else None

    def renumbered(self, numbers: Int32s) -> Chunk:
        """Return the chunk where keys have other numbers, given by their present ones."""
        pieces = [replace(piece, key=numbers[piece.key]) for piece in self.pieces]
        special = {at: (did, numbers[keys]) for at, (did, keys) in self.special.items()}
        return replace(self, pieces=pieces, special=special, mark=self.mark.renumbered(numbers))

    def span(self) -> tuple[int | float, int | float] | None:
        """Return the least and the largest time; None without events."""
        filled = [piece.time for piece in self.pieces if len(piece)]
        if not filled:
            return None
        return min(each.min() for each in filled).item(), max(each.max() for each in filled).item()

    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return (
            sum(
                column.nbytes
                for piece in self.pieces
                for column in (piece.key, piece.time, piece.seq, piece.values, piece.weight)
            )
            + self.mark.nbytes()
        )


def rows_of(events: Events, begin: int, end: int) -> Events:
    """Return events from one row to another, sharing memory where that is possible."""
    return Events(
        events.key[begin:end],
        events.time[begin:end],
        events.seq[begin:end],
        np.ascontiguousarray(events.values[:, begin:end]),
        events.weight[begin:end],
        events.arrived[begin:end],
    )


def owned(column: Array) -> Array:
    """Return an array that nobody else writes to."""
    return column if column.base is None and column.flags.owndata else column.copy()
