"""Tumble: windows that have no rows in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.network.boxes.windowed import (
    LATE,
    WindowColumns,
    WindowedOperator,
    window_columns,
    window_type,
)
from everquery.network.expressions.ranges import Ranges
from everquery.network.grouping import Ints, positions
from everquery.network.operator import Operator, Saved
from everquery.network.rows import BEGINNING, END, Flow, RowType
from everquery.network.spec import Box
from everquery.network.windows import (
    DISTANCE,
    ROWS,
    TIME,
    Index,
    Window,
    index_column,
    index_values,
    multiple_below,
)

START = "window_start"


@dataclass(frozen=True)
class Tumble(Box):
    """Give one row for each window and group, once the window's end has passed.

    Windows start at multiples of their size. By time, all groups share one clock; by rows or
    distance, each group has its own.

    Parameters
    ----------
    every : Window
    select : str
        Columns of `by`, aggregates, and expressions of them. ``window_start`` is added.
    by : sequence of str, optional
        The columns that the rows of a group have in common.

    Examples
    --------
    >>> Tumble("readings", every={"time": 60}, select="count(*) AS n").form()
    {'box': 'tumble', 'from': 'readings', 'every': {'time': 60}, 'select': 'count(*) AS n'}
    """

    by: Sequence[str] | None = field(default=None, kw_only=True, metadata={"names": True})
    every: Window = field(kw_only=True, metadata={"window": True})
    select: str = field(kw_only=True)
    kind = "tumble"

    def columns(self, rows: RowType) -> WindowColumns:
        """Return what it computes."""
        return window_columns(self.select, rows, self, by=self.by, window=self.every, label=START)

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the columns of `select`, and the window's start."""
        return window_type(self.select, inputs[0], self.columns(inputs[0]), self.every)

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return TumbleOperator(self, inputs, output)


class TumbleOperator(WindowedOperator):
    """A running tumble box."""

    def __init__(self, spec: Tumble, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(spec.columns(inputs[0]), spec.every, inputs, output)
        self._spec = spec
        self._bounds: Any = np.zeros(0)  # of each group: where its first window to tell begins
        self._counts: Ints = np.zeros(0, np.int64)

    def rebind(self, inputs: Sequence[RowType], output: RowType) -> None:
        """Compile the expressions for these types."""
        super().rebind(inputs, output)
        self.columns = self._spec.columns(inputs[0])
        if not len(self.waiting):
            self.waiting = type(self.waiting)(self._kept_type())

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return the windows that have ended."""
        (flow,) = flows
        if self.window.by == TIME:
            return Flow(self._by_time(flow), END if flow.clock == END else self._clock)
        return Flow(self._by_group(flow), END if flow.clock == END else BEGINNING)

    def _by_time(self, flow: Flow) -> pa.Table:
        rows, index = self._with_index(flow.rows)
        assert index is not None
        if index.size and index.min() < self._clock:
            self.letters.add(rows.filter(pa.array(index < self._clock)), LATE)
            rows = rows.filter(pa.array(index >= self._clock))
        self.waiting.add(self._kept(rows))
        bound = flow.clock
        if np.isfinite(bound):
            bound = multiple_below(np.asarray([bound]), self.size)[0].item()
        if bound <= self._clock:
            return self.output.empty()
        self._clock = bound
        waiting = self.waiting.rows()
        starts = multiple_below(index_values(waiting.column(self.columns.index)), self.size)
        ready = starts < bound
        if ready.all():
            done = waiting
            self.waiting.keep(waiting.slice(0, 0))
        else:
            done, starts = waiting.filter(pa.array(ready)), starts[ready]
            self.waiting.keep(waiting.filter(pa.array(~ready)))
        return self._told(done, starts, self.groups.number(done), None)

    def _by_group(self, flow: Flow) -> pa.Table:
        """Windows by rows or distance: each group goes at its own pace."""
        rows, index = self._with_index(flow.rows)
        numbers = self.groups.number(rows)
        grown = len(self.groups) - self._counts.size
        self._counts = np.concatenate([self._counts, np.zeros(grown, np.int64)])
        self._bounds = np.concatenate([self._bounds, np.full(grown, -np.inf)])
        if index is None:
            index = positions(numbers, self._counts)
            self._counts += np.bincount(numbers, minlength=self._counts.size)
        else:
            late = index < self._passed(numbers, index)
            if late.any():
                self.letters.add(rows.filter(pa.array(late)), LATE)
                rows, index, numbers = rows.filter(pa.array(~late)), index[~late], numbers[~late]
        kept = self._kept(rows)
        kept = kept.append_column("_index", pa.array(index)).append_column(
            "_group", pa.array(numbers)
        )
        self.waiting.add(kept)
        return self._ready(flow.clock == END)

    def _passed(self, numbers: Ints, index: Index) -> Index:
        """Return for each row the newest index that its group has had before it; go on to it."""
        order = np.argsort(numbers, kind="stable")
        before = np.empty(index.size)
        for group in np.unique(numbers):
            at = order[np.searchsorted(numbers[order], group) :]
            at = at[numbers[at] == group]
            newest = np.maximum.accumulate(np.concatenate([[self._bounds[group]], index[at]]))
            before[at], self._bounds[group] = newest[:-1], newest[-1]
        return before

    def _ready(self, ended: bool) -> pa.Table:
        waiting = self.waiting.rows()
        if "_index" not in waiting.column_names or not waiting.num_rows:
            return self.output.empty()
        index = waiting.column("_index").to_numpy()
        numbers = waiting.column("_group").to_numpy()
        starts = multiple_below(index, self.size)
        newest = self._counts[numbers] if self.window.by == ROWS else self._bounds[numbers]
        ready = np.ones(index.size, bool) if ended else starts + self.size <= newest
        finished = self._finished(waiting, numbers, starts)
        done = waiting.filter(pa.array(ready))
        self.waiting.keep(waiting.filter(pa.array(~ready)))
        return self._told(done, starts[ready], numbers[ready], finished[ready])

    def _finished(self, waiting: pa.Table, numbers: Ints, starts: Index) -> Ints:
        """Return for each row the arrival of the row that ended its window."""
        arrival = waiting.column("_arrival").to_numpy()
        order = np.lexsort((arrival, numbers))
        own, group, start = arrival[order], numbers[order], starts[order]
        last = np.append((group[1:] != group[:-1]) | (start[1:] != start[:-1]), True)
        if self.window.by == ROWS:
            ends = own[last]
        else:  # the first row behind the window ends it
            after = np.append(own[1:], np.iinfo(np.int64).max)
            same = np.append(group[1:] == group[:-1], False)
            ends = np.where(same, after, np.iinfo(np.int64).max)[last]
        window = np.concatenate([[0], np.cumsum(last)[:-1]])
        found = np.empty(own.size, np.int64)
        found[order] = ends[window]
        return found

    def _told(
        self, rows: pa.Table, starts: Index, numbers: Ints, finished: Ints | None
    ) -> pa.Table:
        """Return one row for each window: by start and group, or as they were finished."""
        if not rows.num_rows:
            return self.output.empty()
        arrival = rows.column("_arrival").to_numpy()
        within: tuple[Any, ...] = (arrival,)
        if self.window.by == TIME:
            within = (arrival, index_values(rows.column(self.columns.index)))
        first = () if finished is None else (finished,)
        order = np.lexsort((*within, numbers, starts, *first))
        group, start = numbers[order], starts[order]
        begins = np.flatnonzero(
            np.append(True, (group[1:] != group[:-1]) | (start[1:] != start[:-1]))
        )
        windows = Ranges(begins, np.append(begins[1:], order.size))
        labels = index_column(start[begins], self.columns.kind)
        sorted_rows = rows.take(pa.array(order))
        return self.columns.table(
            sorted_rows, windows, self.keys(group[begins]), labels, self.letters
        )

    def save(self) -> Saved:
        """Return the rows that wait, the groups and how far they are."""
        saved = super().save()
        if self.window.by == DISTANCE:
            known = [None if not np.isfinite(one) else float(one) for one in self._bounds]
            saved.values["bounds"] = known
        saved.values["counts"] = self._counts.tolist()
        return saved

    def load(self, saved: Saved) -> None:
        """Take a state that `save` gave."""
        super().load(saved)
        self._counts = np.asarray(saved.values["counts"], np.int64)
        bounds = saved.values.get("bounds") or [None] * self._counts.size
        self._bounds = np.asarray([-np.inf if one is None else one for one in bounds], np.float64)
