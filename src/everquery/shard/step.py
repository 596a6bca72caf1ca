"""One step: what changes and events mean for the queries, before the rules of alerts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from everquery.core.arrays import Array, Int32s, Int64s
from everquery.index.clock import Due
from everquery.index.kind import NO_SLOTS, KindIndex
from everquery.index.rows import Findings, Matches, Step
from everquery.index.sort_keys import at_events, positions_of
from everquery.shard.contents import Contents
from everquery.shard.deadlines import (
    Reached,
    about_last_events,
    about_previous_events,
    clock_of,
    passage_of,
)
from everquery.shard.order import Found, about, in_order
from everquery.shard.query_set import QuerySet
from everquery.shard.record import Notices
from everquery.state.accepted import Accepted, Events
from everquery.state.timeline import BEFORE_EVENTS
from everquery.state.whereabouts import Whereabouts


class Stepper:
    """Asks the indexes of all kinds.

    Attributes
    ----------
    reached : list of Reached
        The deadlines of keys that have come in the present step.
    at_work : list of pairs of kind and index
        The kinds that the present step means something to.
    """

    def __init__(self, contents: Contents, queries: QuerySet) -> None:
        self._contents = contents
        self._queries = queries
        self.reached: list[Reached] = []
        self.at_work: list[tuple[str, KindIndex]] = []

    def begin(self) -> None:
        """Begin a step: index what is new, and find out which kinds have to be asked."""
        self.reached = []
        self._queries.settle()
        self.at_work = self._contents.at_work()

    def watches_time(self) -> bool:
        """Tell whether there are queries to which deadlines of keys mean something."""
        for _, index in self.at_work:
            if index.watches_time and index.is_watching():
                return True
        return False

    def announce(self) -> list[Notices]:
        """Return what the keys in sight mean for new and resumed queries."""
        if not self._queries.has_news:
            return []
        if self.watches_time():
            self._note(None, BEFORE_EVENTS)
        keys, told = self._announced_keys(), []
        if keys.size:
            told = self._ask("announce", self._contents.admission.last_events(keys), None)
        self._queries.announced()
        return told

    def _announced_keys(self) -> Int32s:
        """Return the keys in sight that may mean something for new and resumed queries."""
        keys = self._contents.keys
        wanted: list[Int32s] = []
        for _, index in self.at_work:
            some = index.announced_keys(keys.seen, keys.last)
            if some is None:
                return np.flatnonzero(keys.seen[: len(keys)]).astype(np.int32)
            if some.size:
                wanted.append(some)
        if not wanted:
            return np.empty(0, np.int32)
        distinct = np.unique(np.concatenate(wanted))
        in_sight: Int32s = distinct[keys.seen[distinct] != 0]
        return in_sight

    def expire(self, keys: Int32s, when: Array) -> list[Notices]:
        """Forget keys, and return what it means that they are gone since then."""
        if not keys.size:
            return []
        told = self._ask("expire", self._contents.admission.last_events(keys), when)
        self._contents.keys.seen[keys] = 0
        self._contents.keys.sights.forget(keys)
        return told

    def tells_changes(self) -> bool:
        """Tell whether some query tells how its answer changed."""
        for _, index in self.at_work:
            if index.tells_changes():
                return True
        return False

    def done(self) -> Int32s:
        """Return the queries that have ended by what they told."""
        done = NO_SLOTS
        for _, index in self.at_work:
            slots = index.done()
            if slots.size:
                done = np.concatenate([done, slots])
        return done

    def net_changes(self) -> list[Notices]:
        """Return what queries tell of how their answers changed with the step."""
        contents = self._contents
        admission, flags = contents.admission, contents.catalog.flags
        found = []
        for kind, index in self.at_work:
            if not index.tells_changes():
                continue
            changed = index.net_changes(flags, admission.graced, admission.time_type, contents)
            if changed is not None:
                n = changed.slot.size
                events = Events(arrived=np.zeros(n, np.int64), **changed.columns)
                code = changed.code + np.uint8(contents.outcomes.first[kind])
                row = np.arange(n)
                found.append(
                    Notices(
                        changed.slot, code, row, events, row, changed.figures, salt=changed.salt
                    )
                )
        return found

    def pass_time(self, accepted: Accepted) -> None:
        """Note the deadlines of keys that have come at the end of a step."""
        if self.watches_time():
            start = accepted.grouped.start
            heard_now = accepted.grouped.key[start[1:] > start[:-1]]
            self._note(heard_now, accepted.grouped.position.size)

    def _note(self, heard_now: Int32s | None, place: int) -> None:
        """Note deadlines at the end of a step with events of some keys; None before all events."""
        contents = self._contents
        clock, flags = clock_of(contents), contents.catalog.flags
        for kind, index in self.at_work:
            if heard_now is None:
                due = index.overdue(clock, flags)
            else:
                due = index.pass_time(clock, heard_now, flags)
            if due is not None:
                first = contents.outcomes.first[kind]
                self.reached.append(about_last_events(due, first, contents, place))

    def _ask(
        self, question: Literal["announce", "expire"], last: Events, when: Array | None
    ) -> list[Notices]:
        """Return what each kind answers about keys, given by their last events.

        The notices are of the time of what their queries saw last, unless `when` says another.
        """
        contents = self._contents
        where = Whereabouts(last, contents.keys.sights)
        found: list[tuple[int, Matches | Findings]] = []
        seen_last = []
        for kind, index in self.at_work:
            for part in getattr(index, question)(where, contents.catalog.flags):
                if part.packed.size:
                    packed = at_events(part.packed)
                    found.append((contents.outcomes.first[kind], replace(part, packed=packed)))
                    events = where.events(part.attributes)
                    if events is not last:
                        events = events if when is None else replace(events, time=when)
                        seen_last.append((packed, events.take(positions_of(packed) >> 1)))
        if not found:
            return []
        events = last if when is None else replace(last, time=when)
        return [about(in_order(events, len(last), np.empty(0, np.int64), found), seen_last)]

    def answer(self, accepted: Accepted) -> list[Notices]:
        """Return what the accepted events mean."""
        contents = self._contents
        passage = passage_of(contents, accepted) if self.watches_time() else None
        step = Step(
            accepted.grouped,
            accepted.fresh,
            contents.keys.seen,
            contents.keys.last,
            contents.catalog.flags,
            contents.catalog.all_live,
            accepted.events.weight,
            accepted.events.time,
            contents.admission.time_type,
            contents,
            passage,
            contents.keys.sights.earlier,
            accepted.partial,
            contents.crew,
            accepted.events.seq,
        )
        found: list[tuple[int, Matches | Findings]] = []
        for kind, index in self.at_work:
            first = contents.outcomes.first[kind]
            for part in index.process(step):
                if isinstance(part, Due):
                    self.reached.append(about_previous_events(part, first, contents, accepted))
                else:
                    found.append((first, part))
        if not found:
            return []
        rows = len(accepted.events) - accepted.expired_row.size
        told = in_order(accepted.events, rows, accepted.grouped.position, found, contents.crew)
        if accepted.expired_row.size:
            # An expiry is about the previous event of its key, which stands behind all others.
            previous = rows + np.searchsorted(accepted.expired_row, told.row)
            told = replace(told, row=np.where(told.position & 1 == 0, previous, told.row))
            if accepted.partial or len(contents.keys.sights):
                told = about(told, list(self._before_expiry(accepted, rows, found)))
        return [told]

    def _before_expiry(
        self, accepted: Accepted, rows: int, found: Found
    ) -> Iterator[tuple[Int64s, Events]]:
        """Yield expiries, and what queries saw last where that was not their key's last event."""
        for _, part in found:
            if isinstance(part, Matches) or not part.attributes:
                continue
            packed = part.packed[positions_of(part.packed) & 1 == 0]
            if packed.size:
                row = positions_of(packed) >> 1
                place = rows + np.searchsorted(accepted.expired_row, row)
                last = accepted.events.take(place)
                sights = self._contents.keys.sights
                events = sights.before_expiry(accepted, last, row, part.attributes)
                if events is not last:
                    yield packed, events
