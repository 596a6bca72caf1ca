"""How arithmetic and functions of numbers are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from everquery.network.expressions import functions as f
from everquery.network.expressions.compiled import Compiled, as_type, built, constant
from everquery.network.expressions.operands import (
    Compile,
    Rule,
    numbers_of,
    parts_of,
)
from everquery.network.expressions.parsing import DIALECT
from everquery.network.expressions.types import (
    NUMBER,
    UNKNOWN,
    UnknownFunctionError,
    is_integer,
    is_moment,
    meet,
)


def _arithmetic(whole: Callable[..., Any], real: Callable[..., Any]) -> Rule:
    def rule(tree: exp.Expression, compile_part: Compile) -> Compiled:
        left, right = parts_of(tree, compile_part)
        if (
            is_moment(left.type)
            or is_moment(right.type)
            or isinstance(tree.expression, exp.Interval)
        ):
            raise UnknownFunctionError(f"{tree.sql(DIALECT)!r} reckons with time")
        left, right = numbers_of(tree, compile_part)
        if UNKNOWN in (left.type, right.type) and left.type != NUMBER != right.type:
            return built(UNKNOWN, real, left, right, may_fail=True)
        kind = meet(left.type, right.type, tree.sql(DIALECT))
        left, right = as_type(left, kind), as_type(right, kind)
        return built(
            kind, whole if is_integer(kind) else real, left, right, may_fail=is_integer(kind)
        )

    return rule


def _divide(tree: exp.Expression, compile_part: Compile) -> Compiled:
    left, right = (as_type(part, NUMBER) for part in numbers_of(tree, compile_part))
    if right.constant is not None and right.constant.as_py():
        return built(NUMBER, pc.divide, left, right)
    return built(NUMBER, f.divide, left, right, may_fail=True)


def _whole_divide(tree: exp.Expression, compile_part: Compile) -> Compiled:
    left, right = numbers_of(tree, compile_part)
    kind = meet(left.type, right.type, tree.sql(DIALECT))
    return built(kind, f.whole_divide, as_type(left, kind), as_type(right, kind), may_fail=True)


def _remainder(tree: exp.Expression, compile_part: Compile) -> Compiled:
    left, right = numbers_of(tree, compile_part)
    kind = meet(left.type, right.type, tree.sql(DIALECT))
    zero_is_possible = right.constant is None or not right.constant.as_py()
    parts = as_type(left, kind), as_type(right, kind)
    return built(kind, f.remainder, *parts, may_fail=zero_is_possible or kind == UNKNOWN)


def _negate(tree: exp.Expression, compile_part: Compile) -> Compiled:
    (part,) = numbers_of(tree, compile_part, "this")
    if part.constant is not None and part.constant.as_py() is not None:
        return constant(-part.constant.as_py(), part.type)
    whole = not pa.types.is_floating(part.type)
    return built(part.type, pc.negate_checked if whole else pc.negate, part, may_fail=whole)


def _real(function: Callable[..., Any]) -> Rule:
    def rule(tree: exp.Expression, compile_part: Compile) -> Compiled:
        (part,) = numbers_of(tree, compile_part, "this")
        return built(NUMBER, function, as_type(part, NUMBER))

    return rule


def _same_number(function: Callable[..., Any]) -> Rule:
    def rule(tree: exp.Expression, compile_part: Compile) -> Compiled:
        (part,) = numbers_of(tree, compile_part, "this")
        return (
            part
            if is_integer(part.type) and function is not pc.abs
            else built(part.type, function, part)
        )

    return rule


def _round(tree: exp.Expression, compile_part: Compile) -> Compiled:
    (part,) = numbers_of(tree, compile_part, "this")
    digits = tree.args.get("decimals")
    places = 0 if digits is None else compile_part(digits).constant
    if places is None:
        raise UnknownFunctionError(tree.sql(DIALECT))
    count = places if isinstance(places, int) else places.as_py()
    return (
        part
        if is_integer(part.type)
        else built(part.type, lambda found: f.rounded(found, count), part)
    )


def _logarithm(tree: exp.Expression, compile_part: Compile) -> Compiled:
    base = tree.this if tree.expression is not None else None
    if base is None or base.sql() not in ("2", "10"):
        raise UnknownFunctionError(tree.sql(DIALECT))
    (part,) = numbers_of(tree, compile_part, "expression")
    function = f.known(pc.log2 if base.sql() == "2" else pc.log10)
    return built(NUMBER, function, as_type(part, NUMBER))


def _power(tree: exp.Expression, compile_part: Compile) -> Compiled:
    left, right = (as_type(part, NUMBER) for part in numbers_of(tree, compile_part))
    return built(NUMBER, f.known(pc.power), left, right)


NUMBER_RULES: dict[type[exp.Expression], Rule] = {
    exp.Add: _arithmetic(pc.add_checked, pc.add),
    exp.Sub: _arithmetic(pc.subtract_checked, pc.subtract),
    exp.Mul: _arithmetic(pc.multiply_checked, pc.multiply),
    exp.Div: _divide,
    exp.IntDiv: _whole_divide,
    exp.Mod: _remainder,
    exp.Neg: _negate,
    exp.Abs: _same_number(pc.abs),
    exp.Floor: _same_number(pc.floor),
    exp.Ceil: _same_number(pc.ceil),
    exp.Sqrt: _real(f.known(pc.sqrt)),
    exp.Ln: _real(f.known(pc.ln)),
    exp.Exp: _real(pc.exp),
    exp.Round: _round,
    exp.Log: _logarithm,
    exp.Pow: _power,
}
