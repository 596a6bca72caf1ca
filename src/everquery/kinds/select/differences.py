"""What changed between two answers of a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from everquery.core.arrays import Bools, Int64s
from everquery.kinds.select.tables import rows_table
from everquery.kinds.select.windows import Moment

if TYPE_CHECKING:
    from everquery.kinds.select.answers import Reader

CHANGE = "change"


def told_differences(reader: Reader, before: Sequence[Moment], now: Sequence[Moment]) -> pa.Table:
    """Return the rows that are in the answer no more, and those that are new or other now.

    The column ``change`` says ``delete``, ``insert`` or ``update``; an update has the new values.
    """
    plan = reader.plan
    if plan.aggregates or plan.distinct:
        keys = [plan.name_of(item) for item in plan.items if item.function is None]
        return _by_group(reader.table(before), reader.table(now), keys)
    old, new = reader.rows(before), reader.rows(now)
    gone = [each[~among(old, new)] for each in old]
    come = [each[~among(new, old)] for each in new]
    tables = [
        _with_change(rows_table(plan, reader.sides, rows), change)
        for rows, change in ((gone, "delete"), (come, "insert"))
    ]
    return pa.concat_tables(tables)


def among(rows: Sequence[Int64s], others: Sequence[Int64s]) -> Bools:
    """Tell which rows, or pairs of them, are among others."""
    if len(rows) == 1:
        return np.isin(rows[0], others[0])
    if not rows[0].size or not others[0].size:
        return np.zeros(rows[0].size, np.bool_)
    low = [min(int(a.min()), int(b.min())) for a, b in zip(rows, others, strict=True)]
    width = 1 + max(int(rows[1].max()), int(others[1].max())) - low[1]
    first, second = ((a - low[0]) * width + (b - low[1]) for a, b in (rows, others))
    return np.isin(first, second)


def _with_change(table: pa.Table, change: str) -> pa.Table:
    return table.add_column(0, CHANGE, pa.repeat(pa.scalar(change), table.num_rows))


def _by_group(old: pa.Table, new: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return how the rows of an answer differ, which are told apart by some columns."""

    def by_key(table: pa.Table) -> dict[tuple[Any, ...], int]:
        columns = [table[name].to_pylist() for name in keys]
        if not keys:
            return {(): 0} if table.num_rows else {}
        return {key: row for row, key in enumerate(zip(*columns, strict=True))}

    before, after = by_key(old), by_key(new)
    values_before, values_after = old.to_pylist(), new.to_pylist()
    gone = [row for key, row in before.items() if key not in after]
    come = [row for key, row in after.items() if key not in before]
    moved = [
        row
        for key, row in after.items()
        if key in before and values_before[before[key]] != values_after[row]
    ]
    return pa.concat_tables(
        [
            _with_change(table.take(pa.array(rows, pa.int64())), change)
            for table, rows, change in (
                (old, gone, "delete"),
                (new, moved, "update"),
                (new, come, "insert"),
            )
        ]
    )
