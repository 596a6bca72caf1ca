"""From decoded batches to arrivals: keys become numbers, bad rows become dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Int64s
from everquery.core.times import as_time
from everquery.errors import InvalidBatchError
from everquery.index.sort_keys import check_keys, check_rows
from everquery.shard.contents import Contents
from everquery.state.accepted import Events, join_events
from everquery.state.clock_guard import judged
from everquery.state.dead_letters import Letters
from everquery.state.event_times import in_time_type
from everquery.state.events import AHEAD, FINE, LATE, Arrivals
from everquery.state.said_times import span_in_units
from everquery.state.small_batches import Decoder


class Intake:
    """Takes in batches; what is wrong with a row goes to the dead letters."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._decoder = Decoder(contents.stream, contents.crew)

    def decoded(
        self,
        batch: pa.RecordBatch | pa.Table,
        now: Callable[[pa.DataType], int | float] | None,
    ) -> Arrivals:
        """Return a batch as arrays; rows that are too far ahead of a clock are refused."""
        stream, known = self._contents.stream, self._contents.admission.time_type
        arrivals = self._decoder.decode(batch)
        if now is None or pa.types.is_null(arrivals.time_type):
            return arrivals
        arrivals = in_time_type(arrivals, known, str(stream.time))
        kind = arrivals.time_type
        return judged(arrivals, now(kind) + span_in_units(stream.max_ahead, kind, str(stream.time)))

    def check(self, parts: Sequence[Arrivals]) -> list[Arrivals]:
        """Return the batch with times of the stream's type; raise if it can't be of this stream.

        Nothing changes but the type of times, with the first batch.
        """
        contents = self._contents
        admission, keys, column = contents.admission, contents.keys, contents.stream.time
        rows = sum(map(len, parts))
        held = 0 if admission.held is None else len(admission.held)
        check_rows(rows + held + len(admission.guard))
        check_keys(len(keys) + rows)
        checked = []
        for part in parts:
            keys.check(part.key)
            arrivals = part
            if column is not None:
                arrivals = in_time_type(part, admission.time_type, column)
                self._check_spans(arrivals.time_type)
                if admission.time_type is None:
                    admission.check_time(arrivals.time_type)
                    self.set_time_type(arrivals.time_type)
            checked.append(arrivals)
        return checked

    def _check_spans(self, kind: pa.DataType) -> None:
        """Raise if a query's spans can't be told in times of this type."""
        contents = self._contents
        if not contents.hygiene.rules.spanned or pa.types.is_null(kind):
            return
        found = contents.hygiene.rules.misfit(kind)
        if found is not None:
            slot, reason = found
            raise InvalidBatchError(
                f"query {contents.catalog.names.strings()[slot].as_py()!r}: {reason}. Deregister"
                " it; until then batches are refused whole"
            )

    def set_time_type(self, kind: pa.DataType) -> None:
        """Fix the type of the stream's times, once it is known."""
        admission = self._contents.admission
        known = admission.time_type
        admission.set_time_type(kind)
        found = admission.time_type
        if known is None and found is not None:
            self._contents.hygiene.set_time_type(found, admission.dtype())

    def take(self, parts: Sequence[Arrivals], order: Int64s | None) -> Events:
        """Return the good rows of all parts as one, in order."""
        admission = self._contents.admission
        first = admission.arrived
        arrived = [self._arrive(arrivals) for arrivals in parts]
        self.refuse_ahead()
        if len(arrived) != 1:
            arrived = [join_events([admission.no_events(), *arrived])]
        events = arrived[0]
        if order is not None:
            rank = np.empty(order.size, np.int64)
            rank[order] = np.arange(order.size)
            events = events.take(np.argsort(rank[events.arrived - first]))
        return events

    def _arrive(self, arrivals: Arrivals) -> Events:
        n = len(arrivals)
        admission = self._contents.admission
        first = admission.arrived
        admission.arrived += n
        key, time, values, weight = arrivals.key, arrivals.time, arrivals.values, arrivals.weight
        arrived = np.arange(first, first + n)
        if not arrivals.fine and arrivals.refused.any():
            if isinstance(key, pa.ChunkedArray):
                key = key.unify_dictionaries().combine_chunks()
                arrivals = replace(arrivals, key=key)
            self._refuse(arrivals, arrived)
            good = np.flatnonzero(arrivals.refused == FINE)
            key = None if key is None else key.take(pa.array(good))
            time = None if time is None else time[good]
            values = np.ascontiguousarray(values[:, good])
            weight = None if weight is None else weight[good]
            arrived = arrived[good]
        numbers = self._contents.keys.numbers(key, arrived.size)
        known = arrivals.oldest, arrivals.newest, arrivals.latest
        return admission.arrivals(numbers, time, values, weight, arrived, *known)

    def _refuse(self, arrivals: Arrivals, arrived: Int64s) -> None:
        bad = np.flatnonzero(arrivals.refused != FINE)
        where = pa.array(bad)
        key = pa.nulls(bad.size, pa.string()) if arrivals.key is None else arrivals.key.take(where)
        if pa.types.is_dictionary(key.type):
            key = key.dictionary_decode()
        time = np.zeros(bad.size, np.int64) if arrivals.time is None else arrivals.time[bad]
        self._contents.dead_letters.add(
            Letters(
                arrived[bad],
                arrivals.refused[bad],
                arrivals.culprit[bad],
                key,
                self._as_time(time),
                arrivals.values[:, bad],
                None if arrivals.text is None else arrivals.text.take(where),
            )
        )

    def refuse_late(self, late: Events) -> None:
        """Put late events among the dead letters."""
        if len(late):
            self._refuse_events(late, LATE)

    def may_reset_time(self, newest: int | float) -> bool:
        """Tell whether there is a time to set back; raise if it would be set on."""
        known = self._contents.admission.newest
        if known is not None and newest > known:
            raise InvalidBatchError(
                f"time can only be set back: {newest} is after {known}, the newest time seen"
                " (in the unit of the time column). To let time pass, call advance"
            )
        return known is not None

    def reset_time(self, newest: int | float) -> None:
        """Set the newest time seen back."""
        admission = self._contents.admission
        assert admission.time_type is not None
        admission.reset(newest)
        self._contents.hygiene.reset_time(admission.time_type, newest)
        for index in self._contents.indexes.values():
            if index.watches_time:
                index.forget_positions()  # keys were heard from at other times than it knows
            index.set_back(newest, admission.time_type, self._contents)
        self.refuse_ahead()

    def refuse_ahead(self) -> None:
        """Put among the dead letters what the guard against wrong clocks has given up."""
        for events in self._contents.admission.guard.take_given_up():
            self._refuse_events(events, AHEAD)

    def _refuse_events(self, events: Events, reason: int) -> None:
        self._contents.dead_letters.add(
            Letters(
                events.arrived,
                np.full(len(events), reason, np.uint8),
                np.full(len(events), -1, np.int8),
                self._contents.keys.arrow().take(pa.array(events.key)),
                self._as_time(events.time),
                events.values,
            )
        )

    def _as_time(self, times: Array) -> pa.Array:
        return as_time(times, self._contents.admission.time_type or pa.null())
