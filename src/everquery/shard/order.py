"""What the indexes found, put into one order: by event, then by registration of the queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from everquery.core.arrays import Array, Bytes, Int64s
from everquery.core.jit import kernel
from everquery.index.rows import Findings, Matches
from everquery.index.sort_keys import (
    CODE_MASK,
    NOTICE_SHIFT,
    PLACE_SHIFT,
    SLOT_MASK,
    SLOT_SHIFT,
    as_notices,
    pack_notices,
    unpack_notices,
)
from everquery.shard.record import Notices
from everquery.state.accepted import Events, join_events

Found = Sequence[tuple[int, Matches | Findings]]
"""What indexes found, each with the code of its kind's first outcome."""


@kernel
def count_matches(position: Int64s, begin: int, ends: Int64s, counts: Int64s) -> None:
    """Add each grouped event's matches to the count of its event."""
    for i in range(ends.size):
        counts[(position[i] >> 1) + 1] += ends[i] - begin
        begin = ends[i]


@kernel
def count_findings(found: Int64s, counts: Int64s) -> None:
    """Add each finding to the count of its event."""
    for i in range(found.size):
        counts[(found[i] >> PLACE_SHIFT + 1) + 1] += 1


@kernel
def place_matches(
    position: Int64s, slots: Array, begin: int, ends: Int64s, code: int, at: Int64s,
    packed: Int64s, codes: Bytes,
) -> None:  # fmt: skip
    """Write each match, packed, to the next place of its event."""
    for i in range(ends.size):
        event = position[i] >> 1
        place = at[event]
        for match in range(begin, ends[i]):
            packed[place] = position[i] << NOTICE_SHIFT | slots[match]
            codes[place] = code
            place += 1
        at[event] = place
        begin = ends[i]


@kernel
def place_findings(
    found: Int64s, first_code: int, at: Int64s, packed: Int64s, codes: Bytes
) -> None:
    """Write each finding, packed as a notice, to the next place of its event."""
    for i in range(found.size):
        position = found[i] >> PLACE_SHIFT
        event = position >> 1
        packed[at[event]] = position << NOTICE_SHIFT | (found[i] >> SLOT_SHIFT & SLOT_MASK)
        codes[at[event]] = first_code + (found[i] & CODE_MASK)
        at[event] += 1


@kernel
def sort_events(ends: Int64s, packed: Int64s, codes: Bytes) -> None:
    """Sort each event's notices by position and slot.

    By insertion, because most events have few; with wide gaps first (Shell) where there are many.
    """
    begin = 0
    for event in range(ends.size):
        gap = 1
        while 9 * gap < ends[event] - begin:
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(begin + gap, ends[event]):
                key = packed[i]
                code = codes[i]
                j = i
                while j >= begin + gap and packed[j - gap] > key:
                    packed[j] = packed[j - gap]
                    codes[j] = codes[j - gap]
                    j -= gap
                packed[j] = key
                codes[j] = code
            gap //= 3
        begin = ends[event]


def in_order(events: Events, rows: int, position: Int64s, found: Found) -> Notices:
    """Return what the indexes found as notices, by event and then by slot.

    Parameters
    ----------
    events : Events
        The first `rows` of them are those that positions name; behind them come the previous events
        of keys that expired, in the order of the rows that made it known.
    position : int64
        The positions of the grouped events.
    """
    counts = np.zeros(rows + 1, np.int64)
    for _, part in found:
        if isinstance(part, Matches):
            count_matches(position, part.begin, part.ends, counts)
        else:
            count_findings(part.packed, counts)
    at = np.cumsum(counts)
    packed = np.empty(at[-1], np.int64)
    codes = np.empty(at[-1], np.uint8)
    for first_code, part in found:
        if isinstance(part, Matches):
            matches = part.slots, part.begin, part.ends, first_code
            place_matches(position, *matches, at, packed, codes)
        else:
            place_findings(part.packed, first_code, at, packed, codes)
    sort_events(at[:-1], packed, codes)
    slot, where = np.empty(packed.size, np.int64), np.empty(packed.size, np.int64)
    unpack_notices(packed, slot, where)
    return Notices(slot, codes, where >> 1, events, where, _figures_in_order(packed, found))


def about(told: Notices, others: Sequence[tuple[Int64s, Events]]) -> Notices:
    """Return notices, some of which are about other events than their own.

    Parameters
    ----------
    others : pairs of findings, which are among the notices, and the event that each is about
    """
    if not others:
        return told
    packed = pack_notices(told.position, told.slot)
    row = told.row.copy()
    events = [told.events]
    first = len(told.events)
    for findings, seen in others:
        row[np.searchsorted(packed, as_notices(findings))] = first + np.arange(len(seen))
        events.append(seen)
        first += len(seen)
    return replace(told, row=row, events=join_events(events))


def _figures_in_order(packed: Int64s, found: Found) -> dict[str, Array]:
    """Return the figures of all notices, 0 for those without."""
    figures: dict[str, Array] = {}
    for _, part in found:
        if isinstance(part, Matches) or not part.figures or not part.packed.size:
            continue
        wanted = as_notices(part.packed)
        if wanted.size == packed.size and np.array_equal(wanted, packed):
            return dict(part.figures)  # nothing else is told, and all is in order already
        # One query tells one thing of an event, so that position and slot name the notice.
        places = np.searchsorted(packed, wanted)
        for name, column in part.figures.items():
            if name not in figures:
                figures[name] = np.zeros(packed.size, column.dtype)
            figures[name][places] = column
    return figures
