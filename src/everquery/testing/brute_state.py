"""What the brute-force engine remembers of keys and queries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from everquery.kinds.twin import Twin, Values
from everquery.queries import Query
from everquery.testing.notice import Notice


@dataclass(frozen=True)
class Sight:
    """An accepted event of a key."""

    seq: int
    time: Any
    values: Values


@dataclass
class Series:
    """What is known of one key.

    Attributes
    ----------
    seq : int
        How many of its events were accepted.
    time, values : of the last one
    sights : list
        The events since it came into sight; none while it is not.
    """

    seq: int = 0
    time: Any = None
    values: Values = ()
    sights: list[Sight] = field(default_factory=list)

    def set_back(self, time: Any) -> None:  # noqa: ANN401 - a number
        """Let no event be later than a time."""
        self.time = min(self.time, time)
        self.sights = [replace(each, time=min(each.time, time)) for each in self.sights]


@dataclass
class Throttled:
    """In which notices of one query and key are held back."""

    end: Any
    held: list[Notice] = field(default_factory=list)


@dataclass
class Standing:
    """A live query, and what waits of it."""

    query: Query
    twin: Twin
    paused: bool = False
    announce: str | None = "registered"
    end: Any = None
    since: Any = None
    overdue: set[Any] = field(default_factory=set)  # keys whose deadline has come
    pending: dict[Any, tuple[Any, Notice]] = field(default_factory=dict)
    windows: dict[Any, Throttled] = field(default_factory=dict)
    replaces: tuple[Query, frozenset[Any]] | None = None  # with the keys that were undecided

    def sees(self, moment: Any) -> bool:  # noqa: ANN401 - a number, or None without time
        """Tell whether the query still lives then."""
        return self.end is None or moment is None or moment < self.end

    def last_seen(self, sights: list[Sight], query: Query | None = None) -> Sight | None:
        """Return the last event that the query saw, or another one of its kind."""
        query = query or self.query
        return next((each for each in reversed(sights) if self.twin.sees(query, each.values)), None)

    def set_back(self, time: Any) -> None:  # noqa: ANN401 - a number
        """Let nothing wait longer than its span from a time."""
        for key, (deadline, notice) in self.pending.items():
            self.pending[key] = min(deadline, time + getattr(self.query, "dwell", 0)), notice
        for window in self.windows.values():
            window.end = min(window.end, time + self.query.throttle)
        if self.end is not None:
            self.end = min(self.end, time + self.query.ttl)
        if self.since is not None:
            self.since = min(self.since, time)
