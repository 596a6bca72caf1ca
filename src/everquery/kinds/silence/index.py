"""The silence kind: which keys nothing has been heard from.

What was told follows from times alone. A deadline of a query and a key is the time of the key's
last event plus the query's span. At the end of a step, the deadlines up to how far time has come
have been told, whichever query and key they are of: no pair of the two needs an entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from everquery.core.arrays import Array, Bools, Bytes, Int32s, Int64s
from everquery.index.clock import NO_EVENT, Clock, Due, Passage, join_due
from everquery.index.flags import LIVE, LIVE_MASK, NEW, REPLACED, RESUMED, Flags
from everquery.index.kind import Explained, KindIndex
from everquery.index.layers import Layers
from everquery.index.rows import Findings, Grouped, Matches, Outcome, Rows, Step
from everquery.index.sort_keys import pack_findings
from everquery.kinds.silence.deadlines import Pairs, SilenceSegment, long_gaps, spread

SILENT, UNHEARD, BACK, AT_REGISTRATION, ON_RESUMING, ON_REPLACING = range(6)


class SilenceIndex(KindIndex):
    """Queries in layers of lists by span."""

    outcomes: ClassVar[tuple[Outcome, ...]] = (
        Outcome("silent"),
        Outcome("silent", "unheard"),
        Outcome("back"),
        Outcome("silent", "registered"),
        Outcome("silent", "resumed"),
        Outcome("silent", "replaced"),
    )
    watches_time: ClassVar[bool] = True

    def __init__(self) -> None:
        self.layers: Layers[SilenceSegment] = Layers(SilenceSegment)
        self._unannounced: list[Rows] = []

    def add(self, rows: Rows, flags: Flags, *, announce: bool = True) -> None:
        """Add queries; with `announce`, keys that are silent already are told of."""
        self.layers.add(rows, flags)
        if announce:
            self._unannounced.append(rows)

    def revive(self, rows: Rows) -> None:
        """Tell of the keys that are silent already to queries that are in the layers."""
        self._unannounced.append(rows)

    def forget_announcements(self) -> None:
        """Announce nothing but what is revived from now on."""
        self._unannounced.clear()

    def forget_positions(self) -> None:
        """Look at all deadlines again: keys were heard from elsewhere."""
        for segment in self.layers:
            segment.soonest = None

    # -- before the events --------------------------------------------------------------------

    def overdue(self, clock: Clock, flags: Flags) -> Due | None:
        """Return which keys are silent already, for new and resumed queries."""
        new, self._unannounced = self._unannounced, []
        found = []
        for rows in new:
            segment = SilenceSegment(rows)
            lists = segment.lists(clock)
            if not lists.after.size:
                continue
            keys = lists.key if lists.named else np.flatnonzero(clock.in_sight).astype(np.int32)
            keys = keys[clock.heard[keys]]
            pairs, _ = self._due(segment, clock, keys, None, clock.passed)
            found.append(_ended(pairs, keys[pairs.item], AT_REGISTRATION))
            key, slot, moment = segment.unheard(clock)
            come = np.flatnonzero((moment <= clock.passed) & (moment < clock.never))
            found.append(_ended(Pairs(come, slot[come], moment[come]), key[come], AT_REGISTRATION))
        due = join_due(found)
        if due is None:
            return None
        told = flags[due.slot]
        wanted = np.flatnonzero(told & (LIVE_MASK | NEW) == LIVE | NEW)
        # A query that was resumed before it was announced stands there twice.
        pair = due.key.astype(np.int64) << 32 | due.slot
        wanted = wanted[np.unique(pair[wanted], return_index=True)[1]]
        due = due.take(wanted)
        due.code[told[wanted] & REPLACED != 0] = ON_REPLACING
        due.code[told[wanted] & RESUMED != 0] = ON_RESUMING
        return due if wanted.size else None

    # -- at events ----------------------------------------------------------------------------

    def process(self, step: Step) -> Sequence[Matches | Findings | Due]:
        """Return which keys are back, and which had been silent before that without its being told.

        An event ends the silence of its key if the deadline comes before it, or was told before
        because events of other keys had come further.
        """
        passage, grouped = step.passage, step.grouped
        if passage is None or not grouped.position.size or not len(self.layers):
            return []
        back: list[Array] = []
        silent: list[Due] = []
        gaps = _Gaps(grouped, passage)
        for segment in self.layers:
            for pairs, code in gaps.ended(segment):
                live = step.flags[pairs.slot] & LIVE_MASK == LIVE
                event, slot, moment = (column[live] for column in pairs)
                back.append(pack_findings(grouped.position[event], slot) | BACK)
                new = ~(gaps.first[event] & (moment <= passage.clock.passed))
                event, slot, moment = event[new], slot[new], moment[new]
                code_of = np.full(slot.size, code, np.uint8)
                silent.append(Due(slot, code_of, gaps.key[event], moment, event))
        found: list[Matches | Findings | Due] = []
        packed = np.concatenate(back) if back else np.empty(0, np.int64)
        if packed.size:
            found.append(Findings(packed))
        due = join_due(silent)
        return found if due is None else [*found, due]

    # -- at the end of a step -----------------------------------------------------------------

    def pass_time(self, clock: Clock, heard_now: Int32s, flags: Flags) -> Due | None:
        """Return which keys have become silent since the last step, or in this one."""
        found = [due for segment in self.layers for due in self._passed(segment, clock, heard_now)]
        due = join_due(found)
        if due is None:
            return None
        live = flags[due.slot] & LIVE_MASK == LIVE
        return due.take(np.flatnonzero(live)) if live.any() else None

    def _passed(self, segment: SilenceSegment, clock: Clock, heard_now: Int32s) -> list[Due]:
        lists = segment.lists(clock)
        if not lists.after.size:
            return []
        if segment.soonest is not None and clock.now < segment.soonest:
            # Only the keys of this step may have a deadline that comes sooner than was known.
            if not heard_now.size:
                return []
            oldest = clock.last_time[heard_now].min()
            sooner = _sum(oldest, lists.least[0], clock.never)
            if clock.now < sooner:
                segment.soonest = min(segment.soonest, sooner)
                return []
            pairs, soonest = self._due(segment, clock, heard_now, heard_now, clock.now)
            segment.soonest = min(segment.soonest, soonest)
            return [_ended(pairs, heard_now[pairs.item], SILENT)]
        keys = lists.key if lists.named else np.arange(clock.heard.size, dtype=np.int32)
        keys = keys[clock.heard[keys]]
        pairs, segment.soonest = self._due(segment, clock, keys, heard_now, clock.now)
        key, slot, moment = segment.unheard(clock)
        has_come = (moment <= clock.now) & (moment < clock.never)
        come = np.flatnonzero(has_come & (moment > clock.passed))
        ahead = moment[~has_come]
        if ahead.size:
            # Queries that wait for the first event do not know yet when they begin.
            unknown = bool((ahead == clock.never).any())
            segment.soonest = None if unknown else min(segment.soonest, ahead.min())
        unheard = Pairs(come, slot[come], moment[come])
        return [_ended(pairs, keys[pairs.item], SILENT), _ended(unheard, key[come], UNHEARD)]

    def _due(
        self,
        segment: SilenceSegment,
        clock: Clock,
        keys: Int32s,
        heard_now: Int32s | None,
        until: float,
    ) -> tuple[Pairs, Any]:
        """Return which deadlines of some keys have come that were not told before.

        Parameters
        ----------
        heard_now : int32, ascending
            Keys of which none was told; None if that holds for all.
        """
        lists = segment.lists(clock)
        here, ends = lists.find(keys)
        dtype = lists.after.dtype
        told = np.full(here.size, -clock.never if heard_now is None else clock.passed, dtype)
        if heard_now is not None:
            told[np.isin(keys[here], heard_now)] = -clock.never
        last = clock.last_time[keys[here]]
        pairs, soonest = lists.due(ends, last, told, np.full(here.size, until, dtype), clock.never)
        return pairs._replace(item=here[pairs.item]), soonest

    def explain(self, slot: int) -> Explained | None:
        """Return which list holds a query."""
        for segment in self.layers:
            row = np.flatnonzero(segment.rows.slot == slot)
            if row.size:
                lane = int(np.count_nonzero(segment.rows.key == segment.rows.key[row[0]]))
                path = "list of spans, searched when a deadline may have come, whatever values are"
                attributes = segment.rows.shape.attributes
                return Explained(path, attributes, 0.0, 0.0, lane, len(segment))
        return None


class _Gaps:
    """The gaps of time before the events of a step.

    Attributes
    ----------
    key : int32, for each grouped event
    first : bool, for each grouped event
        Whether it is its key's first of the step.
    """

    def __init__(self, grouped: Grouped, passage: Passage) -> None:
        self._clock, self._passage = passage.clock, passage
        n = grouped.position.size
        lengths = np.diff(grouped.start)
        filled = np.flatnonzero(lengths)
        begins = grouped.start[filled]
        self.key: Int32s = np.repeat(grouped.key, lengths)
        self.first: Bools = np.zeros(n, np.bool_)
        self.first[begins] = True
        self._previous: Array = np.empty(n, passage.time.dtype)
        self._previous[1:] = passage.time[:-1]
        self._previous[begins] = passage.before[filled]
        self._until: Array = passage.time.copy()
        self._until[begins] = np.maximum(self._until[begins], passage.clock.passed)
        self._new: Int64s = begins[~passage.heard[filled]]  # of keys never heard from before
        self._known: Bools = np.ones(n, np.bool_)
        self._known[self._new] = False

    def ended(self, segment: SilenceSegment) -> list[tuple[Pairs, int]]:
        """Return the silences that events end, by event, and as what they are told."""
        clock = self._clock
        lists = segment.lists(clock)
        if not lists.after.size:
            return []
        event = np.empty(self.key.size, np.int64)
        never = np.full(1, clock.never, lists.after.dtype)
        n = long_gaps(self._previous, self._until, self._known, lists.least, never, event)
        event = event[:n]
        here, ends = lists.find(self.key[event])
        event = event[here]
        told = np.full(event.size, -clock.never, lists.after.dtype)
        previous, until = self._previous[event], self._until[event]
        pairs, _ = lists.due(ends, previous, told, until, clock.never)
        found = [(pairs._replace(item=event[pairs.item]), SILENT)]
        if lists.named and self._new.size:
            here, ends = lists.find(self.key[self._new])
            item, row = spread(*ends)
            event = self._new[here][item]
            moment = segment.unheard_deadlines(row, clock)
            come = np.flatnonzero((moment <= self._until[event]) & (moment < clock.never))
            found.append((Pairs(event[come], lists.slot[row[come]], moment[come]), UNHEARD))
        return found


def _ended(pairs: Pairs, key: Int32s, code: int) -> Due:
    """Return deadlines that no event makes known."""
    n = pairs.slot.size
    codes: Bytes = np.full(n, code, np.uint8)
    return Due(pairs.slot, codes, key, pairs.moment, np.full(n, NO_EVENT, np.int64))


def _sum(time: Any, span: Any, never: Any) -> Any:  # noqa: ANN401 - numbers of either type
    return time + span if time <= never - span else never
