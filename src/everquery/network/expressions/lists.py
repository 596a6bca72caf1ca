"""Conditions and lists of expressions, from their text to functions over columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from everquery.network.expressions.compiled import Compiled
from everquery.network.expressions.compiler import compile_tree
from everquery.network.expressions.duck import compile_by_duckdb
from everquery.network.expressions.parsing import DIALECT, parse, parse_list
from everquery.network.expressions.scope import Scope
from everquery.network.expressions.types import (
    BOOLEAN,
    UNKNOWN,
    BadExpressionError,
    UnknownFunctionError,
    word,
)


@dataclass(frozen=True, slots=True)
class Item:
    """One expression of a list, and the name of its column."""

    name: str
    tree: exp.Expression


def compiled(tree: exp.Expression, scope: Scope) -> Compiled:
    """Return an expression, by PyArrow if it can, else by DuckDB."""
    try:
        return compile_tree(tree, scope)
    except UnknownFunctionError:
        return compile_by_duckdb(tree, scope)


def compile_condition(text: str | exp.Expression, scope: Scope) -> Compiled:
    """Return a condition: true, false or unknown for every row.

    Raises
    ------
    BadExpressionError
        If it is none.
    """
    tree = parse(text) if isinstance(text, str) else text
    found = compiled(tree, scope)
    if found.type not in (BOOLEAN, UNKNOWN):
        raise BadExpressionError(
            f"{tree.sql(DIALECT)!r} is a {word(found.type)}, and a condition is true or false"
        )
    return found


def read_items(text: str, columns: Sequence[str]) -> list[Item]:
    """Return the expressions of a list, a star as all columns; every one has a name.

    Raises
    ------
    BadExpressionError
        If two have the same name, or one that is no column has none.
    """
    items: list[Item] = []
    for tree in parse_list(text):
        if isinstance(tree, exp.Star):
            items += [Item(name, exp.column(name, quoted=True)) for name in columns]
        elif isinstance(tree, exp.Alias):
            items.append(Item(tree.alias, tree.this))
        elif isinstance(tree, exp.Column):
            items.append(Item(tree.name, tree))
        else:
            raise BadExpressionError(
                f"{tree.sql(DIALECT)!r} has no name; write {tree.sql(DIALECT)} AS name"
            )
    names = [item.name for item in items]
    for name in names:
        if names.count(name) > 1:
            raise BadExpressionError(f"two columns have the name {name!r}; give one another, by AS")
    return items


def column_of(tree: exp.Expression, scope: Scope) -> str | None:
    """Return the column that an expression is, unchanged; None if it is more."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return scope.find(tree) if isinstance(tree, exp.Column) else None


def scope_of(columns: dict[str, pa.DataType], *boxes: str) -> Scope:
    """Return the scope of one input: its columns, plain or behind the name of its box."""
    return Scope(columns, {(alias(box), name): name for box in boxes for name in columns})


def alias(box: str) -> str:
    """Return what SQL calls a box: its name without those of its groups."""
    return box.rsplit(".", 1)[-1]
