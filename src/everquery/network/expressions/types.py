"""The Arrow types that expressions know, and how two of them meet."""

from __future__ import annotations

import pyarrow as pa

from everquery.errors import EverqueryError

UNKNOWN = pa.null()
"""The type of a column that no batch has shown yet, and of NULL."""
BOOLEAN, INTEGER, NUMBER, TEXT = pa.bool_(), pa.int64(), pa.float64(), pa.string()

NAMES = {
    "boolean": BOOLEAN,
    "integer": INTEGER,
    "number": NUMBER,
    "string": TEXT,
    "timestamp": pa.timestamp("us"),
    "date": pa.date32(),
}
"""The types that a network may name, by their words."""


class BadExpressionError(EverqueryError, ValueError):
    """Why an expression can't be; whoever reads it adds the box."""


class UnknownFunctionError(BadExpressionError):
    """The compiler does not know a part of an expression; DuckDB may."""


def word(kind: pa.DataType) -> str:
    """Return what a type is called in messages.

    Examples
    --------
    >>> word(pa.float64()), word(pa.timestamp("ms"))
    ('number', 'timestamp')
    """
    if pa.types.is_null(kind):
        return "unknown"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return next((name for name, known in NAMES.items() if known == kind), str(kind))


def is_integer(kind: pa.DataType) -> bool:
    """Tell whether these are whole numbers."""
    return bool(pa.types.is_integer(kind))


def is_number(kind: pa.DataType) -> bool:
    """Tell whether arithmetic takes this type; an unknown one may be a number."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))


def is_text(kind: pa.DataType) -> bool:
    """Tell whether these may be texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_null(kind))


def is_moment(kind: pa.DataType) -> bool:
    """Tell whether these are timestamps or dates."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def meet(left: pa.DataType, right: pa.DataType, what: str) -> pa.DataType:
    """Return the type that values of two types are compared or chosen in.

    Raises
    ------
    BadExpressionError
        If there is none: a text and a number, for one.
    """
    if pa.types.is_null(left):
        return right
    if pa.types.is_null(right) or left == right:
        return left
    if is_number(left) and is_number(right):
        return INTEGER if is_integer(left) and is_integer(right) else NUMBER
    if is_moment(left) and is_moment(right):
        return left if pa.types.is_timestamp(left) else right
    raise BadExpressionError(
        f"{what} takes two values of one type, and has a {word(left)} and a {word(right)}"
    )
