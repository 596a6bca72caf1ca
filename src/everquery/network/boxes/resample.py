"""Resample: what one arrow says at the moments of another, predicted from what is near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.errors import InvalidNetworkError
from everquery.network.boxes.sides import GROUP, INDEX, PLACE, Side, forget_groups
from everquery.network.boxes.windowed import WindowColumns, groups_of
from everquery.network.expressions.aggregates import PREDICTIONS, read_aggregates
from everquery.network.expressions.lists import scope_of
from everquery.network.expressions.predictions import predict
from everquery.network.expressions.ranges import Ranges
from everquery.network.expressions.types import BadExpressionError, meet
from everquery.network.grouping import Groups, Ints, search
from everquery.network.operator import Operator, Saved
from everquery.network.rows import BEGINNING, END, Flow, RowType, columns_of
from everquery.network.spec import Box, check_columns
from everquery.network.windows import ROWS, TIME, Index, Window, index_column

POSITION = "position"


@dataclass(frozen=True)
class Resample(Box):
    """Predict what the first arrow says at every index value of the second.

    A row is told for each index value of the second arrow (and group, with `by`), from the rows of
    the first that are at most `within` away, before or after: once all of them have come.

    Parameters
    ----------
    within : Window
    predict : str
        Aggregates over those rows; ``linear(x)``, ``nearest(x)`` and ``previous(x)`` look at where
        the index value lies between them. NULL where there are none.
    by : sequence of str, optional
        Columns of both arrows that have to be equal.

    Examples
    --------
    >>> Resample(["prices", "ticks"], within={"time": 5}, predict="linear(price) AS price").kind
    'resample'
    """

    by: Sequence[str] | None = field(default=None, kw_only=True, metadata={"names": True})
    within: Window = field(kw_only=True, metadata={"window": True})
    predict: str = field(kw_only=True)
    kind = "resample"
    arity = (2, 2)

    def columns(self, inputs: Sequence[RowType]) -> WindowColumns:
        """Return what it computes."""
        values, moments = inputs
        groups = groups_of(self.by, values)
        check_columns(groups, moments, "by")
        for name in groups:
            meet(values.columns[name], moments.columns[name], f"column {name!r} of `by`")
        index = self.within.column(values, self.sources[0])
        wanted = self.within.column(moments, self.sources[1])
        label = POSITION if wanted is None else wanted
        kind = pa.int64() if wanted is None else moments.columns[wanted]
        if index is not None:
            try:
                meet(values.columns[index], kind, "the two indexes")
            except BadExpressionError as error:
                raise InvalidNetworkError(str(error)) from None
        scope = scope_of(dict(values.columns), self.sources[0])
        found = read_aggregates(self.predict, scope, groups, {})
        if label in [*groups, *(name for name, _ in found.items)]:
            raise InvalidNetworkError(f"`predict` gives {label!r}, which is the index; rename it")
        return WindowColumns(found, groups, label, index, kind)

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the index of the second arrow, the groups, and what is predicted."""
        columns = self.columns(inputs)
        kinds = {name: inputs[0].columns[name] for name in columns.groups}
        kinds[columns.label] = columns.kind
        kinds |= {name: item.type for name, item in columns.list.items}
        key = inputs[1].key if inputs[1].key in columns.groups else None
        time = columns.label if self.within.by == TIME else None
        return RowType(kinds, key=key, time=time)

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return ResampleOperator(self, inputs, output)


class ResampleOperator(Operator):
    """A running resample box."""

    def __init__(self, spec: Resample, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(inputs, output)
        self._spec = spec
        self._sides = (Side(), Side())
        self.rebind(inputs, output)
        self._groups = Groups(self._columns.groups)
        self._told: float = BEGINNING

    def rebind(self, inputs: Sequence[RowType], output: RowType) -> None:
        """Compile the prediction for these types."""
        super().rebind(inputs, output)
        self._columns = self._spec.columns(inputs)

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return the predictions whose rows have all come."""
        for at, (side, flow) in enumerate(zip(self._sides, flows, strict=True)):
            side.take(
                flow,
                self._spec.within,
                self._spec.within.column(self.inputs[at], self._spec.sources[at]),
                self._groups.number,
                self.letters,
            )
        size = self._size()
        values, moments = self._sides
        bound = max(self._told, min(moments.clock, values.clock - size))
        found = self._predicted(bound, size) if bound > self._told else self.output.empty()
        self._told = bound
        values.drop_below(bound - size)
        moments.drop_below(bound)
        forget_groups(self._groups, self._sides)
        if bound == END:
            return Flow(found, END)
        return Flow(found, bound if self.output.time else BEGINNING)

    def _size(self) -> float:
        return self._spec.within.size(None if self._spec.within.by == ROWS else self._columns.kind)

    def _predicted(self, bound: float, size: float) -> pa.Table:
        values, moments = self._sides
        group, at = _distinct(moments, bound)
        if not at.size or values.rows is None:
            return self.output.empty()
        index, numbers = values.part(INDEX), values.part(GROUP)
        order = np.lexsort((values.part(PLACE), index, numbers))
        index, numbers = index[order], numbers[order]
        rows = values.rows.take(pa.array(order))
        windows = Ranges(
            search(numbers, index, group, at - size, after=False),
            search(numbers, index, group, at + size, after=True),
        )
        columns = columns_of(rows)
        found: dict[str, Any] = {}
        for place, one in enumerate(self._columns.list.aggregates):
            parts = [part.array(columns, rows.num_rows) for part in one.arguments]
            if one.name in PREDICTIONS:
                found[f"_{place}"] = predict(one.name, parts[0], index, numbers, (group, at, size))
            else:
                found[f"_{place}"] = one.function(windows, *parts)
        keys = self._groups.keys()
        own = pa.table({}) if keys is None else keys.take(pa.array(group))
        labels = index_column(at, self._columns.kind)
        table = self._columns.finished(own, labels, found, self.letters)
        for name in self._columns.groups:
            if name not in table.column_names:
                table = table.append_column(name, own.column(name))
        return table.select(list(self.output.columns))

    def held(self) -> int:
        """Return how many rows it keeps."""
        return sum(side.rows.num_rows for side in self._sides if side.rows is not None)

    def save(self) -> Saved:
        """Return both sides, the groups, and how far is told."""
        keys = self._groups.keys()
        saved = Saved({"told": _word(self._told)}, {} if keys is None else {"groups": keys})
        for name, side in zip(("values", "moments"), self._sides, strict=True):
            side.save(name, saved)
        return saved

    def load(self, saved: Saved) -> None:
        """Take a state that `save` gave."""
        told = saved.values["told"]
        self._told = float(told) if isinstance(told, str) else told
        self._groups.load(saved.tables.get("groups"))
        for name, side in zip(("values", "moments"), self._sides, strict=True):
            side.load(name, saved)


def _word(number: float) -> Any:  # noqa: ANN401 - a number, or the word of an infinity
    return number if np.isfinite(number) else str(number)


def _distinct(moments: Side, bound: float) -> tuple[Ints, Index]:
    """Return each group and index value below a bound once, by index, then as they came."""
    below = moments.part(INDEX) < bound
    index, groups, place = (moments.part(name)[below] for name in (INDEX, GROUP, PLACE))
    order = np.lexsort((place, groups, index))
    index, groups, place = index[order], groups[order], place[order]
    new = np.append(True, (groups[1:] != groups[:-1]) | (index[1:] != index[:-1]))[: index.size]
    index, groups, place = index[new], groups[new], place[new]
    came = np.lexsort((place, index))
    return groups[came], index[came]
