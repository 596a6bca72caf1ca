"""How the answers of queries changed with a step, for those that tell it.

What is told is the difference of two answers: the one after the last step that was told, and the
one now. So a row that came and went within one batch is not told, and nothing is told twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Array, Floats, Int64s
from everquery.index.rows import Changed
from everquery.kinds.select.differences import among
from everquery.kinds.select.plan import Item, Plan, is_count
from everquery.kinds.select.store import COLUMNS
from everquery.kinds.select.tables import Side, aggregate
from everquery.kinds.select.windows import Moment, window_of
from everquery.stream import Stream

if TYPE_CHECKING:
    from everquery.kinds.select.index import SelectIndex

INSERT, DELETE, UPDATE = 1, 2, 3  # among the outcomes of the kind


class Told(NamedTuple):
    """What one query tells: the rows or pairs that it is about, what happened, and the value.

    Attributes
    ----------
    rows : list of int64
        Stream by stream.
    """

    rows: list[Int64s]
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
    """Return how the answers of queries over one stream changed since they were last told."""
    kind = None if stream.time is None else time_type
    store = index.store
    if store is None:
        return None
    side = Side(stream, store, lambda: pa.nulls(0), kind)
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
            old = _within(plan, side, rows, before)
        told = told_between(plan, [side], [old], [_within(plan, side, rows, moment)])
        if told.code.size:
            found.append((slot, told))
    if not found:
        return None
    row = np.concatenate([told.rows[0] for _, told in found])
    summed = np.concatenate(
        [np.full(told.code.size, index.plans[index.plan[slot]].aggregates) for slot, told in found]
    )
    return Changed(
        slot=np.concatenate([np.full(told.code.size, slot) for slot, told in found]),
        code=np.concatenate([told.code for _, told in found]).astype(np.uint8),
        columns={name: store.column(name, row) for name in COLUMNS},
        figures={"value": np.concatenate([told.value for _, told in found])},
        # The same row may be the last of a group more than once.
        salt=np.where(summed, moment.rows, 0).astype(np.uint64),
    )


def _rows(index: SelectIndex, slot: int, lazy: bool) -> Int64s:
    held = index.held(slot, lazy=lazy)
    return held.rows[held.gone : held.size]


def _within(plan: Plan, side: Side, rows: Int64s, moment: Moment) -> Int64s:
    window = window_of(plan, side.store, moment, side.time_type, side.stream.time, partial=True)
    begin, end = np.searchsorted(rows, [window.begin, window.end])
    return window.narrow(side.store, rows[begin:end])


def told_between(
    plan: Plan, sides: Sequence[Side], old: Sequence[Int64s], new: Sequence[Int64s]
) -> Told:
    """Return how an answer of rows, or of pairs of rows, became another."""
    if plan.aggregates:
        return _moved(plan, sides, old, new)
    gone, come = ~among(old, new), ~among(new, old)
    code = np.repeat([DELETE, INSERT], [np.count_nonzero(gone), np.count_nonzero(come)])
    rows = [np.concatenate([a[gone], b[come]]) for a, b in zip(old, new, strict=True)]
    return Told(rows, code, np.full(code.size, np.nan))


def _moved(plan: Plan, sides: Sequence[Side], old: Sequence[Int64s], new: Sequence[Int64s]) -> Told:
    """Return which groups came, went, or have another value."""
    before = _values(plan, sides, old)
    after = _values(plan, sides, new)
    told = [(rows, DELETE, value) for group, (rows, value) in before.items() if group not in after]
    for group, (rows, value) in after.items():
        if group not in before:
            told.append((rows, INSERT, value))
        elif not _same(before[group][1], value):
            told.append((rows, UPDATE, value))
    by_side = [np.array([each[0][s] for each in told], np.int64) for s in range(len(sides))]
    code = np.array([each[1] for each in told], np.int64)
    return Told(by_side, code, np.array([each[2] for each in told], np.float64))


def _same(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


def _values(
    plan: Plan, sides: Sequence[Side], rows: Sequence[Int64s]
) -> dict[Any, tuple[tuple[int, ...], float]]:
    """Return the last row or pair and the value of each group; of no rows there is none."""
    n = rows[0].size
    if not n:
        return {}
    item = next((item for item in plan.items if item.function), Item("COUNT", None))
    group: Array = np.zeros(n, np.int32)
    if plan.groups:
        side = plan.groups[0].side
        group = sides[side].store.column("key", rows[side])
    groups, place = np.unique(group, return_inverse=True)
    last = np.zeros(groups.size, np.int64)
    np.maximum.at(last, place, np.arange(n))
    found, count = aggregate(item, sides, rows, place, groups.size)
    if not is_count(item.function):
        found = np.where(count > 0, found, np.nan)
    pairs = zip(*(each[last].tolist() for each in rows), strict=True)
    return dict(zip(groups.tolist(), zip(pairs, found.tolist(), strict=True), strict=True))
