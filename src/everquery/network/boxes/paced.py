"""Rows that wait by group, each group at its own pace: what slide and tumble boxes share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.network.boxes.windowed import LATE, Waiting, WindowColumns, WindowedOperator
from everquery.network.grouping import Ints, positions
from everquery.network.operator import Saved
from everquery.network.rows import END, Flow, RowType
from everquery.network.windows import ROWS, TIME, Index, Window


class PacedOperator(WindowedOperator):
    """A windowed box whose rows carry their index and group while they wait.

    By time, all groups share the arrow's clock. By rows, a group's clock is how many it has had; by
    distance, it is the largest index that it has had, and an index that steps back is late.
    """

    def __init__(
        self, columns: WindowColumns, window: Window, inputs: Sequence[RowType], output: RowType
    ) -> None:
        super().__init__(columns, window, inputs, output)
        self._counts: Ints = np.zeros(0, np.int64)
        self._reached: Any = np.zeros(0)
        self._ended = False

    @abstractmethod
    def compiled(self) -> WindowColumns:
        """Return what the box computes, for the types that are known now."""

    def rebind(self, inputs: Sequence[RowType], output: RowType) -> None:
        """Compile the expressions for these types."""
        super().rebind(inputs, output)
        self.columns = self.compiled()
        if not len(self.waiting):
            self.waiting = Waiting(self._kept_type())

    def _kept_type(self) -> RowType:
        kept = super()._kept_type()
        index = self.columns.kind
        number = pa.float64() if pa.types.is_floating(index) else pa.int64()
        return RowType({**kept.columns, "_index": number, "_group": pa.int64()})

    def take(self, flow: Flow) -> Index:
        """Take in rows, and return each group's clock before them."""
        rows, index = self._with_index(flow.rows)
        numbers = self.groups.number(rows)
        grown = len(self.groups) - self._counts.size
        self._counts = np.concatenate([self._counts, np.zeros(grown, np.int64)])
        self._reached = np.concatenate([self._reached, np.full(grown, -np.inf)])
        before = np.array(self.newest())
        if index is None:
            index = positions(numbers, self._counts)
            self._counts += np.bincount(numbers, minlength=self._counts.size)
        else:
            late = self.late(numbers, index)
            if late.any():
                self.letters.add(rows.filter(pa.array(late)), LATE)
                rows, index, numbers = rows.filter(pa.array(~late)), index[~late], numbers[~late]
        if self.window.by == TIME:
            self._clock = max(self._clock, flow.clock)
        self._ended = flow.clock == END
        kept = self._kept(rows).append_column("_index", pa.array(index))
        self.waiting.add(kept.append_column("_group", pa.array(numbers)))
        return before

    def late(self, numbers: Ints, index: Index) -> Any:  # noqa: ANN401 - an array of booleans
        """Tell which rows belong to a window that has been told."""
        return index < self._passed(numbers, index)

    def _passed(self, numbers: Ints, index: Index) -> Index:
        """Return for each row its group's clock before it; by distance, go on to it."""
        if self.window.by == TIME:
            return np.full(index.size, self._clock)
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        before = np.empty(index.size)
        for group in np.unique(numbers):
            low, high = np.searchsorted(ordered, [group, group + 1])
            at = order[low:high]
            newest = np.maximum.accumulate(np.append(self._reached[group], index[at]))
            before[at], self._reached[group] = newest[:-1], newest[-1]
        return before

    def forget(self) -> None:
        """Forget groups whose windows are over.

        By rows or distance, a group's windows are never over: its next row has a place in them.
        """
        if self.window.by != TIME:
            return
        rows = self.waiting.rows()
        numbers = self.groups.forget(rows.column("_group").to_numpy())
        if numbers is None:
            return
        place = rows.column_names.index("_group")
        groups = pa.array(numbers[rows.column("_group").to_numpy()])
        self.waiting.keep(rows.set_column(place, "_group", groups))
        count = len(self.groups)
        self._counts, self._reached = np.zeros(count, np.int64), np.full(count, -np.inf)

    def newest(self) -> Any:  # noqa: ANN401 - an array of the index's type
        """Return each group's clock: no row with a smaller index will come."""
        if self._ended:
            return np.full(self._counts.size, np.inf)
        if self.window.by == TIME:
            return np.full(self._counts.size, self._clock)
        return self._counts if self.window.by == ROWS else self._reached

    def parts(self, rows: pa.Table) -> tuple[Index, Ints, Ints]:
        """Return index, group and arrival of rows that wait."""
        found = [rows.column(name).to_numpy() for name in ("_index", "_group", "_arrival")]
        return found[0], found[1], found[2]

    def save(self) -> Saved:
        """Return the rows that wait, the groups and how far they are."""
        saved = super().save()
        saved.values["counts"] = self._counts.tolist()
        saved.values["reached"] = [
            float(one) if np.isfinite(one) else None for one in self._reached
        ]
        return saved

    def load(self, saved: Saved) -> None:
        """Take a state that `save` gave."""
        super().load(saved)
        self._counts = np.asarray(saved.values["counts"], np.int64)
        reached = [-np.inf if one is None else one for one in saved.values["reached"]]
        self._reached = np.asarray(reached, np.float64)
