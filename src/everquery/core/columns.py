"""Arrow columns of numbers as float64, without ever rounding one."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def is_numeric(kind: pa.DataType) -> bool:
    """Tell whether a column of this type can be an attribute or a bound; a column of nulls can."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    )


def exact_floats(column: pa.Array) -> tuple[Floats, Bools | None, Bools | None]:
    """Return a numeric column as float64.

    Returns
    -------
    floats : float64
        0 where the column is null.
    null : bool, or None if nothing is null
    inexact : bool, or None if everything is exact
        Where float64 can't hold the integer or decimal.
    """
    null = None
    if column.null_count:
        null = np.asarray(column.is_null())
        if null.all():
            return np.zeros(len(column)), null, None
        if not pa.types.is_decimal(column.type):
            column = column.fill_null(pa.scalar(0).cast(column.type))
    if pa.types.is_decimal(column.type):
        floats, inexact = _floats_of_decimals(column)
        if null is not None:
            floats, inexact = np.where(null, 0.0, floats), inexact & ~null
    elif pa.types.is_integer(column.type):
        integers = np.asarray(column)
        floats = integers.astype(np.float64)
        if integers.dtype.itemsize < 8:
            return floats, null, None
        # The cast back of 2**63 (2**64) would overflow; no such integer is in the column.
        in_range = floats < 2.0 ** (63 if integers.dtype == np.int64 else 64)
        inexact = np.where(in_range, floats, 0.0).astype(integers.dtype) != integers
    else:
        return np.asarray(column).astype(np.float64, copy=False), null, None
    return floats, null, inexact if inexact.any() else None


def _floats_of_decimals(column: pa.Array) -> tuple[Floats, Bools]:
    """Return decimals as floats, and where that rounds; each distinct value is looked at once.

    A null gets the place of some other value.
    """
    distinct = column.dictionary_encode()
    decimals: list[Decimal] = distinct.dictionary.to_pylist()
    floats = np.array([float(value) for value in decimals], np.float64)
    inexact = np.array([float(value) != value for value in decimals], np.bool_)
    places = np.asarray(distinct.indices.fill_null(0))
    return floats[places], inexact[places]
