"""Times and spans of time as users give them, in the unit of a stream's times."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.core.spans import LONGEST_SPAN, SpanLike, read_span
from everquery.core.times import DAY, is_zoned, nanoseconds_of
from everquery.errors import InvalidBatchError
from everquery.queries.spans import in_words

_MICROSECOND = timedelta(microseconds=1)
_UNITS = {"W": 7 * DAY, "D": DAY, "h": 3_600 * 10**9, "m": 60 * 10**9}
_UNITS |= {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def time_in_units(
    time: Any,  # noqa: ANN401 - it is here to find out
    kind: pa.DataType,
    *,
    rounded: bool = False,
) -> int | float:
    """Return a time as a number in the unit of the stream's times, exactly, or rounded down.

    Parameters
    ----------
    time : number, date, datetime or numpy.datetime64
        A number where the stream's times are numbers, else a date or a datetime, which has a time
        zone if the stream's times have one.
    kind : Arrow type
        That of the stream's times.
    """
    given = time.item() if isinstance(time, (np.integer, np.floating)) else time
    unit = nanoseconds_of(kind)
    if unit is None:
        if isinstance(given, bool) or not isinstance(given, (int, float)):
            raise _no_time(time, kind, "give a number")
        if not (math.isfinite(given) and -(2**62) < given < 2**62):
            raise _no_time(time, kind, "give one that 64 bits hold")
        number = float(given) if pa.types.is_floating(kind) else int(given)
        if number != given:
            raise _no_time(time, kind, "it is between two of them")
        return number
    if not isinstance(given, (date, np.datetime64)):
        wanted = "a date" if unit == DAY else "a datetime"
        raise _no_time(time, kind, f"give {wanted}")
    zoned = isinstance(given, datetime) and given.tzinfo is not None
    if zoned != is_zoned(kind):
        advice = "give one with a time zone" if is_zoned(kind) else "give one without time zone"
        raise _no_time(time, kind, advice)
    whole, rest = divmod(_nanoseconds(given, kind), unit)
    if rest and not rounded:
        raise _no_time(time, kind, "it is between two of them")
    last = 2**31 if pa.types.is_date32(kind) else 2**63
    if not -last <= whole < last:
        raise _no_time(time, kind, "it is beyond the last of them")
    return whole


def span_in_units(span: SpanLike | None, kind: pa.DataType, column: str) -> int | float:
    """Return a span of time in the unit of a time column's type."""
    if span is None:
        return 0
    if isinstance(span, str):
        span = read_span(span, zero=True)
    if not isinstance(span, timedelta):
        if pa.types.is_temporal(kind) and span:
            raise InvalidBatchError(
                f"column {column!r} has type {kind}, and a span is {span}; give {in_words(span)}"
            )
        if isinstance(span, float) and kind != pa.float64():
            if not span.is_integer():
                raise InvalidBatchError(
                    f"column {column!r} has type {kind}, and a span of {span} is no whole number"
                    " of its unit; give a timedelta or an integer"
                )
            return int(span)
        return span
    microseconds = span // timedelta(microseconds=1)
    if pa.types.is_timestamp(kind):
        scale = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}[kind.unit]
        microseconds *= 1_000 if kind.unit == "ns" else 1
    elif pa.types.is_date32(kind):
        scale = 86_400 * 10**6
    elif pa.types.is_date64(kind):
        scale = 10**3
    else:
        raise InvalidBatchError(
            f"column {column!r} has type {kind}, which has no unit for a span of {span};"
            " give the span as a number"
        )
    if microseconds % scale:
        raise InvalidBatchError(f"a span of {span} is no whole number of the units of {kind}")
    if microseconds // scale >= LONGEST_SPAN:
        raise InvalidBatchError(f"a span of {span} is longer than times of type {kind} are")
    return microseconds // scale


def _nanoseconds(time: date | np.datetime64, kind: pa.DataType) -> int:
    """Return the nanoseconds since the epoch."""
    if isinstance(time, np.datetime64):
        unit, step = np.datetime_data(time.dtype)
        if np.isnat(time) or unit not in _UNITS:
            raise _no_time(time, kind, "give a datetime64 with a unit from days to nanoseconds")
        return int(time.astype(np.int64)) * step * _UNITS[unit]
    if not isinstance(time, datetime):
        return (time - date(1970, 1, 1)).days * DAY
    if time != time:  # the NaT of pandas
        raise _no_time(time, kind, "give a datetime")
    since = time - datetime(1970, 1, 1, tzinfo=None if time.tzinfo is None else UTC)
    microseconds = timedelta(since.days, since.seconds, since.microseconds) // _MICROSECOND
    return microseconds * 1_000 + getattr(time, "nanosecond", 0)  # which that of pandas has


def _no_time(time: object, kind: pa.DataType, advice: str) -> InvalidBatchError:
    return InvalidBatchError(
        f"{time!r} is no time of type {kind}, which the stream's times have; {advice}"
    )
