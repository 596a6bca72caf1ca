"""Map: a list of expressions for every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from everquery.errors import InvalidNetworkError
from everquery.network.expressions.lists import Item, column_of, compiled, read_items, scope_of
from everquery.network.expressions.scope import Scope
from everquery.network.expressions.types import NAMES, BadExpressionError
from everquery.network.operator import Operator, arrays_of, evaluate
from everquery.network.rows import BEGINNING, END, Flow, RowType, fitted
from everquery.network.spec import Box, Function


@dataclass(frozen=True)
class Map(Box):
    """Give for every row the values of a list of expressions.

    A column that is passed on unchanged, perhaps under another name, stays key or time.

    Parameters
    ----------
    select : str or function
        SQL as behind SELECT; ``*`` is all columns. Or a Python function from an Arrow table to one
        with as many rows.
    columns : mapping of str to str, optional
        The columns that a function gives, with their types.

    Examples
    --------
    >>> Map("hot", select="machine, temperature * 2 AS twice").form()["select"]
    'machine, temperature * 2 AS twice'
    """

    select: str | Function = field(kw_only=True)
    columns: dict[str, str] | None = field(default=None, kw_only=True)
    kind = "map"

    def infer(self, inputs: Sequence[RowType]) -> RowType:
        """Return one column for each expression."""
        (rows,) = inputs
        if callable(self.select):
            return self._declared(rows)
        scope, items = self.items(rows)
        if not items:
            raise BadExpressionError("`select` is empty")
        columns = {item.name: compiled(item.tree, scope).type for item in items}
        came = {column_of(item.tree, scope): item.name for item in reversed(items)}
        groups = tuple(came[name] for name in rows.groups if name in came)
        return RowType(
            columns,
            key=came.get(rows.key) if rows.key else None,
            time=came.get(rows.time) if rows.time else None,
            groups=groups if len(groups) == len(rows.groups) else (),
        )

    def items(self, rows: RowType) -> tuple[Scope, list[Item]]:
        """Return the expressions, and what they may name."""
        assert isinstance(self.select, str)
        scope = scope_of(dict(rows.columns), *self.sources)
        return scope, read_items(self.select, list(rows.columns))

    def _declared(self, rows: RowType) -> RowType:
        if not self.columns:
            raise InvalidNetworkError(
                "`select` is a Python function; `columns` says which columns it gives,"
                ' as in {"twice": "number"}'
            )
        unknown = [kind for kind in self.columns.values() if kind not in NAMES]
        if unknown:
            raise InvalidNetworkError(f"{unknown[0]!r} is no type; there are {', '.join(NAMES)}")
        kinds = {
            name: rows.columns[name] if name in (rows.key, rows.time) else NAMES[kind]
            for name, kind in self.columns.items()
        }
        return RowType(
            kinds,
            key=rows.key if rows.key in kinds else None,
            time=rows.time if rows.time in kinds else None,
        )

    def operator(self, inputs: Sequence[RowType], output: RowType) -> Operator:
        """Return what runs it."""
        return MapOperator(self, inputs, output)


class MapOperator(Operator):
    """A running map."""

    stateless = True

    def __init__(self, spec: Map, inputs: Sequence[RowType], output: RowType) -> None:
        super().__init__(inputs, output)
        self._spec = spec
        self.rebind(inputs, output)

    def rebind(self, inputs: Sequence[RowType], output: RowType) -> None:
        """Compile the expressions for these types."""
        super().rebind(inputs, output)
        if not callable(self._spec.select):
            scope, items = self._spec.items(inputs[0])
            self._names = [item.name for item in items]
            self._work = arrays_of([compiled(item.tree, scope) for item in items])

    def process(self, flows: Sequence[Flow]) -> Flow:
        """Return the values for each row."""
        (flow,) = flows
        clock = flow.clock if self.output.time or flow.clock == END else BEGINNING
        if not flow.rows.num_rows:
            return Flow(self.output.empty(), clock)
        if callable(self._spec.select):
            return Flow(self._by_function(flow.rows), clock)
        _, arrays = evaluate(flow.rows, self._work, self.letters)
        return Flow(pa.table(arrays, names=self._names), clock)

    def _by_function(self, rows: pa.Table) -> pa.Table:
        assert callable(self._spec.select)
        given = self._spec.select(rows)
        found = given if isinstance(given, pa.Table) else pa.table(given)
        missing = [name for name in self.output.columns if name not in found.column_names]
        if found.num_rows != rows.num_rows or missing:
            raise InvalidNetworkError(
                f"the function of a map gave {found.num_rows} rows for {rows.num_rows}, without"
                f" {missing}; it gives a row for each, with the columns of `columns`"
            )
        return fitted(found, self.output)
