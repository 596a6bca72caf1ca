"""What SQL means where PyArrow's functions mean something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CASTS = {
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float64(),
    "BIGINT": pa.int64(),
    "INT": pa.int64(),
    "VARCHAR": pa.string(),
    "TEXT": pa.string(),
    "BOOLEAN": pa.bool_(),
}
"""The types that CAST may name; integers have 64 bits and floats too."""


class RowError(ValueError):
    """An expression fails on a row; the text is the reason of its dead letter."""


def _refuse_zero(divisor: Any) -> None:  # noqa: ANN401
    if (
        pc.any(pc.equal(divisor, 0)).as_py()
        if not isinstance(divisor, pa.Scalar)
        else (divisor.is_valid and not divisor.as_py())
    ):
        raise RowError("division by zero")


def divide(left: Any, right: Any) -> Any:  # noqa: ANN401
    """Return a quotient; a divisor of zero fails, as in standard SQL."""
    _refuse_zero(right)
    return pc.divide(left, right)


def whole_divide(left: Any, right: Any) -> Any:  # noqa: ANN401
    """Return a quotient without its fraction."""
    _refuse_zero(right)
    found = pc.divide(left, right)
    return pc.trunc(found) if pa.types.is_floating(found.type) else found


def remainder(left: Any, right: Any) -> Any:  # noqa: ANN401
    """Return the rest of a division, with the sign of the dividend."""
    _refuse_zero(right)
    rows = next((len(side) for side in (left, right) if not isinstance(side, pa.Scalar)), None)
    sides = [
        pa.repeat(side, 1 if rows is None else rows)
        if isinstance(side, pa.Scalar)
        else _whole(side)
        for side in (left, right)
    ]
    valid = pc.and_(pc.is_valid(sides[0]), pc.is_valid(sides[1]))
    first, second = (pc.fill_null(side, 1).to_numpy(zero_copy_only=False) for side in sides)
    found = pc.if_else(valid, pa.array(np.fmod(first, second)), None)
    return found if rows is not None else found[0]


def _whole(side: Any) -> Any:  # noqa: ANN401
    return side.combine_chunks() if isinstance(side, pa.ChunkedArray) else side


def known(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose NaN is unknown: NULL."""

    def run(*given: Any) -> Any:  # noqa: ANN401
        found = function(*given)
        return pc.if_else(pc.is_nan(found), pa.scalar(None, found.type), found)

    return run


def is_null(found: Any) -> Any:  # noqa: ANN401
    """Tell where a value is NULL."""
    return pc.is_null(found)


def is_truth(found: Any, wanted: bool) -> Any:  # noqa: ANN401
    """Tell where a truth is this one, and not NULL."""
    return pc.and_(pc.is_valid(found), pc.fill_null(pc.equal(found, wanted), False))


def is_in(found: Any, values: pa.Array) -> Any:  # noqa: ANN401
    """Tell where a value is one of some; NULL where it is NULL."""
    inside = pc.is_in(found, value_set=values)
    if found.null_count if not isinstance(found, pa.Scalar) else not found.is_valid:
        return pc.if_else(pc.is_valid(found), inside, None)
    return inside


def choose(*parts: Any) -> Any:  # noqa: ANN401
    """Return the value beside the first test that is true, else the last value."""
    count = len(parts) // 2
    tests, values = parts[:count], parts[count:]
    found = values[-1]
    for test, value in zip(reversed(tests), reversed(values[:-1]), strict=True):
        found = pc.if_else(pc.fill_null(test, False), value, found)
    return found


def rounded(found: Any, digits: int) -> Any:  # noqa: ANN401
    """Return numbers rounded to so many digits, halves away from zero."""
    return pc.round(found, ndigits=digits, round_mode="half_towards_infinity")


def cast(found: Any, wanted: pa.DataType) -> Any:  # noqa: ANN401
    """Return values in another type; fractions are rounded, halves to even."""
    if pa.types.is_integer(wanted) and pa.types.is_floating(found.type):
        found = pc.round(found, round_mode="half_to_even")
    return pc.cast(found, wanted)
