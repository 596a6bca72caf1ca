"""Packed sort keys: where, who and what in one 64-bit number; and the limits that this sets.

A *position* is twice the row of an event in its step, plus one; twice the row alone is the expiry
that the event makes known. A *finding* of an index is ``position << 34 | slot << 3 | outcome``,
with the outcome's place in its kind's list. A *notice* is ``position << 32 | slot``. A *rank*,
which orders the notices of a step after the rules of alerts, is packed with the slot too.
"""

from __future__ import annotations

from everquery.core.arrays import Array, Int64s
from everquery.core.jit import kernel
from everquery.errors import InvalidBatchError, InvalidQueryError

SLOT_SHIFT = 3
PLACE_SHIFT = 34
CODE_MASK = (1 << SLOT_SHIFT) - 1
SLOT_MASK = (1 << (PLACE_SHIFT - SLOT_SHIFT)) - 1

NOTICE_SHIFT = 32
NOTICE_SLOT_MASK = (1 << NOTICE_SHIFT) - 1

RANK_SHIFT = 31

MOST_ROWS = 1 << 28  # of a step: events, or keys that are reported
MOST_SLOTS = 1 << 31
MOST_OUTCOMES = 1 << SLOT_SHIFT  # of a kind
MOST_CODES = 1 << 8  # outcomes of all kinds, one byte each


@kernel
def unpack_notices(packed: Int64s, slot: Int64s, position: Int64s) -> None:
    """Write slot and position of each packed notice."""
    for i in range(packed.size):
        slot[i] = packed[i] & NOTICE_SLOT_MASK
        position[i] = packed[i] >> NOTICE_SHIFT


def slots_of(findings: Int64s) -> Int64s:
    """Return the slots of findings."""
    slots: Int64s = findings >> SLOT_SHIFT & SLOT_MASK
    return slots


def positions_of(findings: Int64s) -> Int64s:
    """Return the positions of findings."""
    positions: Int64s = findings >> PLACE_SHIFT
    return positions


def codes_of(findings: Int64s) -> Int64s:
    """Return the outcomes of findings, by their place in the kind's list."""
    codes: Int64s = findings & CODE_MASK
    return codes


def pack_findings(position: Int64s, slot: Array) -> Int64s:
    """Return findings of a kind's first outcome."""
    findings: Int64s = position << PLACE_SHIFT | slot.astype("int64") << SLOT_SHIFT
    return findings


def at_events(findings: Int64s) -> Int64s:
    """Return findings that an index gave by rows, by the positions of those rows' events."""
    position = (findings >> PLACE_SHIFT) * 2 + 1
    moved: Int64s = position << PLACE_SHIFT | (findings & ((1 << PLACE_SHIFT) - 1))
    return moved


def as_notices(findings: Int64s) -> Int64s:
    """Return the packed notices of findings."""
    notices: Int64s = findings >> PLACE_SHIFT << NOTICE_SHIFT | slots_of(findings)
    return notices


def pack_notices(position: Int64s, slot: Int64s) -> Int64s:
    """Return the packed notices of slots at positions."""
    notices: Int64s = position << NOTICE_SHIFT | slot
    return notices


def pack_ranks(rank: Array, slot: Array) -> Int64s:
    """Return what orders notices by rank, then by slot."""
    packed: Int64s = rank << RANK_SHIFT | slot
    return packed


def check_rows(rows: int) -> None:
    """Raise if a step has more events than positions can tell apart."""
    if rows >= MOST_ROWS:
        raise InvalidBatchError(
            f"a batch, with the events that were held back, has {rows:,} events; the limit is"
            f" {MOST_ROWS - 1:,}: give smaller batches. Nothing has changed"
        )


def check_keys(keys: int) -> None:
    """Raise if there may be more keys, after a batch, than positions can tell apart."""
    if keys >= MOST_ROWS:
        raise InvalidBatchError(
            f"there may be {keys:,} keys after this batch, and an engine or shard can hold"
            f" {MOST_ROWS - 1:,}; divide the stream into more shards. Nothing has changed"
        )


def check_slots(slots: int) -> None:
    """Raise if there are more queries than slots can tell apart."""
    if slots >= MOST_SLOTS:
        raise InvalidQueryError(
            f"there would be {slots:,} queries, and an engine or shard can hold"
            f" {MOST_SLOTS - 1:,}; divide them. Nothing is registered"
        )
