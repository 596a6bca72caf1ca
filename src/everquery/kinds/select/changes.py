"""How the answers of queries changed with a step, for those that tell it.

What is told is the difference of two answers: the one after the last step that was told, and the
one now. So a row that came and went within one batch is not told, and nothing is told twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Floats, Int64s
from everquery.index.rows import Changed
from everquery.kinds.select.plan import Item, Plan
from everquery.kinds.select.store import RowStore
from everquery.kinds.select.windows import Moment, window_of
from everquery.stream import Stream

if TYPE_CHECKING:
    from everquery.kinds.select.index import SelectIndex

INSERT, DELETE, UPDATE = 1, 2, 3  # among the outcomes of the kind


class Told(NamedTuple):
    """What one query tells: the rows that it is about, what happened, and the value."""

    row: Int64s
    code: Array
    value: Floats


def net_changes(
    index: SelectIndex,
    slots: list[int],
    lazy: list[bool],
    moment: Moment,
    time_type: pa.DataType | None,
    stream: Stream,
) -> Changed | None:
    """Return how the answers of queries changed since they were last told."""
    kind = None if stream.time is None else time_type
    store = index.store
    if store is None:
        return None
    found: list[tuple[int, Told]] = []
    for slot, late in zip(slots, lazy, strict=True):
        before = index.told.get(slot)
        if before == moment:
            continue
        index.told[slot] = moment
        plan = index.plans[index.plan[slot]]
        rows = _rows(index, slot, late)
        old = np.empty(0, np.int64)
        if before is not None:
            old = _within(plan, store, rows, before, kind, stream)
        new = _within(plan, store, rows, moment, kind, stream)
        if plan.aggregates:
            told = _moved(plan, store, old, new, stream)
        else:
            told = _come_and_gone(old, new)
        if told.row.size:
            found.append((slot, told))
    if not found:
        return None
    row = np.concatenate([told.row for _, told in found])
    summed = np.concatenate(
        [np.full(told.row.size, index.plans[index.plan[slot]].aggregates) for slot, told in found]
    )
    return Changed(
        slot=np.concatenate([np.full(told.row.size, slot) for slot, told in found]),
        code=np.concatenate([told.code for _, told in found]).astype(np.uint8),
        columns={
            name: store.column(name, row) for name in ("key", "time", "seq", "weight", "values")
        },
        figures={"value": np.concatenate([told.value for _, told in found])},
        # The same row may be the last of a group more than once.
        salt=np.where(summed, moment.rows, 0).astype(np.uint64),
    )


def _rows(index: SelectIndex, slot: int, lazy: bool) -> Int64s:
    held = index.held(slot, lazy=lazy)
    return held.rows[held.gone : held.size]


def _within(
    plan: Plan,
    store: RowStore,
    rows: Int64s,
    moment: Moment,
    kind: pa.DataType | None,
    stream: Stream,
) -> Int64s:
    window = window_of(plan, store, moment, kind, stream.time, partial=True)
    begin, end = np.searchsorted(rows, [window.begin, window.end])
    return window.narrow(store, rows[begin:end])


def _come_and_gone(old: Int64s, new: Int64s) -> Told:
    gone = np.setdiff1d(old, new, assume_unique=True)
    come = np.setdiff1d(new, old, assume_unique=True)
    code = np.repeat([DELETE, INSERT], [gone.size, come.size])
    return Told(np.concatenate([gone, come]), code, np.full(code.size, np.nan))


def _moved(plan: Plan, store: RowStore, old: Int64s, new: Int64s, stream: Stream) -> Told:
    """Return which groups came, went, or have another value."""
    item = next((item for item in plan.items if item.function), Item("COUNT", None))
    before = _values(plan, item, store, old, stream)
    after = _values(plan, item, store, new, stream)
    told: list[tuple[int, int, float]] = []
    for group, (row, value) in before.items():
        if group not in after:
            told.append((row, DELETE, value))
    for group, (row, value) in after.items():
        if group not in before:
            told.append((row, INSERT, value))
        elif not _same(before[group][1], value):
            told.append((row, UPDATE, value))
    rows, codes, values = zip(*told, strict=True) if told else ((), (), ())
    return Told(np.array(rows, np.int64), np.array(codes, np.int64), np.array(values, np.float64))


def _same(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


def _values(
    plan: Plan, item: Item, store: RowStore, rows: Int64s, stream: Stream
) -> dict[Any, tuple[int, float]]:
    """Return the last row and the value of each group; of no rows there is none."""
    if not rows.size:
        return {}
    group = store.column("key", rows) if plan.groups else np.zeros(rows.size, np.int32)
    groups, place = np.unique(group, return_inverse=True)
    last = np.zeros(groups.size, np.int64)
    np.maximum.at(last, place, rows)
    count = np.bincount(place, minlength=groups.size)
    found = count.astype(np.float64)
    name = None if item.column is None else item.column.name
    if name is not None and name not in (stream.key, stream.time):
        values = _numbers(store, rows, name, stream)
        known = values == values
        found = _aggregated(item, values[known], place[known], groups.size)
    pairs = zip(last.tolist(), found.tolist(), strict=True)
    return dict(zip(groups.tolist(), pairs, strict=True))


def _numbers(store: RowStore, rows: Int64s, name: str, stream: Stream) -> Floats:
    if name in stream.attributes:
        return store.values(stream.attributes.index(name), rows)
    weight = store.column("weight", rows)
    return np.where(weight > 0, weight, np.nan)


def _aggregated(item: Item, values: Floats, place: Int64s, n: int) -> Floats:
    count = np.bincount(place, minlength=n).astype(np.float64)
    if item.function == "COUNT":
        return count
    found: Floats
    if item.function in ("MIN", "MAX"):
        largest = item.function == "MAX"
        found = np.full(n, -np.inf if largest else np.inf)
        (np.maximum if largest else np.minimum).at(found, place, values)
    else:
        found = np.asarray(np.bincount(place, weights=values, minlength=n), np.float64)
        if item.function == "AVG":
            with np.errstate(invalid="ignore", divide="ignore"):
                found = found / count
    return np.where(count > 0, found, np.nan)
