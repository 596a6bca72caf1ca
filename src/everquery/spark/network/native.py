"""SQL expressions of boxes as columns of Spark, where Spark means the same.

What may fail on a row is not among them (its row would be a dead letter), nor is what reckons
with whole numbers, whose overflow is such a failure, nor what PyArrow and Spark do differently.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add, eq, ge, gt, le, lt, mul, ne, sub, truediv
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, functions
from sqlglot import exp

from everquery.network.expressions.compiled import Compiled
from everquery.network.expressions.compiler import compile_tree
from everquery.network.expressions.scope import Scope
from everquery.network.expressions.types import (
    BOOLEAN,
    NUMBER,
    UNKNOWN,
    UnknownFunctionError,
    is_moment,
)
from everquery.spark.rows import quoted


class NotNativeError(Exception):
    """Spark has no expression with the same meaning; the embedded operator runs the box."""


def native(tree: exp.Expression, scope: Scope) -> Column:
    """Return an expression over the columns of a scope.

    Raises
    ------
    NotNativeError
        If Spark has none that means the same for all values.
    """
    found = _compiled(tree, scope)
    if found.may_fail:
        raise NotNativeError(tree.sql())
    return _column(tree, scope)


def native_value(tree: exp.Expression, scope: Scope) -> Column:
    """Return an expression of a list: NULL in the place of NaN."""
    column = native(tree, scope)
    kind = _compiled(tree, scope).type
    if kind == UNKNOWN:
        raise NotNativeError(tree.sql())
    return known(column) if kind == NUMBER and not _is_plain(tree) else column


def known(column: Column) -> Column:
    """Return numbers with NULL in the place of NaN."""
    return functions.when(~functions.isnan(column), column)


def _compiled(tree: exp.Expression, scope: Scope) -> Compiled:
    try:
        return compile_tree(tree, scope)
    except UnknownFunctionError as error:
        raise NotNativeError(str(error)) from None


def _column(tree: exp.Expression, scope: Scope) -> Column:
    rule = _RULES.get(type(tree))
    if rule is None:
        raise NotNativeError(tree.sql())
    return rule(tree, scope)


def _is_plain(tree: exp.Expression) -> bool:
    """Tell whether it is a column or a constant, which are never NaN."""
    return isinstance(tree.unnest(), (exp.Column, exp.Literal))


def _named(tree: exp.Expression, scope: Scope) -> Column:
    assert isinstance(tree, exp.Column)
    return functions.col(quoted(scope.find(tree)))


def _constant(tree: exp.Expression, scope: Scope) -> Column:
    return functions.lit(_compiled(tree, scope).constant.as_py())


def _typed(trees: list[exp.Expression], scope: Scope) -> tuple[pa.DataType, list[Column]]:
    """Return expressions in the one type that they meet in, and that type.

    Only constants are taken from whole to other numbers: of columns, some may not fit.
    """
    parts = [_compiled(tree, scope) for tree in trees]
    kinds = {part.type for part in parts if part.constant is None}
    if not kinds:
        kinds = {part.type for part in parts}
    if UNKNOWN in kinds or len(kinds) != 1:
        raise NotNativeError(trees[0].sql())
    (kind,) = kinds
    return kind, [_in_type(*each, kind, scope) for each in zip(trees, parts, strict=True)]


def _in_type(tree: exp.Expression, part: Compiled, kind: pa.DataType, scope: Scope) -> Column:
    if part.constant is None or part.type == kind:
        if part.constant is not None and is_moment(kind):
            raise NotNativeError(tree.sql())
        return _column(tree, scope)
    if kind == NUMBER and pa.types.is_integer(part.type):
        return functions.lit(float(part.constant.as_py()))
    raise NotNativeError(tree.sql())


def _both(tree: exp.Expression) -> list[exp.Expression]:
    return [tree.this, tree.expression]


def _arithmetic(work: Callable[[Any, Any], Any]) -> Callable[[exp.Expression, Scope], Column]:
    def rule(tree: exp.Expression, scope: Scope) -> Column:
        kind, (left, right) = _typed(_both(tree), scope)
        if kind != NUMBER:
            raise NotNativeError(tree.sql())
        found: Column = work(left, right)
        return found

    return rule


def _divide(tree: exp.Expression, scope: Scope) -> Column:
    divisor = _compiled(tree.expression, scope).constant
    if divisor is None or not divisor.as_py():
        raise NotNativeError(tree.sql())
    return _arithmetic(truediv)(tree, scope)


def _negate(tree: exp.Expression, scope: Scope) -> Column:
    found = _compiled(tree, scope)
    if found.constant is not None:
        return functions.lit(found.constant.as_py())
    if found.type != NUMBER:
        raise NotNativeError(tree.sql())
    return -_column(tree.this, scope)


def _compare(
    work: Callable[[Any, Any], Any], *, with_nan: bool
) -> Callable[[exp.Expression, Scope], Column]:
    """Return the rule of a comparison: of NaN, Spark says that it is equal to itself, and large."""

    def rule(tree: exp.Expression, scope: Scope) -> Column:
        kind, (left, right) = _typed(_both(tree), scope)
        found: Column = work(left, right)
        computed = [
            side
            for side, one in zip((left, right), _both(tree), strict=True)
            if kind == NUMBER and not _is_plain(one)
        ]
        if not computed:
            return found
        is_nan = functions.isnan(computed[0])
        for side in computed[1:]:
            is_nan = is_nan | functions.isnan(side)
        # NULL beside NaN is NULL.
        there = left.isNotNull() & right.isNotNull()
        return functions.when(is_nan & there, functions.lit(with_nan)).otherwise(found)

    return rule


def _truth(tree: exp.Expression, scope: Scope) -> Column:
    if _compiled(tree, scope).type != BOOLEAN:
        raise NotNativeError(tree.sql())
    return _column(tree, scope)


def _is(tree: exp.Expression, scope: Scope) -> Column:
    if isinstance(tree.expression, exp.Null):
        return _column(tree.this, scope).isNull()
    raise NotNativeError(tree.sql())


def _between(tree: exp.Expression, scope: Scope) -> Column:
    trees = [tree.this, tree.args["low"], tree.args["high"]]
    if not all(map(_is_plain, trees)):
        raise NotNativeError(tree.sql())
    _, (it, low, high) = _typed(trees, scope)
    return it.between(low, high)


def _in(tree: exp.Expression, scope: Scope) -> Column:
    if not tree.expressions or not _is_plain(tree.this):
        raise NotNativeError(tree.sql())
    _, (it, *options) = _typed([tree.this, *tree.expressions], scope)
    if any(_compiled(one, scope).constant is None for one in tree.expressions):
        raise NotNativeError(tree.sql())
    return it.isin(*options)


def _coalesce(tree: exp.Expression, scope: Scope) -> Column:
    _, columns = _typed([tree.this, *tree.expressions], scope)
    return functions.coalesce(*columns)


def _case(tree: exp.Expression, scope: Scope) -> Column:
    if tree.args.get("this") is not None or tree.args.get("default") is None:
        raise NotNativeError(tree.sql())
    branches = tree.args["ifs"]
    _, values = _typed([*(one.args["true"] for one in branches), tree.args["default"]], scope)
    found = functions.when(_truth(branches[0].this, scope), values[0])
    for branch, value in zip(branches[1:], values[1:-1], strict=True):
        found = found.when(_truth(branch.this, scope), value)
    return found.otherwise(values[-1])


def _abs(tree: exp.Expression, scope: Scope) -> Column:
    if _compiled(tree.this, scope).type != NUMBER:
        raise NotNativeError(tree.sql())
    return functions.abs(_column(tree.this, scope))


_RULES: dict[type[exp.Expression], Callable[[exp.Expression, Scope], Column]] = {
    exp.Column: _named,
    exp.Literal: _constant,
    exp.Boolean: _constant,
    exp.Paren: lambda tree, scope: _column(tree.this, scope),
    exp.Add: _arithmetic(add),
    exp.Sub: _arithmetic(sub),
    exp.Mul: _arithmetic(mul),
    exp.Div: _divide,
    exp.Neg: _negate,
    exp.EQ: _compare(eq, with_nan=False),
    exp.NEQ: _compare(ne, with_nan=True),
    exp.GT: _compare(gt, with_nan=False),
    exp.GTE: _compare(ge, with_nan=False),
    exp.LT: _compare(lt, with_nan=False),
    exp.LTE: _compare(le, with_nan=False),
    exp.And: lambda tree, scope: _truth(tree.this, scope) & _truth(tree.expression, scope),
    exp.Or: lambda tree, scope: _truth(tree.this, scope) | _truth(tree.expression, scope),
    exp.Not: lambda tree, scope: ~_truth(tree.this, scope),
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Coalesce: _coalesce,
    exp.Case: _case,
    exp.Abs: _abs,
}
