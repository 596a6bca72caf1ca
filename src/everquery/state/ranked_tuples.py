"""What all quantile summaries answer: the tuple that is nearest to a rank."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from everquery.index.arrays import Floats, Int64s
from everquery.state.gk_merge import pick_tuples

Tuples = tuple[Floats, Int64s, Int64s]
"""Values, ascending, and the bounds of their ranks."""


def empty_tuples(size: int) -> Tuples:
    """Return room for so many tuples."""
    return np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64)


class RankedTuples(ABC):
    """Tuples by key that any rank can be asked of."""

    @abstractmethod
    def tuples(self, key: int) -> Tuples:
        """Return the tuples of a key; none of one never heard of."""

    def query_many(self, key: int, ranks: Floats) -> Tuples:
        """Return for each rank the nearest tuple: values, and the bounds of their ranks.

        The rank of each value is within ``epsilon n`` of a whole rank from 1 to `n`; of one between
        two whole ranks if ``2 epsilon n`` is at least 1. A key never heard of has no answers.

        Parameters
        ----------
        ranks : float64, shape (k,)
        """
        values, r_minus, r_plus = self.tuples(key)
        if not values.size:
            return empty_tuples(0)
        picked = np.empty(ranks.size, np.int64)
        pick_tuples(r_minus, r_plus, ranks, picked)
        return values[picked], r_minus[picked], r_plus[picked]

    def query(self, key: int, rank: float) -> tuple[float, int, int] | None:
        """Return a value near a rank and the bounds of its rank; None of a key never heard of."""
        values, r_minus, r_plus = self.query_many(key, np.array([rank], np.float64))
        return (float(values[0]), int(r_minus[0]), int(r_plus[0])) if values.size else None
