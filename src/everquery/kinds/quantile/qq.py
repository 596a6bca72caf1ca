"""The quantiles of some rows against those of others: what a Q-Q plot is made of.

Example 1 of the paper continuous-quantiles. The summaries behind one standing query answer for all
ranks, so that the chart of the whole and any part of it, looked at closely, cost one pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from everquery.kinds.answer import Answer
from everquery.kinds.quantile.feed import FINEST
from everquery.kinds.quantile.spec import Quantile
from everquery.queries import Query
from everquery.queries.spec import Key

__all__ = ["FINEST", "Side", "Summing", "compare", "spaced"]

DIGITS = 12  # of ranks: 0.015, not 0.015000000000000001


class Summing(Protocol):
    """What takes in rows and sums them up; an engine does."""

    def queries(self) -> pa.Table:
        """Return the live queries."""

    def register(self, query: Query) -> None:
        """Register a query."""

    def quantiles(
        self, attribute: str | None, *, phi: Iterable[float], key: Key | None
    ) -> list[Answer]:
        """Return quantiles of rows that a query is about."""


@dataclass(frozen=True, slots=True)
class Side:
    """Rows that are compared: those of an engine's stream, or of one key in it.

    Attributes
    ----------
    name : str
        What people call them.
    engine : Summing
    key : str or int, optional
    """

    name: str
    engine: Summing
    key: Key | None = None

    def watch(self, attribute: str, epsilon: float) -> None:
        """Have the rows summed up that the engine takes in from now on."""
        about = "all" if self.key is None else f"key {self.key}"
        if about not in self.engine.queries()["id"].to_pylist():
            self.engine.register(Quantile(about, attribute, phi=0.5, epsilon=epsilon, key=self.key))

    def quantiles(self, attribute: str, phi: list[float]) -> list[Answer]:
        """Return quantiles of the rows so far."""
        return self.engine.quantiles(attribute, phi=phi, key=self.key)


def spaced(low: float, high: float, points: int) -> list[float]:
    """Return so many ranks above `low` and up to `high`, as shares.

    Examples
    --------
    >>> spaced(0.9, 1, 4)
    [0.925, 0.95, 0.975, 1.0]
    """
    inner = (float(f"{each:.{DIGITS}g}") for each in np.linspace(low, high, points + 1)[1:-1])
    return [*inner, float(high)]


def compare(sides: tuple[Side, Side], attribute: str, phi: list[float]) -> pa.Table:
    """Return the quantiles of two sides, rank by rank.

    Returns
    -------
    pyarrow.Table
        ``phi``; ``value``, of the first side, between which ranks it surely is (``rank_low``,
        ``rank_high``) and among how many rows (``n``); ``against``, of the second, and the same of
        it, named ``against_...``. A value is null if there are no rows.
    """
    columns: dict[str, pa.Array] = {"phi": pa.array(phi, pa.float64())}
    for name, prefix, side in zip(("value", "against"), ("", "against_"), sides, strict=True):
        answers = side.quantiles(attribute, phi)
        columns[name] = pa.array([each.value for each in answers], pa.float64())
        for field in ("rank_low", "rank_high", "n"):
            numbers = [getattr(each, field) for each in answers]
            columns[prefix + field] = pa.array(numbers, pa.int64())
    return pa.table(columns)
