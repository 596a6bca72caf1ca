"""What the structures of the kind `threshold` share: weighed events, what rows lack, fires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from everquery.core.arrays import Bytes, Floats, Int32s, Int64s, grow
from everquery.core.jit import kernel, part
from everquery.index.rows import NO_KEY
from everquery.index.sort_keys import PLACE_SHIFT, SLOT_SHIFT

NEVER = 0
"""What a row is said to lack that can't fire: one that has fired, is paused or was dropped."""
ENDLESS = int(np.iinfo(np.int64).max)
"""More weight than any row lacks, or as much."""
HEAVIEST = 1 << 62
"""The most that one event may weigh, and that events which are counted together may."""
SMALL_LANE = 256  # events that are cheaper to scan than to put into a structure
FIRE_WORDS = 3
_NO_KEYS = np.full(1, NO_KEY, np.int32)


class Lefts(NamedTuple):
    """How far rows are.

    Attributes
    ----------
    left : int64, a row
        The weight until it fires, or `NEVER`.
    total : int64, a row
        Where it starts, and with `repeats` starts again.
    repeats : uint8, a row
    """

    left: Int64s
    total: Int64s
    repeats: Bytes

    @classmethod
    def none(cls, rows: int) -> Lefts:
        """Return rows that can't fire."""
        return cls(
            np.full(rows, NEVER, np.int64),
            np.full(rows, ENDLESS),
            np.zeros(rows, np.uint8),
        )


@part
def saturated(total: int, rest: int) -> int:
    """Return the weight that a row has seen with so much left, which is 0 or less."""
    return total - rest if total <= ENDLESS + rest else ENDLESS


@part
def note_fire(event: int, row: int, seen: int, out: Int64s, n: int) -> Int64s:
    """Write a fire behind `n` others; return `out` or a larger copy."""
    if FIRE_WORDS * (n + 1) > out.size:
        out = grow(out)
    out[FIRE_WORDS * n] = event
    out[FIRE_WORDS * n + 1] = row
    out[FIRE_WORDS * n + 2] = seen
    return out


@dataclass(frozen=True, slots=True)
class WeighedEvents:
    """Events by key, or all of them together, each key's in order.

    Attributes
    ----------
    key : int32, shape (groups,)
    start : int64, shape (groups + 1,)
    position : int64, shape (n,)
    values : float64, shape (attributes, n)
    weight : int64, shape (n,)
    """

    key: Int32s
    start: Int64s
    position: Int64s
    values: Floats
    weight: Int64s


class Fires(NamedTuple):
    """Which rows fired at which events, in no order.

    Attributes
    ----------
    event : int64
        The place among the events.
    row : int64
    seen : int64
        The weight that the row had seen then, since it began.
    """

    event: Int64s
    row: Int64s
    seen: Int64s

    @classmethod
    def of_words(cls, words: Int64s, n: int) -> Fires:
        """Return the first fires of a kernel's output."""
        return cls(*np.ascontiguousarray(words[: FIRE_WORDS * n].reshape(-1, FIRE_WORDS).T))


@kernel
def tell_fires(
    fires: tuple[Int64s, Int64s, Int64s], position: Int64s, row_slot: Int32s,
    by_slot: tuple[Int64s, Bytes, Bytes], packed: Int64s, rounds: Int64s, once: Int32s,
) -> int:  # fmt: skip
    """Write fires as findings, and how many totals each has seen; end queries that do not repeat.

    Parameters
    ----------
    fires : the fields of `Fires`
    position : of the events
    row_slot : by row
    by_slot : what queries ask for, whether they repeat, and whether they count
    once : written, the queries that have ended; how many is returned
    """
    event, row, seen = fires
    total, repeats, running = by_slot
    n = 0
    for i in range(packed.size):
        slot = row_slot[row[i]]
        packed[i] = position[event[i]] << PLACE_SHIFT | np.int64(slot) << SLOT_SHIFT
        rounds[i] = seen[i] // total[slot]
        if not repeats[slot]:
            running[slot] = 0
            once[n] = slot
            n += 1
    return n


@kernel
def order_by_position(position: Int64s, rows: int, order: Int64s) -> int:
    """List the grouped events by the row of their position; return how many there are."""
    at = np.full(rows, -1, np.int64)
    for i in range(position.size):
        at[position[i] >> 1] = i
    n = 0
    for row in range(rows):
        if at[row] >= 0:
            order[n] = at[row]
            n += 1
    return n


@kernel
def weigh_events(
    position: Int64s, by_row: Int64s, counting: bool, out: Int64s
) -> tuple[int, float]:
    """Write what grouped events weigh, one each if `counting`.

    Returns how many weights are unknown or below 0, and about what all weigh together.
    """
    unknown = 0
    total = 0.0
    for i in range(position.size):
        weight = 1 if counting else by_row[position[i] >> 1]
        out[i] = weight
        unknown += weight <= 0
        total += weight
    return unknown, total


@kernel
def arrange_events(
    events: tuple[Int64s, Floats, Int64s], out: tuple[Int64s, Floats, Int64s]
) -> None:
    """Write positions, values and weights of events in the order of their positions."""
    position, values, weight = events
    out_position, out_values, out_weight = out
    last = 0
    for i in range(position.size):
        last = max(last, position[i] >> 1)
    place = np.zeros(last + 2, np.int64)  # of each row, once what is in front of it is added up
    for i in range(position.size):
        place[(position[i] >> 1) + 1] = 1
    for row in range(last):
        place[row + 1] += place[row]
    for i in range(position.size):
        to = place[position[i] >> 1]
        out_position[to] = position[i]
        out_weight[to] = weight[i]
        for a in range(len(values)):
            out_values[a, to] = values[a, i]


def in_arrival_order(events: WeighedEvents) -> WeighedEvents:
    """Return the events of all keys together, in the order of the batch."""
    n = events.position.size
    start = np.array([0, n], np.int64)
    if events.key.size == 1:
        return WeighedEvents(_NO_KEYS, start, events.position, events.values, events.weight)
    out = np.empty(n, np.int64), np.empty((len(events.values), n)), np.empty(n, np.int64)
    arrange_events((events.position, events.values, events.weight), out)
    return WeighedEvents(_NO_KEYS, start, *out)


def light_parts(events: WeighedEvents) -> list[WeighedEvents]:
    """Return events in parts that can be counted together: of no more than `HEAVIEST` in all."""
    if not events.weight.size or events.weight.sum(dtype=np.float64) < HEAVIEST / 2:
        return [events]
    order = np.argsort(events.position, kind="stable")
    part = np.zeros(order.size, np.int64)
    number, together = 0, 0
    for event in order.tolist():
        together += int(events.weight[event])
        if together > HEAVIEST:
            number, together = number + 1, int(events.weight[event])
        part[event] = number
    return [part_of(events, np.flatnonzero(part == each)) for each in range(number + 1)]


def part_of(events: WeighedEvents, picked: Int64s) -> WeighedEvents:
    """Return some of the events, by key as before."""
    return WeighedEvents(
        events.key,
        np.searchsorted(picked, events.start),
        events.position[picked],
        np.ascontiguousarray(events.values[:, picked]),
        events.weight[picked],
    )
