"""Expressions of SQL become functions over Arrow columns.

What this compiler knows runs on PyArrow; an expression with anything else in it runs on DuckDB as
a whole (`duck.py`). DuckDB takes milliseconds for the smallest batch, and PyArrow microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from everquery.network.expressions import functions as f
from everquery.network.expressions.compiled import Compiled, as_type, built, constant
from everquery.network.expressions.number_rules import NUMBER_RULES
from everquery.network.expressions.operands import Compile, Rule, alike, several_of, truth_of
from everquery.network.expressions.parsing import DIALECT
from everquery.network.expressions.scope import Scope
from everquery.network.expressions.text_rules import TEXT_RULES
from everquery.network.expressions.truth_rules import TRUTH_RULES
from everquery.network.expressions.types import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT,
    UNKNOWN,
    BadExpressionError,
    UnknownFunctionError,
    is_integer,
    is_moment,
)


def compile_tree(tree: exp.Expression, scope: Scope) -> Compiled:
    """Return an expression over the columns of a scope, ready to run.

    Raises
    ------
    BadExpressionError
        If a column is not there or a type is wrong.
    UnknownFunctionError
        If it has a part that only DuckDB may know.
    """
    if type(tree) is exp.Column:
        name = scope.find(tree)
        return Compiled(scope.columns[name], lambda columns: columns[name], frozenset({name}))
    rule = _RULES.get(type(tree))
    if rule is None:
        raise UnknownFunctionError(f"{tree.sql(DIALECT)!r} is nothing that expressions know")
    return rule(tree, partial(compile_tree, scope=scope))


def _literal(tree: exp.Expression, compile_part: Compile) -> Compiled:
    if tree.is_string:
        return constant(tree.this, TEXT)
    text = tree.this
    if text.isdecimal() and int(text) < 2**63:
        return constant(int(text), INTEGER)
    return constant(float(text), NUMBER)


def _case(tree: exp.Expression, compile_part: Compile) -> Compiled:
    short = isinstance(tree, exp.If)
    base, ifs = (None, [tree]) if short else (tree.args.get("this"), tree.args["ifs"])
    tests, values = [], []
    for branch in ifs:
        test = exp.EQ(this=base.copy(), expression=branch.this.copy()) if base else branch.this
        tests.append(as_type(truth_of(test, compile_part), BOOLEAN))
        values.append(compile_part(branch.args["true"]))
    rest = tree.args.get("false" if short else "default")
    values.append(compile_part(rest) if rest is not None else constant(None, UNKNOWN))
    values = alike(values, tree.sql(DIALECT))
    kind = next((value.type for value in values if value.type != UNKNOWN), UNKNOWN)
    return built(kind, f.choose, *tests, *values)


def _of_several(function: Callable[..., Any]) -> Rule:
    def rule(tree: exp.Expression, compile_part: Compile) -> Compiled:
        parts = several_of(tree, compile_part)
        return built(parts[0].type, function, *parts)

    return rule


def _cast(tree: exp.Expression, compile_part: Compile) -> Compiled:
    wanted = f.CASTS.get(tree.args["to"].this.value)
    part = compile_part(tree.this)
    if wanted is None or isinstance(tree, exp.TryCast) or is_moment(part.type):
        raise UnknownFunctionError(tree.sql(DIALECT))
    if part.constant is not None:
        try:
            return as_type(part, wanted)
        except pa.ArrowInvalid:
            raise BadExpressionError(f"{tree.sql(DIALECT)!r} can't be") from None
    safe = part.type == wanted or (wanted == NUMBER and is_integer(part.type))
    return built(wanted, lambda found: f.cast(found, wanted), part, may_fail=not safe)


def _paren(tree: exp.Expression, compile_part: Compile) -> Compiled:
    return compile_part(tree.this)


_RULES: dict[type[exp.Expression], Rule] = {
    exp.Literal: _literal,
    exp.Null: lambda tree, compile_part: constant(None, UNKNOWN),
    exp.Boolean: lambda tree, compile_part: constant(bool(tree.this), BOOLEAN),
    exp.Paren: _paren,
    exp.Case: _case,
    exp.If: _case,
    exp.Coalesce: _of_several(pc.coalesce),
    exp.Least: _of_several(pc.min_element_wise),
    exp.Greatest: _of_several(pc.max_element_wise),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    **NUMBER_RULES,
    **TRUTH_RULES,
    **TEXT_RULES,
}
