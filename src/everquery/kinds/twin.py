"""What a brute-force twin of a kind is: one event, one query at a time, nothing clever.

A twin follows the rules of the documentation word by word, and shares no code with the index beyond
the spec. Order, time, grace, expiry and the rules of notices are the same for all kinds:
`everquery.testing.BruteForce` has them, and asks the twins for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from everquery.queries.interval import Interval
from everquery.queries.spec import Query
from everquery.stream import Stream

Values = tuple[float | None, ...]
"""Those of the attributes; None where one is unknown."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An accepted event, as one query sees it: it knows all attributes that the query needs.

    Attributes
    ----------
    key : str, int or None
    values : tuple of float or None
    before : tuple of float or None, or None
        The values of the key's last event that the query saw, if it was in sight.
    weight : int
        0 or less where it is unknown.
    time : number, or None for a stream without time
    last_of_key, last_of_all : bool
        Whether it is the last event of its step that the query sees: of its key's, and of all.
    overdue : bool
        Whether a deadline of the query that is asked has come since the key's event before.
    """

    key: Any
    values: Values
    before: Values | None
    weight: int
    time: Any
    last_of_key: bool
    last_of_all: bool
    overdue: bool = False


@dataclass(frozen=True, slots=True)
class Happened:
    """What a query tells of an event.

    Attributes
    ----------
    event : str
    further : tuple of (column, value)
        The columns of the notice that only this kind has, by name.
    ends : bool
        Whether the query ends with it.
    """

    event: str
    further: tuple[tuple[str, Any], ...] = ()
    ends: bool = False


class Twin:
    """The live queries of a kind, and their brute-force answers.

    Attributes
    ----------
    stream : Stream
    queries : dict from id to query
        In order of registration.
    passed : number or None
        How far time had come at the end of the step before; None if it has not begun.
    waiting : dict from id and key to moments and what is told then, in order of time
        Of moments without an event: as deadlines, they come before the key's next event.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.queries: dict[str, Any] = {}
        self.passed: Any = None
        self.waiting: dict[tuple[str, Any], list[tuple[Any, Happened]]] = {}

    def begin(self, query: Query) -> None:
        """Take note of a query."""
        self.queries[query.id] = query

    def end(self, query: Query) -> None:
        """Forget a query."""
        del self.queries[query.id]
        self.waiting = {name: told for name, told in self.waiting.items() if name[0] != query.id}

    def replace(self, old: Query, new: Query) -> None:
        """Let a query take the place of another one with its id."""
        self.end(old)
        self.begin(new)

    def set_back(self, time: Any) -> None:  # noqa: ANN401 - a number
        """Forget that time has come further than this."""

    def let_pass(self, key: object, time: Any, awake: list[Any]) -> None:  # noqa: ANN401 - a number
        """Let time come to that of the next event, which is of that key.

        What the queries that are not paused (`awake`) tell of moments until then goes to `waiting`.
        """

    def let_end(self, now: Any, awake: list[Any]) -> None:  # noqa: ANN401 - a number
        """Let time come to how far it is at the end of a step, for all keys; as `let_pass`."""

    def take_in(self, seen: Seen) -> None:
        """Take note of any event, also one that lacks values, before queries are asked about it."""

    def answer(self, query: Any, seen: Seen) -> Iterator[Happened]:  # noqa: ANN401 - the kind's own spec
        """Yield what an event means for a query that lives and is not paused."""
        yield from ()

    def pass_time(self, query: Any, key: object, now: Any) -> Iterator[Happened]:  # noqa: ANN401
        """Yield what a query tells of a key at the end of a step, when time has come to `now`."""
        yield from ()

    def announce(self, query: Any, key: object, values: Values) -> str | None:  # noqa: ANN401 - as above
        """Return the event that a new or resumed query tells of a key in sight, or None."""
        return None

    def differ(
        self,
        query: Any,  # noqa: ANN401 - the kind's own spec
        old: Any,  # noqa: ANN401 - as above
        key: object,
        values: Values | None,
        before: Values | None,
        *,
        undecided: bool,
    ) -> str | None:
        """Return the event that a query tells of a key in sight when it replaces another, or None.

        Parameters
        ----------
        old : the query that it replaces
        values, before : tuple of float or None, or None
            Those of the key's last event that the new query would have seen, and that the old one
            saw, if there was one.
        undecided : bool
            The last thing that happened between that and the key was still waiting to count.
        """
        return None if values is None else self.announce(query, key, values)

    def expire(self, query: Any, key: object, values: Values) -> str | None:  # noqa: ANN401 - as above
        """Return the event that a query tells of a key that is gone, last seen there, or None."""
        return None

    def deadline(self, query: Any, key: object, last: Any, since: Any) -> Any:  # noqa: ANN401 - as above
        """Return by when a query wants to hear from a key again, or None.

        Parameters
        ----------
        last, since : numbers or None
            When the key was last heard from, and since when the query lives; None if that is not
            known yet.
        """
        return None

    def miss(self, query: Any, *, heard: bool) -> tuple[str, str | None]:  # noqa: ANN401 - as above
        """Return what is told at a deadline, with the reason, of a key ever heard from or not."""
        raise NotImplementedError

    def tells(self, query: Any, event: str) -> bool:  # noqa: ANN401 - as above
        """Tell whether a query tells of such an event at all, once it counts."""
        return True

    def inside(self, query: Query, key: object, values: Values) -> bool:
        """Tell whether an event of a key is in a query's box."""
        if query.key is not None and query.key != key:
            return False
        point = dict(zip(self.stream.attributes, values, strict=True))
        return all(is_within(query.box[name], point[name]) for name in needed(query))

    def sees(self, query: Query, values: Values) -> bool:
        """Tell whether all that a query needs is known."""
        point = dict(zip(self.stream.attributes, values, strict=True))
        return all(point[name] is not None for name in needed(query))


def needed(query: Query) -> list[str]:
    """Return the attributes that a query restricts or is about; it sees no event without them."""
    return list(query.box)


def is_within(interval: Interval, value: float | None) -> bool:
    """Tell whether a value is in an interval, by its ends as they were written."""
    if value is None:
        return False
    above = interval.lo is None or (
        value >= interval.lo if interval.closed in ("left", "both") else value > interval.lo
    )
    below = interval.hi is None or (
        value <= interval.hi if interval.closed in ("right", "both") else value < interval.hi
    )
    return above and below
