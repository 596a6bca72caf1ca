"""What the brute-force engine tells as the time of a key passes, and the rules of notices.

Deadlines, expiry, the ends of queries, and what dwells or is throttled: one after the other, each
at its moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from everquery.queries import Query
from everquery.testing.brute_queries import BruteQueries
from everquery.testing.brute_state import Series, Sight, Standing, Throttled
from everquery.testing.notice import Notice


class BruteTime(BruteQueries):
    """Standing queries, and what they tell at moments that no event brings.

    The attributes are those of `BruteQueries`.
    """

    def _let_pass(
        self,
        key: object,
        until: Any,  # noqa: ANN401 - a number
        *,
        expiring: bool = True,
    ) -> Iterator[Notice]:
        """Let a key's time come to `until`: deadlines and expiry, one after the other."""
        while True:
            deadlines = sorted(self._deadlines(key), key=lambda deadline: deadline[:3])
            due = deadlines[0] if deadlines and deadlines[0][0] <= until else None
            series = self._series.get(key)
            limit = self.stream.expire_after
            if limit is not None and expiring and series is not None and series.sights:
                expiry = series.time + limit
                if expiry <= until and (due is None or due[0] > expiry):
                    yield from self._expire(key, series, expiry)
                    continue
            if due is None:
                return
            yield from due[3]()

    def _let_pass_deadlines_of_kinds(self, key: object) -> Iterator[Notice]:
        while self._passed is not None:
            found = [
                (moment, number, standing)
                for number, standing in enumerate(self._queries.values())
                if (moment := self._deadline(standing, key)) is not None
                and moment <= self._passed
                and standing.sees(moment)
            ]
            if not found:
                return
            moment, _, standing = min(found, key=lambda each: each[:2])
            yield from self._miss(standing, key, moment)

    def _let_pass_what_waits(self, key: object) -> Iterator[Notice]:
        """Tell of moments behind the newest time less the grace: a flush has come further."""
        while True:
            found = [
                (standing.twin.waiting[standing.query.id, key][0][0], number, standing)
                for number, standing in enumerate(self._queries.values())
                if standing.twin.waiting.get((standing.query.id, key))
            ]
            found = [each for each in found if each[2].sees(each[0])]
            if not found:
                return
            yield from self._tell_waiting(min(found, key=lambda each: each[:2])[2], key)

    def _deadlines(
        self, key: object
    ) -> Iterator[tuple[Any, int, int, Callable[[], Iterable[Notice]]]]:
        """Yield a key's deadlines: when, the query's number, what comes first, what it does."""
        for number, standing in enumerate(self._queries.values()):
            if key in standing.windows and standing.sees(standing.windows[key].end):
                close = partial(self._close, standing, key)
                yield standing.windows[key].end, number, 0, close
            if key in standing.pending and standing.sees(standing.pending[key][0]):
                count = partial(self._count, standing, key)
                yield standing.pending[key][0], number, 1, count
            moment = self._deadline(standing, key)
            if moment is not None and standing.sees(moment):
                yield moment, number, 1, partial(self._miss, standing, key, moment)
            waits = standing.twin.waiting.get((standing.query.id, key))
            if waits and standing.sees(waits[0][0]):
                yield waits[0][0], number, 1, partial(self._tell_waiting, standing, key)
            at_home = self.stream.key is None or standing.query.key is not None
            if standing.end is not None and at_home and standing.query.key == key:
                yield standing.end, number, 2, partial(self._end_at_home, standing, key)

    def _missed(self, standing: Standing, key: object, moment: Any) -> Notice:  # noqa: ANN401
        series = self._series.get(key, Series())
        event, reason = standing.twin.miss(standing.query, heard=series.seq > 0)
        values = series.values if series.seq else (None,) * len(self.stream.attributes)
        return Notice(standing.query.id, event, key, series.seq - 1, reason, moment, values)

    def _miss(self, standing: Standing, key: object, moment: Any) -> Iterator[Notice]:  # noqa: ANN401
        standing.overdue.add(key)
        yield from self._happen(standing, self._missed(standing, key, moment))

    def _tell_waiting(self, standing: Standing, key: object) -> Iterator[Notice]:
        """Tell what a query has to tell of a moment without an event."""
        series = self._series.get(key, Series())
        moment, told = standing.twin.waiting[standing.query.id, key].pop(0)
        sight = Sight(series.seq - 1, moment, series.values)
        notice = self._notice(standing.query, told.event, key, sight, None)
        yield from self._happen(standing, replace(notice, further=told.further))

    def _pass_time(self, key: object) -> Iterator[Notice]:
        """Yield what queries tell of a key's past now that time has come this far."""
        series = self._series.get(key, Series())
        for standing in list(self._queries.values()):
            if standing.paused or not standing.sees(self._passed):
                continue
            for told in list(standing.twin.pass_time(standing.query, key, self._passed)):
                sight = Sight(series.seq - 1, self._passed, series.values)
                notice = self._notice(standing.query, told.event, key, sight, None)
                yield from self._happen(standing, replace(notice, further=told.further))

    def _happen(self, standing: Standing, notice: Notice) -> Iterator[Notice]:
        """Let a crossing dwell, if its query asks for that."""
        query = standing.query
        dwell = getattr(query, "dwell", None)
        if dwell is None:
            yield from self._tell(standing, notice)
        elif notice.key in standing.pending:
            # Not told, since its deadline is ahead: so it is the opposite that comes too early.
            assert standing.pending.pop(notice.key)[1].event != notice.event
        else:
            standing.pending[notice.key] = notice.time + dwell, notice

    def _count(self, standing: Standing, key: object) -> Iterator[Notice]:
        deadline, notice = standing.pending.pop(key)
        yield from self._tell(standing, replace(notice, time=deadline))

    def _tell(self, standing: Standing, notice: Notice) -> Iterator[Notice]:
        """Tell a notice that counts, or hold it back."""
        query = standing.query
        if not standing.twin.tells(query, notice.event):
            return
        if notice.key in standing.windows:
            standing.windows[notice.key].held.append(notice)
            return
        if query.throttle is not None:
            standing.windows[notice.key] = Throttled(notice.time + query.throttle)
        yield notice

    def _close(self, standing: Standing, key: object) -> Iterator[Notice]:
        window = standing.windows.pop(key)
        if window.held:
            standing.windows[key] = Throttled(window.end + standing.query.throttle)
            yield replace(
                window.held[-1],
                time=window.end,
                reason="throttled",
                held_back=len(window.held),
            )

    def _end_at_home(self, standing: Standing, key: object) -> list[Notice]:
        return [self._end(standing, key)]

    def _end(self, standing: Standing, key: object) -> Notice:
        self.deregister(standing.query.id)
        nothing = (None,) * len(self.stream.attributes)
        return Notice(standing.query.id, "end", key, -1, "ttl", standing.end, nothing)

    def _expire(self, key: object, series: Series, when: Any) -> Iterator[Notice]:  # noqa: ANN401
        sights, series.sights = series.sights, []
        for standing in self._queries.values():
            sight = standing.last_seen(sights)
            if standing.paused or not standing.sees(when) or sight is None:
                continue
            event = standing.twin.expire(standing.query, key, sight.values)
            if event is not None:
                ended = replace(sight, time=when)
                notice = self._notice(standing.query, event, key, ended, "expired")
                yield from self._happen(standing, notice)

    @staticmethod
    def _notice(query: Query, event: str, key: object, sight: Sight, reason: str | None) -> Notice:
        return Notice(query.id, event, key, sight.seq, reason, sight.time, sight.values)
