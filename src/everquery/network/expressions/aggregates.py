"""Lists of expressions with aggregates: what they compute before, over and after their windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from everquery.network.expressions import ranges as r
from everquery.network.expressions.compiled import Columns, Compiled, constant
from everquery.network.expressions.lists import Item, compiled, read_items
from everquery.network.expressions.parsing import DIALECT
from everquery.network.expressions.ranges import Ranges
from everquery.network.expressions.scope import Scope
from everquery.network.expressions.types import (
    INTEGER,
    NUMBER,
    UNKNOWN,
    BadExpressionError,
    is_integer,
    is_number,
    word,
)

Function = Callable[..., Any]


def _same(kind: pa.DataType) -> pa.DataType:
    return kind


def _sum_type(kind: pa.DataType) -> pa.DataType:
    return INTEGER if is_integer(kind) else kind


# Function, result type by that of the argument, and whether the argument is a number.
_KNOWN: dict[type[exp.Expression], tuple[Function, Callable[[Any], Any], bool]] = {
    exp.Sum: (r.total, _sum_type, True),
    exp.Avg: (r.mean, lambda kind: NUMBER, True),
    exp.Min: (r.smallest, _same, False),
    exp.Max: (r.largest, _same, False),
    exp.First: (r.first, _same, False),
    exp.Last: (r.last, _same, False),
    exp.AnyValue: (r.first, _same, False),
    exp.Stddev: (r.variance(True, True), lambda kind: NUMBER, True),
    exp.StddevSamp: (r.variance(True, True), lambda kind: NUMBER, True),
    exp.StddevPop: (r.variance(False, True), lambda kind: NUMBER, True),
    exp.Variance: (r.variance(True, False), lambda kind: NUMBER, True),
    exp.VariancePop: (r.variance(False, False), lambda kind: NUMBER, True),
    exp.Median: (r.quantile(0.5), lambda kind: NUMBER, True),
}
_PAIRS: dict[type[exp.Expression], Function] = {exp.ArgMax: r.at_largest, exp.ArgMin: r.at_smallest}
PREDICTIONS = ("linear", "nearest", "previous")
"""Aggregates of resample boxes alone: they look at where in the window the wanted index is."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: a function over windows, the expressions it takes, the type of its values.

    ``name`` is its word where it can be kept between windows (`latch`) or predicts (`resample`).
    """

    name: str
    function: Function
    arguments: tuple[Compiled, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class AggregateList:
    """A list of expressions over windows.

    Attributes
    ----------
    aggregates : list of Aggregate
        Their values are the columns ``_0``, ``_1``, ... of what `items` read.
    items : list of (name, Compiled)
        Over those columns, the columns of groups, and those that the window itself has.
    reads : frozenset of str
        The columns of rows that aggregates need.
    """

    aggregates: list[Aggregate]
    items: list[tuple[str, Compiled]]
    reads: frozenset[str]

    def values(self, columns: Columns, count: int, windows: Ranges) -> dict[str, Any]:
        """Return the value of each aggregate over each window, by the columns' names."""
        return {
            f"_{at}": one.function(windows, *(part.array(columns, count) for part in one.arguments))
            for at, one in enumerate(self.aggregates)
        }


def read_aggregates(
    text: str, scope: Scope, groups: Sequence[str], window: dict[str, pa.DataType]
) -> AggregateList:
    """Return the expressions of a windowed box.

    Parameters
    ----------
    groups : sequence of str
        The columns that the rows of a window have in common.
    window : mapping of str to Arrow type
        What the window itself has, such as its start.

    Raises
    ------
    BadExpressionError
        If one is no aggregate, and more than a column of the group.
    """
    found: list[Aggregate] = []
    known: dict[str, str] = {}

    def replaced(node: exp.Expression) -> exp.Expression:
        if not _is_aggregate(node):
            return node
        told = node.sql(DIALECT)
        if told not in known:
            known[told] = f"_{len(found)}"
            found.append(read_aggregate(node, scope))
        return exp.column(known[told])

    items = [
        Item(item.name, item.tree.copy().transform(replaced))
        for item in read_items(text, list(groups))
    ]
    columns = {
        **{name: scope.columns[name] for name in groups},
        **window,
        **{f"_{at}": one.type for at, one in enumerate(found)},
    }
    after = Scope(columns, {key: name for key, name in scope.qualified.items() if name in columns})
    compiled_items = []
    for item in items:
        for column in item.tree.find_all(exp.Column):
            if not column.table and column.name in scope.columns and column.name not in columns:
                raise BadExpressionError(
                    f"column {column.name!r} is neither in `by` nor inside an aggregate such as"
                    f" max({column.name})"
                )
        compiled_items.append((item.name, compiled(item.tree, after)))
    reads = frozenset().union(*(part.reads for one in found for part in one.arguments))
    return AggregateList(found, compiled_items, reads)


def _is_aggregate(node: exp.Expression) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in PREDICTIONS
    return isinstance(node, (exp.Count, exp.PercentileCont, *_KNOWN, *_PAIRS))


def read_aggregate(node: exp.Expression, scope: Scope) -> Aggregate:
    """Return one aggregate from its call."""
    told = node.sql(DIALECT)
    if isinstance(node, exp.Count):
        return _read_count(node, scope)
    if isinstance(node, exp.Anonymous):
        (argument,) = node.expressions or [None]
        part = _number(compiled(argument, scope), told)
        return Aggregate(node.name.lower(), _no_prediction, (part,), NUMBER)
    part = compiled(node.this, scope)
    if isinstance(node, exp.PercentileCont):
        share = compiled(node.expression, scope).constant
        if share is None or not 0 <= share.as_py() <= 1:
            raise BadExpressionError(f"{told!r}: the share is a number from 0 to 1")
        return Aggregate("quantile", r.quantile(share.as_py()), (_number(part, told),), NUMBER)
    if type(node) in _PAIRS:
        by = compiled(node.expression, scope)
        return Aggregate(type(node).__name__.lower(), _PAIRS[type(node)], (part, by), part.type)
    function, kind, numeric = _KNOWN[type(node)]
    if numeric:
        _number(part, told)
    return Aggregate(type(node).__name__.lower(), function, (part,), kind(part.type))


def _read_count(node: exp.Count, scope: Scope) -> Aggregate:
    if node.this is None or isinstance(node.this, exp.Star):
        return Aggregate("count", lambda windows, one: r.count_rows(windows), (_ONE,), INTEGER)
    if isinstance(node.this, exp.Distinct):
        (argument,) = node.this.expressions
        return Aggregate("distinct", r.count_distinct, (compiled(argument, scope),), INTEGER)
    return Aggregate("count", r.count, (compiled(node.this, scope),), INTEGER)


_ONE = constant(1, INTEGER)


def _number(part: Compiled, told: str) -> Compiled:
    if not is_number(part.type) and part.type != UNKNOWN:
        raise BadExpressionError(f"{told!r} takes numbers, and has a {word(part.type)}")
    return part


def _no_prediction(*_: object) -> None:
    raise BadExpressionError("linear, nearest and previous are for `predict` of a resample box")
