"""What the indexes found, put into one order: by event, then by registration of the queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from everquery.core.arrays import Array, Bytes, Int32s, Int64s
from everquery.core.crew import ALONE, Crew
from everquery.core.jit import kernel
from everquery.core.prefetch import prefetch_row
from everquery.index.rows import WORTH, Findings, Matches
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

FEW = 32  # notices of an event that are counted, and not moved, into their order

SOME = 2_048  # findings that are sorted; more are counted into their order
MATCHES_AHEAD = 8  # events whose matches are fetched in time

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
def unpack_findings(
    found: Int64s, first_code: int, slot: Int64s, codes: Bytes, row: Int64s, where: Int64s
) -> None:
    """Write what findings are packed of."""
    for i in range(found.size):
        slot[i] = found[i] >> SLOT_SHIFT & SLOT_MASK
        codes[i] = first_code + (found[i] & CODE_MASK)
        where[i] = found[i] >> PLACE_SHIFT
        row[i] = where[i] >> 1


@kernel
def invert(position: Int64s, begin: int, ends: Int64s, marks: Int64s, grouped: Int64s) -> None:
    """Write the place of each row's event among the grouped ones.

    Parameters
    ----------
    marks : rows, ascending; each is replaced by how many matches there are before it
    grouped : as many as there are rows of events, all -1
    """
    for i in range(position.size):
        grouped[position[i] >> 1] = i
    if marks.size > 1:
        mark, before = 0, 0
        for row in range(grouped.size):
            while mark < marks.size and marks[mark] == row:
                marks[mark] = before
                mark += 1
            if grouped[row] >= 0:
                place = grouped[row]
                before += ends[place] - (ends[place - 1] if place > 0 else begin)
    else:
        marks[0] = 0


@kernel
def sort_matches(
    first_event: int, last_event: int, first: int,
    slots: Int32s, begin: int, ends: Int64s, grouped: Int64s,
    slot: Int64s, row: Int64s, where: Int64s,
) -> None:  # fmt: skip
    """Write the matches of some events, of which nothing else is told, event by event and by slot.

    It writes from the first place to the last and reads at random, with notice: the other way
    round takes twice as long. An event matches a query once, so that no two slots are equal.

    Parameters
    ----------
    first_event, last_event, first : which events, and where the first one's matches go
    grouped : for each row of events, its place among the grouped ones, or -1
    """
    keys = np.empty(FEW, np.int32)
    for event in range(first_event, last_event):
        if event + MATCHES_AHEAD < last_event:
            soon = grouped[event + MATCHES_AHEAD]
            prefetch_row(slots, ends[soon - 1] if soon > 0 else begin)
        i = grouped[event]
        if i < 0:
            continue
        start = ends[i - 1] if i > 0 else begin
        n = ends[i] - start
        if n > FEW:
            some = np.sort(slots[start : ends[i]])
            for j in range(n):
                slot[first + j] = some[j]
        else:
            for j in range(n):
                keys[j] = slots[start + j]
            for j in range(n):
                place = first
                for k in range(n):
                    place += keys[k] < keys[j]
                slot[place] = keys[j]
        for j in range(first, first + n):
            row[j] = event
            where[j] = 2 * event + 1
        first += n


@kernel
def sort_events(ends: Int64s, packed: Int64s, codes: Bytes) -> None:
    """Sort each event's notices by position and slot.

    Where they are few, each goes to the place that the number of smaller ones says: no branch to
    mispredict, a third of the time that insertion takes. By insertion with wide gaps first (Shell)
    where there are many.
    """
    keys = np.empty(FEW, np.int64)
    moved = np.empty(FEW, np.uint8)
    begin = 0
    for event in range(ends.size):
        end = ends[event]
        n = end - begin
        if n > FEW:
            _sort_many(begin, end, packed, codes)
        elif n > 1:
            for i in range(n):
                keys[i] = packed[begin + i]
                moved[i] = codes[begin + i]
            for i in range(n):
                key = keys[i]
                place = begin
                for j in range(i):
                    place += keys[j] <= key
                for j in range(i + 1, n):
                    place += keys[j] < key
                packed[place] = key
                codes[place] = moved[i]
        begin = end


@kernel
def find_notices(wanted: Int64s, ends: Int64s, packed: Int64s, places: Int64s) -> None:
    """Write the places of some notices among all; these stand by event, each event's sorted."""
    for i in range(wanted.size):
        event = wanted[i] >> (NOTICE_SHIFT + 1)
        begin, end = ends[event - 1] if event > 0 else 0, ends[event]
        while begin < end:
            middle = (begin + end) >> 1
            if packed[middle] < wanted[i]:
                begin = middle + 1
            else:
                end = middle
        places[i] = begin


@kernel
def _sort_many(begin: int, end: int, packed: Int64s, codes: Bytes) -> None:
    gap = 1
    while 9 * gap < end - begin:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(begin + gap, end):
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


def in_order(
    events: Events, rows: int, position: Int64s, found: Found, crew: Crew = ALONE
) -> Notices:
    """Return what the indexes found as notices, by event and then by slot.

    Parameters
    ----------
    events : Events
        The first `rows` of them are those that positions name; behind them come the previous events
        of keys that expired, in the order of the rows that made it known.
    position : int64
        The positions of the grouped events.
    """
    if len(found) == 1:
        first_code, only = found[0]
        if isinstance(only, Matches):
            return _matches_in_order(events, rows, position, first_code, only, crew)
        if only.packed.size <= SOME:
            return _findings_in_order(events, first_code, only)
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
    figures = _figures_in_order(at[:-1], packed, found)
    return Notices(slot, codes, where >> 1, events, where, figures)


def _matches_in_order(
    events: Events, rows: int, position: Int64s, code: int, matches: Matches, crew: Crew
) -> Notices:
    """Return what `in_order` does where one index found matches, and nothing else is told."""
    n = int(matches.ends[-1]) - matches.begin
    slot, row, where = (np.empty(n, np.int64) for _ in range(3))
    grouped = np.full(rows, -1, np.int64)
    pieces = crew.pieces(rows, WORTH)
    marks = np.array([begin for begin, _ in pieces], np.int64)
    invert(position, matches.begin, matches.ends, marks, grouped)

    def sort(number: int) -> None:
        sort_matches(
            *pieces[number],
            int(marks[number]),
            matches.slots,
            matches.begin,
            matches.ends,
            grouped,
            slot,
            row,
            where,
        )

    crew.map(sort, range(len(pieces)))
    return Notices(slot, np.full(slot.size, code, np.uint8), row, events, where)


def _findings_in_order(events: Events, first_code: int, findings: Findings) -> Notices:
    """Return what `in_order` does where one index found a few things, and nothing else is told."""
    packed, figures = findings.packed, findings.figures
    if figures:
        order = np.argsort(packed, kind="stable")
        packed = packed[order]
        figures = {name: column[order] for name, column in figures.items()}
    else:
        packed = np.sort(packed)
    n = packed.size
    slot, row, where = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    codes = np.empty(n, np.uint8)
    unpack_findings(packed, first_code, slot, codes, row, where)
    return Notices(slot, codes, row, events, where, figures)


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


def _figures_in_order(ends: Int64s, packed: Int64s, found: Found) -> dict[str, Array]:
    """Return the figures of all notices, 0 for those without.

    Parameters
    ----------
    ends : int64
        Where the notices of each event end.
    """
    figures: dict[str, Array] = {}
    for _, part in found:
        if isinstance(part, Matches) or not part.figures or not part.packed.size:
            continue
        wanted = as_notices(part.packed)
        if wanted.size == packed.size and np.array_equal(wanted, packed):
            return dict(part.figures)  # nothing else is told, and all is in order already
        # One query tells one thing of an event, so that position and slot name the notice.
        places = np.empty(wanted.size, np.int64)
        find_notices(wanted, ends, packed, places)
        for name, column in part.figures.items():
            if name not in figures:
                figures[name] = np.zeros(packed.size, column.dtype)
            figures[name][places] = column
    return figures
