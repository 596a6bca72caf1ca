"""What users give to an engine, as its parts want it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from everquery.core.times import DAY, is_zoned, nanoseconds_of
from everquery.errors import InvalidBatchError, InvalidQueryError, InvalidStreamError
from everquery.queries.spec import LONGEST_KEY, Key, bad_text
from everquery.stream import OWNER_COLUMNS, Stream

_MICROSECOND = timedelta(microseconds=1)
_UNITS = {"W": 7 * DAY, "D": DAY, "h": 3_600 * 10**9, "m": 60 * 10**9}
_UNITS |= {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def listed(given: Any, one: type) -> list[Any]:  # noqa: ANN401 - it is here to find out
    """Return what was given, one or several, as a list."""
    several = isinstance(given, Iterable) and not isinstance(given, one)
    return list(given) if several else [given]


def check_choice(name: str, given: object, known: tuple[str, ...]) -> None:
    """Raise if an argument is none of the words that it takes."""
    if given not in known:
        raise InvalidQueryError(f"{name} is {given!r}; it takes {' or '.join(map(repr, known))}")


def ids_of(query_id: str | Iterable[str]) -> pa.Array:
    """Return query ids, given as one, as several or as an Arrow column, as an Arrow array."""
    ids = [query_id] if isinstance(query_id, str) else query_id
    try:
        if isinstance(ids, pa.ChunkedArray):
            ids = ids.combine_chunks()
        if not isinstance(ids, pa.Array):
            return pa.array(ids, pa.string())
        if pa.types.is_dictionary(ids.type):
            ids = ids.dictionary_decode()
        if _is_text(ids.type):
            ids.validate(full=True)
            return ids.cast(pa.string())
    except (pa.ArrowException, TypeError, UnicodeError) as error:
        raise InvalidQueryError(f"query ids are strings: {error}") from None
    raise InvalidQueryError(f"query ids are strings; these are of type {ids.type}")


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def keys_of(keys: Key | Iterable[Key]) -> list[Key]:
    """Return keys that were given as one or as several, without those that can't be in a stream."""
    wanted = listed(keys, str)
    for key in wanted:
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise InvalidQueryError(f"key {key!r} is no string or integer")
        reason = isinstance(key, str) and key and bad_text(key, "key", LONGEST_KEY)
        if reason:
            raise InvalidQueryError(reason)
    return [key for key in wanted if isinstance(key, str) or -(2**63) <= key < 2**63]


def time_in_units(
    time: Any,  # noqa: ANN401 - as `listed`
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


def clock_of(
    now: int | float | date | datetime | None, stream: Stream
) -> Callable[[pa.DataType], int | float] | None:
    """Return what tells a clock's time in times of any type; None without a clock."""
    if now is None:
        return None
    if stream.max_ahead is None:
        raise InvalidBatchError(
            f"now is {now!r}, and stream {stream.name!r} has no max_ahead, so that nothing would be"
            " compared with it; give the stream one, or leave out now. Nothing has changed"
        )
    return partial(time_in_units, now, rounded=True)


def check_label_columns(stream: Stream) -> None:
    """Raise if owner and labels can't be columns of a stream's notices."""
    for name in OWNER_COLUMNS:
        if name in stream.attributes:
            raise InvalidStreamError(
                f"stream {stream.name!r}: attribute {name!r} has the name of a notice column;"
                " rename it in the events, or do without labels"
            )
