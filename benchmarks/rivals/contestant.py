"""What takes part in the contest, and how what it tells is compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from benchmarks.harness import check_equal
from benchmarks.rivals.work import Events
from everquery.core.arrays import Floats, Int64s

ENTER, LEAVE, MATCH, FIRE = range(4)


@dataclass(frozen=True)
class Told:
    """What a call told, in an order that does not depend on who did.

    An event is known by its value: no two of a workload are equal but for those of one walk.
    """

    query: Int64s
    what: Int64s
    value: Floats

    @classmethod
    def sorted(cls, query: Int64s, what: Int64s, value: Floats) -> Told:
        """Return it in order."""
        order = np.lexsort((value, what, query))
        return cls(query[order], what[order], value[order])

    def check(self, name: str, expected: Told, *, named: bool) -> None:
        """Raise unless both tell the same; of which event only where it is named."""
        check_equal(f"{name}: queries", expected.query, self.query)
        check_equal(f"{name}: what happened", expected.what, self.what)
        if named:
            check_equal(f"{name}: events", expected.value, self.value)


class Contestant(ABC):
    """A set of standing queries under one of the ways to hold it.

    `process` is what is timed: a batch in the form that suits the contestant, `prepare`, which is
    not timed, to a table of what was told with the columns ``query``, ``row`` and ``what``.
    """

    name: ClassVar[str]
    names_events: ClassVar[bool] = True  # or tells only that some event of the batch did it
    largest_batch: ClassVar[int | None] = None  # that it is made for
    plays_all: bool = False  # for what it remembers can't be taken over from another one

    def prepare(self, events: Events) -> Any:  # noqa: ANN401 - what suits the contestant
        """Return events as `process` takes them."""
        return events

    @abstractmethod
    def process(self, prepared: Any) -> Any:  # noqa: ANN401
        """Find and write out what the events bring about: what is timed."""

    def count(self, found: Any) -> int:  # noqa: ANN401
        """Return how much was told."""
        return len(found["query"])

    def told(self, found: Any, events: Events) -> Told:  # noqa: ANN401
        """Return what was told, to compare it."""
        query = np.asarray(found["query"]).astype(np.int64)
        value = np.full(query.size, np.nan)
        if self.names_events:
            value = events.value[np.asarray(found["row"]).astype(np.int64)]
        return Told.sorted(query, np.asarray(found["what"]).astype(np.int64), value)

    def register(self, key: int, low: float, high: float) -> None:
        """Add a border that the next call already sees."""
        raise NotImplementedError

    def catch_up(self, other: Contestant) -> None:  # noqa: B027 - most have nothing to remember
        """Take over what another one remembers, after having sat out some batches."""

    def close(self) -> None:  # noqa: B027 - most hold nothing open
        """Let go of threads and memory."""
