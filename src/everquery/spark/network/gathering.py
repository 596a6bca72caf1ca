"""Tumbling windows whose rows are gathered: a batch gives one row a group and window, which waits.

So state is as small as the answer. It is done where it is exact: counts, and the smallest and the
largest of columns. Sums of parts would be rounded otherwise than the sum of all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from everquery.network.boxes.tumble import Tumble
from everquery.network.boxes.windowed import LATE, UNKNOWN_INDEX, groups_of, plain_number
from everquery.network.expressions.lists import Item, read_items, scope_of
from everquery.network.expressions.parsing import DIALECT
from everquery.network.expressions.scope import Scope
from everquery.network.expressions.types import INTEGER, NUMBER
from everquery.network.model import Network
from everquery.network.operator import Operator, Saved
from everquery.network.rows import Flow, RowType
from everquery.network.spec import Box
from everquery.network.windows import TIME, Window, index_column, index_values, multiple_below

GATHERED = " gathered"  # behind the name of a box that has this one in front of it
_KNOWN: dict[Any, str] = {exp.Max: "max", exp.Min: "min"}
_AGAIN: dict[str, Any] = {"max": exp.Max, "min": exp.Min, "count": exp.Sum, "count_all": exp.Sum}


@dataclass(frozen=True)
class Gather(Box):
    """Give one row for each group and window of a batch, with the window's start as its time.

    Parameters
    ----------
    by : columns of groups
    every : Window
        By time.
    parts : tuple of (function, column)
        Aggregates of PyArrow; their values are the columns ``_0``, ``_1`` and so on.
    """

    by: tuple[str, ...] = field(kw_only=True)
    every: Window = field(kw_only=True)
    parts: tuple[tuple[str, str], ...] = field(kw_only=True)
    kind = "gather"

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the groups, the time and the parts."""
        (rows,) = inputs
        names = dict.fromkeys((*self.by, str(rows.time)))
        kinds = {name: rows.columns[name] for name in names}
        for number, (function, column) in enumerate(self.parts):
            kinds[f"_{number}"] = INTEGER if "count" in function else rows.columns[column]
        return RowType(kinds, key=rows.key if rows.key in kinds else None, time=rows.time)

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return GatherOperator(self, inputs, output)


class GatherOperator(Operator):
    """A running gather box: it remembers which windows have ended, for rows that are late."""

    def __init__(self, spec: Gather, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(inputs, output)
        self._spec = spec
        self._bound: float | None = None

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return one row for each group and window."""
        (flow,) = flows
        rows, time = flow.rows, str(self.inputs[0].time)
        if rows.column(time).null_count:
            self.letters.add(rows.filter(pc.is_null(rows.column(time))), UNKNOWN_INDEX)
            rows = rows.filter(pc.is_valid(rows.column(time)))
        index = index_values(rows.column(time))
        if self._bound is not None and index.size and index.min() < self._bound:
            late = index < self._bound
            self.letters.add(rows.filter(pa.array(late)), LATE)
            rows, index = rows.filter(pa.array(~late)), index[~late]
        size = self._spec.every.size(self.inputs[0].columns[time])
        if np.isfinite(flow.clock):
            bound = multiple_below(np.asarray([flow.clock]), size)[0].item()
            self._bound = bound if self._bound is None else max(bound, self._bound)
        if not rows.num_rows:
            return Flow(self.output.empty(), flow.clock)
        starts = index_column(multiple_below(index, size), self.inputs[0].columns[time])
        return Flow(self._grouped(rows, time, starts), flow.clock)

    def _grouped(self, rows: pa.Table, time: str, starts: pa.Array) -> pa.Table:
        names = list(dict.fromkeys((*self._spec.by, time)))
        columns = {name: starts if name == time else rows.column(name) for name in names}
        asked: list[tuple[str | list[str], str]] = []
        for number, (function, column) in enumerate(self._spec.parts):
            columns[f"_{number}"] = rows.column(column or time)
            asked.append(([], function) if function == "count_all" else (f"_{number}", function))
        grouped = pa.table(columns).group_by(names, use_threads=False).aggregate(asked)
        found = dict(zip(grouped.column_names, grouped.columns, strict=True))
        values = [
            found["count_all" if function == "count_all" else f"_{number}_{function}"]
            for number, (function, _) in enumerate(self._spec.parts)
        ]
        own = [found[name] for name in names]
        return pa.table([*own, *values], names=list(self.output.columns)).cast(self.output.schema)

    def save(self) -> Saved:
        """Return how far windows have ended."""
        return Saved({"bound": plain_number(self._bound)})

    def load(self, saved: Saved) -> None:
        """Take a state that `save` gave."""
        self._bound = saved.values["bound"]


def with_gathering(network: Network, types: Mapping[str, RowType]) -> Network:
    """Return a network whose tumbling windows are of gathered rows, where that is exact.

    Parameters
    ----------
    types : of the rows behind every stream, point and box
    """
    boxes: dict[str, Box] = {}
    for name, box in network.boxes.items():
        found = _divided(name, box, types) if isinstance(box, Tumble) else None
        boxes |= {name: box} if found is None else found
    return Network(network.name, network.streams, boxes, network.outputs, network.points)


def _divided(name: str, box: Tumble, types: Mapping[str, RowType]) -> dict[str, Box] | None:
    rows = types[box.sources[0]]
    if box.every.by != TIME or not rows.bound:
        return None
    by = groups_of(box.by, rows)
    scope = scope_of(dict(rows.columns), *box.sources)
    parts: dict[tuple[str, str], str | None] = {}
    items = [
        Item(item.name, _again(item.tree, scope, parts))
        for item in read_items(box.select, list(by))
    ]
    clash = rows.time in by or any(one == "count_all" or one.startswith("_") for one in by)
    if clash or None in parts.values() or not parts:
        return None
    first = Gather(box.sources[0], by=by, every=box.every, parts=tuple(parts))
    select = ", ".join(exp.alias_(item.tree, item.name, quoted=True).sql(DIALECT) for item in items)
    values = {one.name: getattr(box, one.name) for one in fields(box)}
    second = Tumble(**{**values, "source": name + GATHERED, "by": by, "select": select})
    return {name + GATHERED: first, name: second}


def _again(
    tree: exp.Expression, scope: Scope, parts: dict[tuple[str, str], str | None]
) -> exp.Expression:
    """Return an expression over the parts of aggregates; notes them, or None for what has none."""

    def visit(node: exp.Expression) -> Any:  # noqa: ANN401 - sqlglot has two roots of its tree
        if isinstance(node, exp.AggFunc):
            part = _part(node, scope)
            if part is None:
                parts["", ""] = None
                return node
            column = parts.setdefault(part, f"_{len(parts)}")
            return _AGAIN[part[0]](this=exp.column(str(column), quoted=True))
        if isinstance(node, exp.Column) and node.table:
            return exp.column(node.name, quoted=True)
        return node

    found: exp.Expression = tree.copy().transform(visit)
    return found


def _part(node: exp.Expression, scope: Scope) -> tuple[str, str] | None:
    """Return the function and the column of an aggregate that may be told in parts."""
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star) and not node.expressions:
        return "count_all", ""
    if not isinstance(node.this, exp.Column) or node.expressions or node.args.get("expression"):
        return None
    column = scope.find(node.this)
    if isinstance(node, exp.Count):
        return "count", column
    if type(node) in _KNOWN and scope.columns[column] in (INTEGER, NUMBER):
        return _KNOWN[type(node)], column
    return None
