"""Filter: the rows for which a condition is true (the papers' selection)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from everquery.errors import InvalidNetworkError
from everquery.network.expressions.compiled import Columns
from everquery.network.expressions.lists import compile_condition, scope_of
from everquery.network.operator import Operator, evaluate
from everquery.network.rows import Flow, RowType
from everquery.network.spec import Box, Function


@dataclass(frozen=True)
class Filter(Box):
    """Let through the rows for which a condition is true, and neither false nor unknown.

    Parameters
    ----------
    where : str or function
        SQL, or a Python function from an Arrow table to an array of booleans.

    Examples
    --------
    >>> Filter("readings", where="temperature > 80").form()
    {'box': 'filter', 'from': 'readings', 'where': 'temperature > 80'}
    """

    where: str | Function = field(kw_only=True)
    kind = "filter"

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return the type of its input."""
        (rows,) = inputs
        if not callable(self.where):
            compile_condition(self.where, scope_of(dict(rows.columns), *self.sources))
        return rows

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return FilterOperator(self, inputs, output)


class FilterOperator(Operator):
    """A running filter."""

    stateless = True

    def __init__(self, spec: Filter, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(inputs, output)
        self._spec = spec
        self.rebind(inputs, output)

    def rebind(self, inputs: Sequence[RowType], output: RowType) -> None:
        """Compile the condition for these types."""
        super().rebind(inputs, output)
        where = self._spec.where
        if not callable(where):
            scope = scope_of(dict(inputs[0].columns), *self._spec.sources)
            self._condition = compile_condition(where, scope)

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return the rows that pass."""
        (flow,) = flows
        where = self._spec.where
        if not flow.rows.num_rows:
            return Flow(self.output.empty(), flow.clock)
        if callable(where):
            return Flow(flow.rows.filter(_mask(where, flow.rows)), flow.clock)
        rows, (mask,) = evaluate(flow.rows, self._masks, self.letters)
        return Flow(rows.filter(mask), flow.clock)

    def _masks(self, columns: Columns, rows: int) -> list[Any]:
        return [self._condition.array(columns, rows)]


def _mask(function: Function, rows: pa.Table) -> pa.Array:
    mask = function(rows)
    array = mask if isinstance(mask, (pa.Array, pa.ChunkedArray)) else pa.array(mask)
    if array.type != pa.bool_() or len(array) != rows.num_rows:
        raise InvalidNetworkError(
            f"the function of a filter gave {len(array)} values of {array.type} for"
            f" {rows.num_rows} rows; it gives one boolean for each"
        )
    return array
