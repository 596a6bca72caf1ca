"""The live queries of the brute-force engine, and what changes of queries mean."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from everquery.kinds import KINDS
from everquery.kinds.twin import Twin
from everquery.queries import Query
from everquery.stream import Stream
from everquery.testing.brute_state import Series, Standing
from everquery.testing.notice import Event


@dataclass
class BruteQueries:
    """Queries that stand over a stream, and what is known of its keys and its time.

    Attributes
    ----------
    stream : Stream
    refused : list of (event, reason)
    partial : int
        How many events were accepted that lack a value.
    partial_by_column : dict from column to number
    """

    stream: Stream
    refused: list[tuple[Event, str]] = field(default_factory=list)
    partial: int = 0
    partial_by_column: dict[str, int] = field(default_factory=dict)
    _queries: dict[str, Standing] = field(default_factory=dict)
    _series: dict[Any, Series] = field(default_factory=dict)
    _newest: Any = None
    _passed: Any = None
    _time_began: bool = False
    _held: list[Event] = field(default_factory=list)
    _ahead: list[Event] = field(default_factory=list)
    _twins: dict[str, Twin] = field(default_factory=dict)
    _begun: bool = False

    def register(self, query: Query) -> None:
        """Register a query."""
        if query.kind not in self._twins:
            self._twins[query.kind] = KINDS[query.kind].twin(self.stream)
        twin = self._twins[query.kind]
        twin.begin(query)
        self._stand(query, twin)

    def _stand(self, query: Query, twin: Twin) -> Standing:
        standing = self._queries[query.id] = Standing(query, twin, since=self._newest)
        if query.ttl is not None and self._newest is not None:
            standing.end = self._newest + query.ttl
        return standing

    def replace(self, query: Query) -> None:
        """Let a query take the place of the live one with its id, if there is one."""
        standing = self._queries.get(query.id)
        if standing is None:
            self.register(query)
            return
        if _meaning(query) == _meaning(standing.query):
            standing.query = standing.twin.queries[query.id] = query
            return
        before = standing.replaces
        if standing.announce is None:
            before = standing.query, frozenset(standing.pending)
        if standing.paused or standing.announce == "resumed":
            before = None
        standing.twin.replace(self._queries.pop(query.id).query, query)
        new = self._stand(query, standing.twin)
        new.announce, new.replaces = "replaced", before

    def deregister(self, query_id: str) -> None:
        """End a query."""
        standing = self._queries.pop(query_id)
        standing.twin.end(standing.query)

    def pause(self, query_id: str) -> None:
        """Let a query emit nothing; what waits of it is forgotten."""
        standing = self._queries[query_id]
        standing.paused = True
        standing.replaces = None
        standing.pending.clear()
        for window in standing.windows.values():
            window.held.clear()

    def resume(self, query_id: str) -> None:
        """Let a query emit again."""
        standing = self._queries[query_id]
        if standing.paused:
            standing.paused = False
            standing.announce = "resumed"
            standing.overdue.clear()

    def is_live(self, query_id: str) -> bool:
        """Tell whether a query lives."""
        return query_id in self._queries

    def ask(self, question: str, query_id: str, **said: Any) -> Any:  # noqa: ANN401 - as the kind answers
        """Return the answer of a live query to a question of its kind, such as ``progress``."""
        standing = self._queries[query_id]
        return getattr(standing.twin, question)(standing.query, **said)

    def _awake(self, kind: str) -> list[Query]:
        """Return the queries of a kind that are not paused."""
        every = self._queries.values()
        return [each.query for each in every if each.query.kind == kind and not each.paused]

    def _watched(self) -> list[Any]:
        """Return the keys that there are, and those that queries name."""
        if self.stream.key is None:
            return [None]
        homes = [each.query.key for each in self._queries.values() if each.query.key is not None]
        return list(dict.fromkeys([*self._series, *homes]))

    def _deadline(self, standing: Standing, key: object) -> Any:  # noqa: ANN401 - a number or None
        """Return by when a query wants to hear from a key, if that has not come yet."""
        if standing.paused or key in standing.overdue:
            return None
        series = self._series.get(key)
        last = series.time if series is not None and series.seq else None
        return standing.twin.deadline(standing.query, key, last, standing.since)

    def _judge_anew(self, standing: Standing) -> None:
        """Note of which keys the deadlines have come, by how far time is now."""
        standing.overdue.clear()
        if standing.announce:  # the next step tells them
            return
        for key in self._watched():
            moment = self._deadline(standing, key)
            if moment is not None and self._passed is not None and moment <= self._passed:
                standing.overdue.add(key)


def _meaning(query: Query) -> tuple[Any, ...]:
    """Return all of a query that answers depend on."""
    box = {name: query.box[name].half_open() for name in sorted(query.box)}
    plain = {
        each.name: getattr(query, each.name)
        for each in fields(query)
        if each.name not in ("box", "owner", "labels")
    }
    return query.kind, repr(list(box.items())), plain
