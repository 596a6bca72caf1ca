"""Tumble: windows that have no rows in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.network.boxes.paced import PacedOperator
from everquery.network.boxes.windowed import LATE, WindowColumns, window_columns, window_type
from everquery.network.expressions.ranges import Ranges
from everquery.network.grouping import Ints, by_appearance
from everquery.network.operator import Operator
from everquery.network.rows import BEGINNING, END, Flow, RowType
from everquery.network.spec import Box
from everquery.network.windows import (
    ROWS,
    TIME,
    Index,
    Window,
    index_column,
    index_values,
    multiple_below,
)

START = "window_start"
_NEVER = np.iinfo(np.int64).max


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


class TumbleOperator(PacedOperator):
    """A running tumble box."""

    def __init__(self, spec: Any, inputs: Sequence[RowType], output: RowType) -> None:  # noqa: ANN401
        super().__init__(spec.columns(inputs[0]), spec.every, inputs, output)
        self._spec = spec

    def compiled(self) -> WindowColumns:
        """Return what it computes, for the types that are known now."""
        found: WindowColumns = self._spec.columns(self.inputs[0])
        return found

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return the windows that have ended."""
        (flow,) = flows
        if self.window.by == TIME:
            return Flow(self._by_time(flow), END if flow.clock == END else self._clock)
        self.take(flow)
        return Flow(self._ready(), END if flow.clock == END else BEGINNING)

    def _kept_type(self) -> RowType:
        kept = super()._kept_type()
        if self.window.by != TIME:
            return kept
        return RowType({name: kept.columns[name] for name in (*self.columns.needed, "_arrival")})

    def _by_time(self, flow: Flow) -> pa.Table:
        """Windows by time: all groups share the clock, and nothing is done until one has ended."""
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
        return self._told(done, starts, self.numbered(done), None)

    def numbered(self, rows: pa.Table) -> Ints:
        """Return the groups of rows whose windows have ended; no others are remembered."""
        self.groups.load(None)
        return self.groups.number(rows)

    def _ready(self) -> pa.Table:
        """Windows by rows or distance: each group goes at its own pace."""
        waiting = self.waiting.rows()
        if not waiting.num_rows:
            return self.output.empty()
        index, numbers, arrival = self.parts(waiting)
        starts = multiple_below(index, self.size)
        ready = starts + self.size <= self.newest()[numbers]
        finished = self._finished(arrival, numbers, starts)
        done = waiting.filter(pa.array(ready))
        self.waiting.keep(waiting.filter(pa.array(~ready)))
        return self._told(done, starts[ready], numbers[ready], finished[ready])

    def _finished(self, arrival: Ints, numbers: Ints, starts: Index) -> Ints:
        """Return for each row the arrival of the row that ended its window."""
        order = np.lexsort((arrival, numbers))
        own, group, start = arrival[order], numbers[order], starts[order]
        last = np.append((group[1:] != group[:-1]) | (start[1:] != start[:-1]), True)
        if self.window.by == ROWS:
            ends = own[last]
        else:  # the first row behind the window ends it
            after = np.append(own[1:], _NEVER)
            ends = np.where(np.append(group[1:] == group[:-1], False), after, _NEVER)[last]
        window = np.concatenate([[0], np.cumsum(last)[:-1]])
        found = np.empty(own.size, np.int64)
        found[order] = ends[window]
        return found

    def _told(
        self, rows: pa.Table, starts: Index, numbers: Ints, finished: Ints | None
    ) -> pa.Table:
        """Return one row for each window: by start, then as groups came, or as it was finished."""
        if not rows.num_rows:
            return self.output.empty()
        within: tuple[Any, ...] = (rows.column("_arrival").to_numpy(),)
        if self.window.by == TIME:
            within = (*within, index_values(rows.column(self.columns.index)))
        order = np.lexsort((*within, *self._turns(numbers, starts, finished)))
        group, start = numbers[order], starts[order]
        begins = np.flatnonzero(
            np.append(True, (group[1:] != group[:-1]) | (start[1:] != start[:-1]))
        )
        windows = Ranges(begins, np.append(begins[1:], order.size))
        labels = index_column(start[begins], self.columns.kind)
        return self.told(rows.take(pa.array(order)), windows, group[begins], labels)

    def _turns(self, numbers: Ints, starts: Index, finished: Ints | None) -> tuple[Any, ...]:
        """Return what rows are sorted by: the turns of their windows, the least important first."""
        if finished is not None:
            return numbers, starts, finished
        if len(self.groups) < 2:
            return (starts,)
        places = np.unique(starts, return_inverse=True)[1].astype(np.int64)
        return by_appearance(places * len(self.groups) + numbers), starts

    def told(self, rows: pa.Table, windows: Ranges, groups: Ints, labels: pa.Array) -> pa.Table:
        """Return one row for each window, of groups by their numbers."""
        return self.columns.table(rows, windows, self.keys(groups), labels, self.letters)
