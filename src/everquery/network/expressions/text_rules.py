"""How functions of texts are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from everquery.network.expressions.compiled import Compiled, as_type, built
from everquery.network.expressions.operands import (
    Compile,
    Rule,
    texts_of,
)
from everquery.network.expressions.parsing import DIALECT
from everquery.network.expressions.types import (
    BOOLEAN,
    INTEGER,
    TEXT,
    UnknownFunctionError,
)


def _text(function: Callable[..., Any], kind: pa.DataType = TEXT) -> Rule:
    def rule(tree: exp.Expression, compile_part: Compile) -> Compiled:
        if tree.args.get("expression") is not None:
            raise UnknownFunctionError(tree.sql(DIALECT))
        (part,) = texts_of(tree, compile_part, "this")
        return built(kind, function, as_type(part, TEXT))

    return rule


def _joined(tree: exp.Expression, compile_part: Compile) -> Compiled:
    left, right = (as_type(part, TEXT) for part in texts_of(tree, compile_part))
    return built(TEXT, lambda a, b: pc.binary_join_element_wise(a, b, ""), left, right)


def _like(tree: exp.Expression, compile_part: Compile) -> Compiled:
    part, pattern = texts_of(tree, compile_part)
    if pattern.constant is None:
        raise UnknownFunctionError(tree.sql(DIALECT))
    wanted, blind = pattern.constant.as_py(), isinstance(tree, exp.ILike)
    return built(
        BOOLEAN,
        lambda found: pc.match_like(found, wanted, ignore_case=blind),
        as_type(part, TEXT),
    )


def _starts(tree: exp.Expression, compile_part: Compile) -> Compiled:
    part, prefix = texts_of(tree, compile_part)
    if prefix.constant is None:
        raise UnknownFunctionError(tree.sql(DIALECT))
    wanted = prefix.constant.as_py()
    return built(BOOLEAN, lambda found: pc.starts_with(found, wanted), as_type(part, TEXT))


TEXT_RULES: dict[type[exp.Expression], Rule] = {
    exp.Lower: _text(pc.utf8_lower),
    exp.Upper: _text(pc.utf8_upper),
    exp.Trim: _text(pc.utf8_trim_whitespace),
    exp.Length: _text(pc.utf8_length, INTEGER),
    exp.DPipe: _joined,
    exp.Like: _like,
    exp.ILike: _like,
    exp.StartsWith: _starts,
}
