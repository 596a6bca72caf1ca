"""Histograms of the values of an output, and what each interval of them is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from everquery.network.quality import Points
from everquery.network.utility import worth_of

BINS = 16
FEWEST = 64  # values from which the bins are cut

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bin:
    """An interval of values.

    Attributes
    ----------
    low, high : float
    rows, worth : float
        Its share of all rows, and of the utility of all rows.
    """

    low: float
    high: float
    rows: float
    worth: float


class Histogram:
    """How often values come, and how useful they are, for one output.

    The bins are cut at quantiles of the first values and where the graph bends; the first and the
    last are open. It stands still while intervals of its output are shed: what does not come out
    can't be counted.
    """

    def __init__(self, column: str, points: Points) -> None:
        self.column = column
        self.points = points
        self.frozen = False
        self.first: list[Floats] = []
        self.edges: Floats | None = None
        self.rows: Floats = np.zeros(0)
        self.worth: Floats = np.zeros(0)

    def add(self, rows: pa.Table) -> None:
        """Count the values of rows."""
        if self.frozen or not rows.num_rows:
            return
        column = rows.column(self.column)
        values = np.asarray(column.to_numpy(), np.float64)
        worth = worth_of(column, self.points)
        known = np.isfinite(values)
        self._count(values[known], worth[known])

    def _count(self, values: Floats, worth: Floats) -> None:
        if self.edges is None:
            self.first.append(values)
            if sum(part.size for part in self.first) < FEWEST:
                return
            self._cut(np.concatenate(self.first))
            values = np.concatenate(self.first)
            worth = worth_of(pa.chunked_array([pa.array(values)]), self.points)
            self.first = []
        assert self.edges is not None
        bins = np.searchsorted(self.edges, values, "right")
        size = self.edges.size + 1
        self.rows += np.bincount(bins, minlength=size)
        self.worth += np.bincount(bins, weights=worth, minlength=size)

    def _cut(self, values: Floats) -> None:
        cuts = np.quantile(values, np.arange(1, BINS) / BINS)
        bends = [float(where) for where, _ in self.points]
        self.edges = np.unique(np.concatenate([cuts, np.asarray(bends)]))
        self.rows = np.zeros(self.edges.size + 1)
        self.worth = np.zeros(self.edges.size + 1)

    def restore(
        self,
        *,
        frozen: bool,
        first: list[float],
        edges: list[float] | None,
        rows: list[float],
        worth: list[float],
    ) -> None:
        """Take a state back."""
        self.frozen = frozen
        self.first = [np.asarray(first, np.float64)] if first else []
        self.edges = None if edges is None else np.asarray(edges, np.float64)
        self.rows, self.worth = np.asarray(rows, np.float64), np.asarray(worth, np.float64)

    def bins(self) -> list[Bin]:
        """Return the intervals that have rows, the least useful first."""
        if self.edges is None:
            return []
        ends = np.concatenate([[-np.inf], self.edges, [np.inf]])
        rows, worth = self.rows.sum(), self.worth.sum()
        found = [
            Bin(
                float(ends[at]),
                float(ends[at + 1]),
                float(self.rows[at] / rows),
                float(self.worth[at] / worth) if worth > 0 else 0.0,
            )
            for at in range(self.rows.size)
            if self.rows[at]
        ]
        return sorted(found, key=lambda one: (one.worth / one.rows, one.low))
