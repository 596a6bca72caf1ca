"""Expressions of SQL become functions over Arrow columns.

What this compiler knows runs on PyArrow; an expression with anything else in it runs on DuckDB as
a whole (`duck.py`). DuckDB takes milliseconds for the smallest batch, and PyArrow microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from everquery.network.expressions import functions as f
from everquery.network.expressions.compiled import Compiled, as_type, built, constant
from everquery.network.expressions.scope import Scope
from everquery.network.expressions.types import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT,
    UNKNOWN,
    BadExpressionError,
    is_integer,
    is_moment,
    is_number,
    is_text,
    meet,
    word,
)

DIALECT = "duckdb"


class UnknownFunctionError(BadExpressionError):
    """The compiler does not know a part of an expression; DuckDB may."""


def parse(text: str) -> exp.Expression:
    """Return the tree of one expression.

    Raises
    ------
    BadExpressionError
        If it can't be read.
    """
    items = parse_list(text)
    if len(items) != 1:
        raise BadExpressionError(f"{text!r} is not one expression")
    (item,) = items
    return item.this if isinstance(item, exp.Alias) else item


def parse_list(text: str) -> list[exp.Expression]:
    """Return the trees of a list of expressions, as SELECT has it."""
    if not isinstance(text, str):
        raise BadExpressionError(f"{text!r} is no text of SQL")
    try:
        tree = sqlglot.parse_one(f"SELECT {text}", read=DIALECT)
    except sqlglot.errors.SqlglotError as error:
        told = str(error).replace("\n", " ")[:200]
        raise BadExpressionError(f"{text!r} can't be read: {told}") from None
    clauses = [
        name for name, value in tree.args.items() if value and name not in ("expressions", "kind")
    ]
    if not isinstance(tree, exp.Select) or clauses:
        raise BadExpressionError(
            f"{text!r} has more than expressions ({', '.join(clauses)}); a box takes expressions"
        )
    if tree.find(exp.Query) is not tree or len(list(tree.find_all(exp.Query))) > 1:
        raise BadExpressionError(f"{text!r} has a query inside, and a box sees its own rows only")
    return list(tree.expressions)


def compile_tree(tree: exp.Expression, scope: Scope) -> Compiled:
    """Return an expression over the columns of a scope, ready to run.

    Raises
    ------
    BadExpressionError
        If a column is not there or a type is wrong.
    UnknownFunctionError
        If it has a part that only DuckDB may know.
    """
    rule = _RULES.get(type(tree))
    if rule is None:
        raise UnknownFunctionError(f"{tree.sql(DIALECT)!r} is nothing that expressions know")
    return rule(tree, scope)


def _column(tree: exp.Expression, scope: Scope) -> Compiled:
    assert isinstance(tree, exp.Column)
    name = scope.find(tree)
    return Compiled(scope.columns[name], lambda columns: columns[name], frozenset({name}))


def _literal(tree: exp.Expression, scope: Scope) -> Compiled:
    if tree.is_string:
        return constant(tree.this, TEXT)
    text = tree.this
    if text.isdecimal() and int(text) < 2**63:
        return constant(int(text), INTEGER)
    return constant(float(text), NUMBER)


def _parts(tree: exp.Expression, scope: Scope, *names: str) -> list[Compiled]:
    return [compile_tree(tree.args[name], scope) for name in names or ("this", "expression")]


def _numbers(tree: exp.Expression, scope: Scope, *names: str) -> list[Compiled]:
    parts = _parts(tree, scope, *names)
    for part in parts:
        if not is_number(part.type):
            raise BadExpressionError(
                f"{tree.sql(DIALECT)!r} takes numbers, and has a {word(part.type)}"
            )
    return parts


def _arithmetic(
    whole: Callable[..., Any], real: Callable[..., Any]
) -> Callable[[exp.Expression, Scope], Compiled]:
    def rule(tree: exp.Expression, scope: Scope) -> Compiled:
        left, right = _parts(tree, scope)
        if (
            is_moment(left.type)
            or is_moment(right.type)
            or isinstance(tree.expression, exp.Interval)
        ):
            raise UnknownFunctionError(f"{tree.sql(DIALECT)!r} reckons with time")
        left, right = _numbers(tree, scope)
        if UNKNOWN in (left.type, right.type) and left.type != NUMBER != right.type:
            return built(UNKNOWN, real, left, right, may_fail=True)
        kind = meet(left.type, right.type, tree.sql(DIALECT))
        left, right = as_type(left, kind), as_type(right, kind)
        return built(
            kind, whole if is_integer(kind) else real, left, right, may_fail=is_integer(kind)
        )

    return rule


def _divide(tree: exp.Expression, scope: Scope) -> Compiled:
    left, right = (as_type(part, NUMBER) for part in _numbers(tree, scope))
    if right.constant is not None and right.constant.as_py():
        return built(NUMBER, pc.divide, left, right)
    return built(NUMBER, f.divide, left, right, may_fail=True)


def _whole_divide(tree: exp.Expression, scope: Scope) -> Compiled:
    left, right = _numbers(tree, scope)
    kind = meet(left.type, right.type, tree.sql(DIALECT))
    return built(kind, f.whole_divide, as_type(left, kind), as_type(right, kind), may_fail=True)


def _remainder(tree: exp.Expression, scope: Scope) -> Compiled:
    left, right = _numbers(tree, scope)
    kind = meet(left.type, right.type, tree.sql(DIALECT))
    zero_is_possible = right.constant is None or not right.constant.as_py()
    parts = as_type(left, kind), as_type(right, kind)
    return built(kind, f.remainder, *parts, may_fail=zero_is_possible or kind == UNKNOWN)


def _negate(tree: exp.Expression, scope: Scope) -> Compiled:
    (part,) = _numbers(tree, scope, "this")
    if part.constant is not None and part.constant.as_py() is not None:
        return constant(-part.constant.as_py(), part.type)
    whole = not pa.types.is_floating(part.type)
    return built(part.type, pc.negate_checked if whole else pc.negate, part, may_fail=whole)


def _compare(function: Callable[..., Any]) -> Callable[[exp.Expression, Scope], Compiled]:
    def rule(tree: exp.Expression, scope: Scope) -> Compiled:
        left, right = alike(_parts(tree, scope), tree.sql(DIALECT))
        return built(BOOLEAN, function, left, right)

    return rule


def alike(parts: list[Compiled], what: str) -> list[Compiled]:
    """Return expressions in the one type that they can be compared in."""
    moments = [part.type for part in parts if is_moment(part.type)]
    if moments:  # a text that is written beside a time is a time
        parts = [_moment(part, moments[0], what) for part in parts]
    kind = parts[0].type
    for part in parts[1:]:
        kind = meet(kind, part.type, what)
    return [as_type(part, kind) for part in parts]


def _moment(part: Compiled, kind: pa.DataType, what: str) -> Compiled:
    if part.constant is None or not pa.types.is_string(part.type):
        return part
    try:
        return as_type(part, kind)
    except pa.ArrowInvalid:
        raise BadExpressionError(
            f"in {what}, {part.constant.as_py()!r} is no {word(kind)}"
        ) from None


def _truth(tree: exp.Expression, scope: Scope) -> Compiled:
    part = compile_tree(tree, scope)
    if part.type not in (BOOLEAN, UNKNOWN):
        raise BadExpressionError(
            f"{tree.sql(DIALECT)!r} is a {word(part.type)}, and a condition is true or false"
        )
    return part


def _both(function: Callable[..., Any]) -> Callable[[exp.Expression, Scope], Compiled]:
    def rule(tree: exp.Expression, scope: Scope) -> Compiled:
        parts = [as_type(_truth(side, scope), BOOLEAN) for side in (tree.this, tree.expression)]
        return built(BOOLEAN, function, *parts)

    return rule


def _not(tree: exp.Expression, scope: Scope) -> Compiled:
    return built(BOOLEAN, pc.invert, as_type(_truth(tree.this, scope), BOOLEAN))


def _is(tree: exp.Expression, scope: Scope) -> Compiled:
    part, right = compile_tree(tree.this, scope), tree.expression
    if isinstance(right, exp.Null):
        return built(BOOLEAN, f.is_null, part)
    if isinstance(right, exp.Boolean):
        wanted = bool(right.this)
        truth = as_type(_truth(tree.this, scope), BOOLEAN)
        return built(BOOLEAN, lambda found: f.is_truth(found, wanted), truth)
    raise UnknownFunctionError(tree.sql(DIALECT))


def _in(tree: exp.Expression, scope: Scope) -> Compiled:
    if not tree.expressions:
        raise UnknownFunctionError(tree.sql(DIALECT))
    parts = [compile_tree(one, scope) for one in (tree.this, *tree.expressions)]
    part, *options = alike(parts, tree.sql(DIALECT))
    if any(option.constant is None or not option.constant.is_valid for option in options):
        raise UnknownFunctionError(tree.sql(DIALECT))
    kind = next((option.type for option in options), part.type)
    values = pa.array([option.constant.as_py() for option in options], kind)
    return built(BOOLEAN, lambda found: f.is_in(found, values), part)


def _between(tree: exp.Expression, scope: Scope) -> Compiled:
    parts = alike(_parts(tree, scope, "this", "low", "high"), tree.sql(DIALECT))
    return built(
        BOOLEAN,
        lambda it, low, high: pc.and_kleene(pc.greater_equal(it, low), pc.less_equal(it, high)),
        *parts,
    )


def _case(tree: exp.Expression, scope: Scope) -> Compiled:
    short = isinstance(tree, exp.If)
    base, ifs = (None, [tree]) if short else (tree.args.get("this"), tree.args["ifs"])
    tests, values = [], []
    for branch in ifs:
        test = exp.EQ(this=base.copy(), expression=branch.this.copy()) if base else branch.this
        tests.append(as_type(_truth(test, scope), BOOLEAN))
        values.append(compile_tree(branch.args["true"], scope))
    rest = tree.args.get("false" if short else "default")
    values.append(compile_tree(rest, scope) if rest is not None else constant(None, UNKNOWN))
    values = alike(values, tree.sql(DIALECT))
    kind = next((value.type for value in values if value.type != UNKNOWN), UNKNOWN)
    return built(kind, f.choose, *tests, *values)


def _several(tree: exp.Expression, scope: Scope) -> list[Compiled]:
    given = [tree.this, *tree.expressions] if tree.this is not None else tree.expressions
    return alike([compile_tree(one, scope) for one in given], tree.sql(DIALECT))


def _of_several(function: Callable[..., Any]) -> Callable[[exp.Expression, Scope], Compiled]:
    def rule(tree: exp.Expression, scope: Scope) -> Compiled:
        parts = _several(tree, scope)
        return built(parts[0].type, function, *parts)

    return rule


def _real(function: Callable[..., Any]) -> Callable[[exp.Expression, Scope], Compiled]:
    def rule(tree: exp.Expression, scope: Scope) -> Compiled:
        (part,) = _numbers(tree, scope, "this")
        return built(NUMBER, function, as_type(part, NUMBER))

    return rule


def _same_number(function: Callable[..., Any]) -> Callable[[exp.Expression, Scope], Compiled]:
    def rule(tree: exp.Expression, scope: Scope) -> Compiled:
        (part,) = _numbers(tree, scope, "this")
        return (
            part
            if is_integer(part.type) and function is not pc.abs
            else built(part.type, function, part)
        )

    return rule


def _round(tree: exp.Expression, scope: Scope) -> Compiled:
    (part,) = _numbers(tree, scope, "this")
    digits = tree.args.get("decimals")
    places = 0 if digits is None else compile_tree(digits, scope).constant
    if places is None:
        raise UnknownFunctionError(tree.sql(DIALECT))
    count = places if isinstance(places, int) else places.as_py()
    return (
        part
        if is_integer(part.type)
        else built(part.type, lambda found: f.rounded(found, count), part)
    )


def _logarithm(tree: exp.Expression, scope: Scope) -> Compiled:
    base = tree.this if tree.expression is not None else None
    if base is None or base.sql() not in ("2", "10"):
        raise UnknownFunctionError(tree.sql(DIALECT))
    (part,) = _numbers(tree, scope, "expression")
    function = f.known(pc.log2 if base.sql() == "2" else pc.log10)
    return built(NUMBER, function, as_type(part, NUMBER))


def _power(tree: exp.Expression, scope: Scope) -> Compiled:
    left, right = (as_type(part, NUMBER) for part in _numbers(tree, scope))
    return built(NUMBER, f.known(pc.power), left, right)


def _texts(tree: exp.Expression, scope: Scope, *names: str) -> list[Compiled]:
    parts = _parts(tree, scope, *names)
    for part in parts:
        if not is_text(part.type):
            raise BadExpressionError(
                f"{tree.sql(DIALECT)!r} takes texts, and has a {word(part.type)}"
            )
    return parts


def _text(
    function: Callable[..., Any], kind: pa.DataType = TEXT
) -> Callable[[exp.Expression, Scope], Compiled]:
    def rule(tree: exp.Expression, scope: Scope) -> Compiled:
        if tree.args.get("expression") is not None:
            raise UnknownFunctionError(tree.sql(DIALECT))
        (part,) = _texts(tree, scope, "this")
        return built(kind, function, as_type(part, TEXT))

    return rule


def _joined(tree: exp.Expression, scope: Scope) -> Compiled:
    left, right = (as_type(part, TEXT) for part in _texts(tree, scope))
    return built(TEXT, lambda a, b: pc.binary_join_element_wise(a, b, ""), left, right)


def _like(tree: exp.Expression, scope: Scope) -> Compiled:
    part, pattern = _texts(tree, scope)
    if pattern.constant is None:
        raise UnknownFunctionError(tree.sql(DIALECT))
    wanted, blind = pattern.constant.as_py(), isinstance(tree, exp.ILike)
    return built(
        BOOLEAN,
        lambda found: pc.match_like(found, wanted, ignore_case=blind),
        as_type(part, TEXT),
    )


def _starts(tree: exp.Expression, scope: Scope) -> Compiled:
    part, prefix = _texts(tree, scope)
    if prefix.constant is None:
        raise UnknownFunctionError(tree.sql(DIALECT))
    wanted = prefix.constant.as_py()
    return built(BOOLEAN, lambda found: pc.starts_with(found, wanted), as_type(part, TEXT))


def _cast(tree: exp.Expression, scope: Scope) -> Compiled:
    wanted = f.CASTS.get(tree.args["to"].this.value)
    part = compile_tree(tree.this, scope)
    if wanted is None or isinstance(tree, exp.TryCast) or is_moment(part.type):
        raise UnknownFunctionError(tree.sql(DIALECT))
    if part.constant is not None:
        try:
            return as_type(part, wanted)
        except pa.ArrowInvalid:
            raise BadExpressionError(f"{tree.sql(DIALECT)!r} can't be") from None
    safe = part.type == wanted or (wanted == NUMBER and is_integer(part.type))
    return built(wanted, lambda found: f.cast(found, wanted), part, may_fail=not safe)


def _paren(tree: exp.Expression, scope: Scope) -> Compiled:
    return compile_tree(tree.this, scope)


_RULES: dict[type[exp.Expression], Callable[[exp.Expression, Scope], Compiled]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Null: lambda tree, scope: constant(None, UNKNOWN),
    exp.Boolean: lambda tree, scope: constant(bool(tree.this), BOOLEAN),
    exp.Paren: _paren,
    exp.Add: _arithmetic(pc.add_checked, pc.add),
    exp.Sub: _arithmetic(pc.subtract_checked, pc.subtract),
    exp.Mul: _arithmetic(pc.multiply_checked, pc.multiply),
    exp.Div: _divide,
    exp.IntDiv: _whole_divide,
    exp.Mod: _remainder,
    exp.Neg: _negate,
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
    exp.Case: _case,
    exp.If: _case,
    exp.Coalesce: _of_several(pc.coalesce),
    exp.Least: _of_several(pc.min_element_wise),
    exp.Greatest: _of_several(pc.max_element_wise),
    exp.Abs: _same_number(pc.abs),
    exp.Floor: _same_number(pc.floor),
    exp.Ceil: _same_number(pc.ceil),
    exp.Sqrt: _real(f.known(pc.sqrt)),
    exp.Ln: _real(f.known(pc.ln)),
    exp.Exp: _real(pc.exp),
    exp.Round: _round,
    exp.Log: _logarithm,
    exp.Pow: _power,
    exp.Lower: _text(pc.utf8_lower),
    exp.Upper: _text(pc.utf8_upper),
    exp.Trim: _text(pc.utf8_trim_whitespace),
    exp.Length: _text(pc.utf8_length, INTEGER),
    exp.DPipe: _joined,
    exp.Like: _like,
    exp.ILike: _like,
    exp.StartsWith: _starts,
    exp.Cast: _cast,
    exp.TryCast: _cast,
}
