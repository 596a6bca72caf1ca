"""What takes rows out of an arrow: a share of them, or those with values in an interval."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.network.analysis.layout import Place

SHARE, INTERVAL = "share", "interval"


@dataclass(frozen=True)
class Interval:
    """Values of a column from `low` up to, without, `high`.

    Examples
    --------
    >>> str(Interval("temperature", 20.0, 30.0))
    'temperature in [20, 30)'
    """

    column: str
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.column} in [{self.low:g}, {self.high:g})"

    def beside(self, other: Interval) -> Interval | None:
        """Return this interval and another that begins or ends with it as one; None if apart."""
        if self.column != other.column or (self.high != other.low and other.high != self.low):
            return None
        return Interval(self.column, min(self.low, other.low), max(self.high, other.high))

    def mask(self, rows: pa.Table) -> Any:  # noqa: ANN401 - Arrow has no types
        """Tell which rows are inside; those with unknown values are not."""
        column = rows.column(self.column)
        inside = pc.and_(
            pc.greater_equal(column, pa.scalar(self.low, pa.float64())),
            pc.less(column, pa.scalar(self.high, pa.float64())),
        )
        return pc.fill_null(inside, False)


@dataclass(slots=True)
class Count:
    """Rows that came to a dropper, and those that it took out."""

    offered: int = 0
    shed: int = 0


@dataclass(eq=False)
class Dropper:
    """Takes rows out at one place, for a step of shedding; all are counted.

    What it does with a row depends on the row and on how many came before it since the dropper was
    put in: a replay of the same batches sheds the same rows.

    Attributes
    ----------
    place : Place
    share : float
        The share of rows that go, evenly by position; without an interval.
    interval : Interval, optional
        The values that go.
    counts : dict of int to Count
        By the number of the interval of time.
    """

    place: Place
    share: float = 0.0
    interval: Interval | None = None
    seen: int = 0
    counts: dict[int, Count] = field(default_factory=dict)

    def keep(self, rows: pa.Table, tick: int) -> pa.Table:
        """Return the rows that stay."""
        if not rows.num_rows:
            return rows
        if self.interval is not None:
            kept = rows.filter(pc.invert(self.interval.mask(rows)))
        else:
            places = np.arange(self.seen, self.seen + rows.num_rows, dtype=np.float64)
            stays = np.floor((places + 1) * self.share) == np.floor(places * self.share)
            kept = rows.filter(pa.array(stays))
        self.seen += rows.num_rows
        count = self.counts.setdefault(tick, Count())
        count.offered += rows.num_rows
        count.shed += rows.num_rows - kept.num_rows
        return kept

    @property
    def reason(self) -> str:
        """Which kind of dropper it is."""
        return SHARE if self.interval is None else INTERVAL

    def __str__(self) -> str:
        return f"{self.share:.4g} of the rows" if self.interval is None else str(self.interval)
