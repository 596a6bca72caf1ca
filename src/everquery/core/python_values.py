"""Columns of Python's values, and which of them are not what a column holds."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

LONGEST_TEXT = 200  # letters of a value that are kept


def exact_number(value: object) -> float | None:
    """Return a number as a float; None where it is none, or would be rounded."""
    if type(value) is float:
        return value
    if isinstance(value, (np.integer, np.floating)):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):  # a decimal may be a signaling NaN
        return None
    return number if number == value or number != number else None


def fits_arrow(value: str | int) -> bool:
    """Tell whether Arrow can hold it: 64 bits, or text without half a surrogate pair."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def text_of(value: object) -> str:
    """Return a value as a person may be shown it, whatever it is."""
    try:
        return str(value)[:LONGEST_TEXT].encode(errors="backslashreplace").decode()
    except Exception:  # of an object that has other plans, or of an integer too long to write
        return f"a value of type {type(value).__name__}"


def unread_column(rows: int, texts: Mapping[str, pa.Array]) -> pa.Array:
    """Return the column that tells an engine which values could not be read, and their texts."""
    at, names, values = [], [], []
    for name, column in texts.items():
        failed = pc.indices_nonzero(column.is_valid())
        at.append(np.asarray(failed).astype(np.int64))
        names.append(pa.repeat(pa.scalar(name, pa.string()), len(failed)))
        values.append(column.take(failed))
    row = np.concatenate(at)
    order = pa.array(np.argsort(row, kind="stable"))
    offsets = np.zeros(rows + 1, np.int32)
    offsets[1:] = np.cumsum(np.bincount(row, minlength=rows))
    return pa.MapArray.from_arrays(
        pa.array(offsets), pa.concat_arrays(names).take(order), pa.concat_arrays(values).take(order)
    )
