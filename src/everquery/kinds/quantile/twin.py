"""The brute-force answer of quantile queries."""

from __future__ import annotations

from collections.abc import Iterator

from everquery.kinds import twin
from everquery.kinds.quantile.exact_ranks import (
    COARSEST,
    COARSEST_WINDOW,
    FINEST,
    Feed,
    FeedName,
    allowed_ranks,
    feed_of,
    ranks_of,
)
from everquery.kinds.quantile.spec import Quantile
from everquery.kinds.told_values import one_told
from everquery.queries.spec import Query
from everquery.stream import Stream


class Twin(twin.Twin):
    """A new value is found whenever the rank of the old one is too far off, by sorting all rows."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self._feeds: dict[FeedName, Feed] = {}
        self._told: dict[str, dict[object, float]] = {}
        self._said: dict[str, dict[object, float]] = {}

    def begin(self, query: Query) -> None:
        """Take note of a query that knows nothing."""
        super().begin(query)
        self._told[query.id] = {}
        self._said[query.id] = {}

    def end(self, query: Query) -> None:
        """Forget a query, with the lanes and feeds that no other one wants."""
        super().end(query)
        self._tidy()

    def replace(self, old: Query, new: Query) -> None:
        """Begin with the rows of the old query, if the new one ranks the same."""
        super().end(old)
        self.begin(new)
        self._tidy()

    def _tidy(self) -> None:
        """Forget the lanes and feeds that no query wants."""
        for name in list(self._feeds):
            here = self._queries_of(name)
            if not here:
                del self._feeds[name]
            elif name.keyed and not any(each.by_key for each in here):
                lanes = self._feeds[name].lanes
                for key in lanes.keys() - {each.key for each in here}:
                    del lanes[key]

    def take_in(self, seen: twin.Seen) -> None:
        """Take a row into the lanes that a query wants, if its value is known."""
        for query in self.queries.values():
            self._feeds.setdefault(feed_of(query), Feed())
        for name, feed in self._feeds.items():
            here = self._queries_of(name)
            if feed.finest is None:
                coarsest = COARSEST if name.last is None else COARSEST_WINDOW
                feed.finest = max(FINEST, min([coarsest, *(query.epsilon for query in here)]))
            if not name.keyed or any(query.by_key or query.key == seen.key for query in here):
                value = seen.values[self.stream.attributes.index(name.attribute)]
                if value is not None:
                    feed.lanes.setdefault(seen.key if name.keyed else None, []).append(value)

    def _queries_of(self, name: FeedName) -> list[Quantile]:
        return [query for query in self.queries.values() if feed_of(query) == name]

    def answer(self, query: Quantile, seen: twin.Seen) -> Iterator[twin.Happened]:
        """Yield a change after the lane's last row, if the rank of what was told is not allowed."""
        name = feed_of(query)
        lane = seen.key if name.keyed else None
        ends = seen.last_of_key if name.keyed else seen.last_of_all
        if not ends or (query.key is not None and query.key != seen.key):
            return
        feed, told = self._feeds[name], self._told[query.id]
        rows = sorted(feed.lanes[lane][-(query.last or len(feed.lanes[lane])) :])
        epsilon = max(query.epsilon, feed.finest or 0.0)
        assert isinstance(query.phi, float)
        ranks, best = allowed_ranks(query.phi, epsilon, len(rows))
        if lane in told and not ranks.isdisjoint(ranks_of(told[lane], rows)):
            return
        value = told[lane] = rows[best - 1]
        bounds = ("rank_low", best), ("rank_high", best)
        said = self._said[query.id]
        assert not isinstance(query.when, tuple)
        event = one_told(query.when, query.by, value, said.get(lane))
        if event is not None:
            said[lane] = value
            figures = ("value", value), *bounds, ("n", len(rows)), ("epsilon", epsilon)
            yield twin.Happened(event, figures)
