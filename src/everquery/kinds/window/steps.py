"""The events of a step as lanes take them, and what was told as a step wants it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from everquery.core.arrays import Array, Bools, Int32s, Int64s
from everquery.index.clock import Due
from everquery.index.rows import (
    NO_KEY,
    Findings,
    Grouped,
    Step,
)
from everquery.index.sort_keys import pack_findings
from everquery.index.weighed import order_by_position
from everquery.kinds.window.runs import ALL, Runs
from everquery.kinds.window.store import Store
from everquery.kinds.window.telling import Told
from everquery.state.pairs import SLOT_MASK


def keys_of(grouped: Grouped) -> Int32s:
    """Return the key of each event."""
    keys: Int32s = np.repeat(grouped.key, np.diff(grouped.start))
    return keys


def in_order(step: Step) -> Step:
    """Return a step's events of all keys in the order of the batch."""
    grouped = step.grouped
    n = grouped.position.size
    order = np.empty(n, np.int64)
    order_by_position(grouped.position, int(grouped.position.max() >> 1) + 1, order)
    return replace(
        step,
        grouped=Grouped(
            np.full(1, NO_KEY, np.int32),
            np.array([0, n], np.int64),
            grouped.position[order],
            np.ascontiguousarray(grouped.values[:, order]),
        ),
    )


def runs_of(
    store: Store, lane: Int64s, begin: Int64s, end: Int64s, lane_of_match: Int64s, place: Int64s
) -> Runs:
    """Return lanes with their events, and those that match, lane by lane."""
    order = np.lexsort((place, lane_of_match))
    lanes = lane_of_match[order]
    first, stop = np.searchsorted(lanes, lane), np.searchsorted(lanes, lane, "right")
    plain = store.plain[store.lanes.pair[lane] & SLOT_MASK]
    return Runs(lane, begin, end, np.where(plain, ALL, first), stop, place[order])


def picked_told(told: Told, picked: Bools) -> Told:
    """Return some of what was told."""
    return Told(told.numbers[picked], told.figures[picked], told.moment[picked])


def due_of(told: Told, key: Int32s, place: Int64s) -> Due:
    """Return what was told of moments without an event, as deadlines of keys."""
    _, slot, code, count, _ = told.numbers.T
    return Due(slot.copy(), code.astype(np.uint8), key, told.moment, place, _figures(told, count))


def _figures(told: Told, count: Int64s) -> dict[str, Array]:
    value, low, high = (np.ascontiguousarray(column) for column in told.figures.T)
    return {"value": value, "low": low, "high": high, "n": count.copy()}


def findings_of(told: Told, position: Int64s) -> Findings:
    """Return what was told at events, which stand at these positions."""
    place, slot, code, count, _ = told.numbers.T
    return Findings(pack_findings(position[place], slot) | code, _figures(told, count))
