"""What runs a join: the rows of each side that may still find a partner, and the pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everquery.network.boxes.sides import GROUP, INDEX, PLACE, Side, forget_groups
from everquery.network.expressions.compiled import Columns, Compiled
from everquery.network.expressions.lists import compile_condition, compiled
from everquery.network.expressions.ranges import MOST_EXPANDED, Ranges
from everquery.network.expressions.types import meet
from everquery.network.grouping import Groups, Ints, search
from everquery.network.operator import Operator, Saved, arrays_of, evaluate
from everquery.network.rows import BEGINNING, END, Flow, RowType, whole
from everquery.network.windows import TIME

if TYPE_CHECKING:
    from everquery.network.boxes.join import Join

_NONE = np.zeros(0, np.int64)


class JoinOperator(Operator):
    """A running join."""

    def __init__(self, spec: Join, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(inputs, output)
        self._spec = spec
        self._sides = (Side(), Side())
        self._groups: Groups | None = None
        self.rebind(inputs, output)

    def rebind(self, inputs: Sequence[RowType], output: RowType) -> None:
        """Compile the condition and the columns for these types."""
        super().rebind(inputs, output)
        self._plan = plan = self._spec.plan(inputs)
        self._conditions = [compile_condition(part, plan.scope) for part in plan.rest]
        self._work = arrays_of([compiled(item.tree, plan.scope) for item in plan.items])
        if self._groups is None:
            self._groups = Groups([f"k{at}" for at in range(len(plan.equal))])

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return the pairs that the new rows make known."""
        within = self._spec.within
        before = [
            side.take(
                flow,
                within,
                within.column(self.inputs[at], self._spec.sources[at]),
                lambda rows, at=at: self._numbered(rows, at),  # type: ignore[misc]
                self.letters,
            )
            for at, (side, flow) in enumerate(zip(self._sides, flows, strict=True))
        ]
        found = self._told(*self._pairs(before))
        size = self._size()
        self._sides[0].drop_below(self._sides[1].clock - size)
        self._sides[1].drop_below(self._sides[0].clock - size)
        assert self._groups is not None
        forget_groups(self._groups, self._sides)
        return Flow(found, self._output_clock(flows, size))

    def _size(self) -> float:
        """Return how far the rows of a pair may be apart: not at all, if `on` equates the times."""
        within = self._spec.within
        left, right = (
            within.column(rows, source)
            for rows, source in zip(self.inputs, self._spec.sources, strict=True)
        )
        if left is None or right is None:
            return within.size(None)
        kind = self.inputs[0].columns[left]
        same = (left, right) in self._plan.equal and kind == self.inputs[1].columns[right]
        return 0 if same and within.by == TIME else within.size(kind)

    def _numbered(self, rows: pa.Table, side: int) -> Ints:
        """Return a number for the equal columns of each row; -1 where one is NULL."""
        assert self._groups is not None
        columns = {}
        valid = np.ones(rows.num_rows, bool)
        for at, pair in enumerate(self._plan.equal):
            left, right = (self.inputs[one].columns[pair[one]] for one in (0, 1))
            kind = meet(left, right, "join")
            column = rows.column(pair[side])
            columns[f"k{at}"] = column if pa.types.is_null(kind) else column.cast(kind)
            valid &= pc.is_valid(whole(column)).to_numpy(zero_copy_only=False)
        numbers = self._groups.number(pa.table(columns) if columns else rows)
        return np.where(valid, numbers, -1)

    def _pairs(self, before: Sequence[int]) -> tuple[Ints, Ints]:
        """Return the near rows of left and right: new left ones, then old with new right."""
        left, right = self._sides
        size = self._size()
        assert left.rows is not None
        assert right.rows is not None
        all_left, all_right = np.arange(left.rows.num_rows), np.arange(right.rows.num_rows)
        found = list(self._near(all_left[before[0] :], all_right, size))
        found += self._near(all_left[: before[0]], all_right[before[1] :], size)
        if not found:
            return _NONE, _NONE
        first, second = (np.concatenate(side) for side in zip(*found, strict=True))
        later = np.maximum(left.part(INDEX)[first], right.part(INDEX)[second])
        order = np.lexsort((right.part(PLACE)[second], left.part(PLACE)[first], later))
        return first[order], second[order]

    def _near(self, rows: Ints, others: Ints, size: float) -> Iterator[tuple[Ints, Ints]]:
        left, right = self._sides
        if not rows.size or not others.size:
            return
        index, groups = right.part(INDEX)[others], right.part(GROUP)[others]
        order = np.lexsort((index, groups))
        index, groups = index[order], groups[order]
        wanted, of = left.part(INDEX)[rows], left.part(GROUP)[rows]
        low = search(groups, index, of, wanted - size, after=False)
        high = search(groups, index, of, wanted + size, after=True)
        ends = np.cumsum(high - low)
        begin = 0
        while begin < rows.size:
            done = ends[begin - 1] if begin else 0
            end = max(int(np.searchsorted(ends, done + MOST_EXPANDED, "right")), begin + 1)
            at, window = Ranges(low[begin:end], high[begin:end]).expanded()
            if at.size:
                yield self._kept(rows[begin:end][window], others[order[at]])
            begin = end

    def _kept(self, left: Ints, right: Ints) -> tuple[Ints, Ints]:
        """Return the pairs that the rest of the condition takes."""
        for condition in self._conditions:
            numbered = self._table(left, right).append_column("_at", pa.array(np.arange(left.size)))
            rows, (mask,) = evaluate(numbered, _test(condition), self.letters)
            at = rows.column("_at").filter(mask).to_numpy()
            left, right = left[at], right[at]
        return left, right

    def _table(self, left: Ints, right: Ints) -> pa.Table:
        """Return pairs as rows."""
        taken = [pa.array(left), pa.array(right)]
        columns = {}
        for name, (side, own) in self._plan.pair.items():
            rows = self._sides[side].rows
            assert rows is not None
            columns[name] = whole(rows.column(own)).take(taken[side])
        return pa.table(columns)

    def _told(self, left: Ints, right: Ints) -> pa.Table:
        if not left.size:
            return self.output.empty()
        _, arrays = evaluate(self._table(left, right), self._work, self.letters)
        return pa.table(arrays, names=[item.name for item in self._plan.items])

    def _output_clock(self, flows: Sequence[Flow], size: float) -> float:
        if all(flow.clock == END for flow in flows):
            return END
        if self.output.time is None:
            return BEGINNING
        return min(flows[0].clock, flows[1].clock - size)

    def held(self) -> int:
        """Return how many rows may still find a partner."""
        return sum(side.rows.num_rows for side in self._sides if side.rows is not None)

    def save(self) -> Saved:
        """Return both sides, and the groups of equal columns."""
        assert self._groups is not None
        keys = self._groups.keys()
        tables = {} if keys is None else {"groups": keys}
        saved = Saved(tables=tables)
        for name, side in zip(("left", "right"), self._sides, strict=True):
            side.save(name, saved)
        return saved

    def load(self, saved: Saved) -> None:
        """Take a state that `save` gave."""
        assert self._groups is not None
        self._groups.load(saved.tables.get("groups"))
        for name, side in zip(("left", "right"), self._sides, strict=True):
            side.load(name, saved)


def _test(condition: Compiled) -> Callable[[Columns, int], list[Any]]:
    return lambda columns, rows: [condition.array(columns, rows)]
