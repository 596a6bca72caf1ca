"""Slide: windows that move on with the rows, and share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.errors import InvalidNetworkError
from everquery.network.boxes.paced import PacedOperator
from everquery.network.boxes.windowed import WindowColumns, window_columns, window_type
from everquery.network.expressions.ranges import Ranges
from everquery.network.grouping import Ints, distinct_pairs, search
from everquery.network.operator import Operator
from everquery.network.rows import BEGINNING, END, Flow, RowType
from everquery.network.spec import Box
from everquery.network.windows import ROWS, TIME, Index, Window, index_column, multiple_below

START, STOP = "window_start", "window_end"
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Slide(Box):
    """Give one row for each place of a window that slides along the rows.

    Without `every`, a window ends at every index value that a group has, and holds what is less
    than `last` before it; its column is ``window_end``. With `every`, windows start at multiples of
    it, as those of a tumble box, and have ``window_start``; by rows, they end at every so many. A
    window is told once its end has passed: by rows, at its last row.

    Parameters
    ----------
    last : Window
        The size of the window.
    every : Window, optional
        How far it moves on.
    select : str
        Columns of `by`, aggregates, and expressions of them.
    by : sequence of str, optional

    Examples
    --------
    >>> Slide("trades", by=["symbol"], last={"rows": 20}, select="symbol, avg(price) AS mean").kind
    'slide'
    """

    by: Sequence[str] | None = field(default=None, kw_only=True, metadata={"names": True})
    last: Window = field(kw_only=True, metadata={"window": True})
    every: Window | None = field(default=None, kw_only=True, metadata={"window": True})
    select: str = field(kw_only=True)
    kind = "slide"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.every is not None and (self.every.by, self.every.on) != (
            self.last.by,
            self.last.on,
        ):
            raise InvalidNetworkError(
                f"`every` is by {self.every.by} and `last` by {self.last.by}; both are by the same"
            )

    @property
    def label(self) -> str:
        """The column that the window itself has."""
        return STOP if self.every is None or self.every.by == ROWS else START

    def columns(self, rows: RowType) -> WindowColumns:
        """Return what it computes."""
        return window_columns(
            self.select, rows, self, by=self.by, window=self.last, label=self.label
        )

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the columns of `select`, and the window's start or end."""
        return window_type(self.select, inputs[0], self.columns(inputs[0]), self.last)

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return SlideOperator(self, inputs, output)


class SlideOperator(PacedOperator):
    """A running slide box."""

    def __init__(self, spec: Slide, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(spec.columns(inputs[0]), spec.last, inputs, output)
        self._spec = spec

    def compiled(self) -> WindowColumns:
        """Return what it computes, for the types that are known now."""
        return self._spec.columns(self.inputs[0])

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return the windows whose end has passed."""
        (flow,) = flows
        before = self.take(flow)
        rows = self.waiting.rows()
        found = self.output.empty()
        if rows.num_rows:
            found = self._slid(rows, before)
        if flow.clock == END:
            return Flow(found, END)
        if self.window.by != TIME:
            return Flow(found, BEGINNING)
        late = 0 if self._spec.every is None else self.size
        return Flow(found, flow.clock - late)

    def late(self, numbers: Ints, index: Index) -> Any:  # noqa: ANN401 - an array of booleans
        """Tell which rows belong to a window that has been told: the first that has the row."""
        every = self._spec.every
        if every is None or self.window.by != TIME:
            return super().late(numbers, index)
        step = every.size(self.columns.kind)
        first = multiple_below(index - self.size, step) + step
        return (first <= index) & (first + self.size <= self._clock)

    def _slid(self, rows: pa.Table, before: Index) -> pa.Table:
        """Return the windows that have ended since `before`, and forget rows that none needs."""
        index, numbers, arrival = self.parts(rows)
        order = np.lexsort((arrival, index, numbers))
        index, numbers, arrival = index[order], numbers[order], arrival[order]
        newest = self.newest()
        windows, label, group = self._windows(index, numbers, before, newest)
        found = self.output.empty()
        if label.size:
            told = self._order(windows, label, group, numbers, arrival)
            windows = Ranges(windows.low[told], windows.high[told])
            labels = index_column(label[told], self.columns.kind)
            keys = self.keys(group[told])
            ordered = rows.take(pa.array(order))
            found = self.columns.table(ordered, windows, keys, labels, self.letters)
        keep = np.empty(index.size, bool)
        keep[order] = index > newest[numbers] - self.size
        if not keep.all():
            self.waiting.keep(rows.filter(pa.array(keep)))
            self.forget()
        return found

    def _windows(
        self, index: Index, numbers: Ints, before: Index, newest: Index
    ) -> tuple[Ranges, Index, Ints]:
        """Return windows as ranges of the sorted rows, their labels and groups."""
        size, every = self.size, self._spec.every
        if every is None or every.by == ROWS:
            last = np.append((index[1:] != index[:-1]) | (numbers[1:] != numbers[:-1]), True)
            told = last & (index >= before[numbers]) & (index < newest[numbers])
            if every is not None:
                told &= (index + 1) % int(every.size()) == 0
            label, group = index[told], numbers[told]
            low = search(numbers, index, group, label - size, after=True)
            return Ranges(low, np.flatnonzero(told) + 1), label, group
        step = every.size(self.columns.kind)
        count = int(-(-size // step))
        first = np.rint(multiple_below(index, step) / step).astype(np.int64)
        group, first = distinct_pairs(numbers, first)
        place = (first[:, None] - np.arange(count)[None, :]).reshape(-1)
        group, place = distinct_pairs(np.repeat(group, count), place)
        start = place * (int(step) if float(step).is_integer() else step)
        told = (start + size > before[group]) & (start + size <= newest[group])
        group, start = group[told], start[told]
        low = search(numbers, index, group, start, after=False)
        high = search(numbers, index, group, start + size, after=False)
        some = high > low
        return Ranges(low[some], high[some]), start[some], group[some]

    def _order(
        self, windows: Ranges, label: Index, group: Ints, numbers: Ints, arrival: Ints
    ) -> Any:  # noqa: ANN401 - an array of places
        """Return windows in the order in which they ended, whatever the batches."""
        if self.window.by == TIME:
            return np.lexsort((arrival[windows.low], label))
        if self.window.by == ROWS:
            return np.argsort(arrival[windows.high - 1], kind="stable")
        behind = np.minimum(windows.high, numbers.size - 1)
        same = (windows.high < numbers.size) & (numbers[behind] == group)
        ended = np.where(same, arrival[behind], _NEVER)
        return np.lexsort((group, label, ended))
