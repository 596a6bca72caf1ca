"""A compiled expression: its type, what it reads, and a function over columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Columns = Mapping[str, Any]
"""Arrow arrays by name, all of one length."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression that is ready to run.

    Attributes
    ----------
    type : Arrow type
        Of its values; `UNKNOWN` where a column that it depends on is.
    run : function
        From columns to an Arrow array or scalar.
    reads : frozenset of str
        The columns that it needs.
    may_fail : bool
        Whether it raises on some values. What may fail is never moved by the optimizer.
    constant : object
        The Arrow scalar that it always is, or None.
    """

    type: pa.DataType
    run: Callable[[Columns], Any]
    reads: frozenset[str] = frozenset()
    may_fail: bool = False
    constant: Any = None

    def array(self, columns: Columns, rows: int) -> Any:  # noqa: ANN401 - Arrow has no types
        """Return its values, one for each row."""
        found = self.run(columns)
        if isinstance(found, pa.Scalar):
            found = pa.repeat(found, rows)
        if found.type != self.type and not pa.types.is_null(self.type):
            found = found.cast(self.type)
        return found


def built(
    kind: pa.DataType, function: Callable[..., Any], *parts: Compiled, may_fail: bool = False
) -> Compiled:
    """Return the expression that calls a function on the values of its parts."""
    reads = frozenset().union(*(part.reads for part in parts))
    fails = may_fail or any(part.may_fail for part in parts)
    if len(parts) == 1:
        run = parts[0].run
        return Compiled(kind, lambda columns: function(run(columns)), reads, fails)
    if len(parts) == 2:
        first, second = parts[0].run, parts[1].run
        return Compiled(
            kind, lambda columns: function(first(columns), second(columns)), reads, fails
        )
    runs = [part.run for part in parts]
    return Compiled(kind, lambda columns: function(*(run(columns) for run in runs)), reads, fails)


def constant(value: Any, kind: pa.DataType) -> Compiled:  # noqa: ANN401 - any Python value
    """Return the expression that is always one value."""
    scalar = pa.scalar(value, kind)
    return Compiled(kind, lambda columns: scalar, constant=scalar)


def as_type(given: Compiled, kind: pa.DataType) -> Compiled:
    """Return an expression in another type; what is unknown stays as it is."""
    if given.type == kind or pa.types.is_null(kind):
        return given
    if given.constant is not None:
        scalar = given.constant.cast(kind)
        return Compiled(kind, lambda columns: scalar, constant=scalar)
    run = given.run
    return Compiled(kind, lambda columns: run(columns).cast(kind), given.reads, given.may_fail)
