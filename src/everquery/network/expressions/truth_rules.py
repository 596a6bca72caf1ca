"""How comparisons and conditions are compiled; what is null makes them null, as in SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from everquery.network.expressions import functions as f
from everquery.network.expressions.compiled import Compiled, as_type, built
from everquery.network.expressions.operands import (
    Compile,
    Rule,
    alike,
    parts_of,
    truth_of,
)
from everquery.network.expressions.parsing import DIALECT
from everquery.network.expressions.types import (
    BOOLEAN,
    UnknownFunctionError,
)


def _compare(function: Callable[..., Any]) -> Rule:
    def rule(tree: exp.Expression, compile_part: Compile) -> Compiled:
        left, right = alike(parts_of(tree, compile_part), tree.sql(DIALECT))
        return built(BOOLEAN, function, left, right)

    return rule


def _both(function: Callable[..., Any]) -> Rule:
    def rule(tree: exp.Expression, compile_part: Compile) -> Compiled:
        parts = [
            as_type(truth_of(side, compile_part), BOOLEAN) for side in (tree.this, tree.expression)
        ]
        return built(BOOLEAN, function, *parts)

    return rule


def _not(tree: exp.Expression, compile_part: Compile) -> Compiled:
    return built(BOOLEAN, pc.invert, as_type(truth_of(tree.this, compile_part), BOOLEAN))


def _is(tree: exp.Expression, compile_part: Compile) -> Compiled:
    part, right = compile_part(tree.this), tree.expression
    if isinstance(right, exp.Null):
        return built(BOOLEAN, f.is_null, part)
    if isinstance(right, exp.Boolean):
        wanted = bool(right.this)
        truth = as_type(truth_of(tree.this, compile_part), BOOLEAN)
        return built(BOOLEAN, lambda found: f.is_truth(found, wanted), truth)
    raise UnknownFunctionError(tree.sql(DIALECT))


def _in(tree: exp.Expression, compile_part: Compile) -> Compiled:
    if not tree.expressions:
        raise UnknownFunctionError(tree.sql(DIALECT))
    parts = [compile_part(one) for one in (tree.this, *tree.expressions)]
    part, *options = alike(parts, tree.sql(DIALECT))
    if any(option.constant is None or not option.constant.is_valid for option in options):
        raise UnknownFunctionError(tree.sql(DIALECT))
    kind = next((option.type for option in options), part.type)
    values = pa.array([option.constant.as_py() for option in options], kind)
    return built(BOOLEAN, lambda found: f.is_in(found, values), part)


def _between(tree: exp.Expression, compile_part: Compile) -> Compiled:
    parts = alike(parts_of(tree, compile_part, "this", "low", "high"), tree.sql(DIALECT))
    return built(
        BOOLEAN,
        lambda it, low, high: pc.and_kleene(pc.greater_equal(it, low), pc.less_equal(it, high)),
        *parts,
    )


TRUTH_RULES: dict[type[exp.Expression], Rule] = {
    exp.EQ: _compare(pc.equal),
    exp.NEQ: _compare(pc.not_equal),
    exp.GT: _compare(pc.greater),
    exp.GTE: _compare(pc.greater_equal),
    exp.LT: _compare(pc.less),
    exp.LTE: _compare(pc.less_equal),
    exp.And: _both(pc.and_kleene),
    exp.Or: _both(pc.or_kleene),
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
}
