"""The parts that a rule compiles first: numbers, texts, conditions, values of one type."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from everquery.network.expressions.compiled import Compiled, as_type
from everquery.network.expressions.parsing import DIALECT
from everquery.network.expressions.types import (
    BOOLEAN,
    UNKNOWN,
    BadExpressionError,
    is_moment,
    is_number,
    is_text,
    meet,
    word,
)

Compile = Callable[[exp.Expression], Compiled]
Rule = Callable[[exp.Expression, Compile], Compiled]
"""How a tree is compiled; its parts are compiled by the function that the rule is given."""


def parts_of(tree: exp.Expression, compile_part: Compile, *names: str) -> list[Compiled]:
    """Compile the parts of a tree, by their names in it; both sides if none is given."""
    return [compile_part(tree.args[name]) for name in names or ("this", "expression")]


def numbers_of(tree: exp.Expression, compile_part: Compile, *names: str) -> list[Compiled]:
    """Compile parts as `parts_of` does; raise `BadExpressionError` if one is no number."""
    parts = parts_of(tree, compile_part, *names)
    for part in parts:
        if not is_number(part.type):
            raise BadExpressionError(
                f"{tree.sql(DIALECT)!r} takes numbers, and has a {word(part.type)}"
            )
    return parts


def texts_of(tree: exp.Expression, compile_part: Compile, *names: str) -> list[Compiled]:
    """Compile parts as `parts_of` does; raise `BadExpressionError` if one is no text."""
    parts = parts_of(tree, compile_part, *names)
    for part in parts:
        if not is_text(part.type):
            raise BadExpressionError(
                f"{tree.sql(DIALECT)!r} takes texts, and has a {word(part.type)}"
            )
    return parts


def truth_of(tree: exp.Expression, compile_part: Compile) -> Compiled:
    """Compile a condition; raise `BadExpressionError` if it is not true or false."""
    part = compile_part(tree)
    if part.type not in (BOOLEAN, UNKNOWN):
        raise BadExpressionError(
            f"{tree.sql(DIALECT)!r} is a {word(part.type)}, and a condition is true or false"
        )
    return part


def several_of(tree: exp.Expression, compile_part: Compile) -> list[Compiled]:
    """Compile all arguments of a function, which must have one type."""
    given = [tree.this, *tree.expressions] if tree.this is not None else tree.expressions
    return alike([compile_part(one) for one in given], tree.sql(DIALECT))


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
