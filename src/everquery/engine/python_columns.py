"""Lists, arrays and Series as columns of events: what fits is kept, the rest is told as text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.core.columns import is_numeric
from everquery.core.python_values import exact_number, fits_arrow, text_of
from everquery.errors import InvalidBatchError
from everquery.state.said_times import time_in_units
from everquery.stream import Stream

_FAILURES = (pa.ArrowException, TypeError, ValueError, OverflowError)
_ABSENT = {"NoneType", "NAType", "NaTType"}  # the last two are of pandas

Column = tuple[Any, pa.Array | None]
"""A column of Arrow's, and the texts of what is none of its values, null elsewhere."""


class Reader:
    """Reads the columns of a stream's events.

    Parameters
    ----------
    stream : Stream
    key_type, time_type : Arrow types or None
        Those of keys and times, if they are known.
    """

    def __init__(
        self, stream: Stream, key_type: pa.DataType | None, time_type: pa.DataType | None
    ) -> None:
        self._stream = stream
        self._key_type = key_type
        self._time_type = time_type

    def read(self, name: str, values: Any) -> Column:  # noqa: ANN401 - whatever a user has
        """Return a column of events."""
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            return values, None
        found = _in_bulk(values)
        if found is not None and self._is_fine(name, found.type):
            return found, None
        if found is not None and not _is_loose(values):
            return found, None  # a column of another type: whoever decodes it says what is wrong
        loose = values.tolist() if hasattr(values, "tolist") else list(values)
        listed = [None if _is_absent(value) else value for value in loose]
        if name == self._stream.key:
            return _keys(listed, self._key_type)
        if name == self._stream.time:
            return _times(listed, self._time_type)
        return _fitting(listed, [exact_number(value) for value in listed], pa.float64())

    def _is_fine(self, name: str, kind: pa.DataType) -> bool:
        types = pa.types
        if types.is_dictionary(kind):
            kind = kind.value_type
        if types.is_null(kind):
            return True
        if name == self._stream.key:
            text = types.is_string(kind) or types.is_large_string(kind)
            if self._key_type in (pa.string(), pa.int64()):
                return bool(text if self._key_type == pa.string() else types.is_integer(kind))
            return bool(text or types.is_integer(kind))
        if name == self._stream.time:
            other = self._time_type is not None and kind != self._time_type
            return bool(types.is_integer(kind) or types.is_floating(kind)) and not other
        return is_numeric(kind)


def _in_bulk(values: Any) -> Any:  # noqa: ANN401 - an array, chunked or not, or None
    """Return a column as Arrow reads it; None where it can't, or might read what is not meant."""
    pandas = hasattr(values, "iloc")
    try:
        if hasattr(values, "__arrow_c_stream__") and not pandas:
            return pa.chunked_array(values)
        if _is_loose(values) and any(isinstance(value, (date, bool)) for value in values):
            return None  # Arrow takes times without zone for UTC, and would mix the two
        return pa.array(values, from_pandas=pandas)
    except _FAILURES:
        return None


def _is_loose(values: Any) -> bool:  # noqa: ANN401 - as above
    """Tell whether each value is an object of its own, with a type of its own."""
    kind = getattr(values, "dtype", None)
    return kind is None or kind == np.dtype(object)


def _is_absent(value: object) -> bool:
    return type(value).__name__ in _ABSENT or (isinstance(value, np.datetime64) and np.isnat(value))


def _fitting(values: list[Any], fine: Iterable[Any], kind: pa.DataType) -> Column:
    """Return what fits as a column, and the texts of what does not."""
    column = pa.array(fine, kind)
    if column.null_count == sum(value is None for value in values):
        return column, None
    pairs = zip(values, column.is_valid().to_pylist(), strict=True)
    texts = [None if value is None or fits else text_of(value) for value, fits in pairs]
    return column, pa.array(texts, pa.string())


def _keys(values: list[Any], known: pa.DataType | None) -> Column:
    """Return keys; of another type than the first are none, if no type is known."""
    keys = [_key(value) for value in values]
    if known is None or pa.types.is_null(known):
        first = next((key for key in keys if key is not None), "")
        known = pa.string() if isinstance(first, str) else pa.int64()
    kind = int if pa.types.is_integer(known) else str
    return _fitting(values, [key if type(key) is kind else None for key in keys], known)


def _key(value: object) -> str | int | None:
    if isinstance(value, (bool, np.bool_)):
        return None
    if isinstance(value, (int, np.integer)):
        return int(value) if fits_arrow(int(value)) else None
    return str(value) if isinstance(value, str) and fits_arrow(value) else None


def _times(values: list[Any], known: pa.DataType | None) -> Column:
    """Return times of the stream's type, or of that of the first, if it is not known."""
    if known is None:
        known = next((kind for value in values if (kind := _time_type(value, values))), None)
    if known is None:  # none is a time, and the next batch may say what times are
        texts = pa.array([None if each is None else text_of(each) for each in values], pa.string())
        return pa.nulls(len(values)), texts if texts.null_count < len(texts) else None
    fine = [None if value is None else _time(value, known) for value in values]
    raw = pa.int32() if pa.types.is_date32(known) else pa.int64()
    kind = pa.float64() if pa.types.is_floating(known) else raw
    column, texts = _fitting(values, fine, kind)
    return column.view(known), texts


def _time(value: object, kind: pa.DataType) -> int | float | None:
    if isinstance(value, float) and value != value:
        return None
    try:
        return time_in_units(value, kind)
    except InvalidBatchError:
        return None


def _time_type(value: object, values: list[Any]) -> pa.DataType | None:
    """Return the type of times of which this is one; None if it is no time at all."""
    if isinstance(value, (bool, np.bool_)):
        return None
    if isinstance(value, (int, float, np.integer, np.floating)):
        floats = any(isinstance(each, (float, np.floating)) for each in values)
        return pa.float64() if floats else pa.int64()
    if isinstance(value, np.datetime64):
        unit, _ = np.datetime_data(value.dtype)
        return pa.timestamp(unit) if unit in ("s", "ms", "us", "ns") else pa.timestamp("s")
    if isinstance(value, datetime):
        fine = any(getattr(each, "nanosecond", 0) for each in values)  # of pandas
        zone = None if value.tzinfo is None else pa.scalar(value).type.tz
        return pa.timestamp("ns" if fine else "us", zone)
    return pa.date32() if isinstance(value, date) else None
