"""Texts of SQL become trees of expressions."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from everquery.network.expressions.types import BadExpressionError

DIALECT = "duckdb"


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
