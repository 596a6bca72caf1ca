"""What every kind of query brings to a shard."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Bytes, Floats, Int32s
from everquery.core.parts import Part
from everquery.index.clock import Clock, Due
from everquery.index.flags import Flags
from everquery.index.layers import Layers
from everquery.index.predecessors import Predecessors
from everquery.index.rows import (
    Changed,
    Findings,
    Matches,
    NoticeColumn,
    Outcome,
    Past,
    Rows,
    Said,
    Step,
    Whereabouts,
)
from everquery.stream import Stream

NO_SLOTS = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Explained:
    """How a query is evaluated, and what it is expected to cost.

    Attributes
    ----------
    path : str
        The structure that finds it, and by which attributes.
    attributes : tuple of int
        The attributes that are searched, by their position in the stream.
    share : float
        The share of its lane's events that look at this query, if events are where the ends of
        queries are.
    nanoseconds : float
        What the query adds to the cost of such an event, on average.
    lane : int
        How many queries share its lane: those of its key, or those without one.
    segment : int
        How many queries share its segment.
    further : tuple of str
        Sentences that only the kind has to say.
    """

    path: str
    attributes: tuple[int, ...]
    share: float
    nanoseconds: float
    lane: int
    segment: int
    further: tuple[str, ...] = ()


class KindIndex(ABC):
    """The live queries of one kind, in layers of immutable segments."""

    outcomes: ClassVar[tuple[Outcome, ...]]
    columns: ClassVar[tuple[NoticeColumn, ...]] = ()

    must_know_of_drops: ClassVar[bool] = False
    """Whether `drop` does something, and wants all that were registered before to be here."""

    watches_time: ClassVar[bool] = False
    """Whether deadlines of keys mean something to it: `overdue`, `pass_time`, `Step.passage`."""

    answering: bool = False
    """Whether answers are read here, so that what they are made of is kept."""

    past: Past | None = None
    """The kept past of the stream, where there is one, for kinds that read it."""

    layers: Layers[Any]

    predecessors: Predecessors | None = None
    """Of kinds that tell what a replacement changed: the boxes that queries have replaced."""

    def add(self, rows: Rows, flags: Flags, *, announce: bool = True) -> None:
        """Add queries; with `announce`, keys inside them are told of before the next batch."""
        self.layers.add(rows, flags)

    def describe(self, slots: Int32s, numbers: Mapping[str, Array]) -> None:  # noqa: B027 - most have none
        """Take note of the numbers that queries have, before they are added."""

    def numbers(self, slots: Int32s) -> dict[str, Array]:
        """Return the numbers of queries."""
        return {}

    def drop(self, slots: Int32s) -> None:  # noqa: B027 - most kinds look at the flags only
        """Take note that queries have ended; all that were registered have been added."""

    def pause(self, slots: Int32s) -> None:  # noqa: B027 - most kinds look at the flags only
        """Let queries stand still."""

    def resume(self, slots: Int32s) -> None:  # noqa: B027 - as above
        """Let paused queries go on; their flags say so already."""

    def done(self) -> Int32s:
        """Return the queries that have ended by themselves since the last call."""
        return NO_SLOTS

    def state(self, slots: Int32s) -> dict[str, Array]:
        """Return how far queries are; empty for kinds that keep no count."""
        return {}

    def parts(self, queries: Callable[[], Int32s], keys: Callable[[], int]) -> Sequence[Part]:
        """Return the parts of state that the kind brings; none for most kinds.

        Parameters
        ----------
        queries : function
            Returns the slots of the kind's live queries, in order of registration.
        keys : function
            Returns how many keys there are; 1 for a stream without.
        """
        return ()

    def check_loaded(  # noqa: B027 - most kinds have nothing of their own
        self,
        rows: Rows,
        numbers: Mapping[str, Array],
        options: Mapping[str, Bools],
        stream: Stream,
    ) -> None:
        """Raise if queries that were saved can't be of this kind, before they are added.

        Raises
        ------
        DamagedError
        """

    def renumber(self, slots: Int32s) -> None:
        """Give all queries other slots, given by the present ones."""
        self.layers.renumber(slots)
        if self.predecessors is not None:
            self.predecessors.renumber(slots)

    def is_at_work(self) -> bool:
        """Tell whether steps mean something to it: not before it has had a query."""
        return self.layers.used

    @abstractmethod
    def process(self, step: Step) -> Sequence[Matches | Findings | Due]:
        """Return what the batch means for the queries.

        `Due` has the deadlines that came just before events of the batch, each once.
        """

    def is_watching(self) -> bool:
        """Tell whether deadlines of keys mean something to a query that is here."""
        return self.watches_time and len(self.layers) > 0

    def tells_changes(self) -> bool:
        """Tell whether `net_changes` may have something to tell."""
        return False

    def net_changes(
        self,
        flags: Flags,
        now: Any,  # noqa: ANN401 - a number
        time_type: pa.DataType | None,
        said: Said,
    ) -> Changed | None:
        """Return what is told at the end of a step, of any events of the past."""
        return None

    def overdue(self, clock: Clock, flags: Flags) -> Due | None:
        """Return the deadlines of new and resumed queries that came before the step."""
        return None

    def pass_time(self, clock: Clock, heard_now: Int32s, flags: Flags) -> Due | None:
        """Return the deadlines that have come at the end of a step.

        Parameters
        ----------
        heard_now : int32
            The keys with events in the step, ascending.
        """
        return None

    def announced_keys(self, seen: Bytes, last: Floats) -> Int32s | None:
        """Return the only keys that `announce` has to know of, or None if it is all in sight.

        Parameters
        ----------
        seen, last : for each key, whether it is in sight, and its last values; see `Step`
        """
        return NO_SLOTS

    def announce(self, where: Whereabouts, flags: Flags) -> Sequence[Findings]:
        """Return what the keys in sight mean for new and resumed queries.

        Findings are by place among the keys, and have the attributes that their queries restrict.
        """
        return ()

    def expire(self, where: Whereabouts, flags: Flags) -> Sequence[Findings]:
        """Return what it means that these keys, last seen there, are gone; as `announce` does."""
        return ()

    def revive(self, rows: Rows) -> None:  # noqa: B027 - most kinds announce nothing
        """Take note of queries that are to be announced again; they are in the layers already."""

    def forget_announcements(self) -> None:  # noqa: B027 - most kinds announce nothing
        """Announce nothing but what is revived from now on."""

    def forget_positions(self) -> None:  # noqa: B027 - most kinds keep none
        """Forget where keys are: their last values have been set from outside."""

    def set_back(  # noqa: B027 - most keep no times
        self, time: int | float, time_type: pa.DataType, said: Said
    ) -> None:
        """Forget that time has come further than a time that it is set back to."""

    def prepare(self, said: Said) -> None:  # noqa: B027 - most kinds look at nothing else
        """Take note of what new queries say, before one is explained."""

    @abstractmethod
    def explain(self, slot: int) -> Explained | None:
        """Return how a query is evaluated; None if it is not here."""

    def rows(self, flags: Flags) -> Iterator[Rows]:
        """Yield the rows of all queries that are not dropped, shape by shape."""
        return self.layers.rows(flags)

    def nbytes(self) -> int:
        """Return the bytes of the structures."""
        return self.layers.nbytes()
