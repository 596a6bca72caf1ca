"""From arrivals to accepted events: time order, grace, lateness, sequence numbers, expiry.

- The events of a batch, and those that the grace held back until then, are taken in time order.
- An event is late if it is older than the last accepted one of its key.
- A key has expired before an event if the event is `expire_after` or more past the key's last one;
  and at the end of a batch if the newest time seen, less the grace, is.

Where events arrive in time order, or within the grace, nothing depends on where a batch ends.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Bools, Floats, Int32s, Int64s
from everquery.core.parts import Saved
from everquery.core.spans import SpanLike
from everquery.index.rows import Grouped
from everquery.state.accepted import COLUMNS, Accepted, Events, join_events
from everquery.state.admission_loops import (
    admit_groups,
    group_rows,
    in_order,
    remember_groups,
    span_of,
)
from everquery.state.clock_guard import ClockGuard
from everquery.state.keys import KeyTable
from everquery.state.partial import Partial
from everquery.state.said_times import span_in_units
from everquery.stream import SPANS, Stream

_NO_ROWS = np.empty(0, np.int64)
_NO_KEYS = np.empty(0, np.int32)
FIGURES = ("arrived", "newest", "oldest", "began", "passed")


class Admission:
    """Takes arrivals in, keeps back what the grace asks for, and lets events out in order."""

    def __init__(self, stream: Stream, keys: KeyTable) -> None:
        self._stream = stream
        self._keys = keys
        self.time_type: pa.DataType | None = None
        self.arrived = 0
        self.newest: int | float | None = None
        self.oldest: int | float | None = None  # of all arrivals until the first is let out
        self.began: int | float | None = None  # the time of the first event that was let out
        self.passed: int | float | None = None  # how far time had come when a step ended
        self.held: Events | None = None
        self.guard = ClockGuard(keys)
        self.flushing = False
        self.partial = Partial()
        self._counts: Int32s = np.zeros(16, np.int32)
        self._simple = all(getattr(stream, span) is None for span in SPANS)
        self._dtype: type[np.int64] | type[np.float64] = np.int64
        self._nobody: Events | None = None  # no events, of the stream's types

    @property
    def takes_as_they_come(self) -> bool:
        """Whether nothing is held back, or waits, or expires."""
        return self._simple and self.held is None and not self.flushing and not len(self.guard)

    def see_one(self, time: int | float) -> None:
        """Note the time of an event that is let in alone."""
        self.advance(time)
        if self.began is None:
            self.oldest = time if self.oldest is None else min(self.oldest, time)

    def check_time(self, kind: pa.DataType) -> None:
        """Raise if the stream's spans can't be told in times of this type; change nothing."""
        if self._stream.time is None or pa.types.is_null(kind):
            return
        for span in SPANS:
            span_in_units(getattr(self._stream, span), kind, str(self._stream.time))

    def set_time_type(self, kind: pa.DataType) -> None:
        """Fix the type of the stream's times, with its first batch."""
        if self.time_type is None and not pa.types.is_null(kind):
            self.time_type = kind
            self._dtype = np.float64 if kind == pa.float64() else np.int64
            self._nobody = None
            self._keys.last_time = self._keys.last_time.astype(self._dtype)

    def admit(self, arrivals: Events, *, with_before: bool = False) -> Accepted:
        """Let in the arrivals, in order of arrival, and let out what is due.

        `with_before` asks for the last events of keys before the batch.
        """
        return self.accept(self._release(arrivals), with_before=with_before)

    def accept_nothing(self) -> Accepted:
        """Return that no event was accepted."""
        return self.accept(self.no_events())

    def no_events(self) -> Events:
        """Return no events, of the stream's types."""
        if self._nobody is None:
            none = np.empty(0, np.int64)
            time = np.empty(0, self.dtype())
            values = np.empty((len(self._stream.attributes), 0))
            self._nobody = Events(np.empty(0, np.int32), time, none, values, none, none)
        return self._nobody

    def arrivals(
        self,
        key: Int32s,
        time: Array | None,
        values: Floats,
        weight: Int64s | None,
        arrived: Int64s,
        oldest: int | float | None = None,
        newest: int | float | None = None,
        latest: int | float | None = None,
    ) -> Events:
        """Return new events, and move the newest time seen; the last three are as in `Arrivals`."""
        n = key.size
        # Arrays from Arrow are read only, which Numba takes for a type of its own.
        if time is None:
            time = np.zeros(n, np.int64)
        elif not time.flags.writeable:
            time = time.copy()
        weight = np.ones(n, np.int64) if weight is None else weight
        events = Events(key, time, np.empty(n, np.int64), values, weight, arrived)
        if self._stream.time is None:
            return events
        if self._stream.max_ahead is not None:
            events = self._let_in(events, latest)
        elif len(self.guard):  # the stream has no such guard any more
            self.guard.give_up()
        self._see(events.time, oldest, newest)
        return events

    def arrivals_by(self, newest: int | float) -> Events:
        """Move the newest time seen; return what the guard against wrong clocks lets in then."""
        self.advance(newest)
        events = self.no_events()
        if len(self.guard):
            events = self._let_in(events)
            self._see(events.time)
        return events

    def _see(
        self, time: Array, oldest: int | float | None = None, newest: int | float | None = None
    ) -> None:
        """Note the times of events that are let in; or what they are in all shards."""
        if time.size:
            # Not compiled, the loop returns NumPy numbers, which JSON has no form for.
            least, largest = (np.asarray(each).item() for each in span_of(time))
            newest = largest if newest is None else newest
            oldest = least if oldest is None else oldest
        if newest is not None:
            self.advance(newest)
        if self.began is None and oldest is not None:
            self.oldest = oldest if self.oldest is None else min(self.oldest, oldest)

    def _let_in(self, events: Events, latest: int | float | None = None) -> Events:
        """Return the events that the guard against wrong clocks lets in, in order of arrival."""
        if latest is not None:
            return self.guard.let_in_by_clock(events, latest)
        span = self._span(self._stream.max_ahead)
        return self.guard.let_in(events, self.newest, span, self.held)

    def advance(self, newest: int | float) -> None:
        """Say that the newest time seen is at least this."""
        self.newest = newest if self.newest is None else max(self.newest, newest)

    def reset(self, newest: int | float) -> None:
        """Set the newest time seen back; what is held back or waits beyond it is given up."""
        self.newest = newest
        self._keys.set_back(newest)
        self.guard.waiting = self.guard.up_to(self.guard.waiting, newest)
        self.held = self.guard.up_to(self.held, newest)
        self.began = None if self.began is None else min(self.began, newest)
        if self.passed is not None and self.now is not None:
            self.passed = min(self.passed, self.now)
        if self.began is None:
            self.oldest = None if self.held is None else self.held.time.min().item()

    @property
    def now(self) -> int | float | None:
        """How far time has come: what is due by then has happened at the end of a step."""
        return self.newest if self.flushing else self.graced

    @property
    def graced(self) -> int | float | None:
        """The newest time less the grace, also while a flush lets out what came later."""
        return None if self.newest is None else self.newest - self._span(self._stream.grace)

    def pass_time(self) -> None:
        """Note, at the end of a step, how far time has come.

        It does not go back after a flush, and is nowhere before the first event is let out.
        """
        if self.now is not None and self.began is not None:
            self.passed = self.now if self.passed is None else max(self.passed, self.now)

    def silent_keys(self) -> tuple[Int32s, Array]:
        """Forget the keys that have been silent for `expire_after`; return them, and when."""
        if self._stream.expire_after is None or self.now is None:
            return _NO_KEYS, self.no_events().time
        known = len(self._keys)
        limit = self._span(self._stream.expire_after)
        last = self._keys.last_time[:known]
        silent = self._keys.seen[:known] != 0
        silent &= last <= self.now - limit
        keys = np.flatnonzero(silent).astype(np.int32)
        return keys, last[keys] + limit

    def last_events(self, keys: Int32s) -> Events:
        """Return the last accepted event of each key."""
        table = self._keys
        none = np.zeros(keys.size, np.int64)
        return Events(
            keys,
            table.last_time[keys],
            table.next_seq[keys] - 1,
            np.ascontiguousarray(table.last[:, keys]),
            none,
            none,
        )

    def save(self, saved: Saved) -> None:
        """Save what is held back, how far time is, and what was counted."""
        for name in FIGURES:
            saved.values[name] = getattr(self, name)
        saved.values["partial"] = self.partial.events
        saved.values["partial_by_column"] = dict(self.partial.by_column)
        kind = self.time_type or pa.null()
        saved.strings["time_type"] = pa.schema([("time", kind)]).serialize().to_pybytes()
        for name in COLUMNS:
            saved.arrays[f"held.{name}"] = getattr(self.held or self.no_events(), name)
        # They get it when they are let out.
        saved.arrays["held.seq"] = np.zeros_like(saved.arrays["held.seq"])
        self.guard.save(saved.arrays)

    def load(self, saved: Saved) -> None:
        """Take over what was held back, and how far time was; its type is known already."""
        for name in FIGURES:
            setattr(self, name, saved.values[name])
        self.partial = Partial(saved.values["partial"], saved.values["partial_by_column"])
        held = Events(*(saved.arrays[f"held.{name}"] for name in COLUMNS))
        self.held = held if len(held) else None
        self.guard.load(saved.arrays)

    def _release(self, arrivals: Events) -> Events:
        """Return what is due in time order; hold the rest back."""
        if self._stream.time is None:
            return arrivals
        waiting = arrivals if self.held is None else join_events((self.held, arrivals))
        time = waiting.time
        if not in_order(time):
            waiting = waiting.take(np.argsort(time, kind="stable"))
        self.begin()
        if self._stream.grace is None or self.now is None:
            self.held = None
            return waiting
        due = np.searchsorted(waiting.time, self.now, "right")
        self.held = waiting.take(np.arange(due, len(waiting)))
        return waiting.take(np.arange(due))

    def begin(self) -> None:
        """Note the first event that is let out, of all shards; or time that came without any."""
        if self.began is None and self.now is not None:
            if self.oldest is None:
                self.began = self.newest
            elif self.oldest <= self.now:
                self.began = self.oldest

    def accept(self, events: Events, *, with_before: bool = False) -> Accepted:
        """Return events that are let out, in this order, without those that are late."""
        n = len(events)
        group_key, start, member, partial = self._group(events)
        late = np.zeros(n, np.bool_)
        fresh = np.empty(n, np.uint8)
        position = np.empty(n, np.int64)
        values = np.empty((len(events.values) + 1, n))
        previous, expire_after = _NO_ROWS, self.no_events().time
        if self._stream.expire_after is not None:
            previous = np.full(n, -1, np.int64)
            expire_after = np.full(1, self._span(self._stream.expire_after), self.dtype())
        before = None
        if expire_after.size or with_before or partial:
            before = self.last_events(group_key)
        table = self._keys
        kept = admit_groups(
            group_key,
            start,
            member,
            events.time,
            self._stream.time is not None,
            expire_after,
            table.seen,
            table.last_time,
            table.next_seq,
            events.seq,
            late,
            fresh,
            previous,
            events.values,
            position,
            values,
        )
        rejected = self.no_events()
        if kept < n:
            rejected = events.take(np.flatnonzero(late))
            member, fresh, position = member[:kept], fresh[:kept], position[:kept]
            values = np.ascontiguousarray(values[:, :kept])
        grouped = Grouped(group_key, start, position, values)
        self._count_partial(grouped, events.weight, partial)
        expired_row = np.sort(member[fresh != 0]) if expire_after.size else _NO_ROWS
        if expired_row.size and before is not None:
            at = np.searchsorted(group_key, events.key[expired_row])
            here = previous[expired_row]
            ended = before.take(at)
            inside = np.flatnonzero(here >= 0)
            ended.time[inside] = events.time[here[inside]]
            ended.seq[inside] = events.seq[here[inside]]
            ended.values[:, inside] = events.values[:, here[inside]]
            ended = replace(ended, time=ended.time + expire_after[0])
            events = join_events((events, ended))
        return Accepted(events, grouped, fresh, expired_row, rejected, partial, before)

    def _count_partial(self, grouped: Grouped, weight: Int64s, partial: bool) -> None:
        """Count the accepted events that lack something, by column too."""
        stream = self._stream
        unknown: dict[str, Bools] = {}
        if stream.weight is not None and weight.min(initial=1) <= 0:
            unknown[stream.weight] = weight[grouped.position >> 1] <= 0
        if partial:
            for name, values in zip(stream.attributes, grouped.values, strict=False):
                missing = np.isnan(values)
                unknown[name] = missing | unknown[name] if name in unknown else missing
        if unknown:
            events = np.count_nonzero(np.any(list(unknown.values()), axis=0))
            counts = {name: int(np.count_nonzero(rows)) for name, rows in unknown.items()}
            self.partial += Partial(int(events), counts)

    def remember(self, accepted: Accepted) -> None:
        """Note each key's last values, and that it is in sight, once the indexes saw the batch."""
        grouped, table = accepted.grouped, self._keys
        table.sights.remember(accepted, table.seen)
        remember_groups(grouped.key, grouped.start, grouped.values, table.seen, table.last)

    def _group(self, events: Events) -> tuple[Int32s, Int64s, Int64s, bool]:
        """Return the rows of each key, and whether a value is unknown; of late rows too."""
        key = events.key
        if self._counts.size < len(self._keys):
            self._counts = np.zeros(2 * len(self._keys), np.int32)
        n, known = key.size, len(self._keys)
        group_key = np.empty(n + 1, np.int32)
        start = np.empty(n + 1, np.int64)
        member = np.empty(n, np.int64)
        groups, partial = group_rows(
            key, known, events.values, self._counts, group_key, start, member
        )
        return group_key[:groups], start[: groups + 1], member, partial

    def dtype(self) -> type[np.int64] | type[np.float64]:
        """Return the NumPy type of times."""
        return self._dtype

    def _span(self, span: SpanLike | None) -> int | float:
        if self.time_type is None:
            return 0  # no event has come, so there is nothing to measure
        return span_in_units(span, self.time_type, str(self._stream.time))
