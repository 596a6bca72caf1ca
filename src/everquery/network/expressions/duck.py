"""Expressions that PyArrow does not have, by DuckDB: dates, regular expressions, and much more."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
from sqlglot import exp

from everquery.network.expressions.compiled import Columns, Compiled
from everquery.network.expressions.scope import Scope
from everquery.network.expressions.types import UNKNOWN, BadExpressionError

MISSING = "is run by DuckDB, which is not installed; pip install 'everquery[network]'"


_own = threading.local()


def _connection() -> Any:  # noqa: ANN401 - DuckDB is optional
    """Return the connection of this thread."""
    if not hasattr(_own, "connection"):
        import duckdb  # an extra

        _own.connection = duckdb.connect(config={"threads": 1})
    return _own.connection


def compile_by_duckdb(tree: exp.Expression, scope: Scope) -> Compiled:
    """Return an expression that DuckDB evaluates.

    Raises
    ------
    BadExpressionError
        If DuckDB is not there, or does not take it.
    """
    names: dict[str, str] = {}

    def plain(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Column):
            name = scope.find(node)
            names.setdefault(name, f"c{len(names)}")
            return exp.column(names[name])
        return node

    text = tree.copy().transform(plain).sql("duckdb")
    reads = frozenset(names)
    kinds = {name: scope.columns[name] for name in names}
    told = tree.sql("duckdb")
    try:
        _connection()
    except ImportError:
        raise BadExpressionError(f"{told!r} {MISSING}") from None
    if UNKNOWN in kinds.values():
        return Compiled(UNKNOWN, lambda columns: _run(text, names, columns), reads, may_fail=True)
    empty = {name: pa.array([], kind) for name, kind in kinds.items()}
    import duckdb

    try:
        found = _run(text, names, empty)
        if names and len(found):
            raise BadExpressionError(f"{told!r} is an aggregate, and this box has no windows")
        kind = found.type
    except duckdb.Error as error:
        line = str(error).splitlines()[0]
        raise BadExpressionError(f"{told!r}: {line}") from None
    return Compiled(kind, lambda columns: _run(text, names, columns), reads, may_fail=True)


def _run(text: str, names: dict[str, str], columns: Columns) -> Any:  # noqa: ANN401
    rows = {short: columns[name] for name, short in names.items()}
    if not rows:
        rows = {"c": pa.array([0])}
    relation = _connection().from_arrow(pa.table(rows))
    column = relation.project(f"{text} AS it").to_arrow_table().column("it")
    found = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_decimal(found.type):
        found = found.cast(pa.float64())
    return found if names else found[0]
