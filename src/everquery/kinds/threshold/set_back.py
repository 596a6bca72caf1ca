"""Totals of periods that time was in by mistake begin anew in the period that it is set back to."""

from __future__ import annotations

import numpy as np

from everquery.core.arrays import Array, Bytes, Int64s
from everquery.core.jit import kernel
from everquery.kinds.threshold.periods import Days, Periods, period_of


@kernel
def set_back_totals(
    time: Array,
    slots: Int64s,
    periods: Periods,
    days: Days,
    seen: Int64s,
    period: Int64s,
    fired: Bytes,
    changed: Bytes,
) -> None:
    """Let totals begin anew whose period is after that of a time.

    Parameters
    ----------
    time : like time, shape (1,)
    slots : the query of each total
    periods : by slot
    seen, period, fired, changed : of each total
    """
    for i in range(slots.size):
        latest = np.int64(period_of(time[0], slots[i], periods, days))
        if period[i] > latest:
            period[i] = latest
            seen[i] = 0
            fired[i] = 0
            changed[i] = 1
