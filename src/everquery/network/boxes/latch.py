"""Latch: windows that tumble, with state that is kept from each to the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from everquery.network.boxes.tumble import START, TumbleOperator
from everquery.network.boxes.windowed import WindowColumns, window_columns, window_type
from everquery.network.expressions import ranges as r
from everquery.network.expressions.aggregates import Aggregate
from everquery.network.expressions.ranges import Ranges
from everquery.network.expressions.types import INTEGER, NUMBER, BadExpressionError
from everquery.network.grouping import Ints
from everquery.network.operator import Operator, Saved
from everquery.network.rows import RowType, columns_of
from everquery.network.spec import Box
from everquery.network.windows import Window


@dataclass(frozen=True)
class Latch(Box):
    """Give, whenever a window ends, aggregates over all rows that its groups have ever had.

    Parameters
    ----------
    every : Window
    select : str
        As that of a tumble box; count, sum, avg, min, max, first, last and the deviations.
    by : sequence of str, optional

    Examples
    --------
    >>> Latch("trades", by="symbol", every={"time": 60}, select="symbol, max(price) AS top").by
    ('symbol',)
    """

    by: Sequence[str] | None = field(default=None, kw_only=True, metadata={"names": True})
    every: Window = field(kw_only=True, metadata={"window": True})
    select: str = field(kw_only=True)
    kind = "latch"

    def columns(self, rows: RowType) -> WindowColumns:
        """Return what it computes."""
        found = window_columns(self.select, rows, self, by=self.by, window=self.every, label=START)
        for one in found.list.aggregates:
            if one.name not in KEPT:
                raise BadExpressionError(
                    f"a latch can't keep {one.name}; it keeps {', '.join(sorted(KEPT))}"
                )
        return found

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the columns of `select`, and the window's start."""
        return window_type(self.select, inputs[0], self.columns(inputs[0]), self.every)

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return LatchOperator(self, inputs, output)


Partial = tuple[Any, ...]
"""What is kept of an aggregate: a few values that two windows' can be merged from."""


@dataclass(frozen=True)
class Keeping:
    """How an aggregate is kept.

    Attributes
    ----------
    of_window : function
        From windows and the aggregate's column to one array for each value of a partial.
    merge : function
        From what was kept and what a window has to what is kept.
    final : function
        From what is kept to the aggregate.
    """

    of_window: Callable[[Aggregate, Ranges, Any], list[Any]]
    merge: Callable[[Partial, Partial], Partial]
    final: Callable[[Partial], Any]


def _own(one: Aggregate, windows: Ranges, column: Any) -> list[Any]:  # noqa: ANN401
    return [one.function(windows, column)]


def _sum_and_count(one: Aggregate, windows: Ranges, column: Any) -> list[Any]:  # noqa: ANN401
    return [r.total(windows, column.cast(NUMBER)), r.count(windows, column)]


def _moments(one: Aggregate, windows: Ranges, column: Any) -> list[Any]:  # noqa: ANN401
    spread = r.variance(sample=False, root=False)(windows, column)
    return [r.count(windows, column), r.mean(windows, column), spread]


def _merged_moments(old: Partial, new: Partial) -> Partial:
    """Merge counts, means and variances of two sets of values (Chan, Golub and LeVeque)."""
    if not new[0] or not old[0]:
        return old if old[0] else new
    count = old[0] + new[0]
    apart = new[1] - old[1]
    mean = old[1] + apart * new[0] / count
    squares = old[2] * old[0] + new[2] * new[0] + apart * apart * old[0] * new[0] / count
    return count, mean, squares / count


def _pick(choose: Callable[[Any, Any], Any]) -> Callable[[Partial, Partial], Partial]:
    def merge(old: Partial, new: Partial) -> Partial:
        if old[0] is None or new[0] is None:
            return old if new[0] is None else new
        return (choose(old[0], new[0]),)

    return merge


def _deviation(*, sample: bool, root: bool) -> Callable[[Partial], Any]:
    def final(kept: Partial) -> float | None:
        less = 1 if sample else 0
        if kept[0] <= less:
            return None
        found = kept[2] * kept[0] / (kept[0] - less)
        return float(math.sqrt(found) if root else found)

    return final


def _first(kept: Partial) -> Any:  # noqa: ANN401
    return kept[0]


_ADDED = Keeping(_own, _pick(lambda old, new: old + new), _first)
_MEAN = Keeping(
    _sum_and_count,
    lambda old, new: ((old[0] or 0.0) + (new[0] or 0.0), old[1] + new[1]),
    lambda kept: kept[0] / kept[1] if kept[1] else None,
)
KEPT: dict[str, Keeping] = {
    "count": _ADDED,
    "sum": _ADDED,
    "avg": _MEAN,
    "min": Keeping(_own, _pick(min), _first),
    "max": Keeping(_own, _pick(max), _first),
    "first": Keeping(_own, lambda old, new: old, _first),
    "anyvalue": Keeping(_own, lambda old, new: old, _first),
    "last": Keeping(_own, lambda old, new: new, _first),
    **{
        name: Keeping(_moments, _merged_moments, _deviation(sample=sample, root=root))
        for name, sample, root in (
            ("stddev", True, True),
            ("stddevsamp", True, True),
            ("stddevpop", False, True),
            ("variance", True, False),
            ("variancepop", False, False),
        )
    },
}


class LatchOperator(TumbleOperator):
    """A running latch box: a tumble box that merges each window into what its group has kept."""

    def __init__(self, spec: Latch, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(spec, inputs, output)
        self._state: dict[tuple[int, int], Partial] = {}  # by aggregate and group

    def numbered(self, rows: pa.Table) -> Ints:
        """Return the groups of rows; all are remembered, as is what each has had."""
        return self.groups.number(rows)

    def told(self, rows: pa.Table, windows: Ranges, groups: Ints, labels: pa.Array) -> pa.Table:
        """Return one row for each window: aggregates over all that the group has had."""
        columns, values = columns_of(rows), {}
        for at, one in enumerate(self.columns.list.aggregates):
            keeping = KEPT[one.name]
            column = one.arguments[0].array(columns, rows.num_rows)
            parts = [array.to_pylist() for array in keeping.of_window(one, windows, column)]
            finals = []
            for group, new in zip(groups.tolist(), zip(*parts, strict=True), strict=True):
                old = self._state.get((at, group))
                kept = new if old is None else keeping.merge(old, new)
                self._state[at, group] = kept
                finals.append(keeping.final(kept))
            values[f"_{at}"] = pa.array(finals, one.type)
        return self.columns.finished(self.keys(groups), labels, values, self.letters)

    def save(self) -> Saved:
        """Return what waits, and what is kept of each aggregate and group."""
        saved = super().save()
        for at, one in enumerate(self.columns.list.aggregates):
            kept = {group: part for (own, group), part in self._state.items() if own == at}
            width = max((len(part) for part in kept.values()), default=0)
            kinds = [one.type] if width == 1 else [NUMBER, INTEGER] if width == 2 else _MOMENTS
            arrays = [
                pa.array([part[place] for part in kept.values()], kinds[place])
                for place in range(width)
            ]
            names = [f"part{place}" for place in range(width)]
            table = pa.table([pa.array(list(kept), INTEGER), *arrays], names=["group", *names])
            saved.tables[f"kept{at}"] = table
        return saved

    def load(self, saved: Saved) -> None:
        """Take a state that `save` gave."""
        super().load(saved)
        self._state = {}
        for at in range(len(self.columns.list.aggregates)):
            group, *parts = (column.to_pylist() for column in saved.tables[f"kept{at}"].columns)
            for number, part in zip(group, zip(*parts, strict=True), strict=bool(parts)):
                self._state[at, number] = part


_MOMENTS = [INTEGER, NUMBER, NUMBER]
