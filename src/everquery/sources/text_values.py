"""Cells of text as Arrow values: null where one can't be read, and none is ever rounded."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc

from everquery.core.python_values import exact_number

LONGEST_NUMBER = 1_000  # characters; float64 ends after 309 digits
TYPES_OF_TIMES = (
    pa.int64(),
    pa.float64(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
    pa.timestamp("ns", "UTC"),
)
_LONG_INTEGER = r"^\s*[+-]?\d{16,}\s*$"


def cast_texts(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in another type; null where a value can't be read."""
    if column.type == kind:
        return column
    if pa.types.is_string(column.type):
        column = pc.utf8_trim_whitespace(column)
    try:
        return column.cast(kind)
    except pa.ArrowException:
        distinct = column.dictionary_encode()
        values = [_cast(value, kind) for value in distinct.dictionary]
        return pa.array(values, kind).take(distinct.indices)


def _cast(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    try:
        return value.cast(kind)
    except pa.ArrowException:
        return None


def unread(before: pa.Array, after: pa.Array) -> pa.Array | None:
    """Return the text of the texts that could not be read, null for others; None if all could."""
    if after.null_count == before.null_count:
        return None
    failed = pc.and_(before.is_valid(), after.is_null())
    texts = before.cast(pa.string())
    return pc.if_else(failed, texts, pa.scalar(None, pa.string()))


def time_type(column: pa.Array) -> pa.DataType | None:
    """Return the type that times look like: the first that reads all, or else the most of them.

    None if none can be read.
    """
    best, left = None, len(column)
    for kind in TYPES_OF_TIMES:
        null = cast_texts(column, kind).null_count
        if null < left:
            best, left = kind, null
        if null == column.null_count:
            break
    return best


def numbers(column: pa.Array) -> pa.Array:
    """Return texts as numbers: integers where all are, so that none is rounded; else floats."""
    try:
        return pc.utf8_trim_whitespace(column).cast(pa.int64())
    except pa.ArrowException:
        floats = cast_texts(column, pa.float64())
    long = pc.match_substring_regex(column, _LONG_INTEGER)
    if not pc.any(long).as_py():
        return floats
    rounded = [cell is not None and _is_rounded(cell) for cell in column.to_pylist()]
    return pc.if_else(pa.array(rounded), pa.scalar(None, pa.float64()), floats)


def _is_rounded(cell: str) -> bool:
    if re.match(_LONG_INTEGER, cell) is None:
        return False
    return len(cell) > LONGEST_NUMBER or exact_number(int(cell)) is None


def single_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a chunked column as one array."""
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
