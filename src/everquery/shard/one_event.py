"""One event at a time, where nothing about it is unusual: a step without the cost of a batch.

What grouping, time order, grace, expiry and rules do to a batch, they can't do to one event that is
neither late nor lacks a value, in a shard that has none of these. So its step is what is left: the
event gets its number, every index is asked, and the key's last values are noted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from everquery.core.arrays import Array
from everquery.index.rows import Findings, Grouped, Matches, Step
from everquery.index.sort_keys import CODE_MASK, SLOT_MASK, SLOT_SHIFT
from everquery.shard.contents import Contents
from everquery.shard.order import Found
from everquery.shard.step import Stepper
from everquery.state.accepted import Events

Told = tuple[int, int, Mapping[str, Array] | None, int]
"""A notice of one event: slot, code, and the figures, if there are some, with its place in them."""

# What all single events have in common; nobody writes into these.
POSITION = np.ones(1, np.int64)
_START = np.array([0, 1], np.int64)
_NOT_FRESH = np.zeros(1, np.uint8)


class OneEvent:
    """Takes events in one by one.

    Parameters
    ----------
    contents : Contents
    stepper : Stepper
    """

    def __init__(self, contents: Contents, stepper: Stepper) -> None:
        self._contents = contents
        self._stepper = stepper
        attributes = np.zeros((len(contents.stream.attributes), 1))
        numbers = (np.zeros(1, np.int64) for _ in range(4))
        time, seq, weight, arrived = numbers
        self._event = Events(np.zeros(1, np.int32), time, seq, attributes, weight, arrived)

    def possible(self) -> bool:
        """Tell whether the event of a step that has begun can be taken alone."""
        contents = self._contents
        if not contents.admission.takes_as_they_come or contents.hygiene.active:
            return False
        if self._stepper.tells_changes():
            return False
        return not (len(contents.keys.sights) or self._stepper.watches_time())

    def is_plain(self, events: Events) -> bool:
        """Tell whether one event is not late, and lacks no value."""
        if self._contents.stream.weight is not None and events.weight[0] <= 0:
            return False
        if self.is_late(events.key[0], events.time[0]):
            return False
        return all(value == value for value in events.values[:, 0].tolist())

    def is_late(self, key: int, time: int | float) -> bool:
        """Tell whether an event would be older than the last one of its key."""
        keys = self._contents.keys
        timed = self._contents.stream.time is not None
        return timed and bool(keys.next_seq[key] > 0 and time < keys.last_time[key])

    def arrive(self, key: int, time: int | float, values: Sequence[float], weight: int) -> Events:
        """Return an event that is plain, until the next one."""
        admission, event = self._contents.admission, self._event
        event.key[0] = key
        if event.time.dtype != admission.dtype():
            event.time = np.zeros(1, admission.dtype())
        event.time[0] = time
        event.values = np.array(values).reshape(-1, 1)  # indexes may keep them
        event.weight[0] = weight
        event.arrived[0] = admission.arrived
        admission.arrived += 1
        if self._contents.stream.time is not None:
            admission.see_one(time)
        return event

    def take(self, events: Events, key: int) -> list[tuple[int, Matches | Findings]]:
        """Take in an event that is plain, and has been seen to arrive; return what indexes found.

        It gets its number in `events`.
        """
        contents = self._contents
        admission, keys = contents.admission, contents.keys
        seq = keys.next_seq[key]
        events.seq[0] = seq
        keys.next_seq[key] = seq + 1
        if contents.stream.time is not None:
            admission.begin()
            keys.last_time[key] = events.time[0]
            contents.begin_lives()
        attributes = len(events.values)
        values = np.zeros((attributes + 1, 1))  # the last row stays 0: see `Grouped`
        values[:attributes] = events.values
        catalog = contents.catalog
        step = Step(
            Grouped(events.key, _START, POSITION, values),
            _NOT_FRESH,
            keys.seen,
            keys.last,
            catalog.flags,
            catalog.all_live,
            events.weight,
            events.time,
            admission.time_type,
            contents,
            None,
            keys.sights.earlier,
            seq=events.seq,
        )
        found: list[Any] = []
        for kind, index in self._stepper.at_work:
            for part in index.process(step):
                found.append((contents.outcomes.first[kind], part))  # noqa: PERF401 - mostly none
        keys.seen[key] = 1
        keys.last[:, key] = events.values[:, 0]
        admission.pass_time()
        return found


def told_in_order(found: Found) -> list[Told]:
    """Return what is told of one event, by the slots of the queries."""
    told: list[Told] = []
    for first, part in found:
        if isinstance(part, Matches):
            slots = part.slots[part.begin : part.ends[0]].tolist()
            told.extend((slot, first, None, 0) for slot in slots)
        else:
            figures = part.figures or None
            for place, packed in enumerate(part.packed.tolist()):
                slot = packed >> SLOT_SHIFT & SLOT_MASK
                told.append((slot, first + (packed & CODE_MASK), figures, place))
    told.sort(key=itemgetter(0))
    return told
